"""Writes pytorch.json: rates of PyTorch's schedulers, by spec text, one an update.

    python3 lrschedule/testdata/pytorch.py > lrschedule/testdata/pytorch.json

Made with PyTorch 1.13.1. An epoch has 10 updates; the run has 60.
"""
import json
import warnings

import torch
from torch.optim import lr_scheduler as s

warnings.simplefilter("ignore")
STEPS, PER_EPOCH = 60, 10


def rates(lr, make):
    p = torch.nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD([p], lr=lr, momentum=0.9)
    sched, out = make(opt), []
    for n in range(STEPS):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        if n + 1 < STEPS:
            sched.step()
    return out


def after(opt, warm, then):
    first = s.LinearLR(opt, start_factor=0.1, end_factor=1.0, total_iters=warm)
    return s.SequentialLR(opt, [first, then], milestones=[warm])


print(json.dumps({
    "constant(lr=0.3)": rates(0.3, lambda o: s.LambdaLR(o, lambda n: 1.0)),
    "step(lr=0.4,at=[2,3.5],factor=0.5)": rates(0.4, lambda o: s.MultiStepLR(o, [20, 35], gamma=0.5)),
    "exponential(lr=0.4,factor=0.9,every=0.1)": rates(0.4, lambda o: s.ExponentialLR(o, 0.9)),
    "exponential(lr=0.4,factor=0.5,every=2,stairs=true)": rates(0.4, lambda o: s.StepLR(o, 20, gamma=0.5)),
    "cosine(lr=0.4,end=0.01)": rates(0.4, lambda o: s.CosineAnnealingLR(o, STEPS, eta_min=0.01)),
    "restarts(lr=0.4,end=0.02,first=1,mult=2)": rates(0.4, lambda o: s.CosineAnnealingWarmRestarts(o, 10, T_mult=2, eta_min=0.02)),
    "restarts(lr=0.4,first=1.5,mult=1)": rates(0.4, lambda o: s.CosineAnnealingWarmRestarts(o, 15)),
    "cyclic(low=0.1,high=0.4,up=0.8,down=1.2)": rates(0.1, lambda o: s.CyclicLR(o, 0.1, 0.4, 8, 12)),
    "cyclic(low=0.1,high=0.4,up=0.7,down=0.7,fall=0.5)": rates(0.1, lambda o: s.CyclicLR(o, 0.1, 0.4, 7, mode="triangular2")),
    "onecycle(lr=0.4)": rates(0.1, lambda o: s.OneCycleLR(o, 0.4, total_steps=STEPS)),
    "onecycle(lr=0.4,up=0.4,start=10,end=100,shape=linear)": rates(0.1, lambda o: s.OneCycleLR(o, 0.4, total_steps=STEPS, pct_start=0.4, anneal_strategy="linear", div_factor=10, final_div_factor=100)),
    "onecycle(lr=0.4,up=0.35,three=true)": rates(0.1, lambda o: s.OneCycleLR(o, 0.4, total_steps=STEPS, pct_start=0.35, three_phase=True)),
    "warmup(cosine(lr=0.4),steps=12,from=0.04,after=true)": rates(0.4, lambda o: after(o, 12, s.CosineAnnealingLR(o, STEPS - 12))),
    "poly(lr=0.4,power=2)": rates(0.4, lambda o: s.LambdaLR(o, lambda n: (1 - n / STEPS) ** 2)),
}, indent=1))
