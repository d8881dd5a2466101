"""Every way to wait for an operation, on two ranks and 8 Mb/s, where nothing takes time but bytes and spend.

A rank asks for the time where another one waits for it, so a wait that the clock is not
told of would hang, or end too early on the clock.
"""
import sys

import torch
import torch.distributed as dist
import torch.nn as nn

import gradlab.virtual
from gradlab.virtual import now, spend

dist.init_process_group("gradlab")
me = dist.get_rank()
N = 125_000  # elements of 4 bytes: a sum of two ranks takes 0.5 s


def begin(asks):
    """A sum that rank 1 begins 0.3 s after rank 0, and that takes 0.5 s more."""
    if me == 1:
        spend(0.3)
        if asks:
            now()
    x = torch.full((N,), 1.0 + me)
    return x, dist.all_reduce(x, async_op=True)


def spin(there):
    while not there():
        pass


def callback(future):
    got = []
    future.add_done_callback(lambda f: got.append(f.value()))
    future.wait()
    return got


def chain(future):
    # A sum behind the first, which takes as long.
    return future.then(lambda f: dist.all_reduce(f.value()[0] * 0 + 1)).then(lambda f: 7).wait() == 7


WAYS = {
    "work": (lambda x, work: work.wait(), 0.8),
    "future": (lambda x, work: work.get_future().wait(), 0.8),
    "wait_all": (lambda x, work: torch.futures.wait_all([work.get_future()]), 0.8),
    "collect_all": (lambda x, work: torch.futures.collect_all([work.get_future()]).then(lambda f: None).wait(), 0.8),
    "then": (lambda x, work: work.get_future().then(lambda f: f.value()[0] + 1).wait(), 0.8),
    "add_done_callback": (lambda x, work: callback(work.get_future()), 0.8),
    "chain": (lambda x, work: chain(work.get_future()), 1.3),
    "spin": (lambda x, work: spin(work.is_completed), 0.8),
    "spin for a future": (lambda x, work: spin(work.get_future().done), 0.8),
}
for name, (wait, want) in WAYS.items():
    dist.barrier()
    at = now()
    x, work = begin(not name.startswith("spin"))  # a rank that spins says nothing until the sum is there
    wait(x, work)
    took = now() - at
    assert torch.equal(x, torch.full((N,), 3.0)), (name, x[:3])
    assert abs(took - want) < 0.01, "%s: %.3f s on rank %d; want %.3f" % (name, took, me, want)

# Many sums at once: more than sockets hold.
for step in range(5):
    sums = [torch.full((7,), 1.0 + i) for i in range(300)]
    torch.futures.wait_all([dist.all_reduce(x, async_op=True).get_future() for x in sums])
    assert all(torch.equal(x, torch.full((7,), 2.0 + 2 * i)) for i, x in enumerate(sums))

# Hooks that make collectives of their own, and those that make one.
for hook in sys.argv[1:]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 100)), bucket_cap_mb=0.1)
    if hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if hook == "powersgd":
        model.register_comm_hook(powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    for step in range(4):
        if me == 1:
            spend(0.1)
            now()
        model(torch.randn(4, 300)).sum().backward()

# A message waits for its receiver, a new group for its ranks.
x = torch.ones(N)
if me == 0:
    dist.send(x, 1)
else:
    spend(0.2)
    at = now()
    dist.recv(x, 0)
    assert abs(now() - at - 0.5) < 0.01, now() - at
    at = now()
two = dist.new_group([0, 1])
dist.monitored_barrier(two)
