"""The peer of study airbench94: the network and the training of airbench94 (Jordan 2024,
arXiv 2404.00498) in PyTorch, on the samples that gradlab reads, and on a GPU where there is
one. Asked by one JSON argument; prints a JSON line for each seed, and for every ten updates."""
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

ask = json.loads(sys.argv[1])
torch.set_num_threads(ask["threads"])
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def samples(name, n):
    x = torch.from_file(f"{ask['folder']}/{name}.x", size=n * 3072, dtype=torch.float32)
    y = torch.from_file(f"{ask['folder']}/{name}.y", size=n, dtype=torch.int32)
    return x.view(n, 3, 32, 32).to(DEVICE), y.long().to(DEVICE)


def conv(channels, out):
    c = nn.Conv2d(channels, out, 3, padding=1, bias=False)
    nn.init.dirac_(c.weight.data[:channels])
    return c


def norm(channels):
    b = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    b.weight.requires_grad_(False)
    return b


def network(x):
    """Its first layer whitens 2×2 patches of x, and is frozen but for its bias."""
    first = nn.Conv2d(3, 24, 2)
    patches = F.unfold(x, 2).transpose(1, 2).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / torch.sqrt(values + 5e-4)).T.flip(0).reshape(12, 3, 2, 2)
    first.weight.data.copy_(torch.cat([filters, -filters]))
    first.weight.requires_grad_(False)
    first.bias.data.zero_()
    layers, channels = [first, nn.GELU()], 24
    for out in ask["widths"]:
        layers += [conv(channels, out), nn.MaxPool2d(2), norm(out), nn.GELU(), conv(out, out), norm(out), nn.GELU()]
        channels = out
    return nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), nn.Linear(channels, 10, bias=False)).to(DEVICE)


def outputs(net, x, looks):
    both = lambda z: (net(z) + net(z.flip(-1))) / 2
    if looks == 1:
        return net(x)
    padded = F.pad(x, (1,) * 4, "reflect")
    return both(x) / 2 + (both(padded[:, :, :32, :32]) + both(padded[:, :, 2:, 2:])) / 4


def train(seed, x, y):
    torch.manual_seed(seed)
    net, batch = network(x[:5000].cpu()), ask["batch"]
    rate = 11.5 / (1024 * (1 + 1 / 0.15)) * batch  # of the mean of a batch
    decay = 0.0153 / 11.5
    shifts = [p for m in net if isinstance(m, nn.BatchNorm2d) for p in [m.bias]]
    others = [p for p in net.parameters() if p.requires_grad and all(p is not s for s in shifts)]
    rule = torch.optim.SGD([dict(params=shifts, lr=64 * rate, weight_decay=decay / 64), dict(params=others, lr=rate, weight_decay=decay)],
                           lr=rate, momentum=0.85, nesterov=True)
    per = len(x) // batch
    total = math.ceil(per * ask["epochs"])
    peak = int(0.23 * total)
    curve = lambda i: 0.2 + 0.8 * i / peak if i < peak else 1 - 0.93 * (i - peak) / (total - peak)
    plan = torch.optim.lr_scheduler.LambdaLR(rule, curve)
    mirrored = torch.rand(len(x)) < 0.5
    padded, slow, step = F.pad(x, (2,) * 4, "reflect"), None, 0
    for epoch in range(math.ceil(ask["epochs"])):
        net[0].bias.requires_grad_(epoch < ask["start"])
        net.train()
        order = torch.randperm(len(x))
        for at in order[: per * batch].split(batch):
            dx, dy = torch.randint(0, 5, (2, len(at)))
            seen = torch.stack([padded[i, :, b : b + 32, a : a + 32] for i, a, b in zip(at.tolist(), dx.tolist(), dy.tolist())])
            flip, at = (mirrored[at] ^ (epoch % 2 == 1)).to(DEVICE), at.to(DEVICE)
            seen = torch.where(flip.view(-1, 1, 1, 1), seen.flip(-1), seen)
            loss = F.cross_entropy(net(seen) / 9, y[at], label_smoothing=0.2)
            rule.zero_grad(set_to_none=True)
            loss.backward()
            rule.step()
            plan.step()
            step += 1
            state = [v for v in net.state_dict().values() if v.is_floating_point()]
            if epoch >= ask["start"] and step % 5 == 0:
                if slow is None:
                    slow = [v.clone() for v in state]
                share = 1 - 0.95**5 * (step / total) ** 3
                for s, v in zip(slow, state):
                    s.lerp_(v, share)
                    v.copy_(s)
            if step % 10 == 0:
                print(json.dumps({"seed": seed, "step": step, "of": total}), flush=True)
            if step == total:
                break
        if slow is not None:  # back to the slow weights behind every epoch
            for s, v in zip(slow, (v for v in net.state_dict().values() if v.is_floating_point())):
                v.copy_(s)
    return net.eval()


x, y = samples("train", ask["train"])
tx, ty = samples("test", ask["test"])
for seed in ask["seeds"]:
    net = train(seed, x, y)
    with torch.no_grad():
        right = sum((outputs(net, part, ask["looks"]).argmax(1) == want).sum().item() for part, want in zip(tx.split(500), ty.split(500)))
    print(json.dumps({"seed": seed, "accuracy": right / len(tx), "torch": torch.__version__ + (" on " + torch.cuda.get_device_name() if DEVICE == "cuda" else "")}), flush=True)
