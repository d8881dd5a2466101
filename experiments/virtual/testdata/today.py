"""What PyTorch has had since version 2: python3 today.py bytes|frameworks, on 4 ranks, or 2."""
import shutil
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

import gradlab.virtual

if not hasattr(torch._C._distributed_c10d, "Backend") or not hasattr(torch._C._distributed_c10d.Backend, "all_gather_single"):
    print("older")
    sys.exit()
import torch.distributed._functional_collectives as fc
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gradlab")
me, world = dist.get_rank(), dist.get_world_size()
ranks = list(range(world))
total = sum(ranks)


def check(what, got, want):
    assert torch.allclose(torch.as_tensor(got), torch.as_tensor(want)), "%s gave %s; want %s" % (what, got, want)


def collectives():
    """Functional collectives of 1000 float32 a rank, and of 1000 and 500 together."""
    one, two = torch.ones(1000) * me, [torch.ones(1000) * me, torch.ones(500) * me]
    each = torch.arange(world).repeat_interleave(1000).float()
    check("all_reduce", fc.all_reduce(one, "sum", ranks), torch.ones(1000) * total)
    for got in fc.all_reduce_coalesced(two, "sum", ranks):
        check("all_reduce_coalesced", got, torch.ones(len(got)) * total)
    check("all_gather_tensor", fc.all_gather_tensor(one, 0, ranks), each)
    for got, n in zip(fc.all_gather_into_tensor_coalesced(two, ranks), (1000, 500)):
        check("all_gather_into_tensor_coalesced", got, torch.arange(world).repeat_interleave(n).float())
    check("reduce_scatter_tensor", fc.reduce_scatter_tensor(each * (me + 1), "sum", 0, ranks), torch.ones(1000) * me * (total + world))
    wide = [t.repeat(world) for t in two]
    for got in fc.reduce_scatter_tensor_coalesced(wide, "sum", [0, 0], ranks):
        check("reduce_scatter_tensor_coalesced", got, torch.ones(len(got)) * total)
    check("all_to_all_single", fc.all_to_all_single(one.repeat(world), None, None, ranks), each)
    check("broadcast", fc.broadcast(one, 1, ranks), torch.ones(1000))


def frameworks():
    """A device mesh and what is built on it, against one process alone."""
    def net():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    mesh, x = init_device_mesh("cpu", (world,)), torch.linspace(-1, 1, 16).view(2, 8)
    plain, sharded, split = net(), net(), net()
    plain(x).square().sum().backward()
    fully_shard(sharded[0])
    fully_shard(sharded)
    sharded(x).square().sum().backward()
    split = parallelize_module(split, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    split(x).square().sum().backward()
    for p, s, t in zip(plain.parameters(), sharded.parameters(), split.parameters()):
        check("fully_shard", s.grad.full_tensor(), p.grad)
        check("tensor parallel", t.grad.full_tensor() if hasattr(t.grad, "full_tensor") else t.grad, p.grad)
    d = distribute_tensor(torch.arange(64.0).view(8, 8), mesh, [Shard(0)])
    check("DTensor", d.sum().full_tensor(), 2016.0)
    check("DTensor, redistributed", d.redistribute(mesh, [Shard(1)]).full_tensor(), torch.arange(64.0).view(8, 8))
    folder = [tempfile.mkdtemp() if me == 0 else None]
    dist.broadcast_object_list(folder)
    dcp.save(sharded.state_dict(), checkpoint_id=folder[0])
    with torch.no_grad():
        for p in sharded.parameters():
            p.zero_()
    back = sharded.state_dict()
    dcp.load(back, checkpoint_id=folder[0])
    sharded.load_state_dict(back)
    for p, s in zip(plain.parameters(), sharded.parameters()):
        check("checkpoint", s.full_tensor(), p)
    if me == 0:
        shutil.rmtree(folder[0])
    received = torch.empty(3)
    for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(3) * me, (me + 1) % world), dist.P2POp(dist.irecv, received, (me - 1) % world)]):
        w.wait()
    check("batch_isend_irecv", received, torch.ones(3) * ((me - 1) % world))
    torch.manual_seed(me)
    schedule = ScheduleGPipe(PipelineStage(nn.Linear(4, 4), me, world, torch.device("cpu")), world, loss_fn=lambda a, b: (a - b).square().mean())
    losses = []
    schedule.step(*([torch.ones(2 * world, 4)] if me == 0 else []), **(dict(target=torch.ones(2 * world, 4), losses=losses) if me == world - 1 else {}))
    want = torch.ones(2, 4)
    for r in ranks:
        torch.manual_seed(r)
        want = nn.Linear(4, 4)(want)
    for loss in losses:
        check("pipeline", loss, (want - 1).square().mean())


{"bytes": collectives, "frameworks": frameworks}[sys.argv[1]]()
if me == 0:
    print("fine")
