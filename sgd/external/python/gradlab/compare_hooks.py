"""What communication hooks cost: torchrun --nproc_per_node=2 -m gradlab.compare_hooks

PyTorch's own hooks and gradlab's train the same network in turns, so that what else the
machine does falls on all of them alike. The table has the median of the rounds, the least
and the most, and the processor time of rank 0, whose least says most on a busy machine.

PyTorch's PowerSGD makes collectives in callbacks, whose order gloo does not keep: with
more than one bucket it fails there. It is measured with --bucket-mb=1000 and --hook.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import gradlab


def theirs(name):
    if name == "torch allreduce":
        return None, default_hooks.allreduce_hook
    if name == "torch fp16":
        return None, default_hooks.fp16_compress_hook
    rank = int(name.rsplit("=", 1)[1])
    return powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook


HOOKS = ["torch allreduce", "raw", "torch fp16", "fp16", "feedback(powersgd(rank=4))",
         "feedback(topk(keep=0.01))", "qsgd(bits=4)", "feedback(sign)"]


def main():
    args = argparse.ArgumentParser(prog="python3 -m gradlab.compare_hooks")
    args.add_argument("--width", type=int, default=1024, help="of the layers")
    args.add_argument("--layers", type=int, default=12)
    args.add_argument("--batch", type=int, default=8, help="samples of a process and step")
    args.add_argument("--rounds", type=int, default=9)
    args.add_argument("--steps", type=int, default=3, help="of a round")
    args.add_argument("--bucket-mb", type=int, default=25, help="of DDP's buckets, the first too")
    args.add_argument("--hook", action="append", help="one of those to be compared, by its name in the table or a codec, perhaps with `device ' before it; several times for several")
    args.add_argument("--device", default="cpu", help="where processes compute; those of a machine share a cuda")
    args.add_argument("--backend", default="gloo", help="gloo, or nccl where every process has a GPU of its own")
    args = args.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(args.backend)
    torch.manual_seed(1)
    x = torch.randn(args.batch, args.width).to(args.device)
    dist._DEFAULT_FIRST_BUCKET_BYTES = args.bucket_mb << 20
    runs = []
    for name in args.hook or HOOKS:
        layers = [layer for _ in range(args.layers) for layer in (torch.nn.Linear(args.width, args.width), torch.nn.ReLU())]
        ddp = DistributedDataParallel(torch.nn.Sequential(*layers).to(args.device), bucket_cap_mb=args.bucket_mb)
        codec = name.replace("device ", "")  # encoded in torch operations
        state, hook = theirs(name) if name.startswith("torch") else gradlab.ddp_hook(codec, ddp, device=codec != name)
        ddp.register_comm_hook(state, hook)
        runs.append((name, ddp, state, []))
    for turn in range(args.rounds + 1):  # the first is a warm-up
        for name, ddp, state, took in runs:
            dist.barrier()
            began, spent = time.perf_counter(), time.process_time()
            for _ in range(args.steps):
                ddp.zero_grad()
                ddp(x).square().mean().backward()
            if args.device != "cpu":
                torch.cuda.synchronize()
            if turn:
                took.append([1000 * t / args.steps for t in (time.perf_counter() - began, time.process_time() - spent)])
    if dist.get_rank() == 0:
        size = sum(p.numel() for p in runs[0][1].parameters())
        print("%d parameters, %d processes, %s, torch %s" % (size, dist.get_world_size(), dist.get_backend(), torch.__version__))
        print("%-28s %10s %10s %10s %10s %10s  %s" % ("hook", "ms a step", "least", "most", "processor", "least", "bytes a step and rank"))
        for name, _, state, took in runs:
            clock, processor = zip(*took)
            print("%-28s %10.1f %10.1f %10.1f %10.1f %10.1f  %s" % (name, statistics.median(clock), min(clock), max(clock),
                                                                    statistics.median(processor), min(processor), getattr(state, "wire_bytes", "")))
    dist.barrier()


if __name__ == "__main__":
    main()
