"""What is asked for and cannot be had: a codec without a form in torch operations, on the device;
the vectors of FullyShardedDataParallel in the hook of another, with a shard and alone; states of others."""
import copy

import torch
import torch.distributed as dist
from torch import nn

import gradlab


def refused(do):
    try:
        do()
        print("taken")
    except (TypeError, ValueError) as why:
        print(why)


dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
state, hook = gradlab.ddp_hook("powersgd(rank=2)", model, device=True)
model.register_comm_hook(state, hook)
model(torch.ones(4, 8)).sum().backward()
print(state.device, model.module.weight.grad.abs().sum())
for vectors in ([torch.ones(4)], [torch.ones(4), torch.ones(2)]):
    refused(lambda: hook(state, *vectors))
refused(lambda: gradlab.fsdp(model, "topk"))

kept = state.state_dict()
for change in (dict(codec="raw"), dict(world=3), dict(tensors={"fc.weight": kept["tensors"]["weight"]})):
    refused(lambda: state.load_state_dict(dict(kept, **change)))
refused(lambda: state.load_state_dict([kept, kept]))
other = copy.deepcopy(kept)
other["tensors"]["weight"]["rows"] = 4
refused(lambda: state.load_state_dict(other))

model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8).double())
model.register_comm_hook(*gradlab.ddp_hook("topk", model))
refused(lambda: model(torch.ones(4, 8).double()).sum().backward())
