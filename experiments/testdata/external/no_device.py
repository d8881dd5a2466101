"""What is asked for and cannot be had: a codec without a form in torch operations, on the device;
the vectors of FullyShardedDataParallel, with a shard and alone."""
import torch
import torch.distributed as dist
from torch import nn

import gradlab

dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
state, hook = gradlab.ddp_hook("powersgd(rank=2)", device=True)
model.register_comm_hook(state, hook)
model(torch.ones(4, 8)).sum().backward()
print(state.device, model.module.weight.grad.abs().sum())
for vectors in ([torch.ones(4)], [torch.ones(4), torch.ones(2)]):
    try:
        hook(state, *vectors)
    except TypeError as why:
        print(why)
