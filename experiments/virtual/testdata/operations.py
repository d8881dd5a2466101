"""Every operation, against what it should give, on any number of ranks from 3 on."""
import torch
import torch.distributed as dist
import torch.nn.functional as F

import gradlab.virtual

dist.init_process_group("gradlab")
me, world = dist.get_rank(), dist.get_world_size()
ranks = range(world)


def mine(rank, n=1000, dtype=torch.float32):
    return (torch.arange(n) % 17 + rank).to(dtype)


def check(what, got, want):
    assert torch.equal(got, want), "%s gave %s; want %s" % (what, got[:8], want[:8])


for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.int16, torch.uint8):
    x = mine(me, dtype=dtype)
    dist.all_reduce(x)
    check("all_reduce of %s" % dtype, x, sum(mine(r, dtype=dtype) for r in ranks))
x = mine(me)
dist.all_reduce(x, op=dist.ReduceOp.MAX)
check("maximum", x, mine(world - 1))
x = mine(me, dtype=torch.bfloat16)
work = dist.all_reduce(x, async_op=True)
assert not isinstance(work, type(None))
work.wait()
check("asynchronous sum", x, sum(mine(r, dtype=torch.bfloat16) for r in ranks))

for root in (0, world - 1):
    x = mine(me)
    dist.broadcast(x, root)
    check("broadcast", x, mine(root))
    x = mine(me)
    dist.reduce(x, root)
    if me == root:
        check("reduce", x, sum(mine(r) for r in ranks))
    parts = [torch.empty(1000) for _ in ranks] if me == root else None
    dist.gather(mine(me), parts, dst=root)
    for r, p in enumerate(parts or []):
        check("gather", p, mine(r))
    x = torch.empty(1000)
    dist.scatter(x, [mine(r) * 2 for r in ranks] if me == root else None, src=root)
    check("scatter", x, mine(me) * 2)

parts = [torch.empty(1000) for _ in ranks]
dist.all_gather(parts, mine(me))
for r, p in enumerate(parts):
    check("all_gather", p, mine(r))
whole = torch.empty(1000 * world)
dist.all_gather_into_tensor(whole, mine(me)) if hasattr(dist, "all_gather_into_tensor") else dist._all_gather_base(whole, mine(me))
check("all_gather_into_tensor", whole, torch.cat([mine(r) for r in ranks]))
x = torch.empty(1000)
dist.reduce_scatter(x, [mine(me) * (r + 1) for r in ranks])
check("reduce_scatter", x, sum(mine(r) for r in ranks) * (me + 1))
x = torch.empty(1000)
whole = torch.cat([mine(me) * (r + 1) for r in ranks])
dist.reduce_scatter_tensor(x, whole) if hasattr(dist, "reduce_scatter_tensor") else dist._reduce_scatter_base(x, whole)
check("reduce_scatter_tensor", x, sum(mine(r) for r in ranks) * (me + 1))
parts = [torch.empty(1000) for _ in ranks]
dist.all_to_all(parts, [mine(me) * 10 + r for r in ranks])
for r, p in enumerate(parts):
    check("all_to_all", p, mine(r) * 10 + me)
whole = torch.empty(1000 * world)
dist.all_to_all_single(whole, torch.cat([mine(me) * 10 + r for r in ranks]))
check("all_to_all_single", whole, torch.cat([mine(r) * 10 + me for r in ranks]))

x = torch.empty(1000)
if me == 0:
    dist.send(mine(7), 1, tag=3)
elif me == 1:
    dist.recv(x, 0, tag=3)
    check("recv", x, mine(7))
    dist.isend(mine(8), 2).wait()
elif me == 2:
    assert dist.recv(x) == 1
    check("recv from anybody", x, mine(8))
dist.barrier()

two = dist.new_group([0, 2])
if me in (0, 2):
    x = mine(me)
    dist.all_reduce(x, group=two)
    check("all_reduce of a group", x, mine(0) + mine(2))
    x = mine(me)
    dist.broadcast(x, 2, group=two)
    check("broadcast in a group", x, mine(2))
names = [None] * world
dist.all_gather_object(names, "rank %d" % me)
assert names == ["rank %d" % r for r in ranks], names

# What the methods of a group take beside lists and options: a tensor, and fields of the options.
group = dist.distributed_c10d._get_default_group()
total = sum(mine(r) for r in ranks)
for what, run, want in (
        ("a tensor", lambda x: group.allreduce(x), total),
        ("a tensor and op", lambda x: group.allreduce(x, op=dist.ReduceOp.MAX), mine(world - 1)),
        ("a list and op", lambda x: group.allreduce([x], dist.ReduceOp.MAX), mine(world - 1)),
        ("a list", lambda x: group.allreduce([x]), total),
        ("tensors by name", lambda x: group.allreduce(tensors=[x]), total),
        ("root", lambda x: group.broadcast(x, root=1), mine(1)),
        ("a root", lambda x: group.broadcast(x, 2), mine(2)),
        ("a root and op", lambda x: group.reduce(x, 1, dist.ReduceOp.SUM), total if me == 1 else None)):
    x = mine(me).reshape(10, 100)  # whose rows are no tensors of a list
    run(x).wait()
    if want is not None:
        check(what, x.view(-1), want)
parts = [torch.empty(1000) for _ in ranks]
group.allgather(parts, mine(me)).wait()
check("allgather of a tensor", torch.cat(parts), torch.cat([mine(r) for r in ranks]))
group.gather(parts if me == 1 else [], mine(me) * 2, root=1).wait()
if me == 1:
    check("gather of a tensor", torch.cat(parts), torch.cat([mine(r) * 2 for r in ranks]))
