"""DistributedDataParallel that states what its steps cost; prints a hash of the parameters."""
import hashlib
import sys

import torch
import torch.distributed as dist

steps, backend = int(sys.argv[1]), sys.argv[2]
dist.init_process_group(backend)
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(dist.get_rank())
for step in range(steps):
    try:
        import gradlab.virtual
        gradlab.virtual.spend(0.1)
    except (ImportError, RuntimeError):
        pass  # not on a virtual cluster
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
if dist.get_rank() == 0:
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(p.detach().numpy().tobytes())
    print(h.hexdigest())
