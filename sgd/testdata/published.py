"""Writes published.json: parameters after each step by published implementations.

    python3 sgd/testdata/published.py > sgd/testdata/published.json

PyTorch's optimizers are PyTorch's own (made with 1.13.1). LARS follows
LARSOptimizer of the MLPerf reference (mlcommons/training, image_classification),
LAMB algorithm 2 of You et al. 2020 as TensorFlow Addons has it, Lion the listing in
Chen et al. 2023, each in numpy's float32. Two tensors: "w" of 3x5 (a weight) and
"b" of 6 (a bias); gradients are fixed numbers that depend on the step alone.
"""
import json

import numpy as np
import torch

STEPS = 10
f4 = np.float32


def start():
    w = f4([((i * 7) % 11 - 5) / 4 for i in range(15)])
    b = f4([((i * 3) % 5 - 2) / 8 for i in range(6)])
    return w, b


def grad(n, k):
    return f4([(((i * 5 + n * 3 + k) % 13) - 6) / 16 for i in range(15 if k == 0 else 6)])


def rate(n):
    return 0.05 / (1 + n % 3)


def pytorch(make):
    ps = [torch.nn.Parameter(torch.tensor(x)) for x in start()]
    opt = make(ps)
    out = []
    for n in range(STEPS):
        for k, p in enumerate(ps):
            p.grad = torch.tensor(grad(n, k))
        for group in opt.param_groups:
            group["lr"] = rate(n) * group.get("times", 1)
        opt.step()
        out.append([float(x) for p in ps for x in p.detach()])
    return out


def numpy(rule):
    ps = list(start())
    state = [{} for _ in ps]
    out = []
    for n in range(STEPS):
        for k in range(2):
            ps[k] = rule(ps[k], grad(n, k), state[k], f4(rate(n)), n, k == 0)
        out.append([float(x) for p in ps for x in p])
    return out


def lars(eeta, momentum, decay, nesterov=False):
    def rule(w, g, s, lr, n, adapt):
        v = s.setdefault("v", np.zeros_like(w))
        trust = f4(1)
        if adapt:
            wn, gn = np.linalg.norm(w), np.linalg.norm(g)
            if wn > 0 and gn > 0:
                trust = f4(eeta) * wn / (gn + f4(decay) * wn)
            g = g + f4(decay) * w
        scaled = lr * trust
        s["v"] = f4(momentum) * v + scaled * g
        return w - (f4(momentum) * s["v"] + scaled * g if nesterov else s["v"])
    return rule


def lamb(b1, b2, eps, decay):
    def rule(w, g, s, lr, n, adapt):
        m, v = s.setdefault("m", np.zeros_like(w)), s.setdefault("v", np.zeros_like(w))
        s["m"] = m = f4(b1) * m + f4(1 - b1) * g
        s["v"] = v = f4(b2) * v + f4(1 - b2) * g * g
        r = m / f4(1 - b1 ** (n + 1)) / (np.sqrt(v / f4(1 - b2 ** (n + 1))) + f4(eps))
        ratio = f4(1)
        if adapt:
            r = r + f4(decay) * w
            wn, rn = np.linalg.norm(w), np.linalg.norm(r)
            if wn > 0 and rn > 0:
                ratio = wn / rn
        return w - lr * ratio * r
    return rule


def lion(b1, b2, decay):
    def rule(w, g, s, lr, n, adapt):
        m = s.setdefault("m", np.zeros_like(w))
        update = np.sign(f4(b1) * m + f4(1 - b1) * g)
        s["m"] = f4(b2) * m + f4(1 - b2) * g
        return w - lr * (update + f4(decay) * w)
    return rule


o = torch.optim
print(json.dumps({
    "sgd": pytorch(lambda p: o.SGD(p, 1.0)),
    "momentum(beta=0.8)": pytorch(lambda p: o.SGD(p, 1.0, momentum=0.8)),
    "chain(decay(rate=0.1,all=true),momentum)": pytorch(lambda p: o.SGD(p, 1.0, momentum=0.9, weight_decay=0.1)),
    "chain(decay(rate=0.1,all=true),nesterov)": pytorch(lambda p: o.SGD(p, 1.0, momentum=0.9, weight_decay=0.1, nesterov=True)),
    "groups(on(momentum(beta=0.5),roles=[bias],lr=2),chain(decay(rate=0.1),momentum))": pytorch(lambda p: o.SGD([
        {"params": p[:1], "weight_decay": 0.1, "momentum": 0.9},
        {"params": p[1:], "momentum": 0.5, "times": 2}], 1.0)),
    "adagrad(initial=0.1)": pytorch(lambda p: o.Adagrad(p, 1.0, initial_accumulator_value=0.1, eps=1e-8)),
    "adam": pytorch(lambda p: o.Adam(p, 1.0)),
    "adamw(decay=0.1,all=true)": pytorch(lambda p: o.AdamW(p, 1.0, weight_decay=0.1)),
    "lars(decay=0.01)": numpy(lars(0.001, 0.9, 0.01)),
    "lars(trust=0.02,beta=0.8,decay=0.01,nesterov=true)": numpy(lars(0.02, 0.8, 0.01, True)),
    "lamb": numpy(lamb(0.9, 0.999, 1e-6, 0.01)),
    "lion(decay=0.1,all=true)": numpy(lion(0.9, 0.99, 0.1)),
}))
