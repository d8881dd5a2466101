"""What the engine costs a program: the steps of a run beside a bare loop of PyTorch.

    gradlab run quickstart 'model=external(command="python3 -m gradlab.overhead")' data=external(train=1000,test=8) …

This program serves a ResNet-50. Between steps of the run it trains a copy by a loop of its
own on the same samples, which it holds, in turns, so that what else the machine does falls
on both alike. What it measured are metrics of the run: milliseconds a step, and how much more of the
clock and of processor time (its own and the engine's) a step of the run takes, in
percent: of the medians of all turns, and of the least.
"""
import argparse
import copy
import os
import statistics
import time

import torch
from torch.nn import functional as F

from gradlab import pytorch, resnet


def spent():
    """The clock, and the processor time of this process and of the one that started it."""
    with open("/proc/%d/stat" % os.getppid()) as f:
        ticks = f.read().rsplit(")", 1)[1].split()[11:13]
    return time.perf_counter(), time.process_time() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class Repeated:
    """A set of any size: some samples over and over."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        return self.samples[i % len(self.samples)]


class Measured(pytorch.Module):
    """A module whose steps are measured, steps of them a turn."""

    measured = dict([("%s_%s_percent" % (of, name), ("less", "%")) for of in ("clock", "processor") for name in ("median", "least")] +
                    [("%s_%s_ms" % (of, name), ("less", "ms")) for of in ("bare", "run") for name in ("median", "least")])

    def __init__(self, *args, steps, **options):
        super().__init__(*args, metrics=self.measured, **options)
        self.steps, self.count, self.engine, self.bare, self.copy = steps, 0, [], [], None

    def step(self, params, x, y, seed, first, ready):
        if self.count % self.steps == 0:
            self.turn(x, y)
        self.count += 1
        return super().step(params, x, y, seed, first, ready)

    def turn(self, x, y):
        """Ends the run's turn, and makes one of the bare loop. The first of each are a warm-up."""
        if self.copy is None:
            self.copy = copy.deepcopy(self.model)
            self.optimizer = torch.optim.SGD(self.copy.parameters(), lr=0.01, momentum=0.9)
        elif self.count > self.steps:
            self.engine.append(self.since())
        self.began = spent()
        for _ in range(self.steps):
            data, target = self.inputs(x, y)
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss_fn(self.copy(data), target)
            loss.backward()
            self.optimizer.step()
            loss.item()
        if self.count > 0:
            self.bare.append(self.since())
        self.began = spent()

    def since(self):
        return [(now - then) / self.steps for now, then in zip(spent(), self.began)]

    def evaluate(self, params, x, y):
        loss, right, _ = super().evaluate(params, x, y)
        if not self.engine:
            return loss, right
        out = {}
        for i, of in enumerate(("clock", "processor")):
            for name, pick in (("median", statistics.median), ("least", min)):
                bare, run = (pick(t[i] for t in turns) for turns in (self.bare, self.engine))
                out["%s_%s_percent" % (of, name)] = 100 * (run / bare - 1)
                if of == "clock":
                    out["bare_%s_ms" % name], out["run_%s_ms" % name] = 1000 * bare, 1000 * run
        return loss, right, out


def main():
    args = argparse.ArgumentParser(prog="python3 -m gradlab.overhead")
    args.add_argument("--width", type=int, default=64, help="of the first stage; 64 is ResNet-50")
    args.add_argument("--side", type=int, default=64, help="of the pictures, in pixels")
    args.add_argument("--steps", type=int, default=3, help="of a turn")
    args.add_argument("--device", default="cpu", help="where both compute, such as cuda")
    args = args.parse_args()
    draws = torch.Generator().manual_seed(1)
    pictures = [(torch.randn(3, args.side, args.side, generator=draws), i % 10) for i in range(64)]
    net = resnet.ResNet("resnet50", resnet.DEFAULTS, (3, args.side, args.side), 10, width=args.width)
    Measured(net, F.cross_entropy, Repeated(pictures), Repeated(pictures), steps=args.steps, device=args.device).run()


if __name__ == "__main__":
    main()
