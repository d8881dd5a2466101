"""Rank of a torch.distributed group over gloo. Commands come by standard input:
"allreduce BYTES ITERS" is answered by rank 0 with the seconds ITERS of them took;
"step HOOK ITERS" takes training steps of a
784-512-256-10 MLP with DistributedDataParallel, batch 32."""
import json
import os
import sys
import time

rank, world, port, threads = (int(a) for a in sys.argv[1:5])
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

torch.set_num_threads(threads)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)


def say(**what):
    if rank == 0:
        print(json.dumps(what), flush=True)


def timed(iters, once):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(iters):
        once()
    say(seconds=time.perf_counter() - begin)


def allreduce(size, iters):
    n = size // 4
    base = (torch.arange(n) % 13 + 1).float()
    x = base * (rank + 1)
    dist.all_reduce(x)
    if not torch.equal(x, base * (world * (world + 1) // 2)):
        print(json.dumps({"error": "wrong sums"}), flush=True)
        sys.exit(1)
    x.zero_()
    timed(iters, lambda: dist.all_reduce(x))


models = {}


def model(hook):
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    if hook != "none":
        net = nn.parallel.DistributedDataParallel(net)
    if hook == "fp16":
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if hook.startswith("powersgd"):
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=int(hook[8:]), start_powerSGD_iter=2)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(32, 784), torch.randint(0, 10, (32,))
    loss = nn.CrossEntropyLoss()

    def step():
        opt.zero_grad()
        loss(net(x), y).backward()
        opt.step()

    for _ in range(5):
        step()
    return step


def step(hook, iters):
    if hook not in models:
        models[hook] = model(hook)
    timed(iters, models[hook])


say(version=torch.__version__)
for line in sys.stdin:
    what, *args = line.split()
    if what == "allreduce":
        allreduce(int(args[0]), int(args[1]))
    elif what == "step":
        step(args[0], int(args[1]))
