"""A codec without a form in torch operations, asked for on the device: the host encodes, and it is said."""
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