x = torch.empty(1000)
group.scatter(x, [mine(r) * 3 for r in ranks] if me == 1 else [], root=1).wait()
check("scatter of a tensor", x, mine(me) * 3)
group.reduce_scatter(x, [mine(me) for _ in ranks], op=dist.ReduceOp.MAX).wait()
check("reduce_scatter of a tensor", x, mine(world - 1))
group.barrier().wait()
group.monitored_barrier()

# Views: gloo alone takes their memory as it lies.
for what, view in (("transposed", lambda x: x.view(10, 100).t()), ("strided", lambda x: x[::2]), ("part", lambda x: x.view(10, 100)[:, 3:7])):
    def same(got, want):
        check("a %s view" % what, got.reshape(-1), want.reshape(-1))

    other = view(mine(me)) if me == 0 else view(mine(me)).contiguous()  # ranks need not lay it out alike
    dist.all_reduce(other)
    same(other, view(total))
    kept = mine(me)
    dist.broadcast(view(kept), 1)
    same(view(kept), view(mine(1)))
    assert torch.equal(kept, mine(1)) or what != "transposed"
    outs = [view(torch.zeros(1000)) for _ in ranks]
    dist.all_gather(outs, view(mine(me)))
    for r, o in enumerate(outs):
        same(o, view(mine(r)))
    out = view(torch.zeros(1000))
    dist.reduce_scatter(out, [view(mine(me)) for _ in ranks])
    same(out, view(total))
    dist.scatter(out, [view(mine(r)) for r in ranks] if me == 0 else None, src=0)
    same(out, view(mine(me)))
    dist.all_to_all(outs, [view(mine(me) + r) for r in ranks])
    for r, o in enumerate(outs):
        same(o, view(mine(r) + me))
    dist.gather(view(mine(me)), outs if me == 0 else None, dst=0)
    if me == 0:
        for r, o in enumerate(outs):
            same(o, view(mine(r)))
        dist.send(view(mine(5)), 1)
    elif me == 1:
        dist.recv(out, 0)
        same(out, view(mine(5)))

# Parts of different sizes.
x = torch.empty(10 + me)
dist.reduce_scatter(x, [mine(me)[:10 + r] for r in ranks])
check("unequal reduce_scatter", x, total[:10 + me])
outs = [torch.empty(5 + me + r) for r in ranks]
dist.all_to_all(outs, [mine(me)[:5 + me + r] for r in ranks])
for r, o in enumerate(outs):
    check("unequal all_to_all", o, mine(r)[:5 + me + r])
x = torch.empty(sum(5 + me + 2 * r for r in ranks))
dist.all_to_all_single(x, torch.cat([mine(me)[:5 + 2 * me + r] for r in ranks]), [5 + me + 2 * r for r in ranks], [5 + 2 * me + r for r in ranks])
check("unequal all_to_all_single", x, torch.cat([mine(r)[:5 + 2 * r + me] for r in ranks]))

# Sparse tensors, of as many rows as a rank likes.
x = torch.sparse_coo_tensor(torch.arange(me + 1).view(1, -1), torch.ones(me + 1, 4), (8, 4))
dist.all_reduce(x)
check("sparse sum", x.to_dense()[:, 0], torch.tensor([max(0.0, world - i) for i in range(8)]))

# Results are there when an operation says so.
x = mine(me, dtype=torch.bfloat16)
work = dist.all_reduce(x, async_op=True)
while not work.is_completed():
    pass
check("what is_completed says", x, sum(mine(r, dtype=torch.bfloat16) for r in ranks))
x = mine(me, dtype=torch.bfloat16)
check("a future's value", dist.all_reduce(x, async_op=True).get_future().wait()[0], sum(mine(r, dtype=torch.bfloat16) for r in ranks))

# Mistakes are told in words where they are made, and the cluster goes on.
for what, run, want in (
        ("a root that is not there", lambda: group.broadcast(mine(me), root=world), "rank %d is not in a group of %d ranks" % (world, world)),
        ("a negative root", lambda: group.reduce(mine(me), root=-1), "rank -1 is not in a group"),
        ("a receiver that is not there", lambda: group.send([mine(me)], world + 3, 0), "is not in a group"),
        ("no tensor", lambda: group.allreduce([]), "tensors is empty"),
        ("no input", lambda: group.allgather([[torch.empty(3)]], []), "input_tensors is empty"),
        ("an empty list", lambda: group.reduce_scatter([torch.empty(3)], [[]]), "not an empty one"),
        ("an argument", lambda: group.allreduce(mine(me), root=3), "allreduce takes tensors, and options or op, timeout"),
        ("a part too many", lambda: group.reduce_scatter(torch.empty(3), [mine(me)[:3]] * (world + 1)), "want one input for each rank"),
        ("an output of another size", lambda: group.reduce_scatter(torch.empty(4), [mine(me)[:3]] * world), "want one input for each rank"),
        ("an output too small", lambda: group.all_gather_single(torch.empty(5), mine(me)), "want 1000 of each"),
        ("memory that is shared", lambda: dist.all_reduce(torch.ones(1).expand(7)), "t.clone()"),
        ("parts too few", lambda: dist.all_to_all([torch.empty(2)], [torch.empty(2)]), "want one of each")):
    try:
        run()
    except (ValueError, TypeError) as why:
        assert want in str(why), "%s: %s" % (what, why)
    else:
        raise AssertionError("%s is taken" % what)

before = gradlab.virtual.now()
gradlab.virtual.spend(1 if me == 0 else 0.5)
dist.barrier()
after = gradlab.virtual.now()
assert abs(after - before - 1) < 0.1, (before, after)  # all wait for rank 0
