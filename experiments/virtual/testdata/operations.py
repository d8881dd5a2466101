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

before = gradlab.virtual.now()
gradlab.virtual.spend(1 if me == 0 else 0.5)
dist.barrier()
after = gradlab.virtual.now()
assert abs(after - before - 1) < 0.1, (before, after)  # all wait for rank 0
