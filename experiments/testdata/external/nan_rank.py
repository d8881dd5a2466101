"""Two ranks, one of which has a NaN in its second gradient."""
import sys

import torch
import torch.distributed as dist
from torch import nn

import gradlab

dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
state, hook = gradlab.ddp_hook("feedback(topk(keep=0.1))", model)
model.register_comm_hook(state, hook)
for step in range(3):
    x = torch.ones(4, 64)
    if step == 1 and dist.get_rank() == 1:
        x *= float("nan")
    model(x).sum().backward()
