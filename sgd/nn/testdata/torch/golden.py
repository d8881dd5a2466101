#!/usr/bin/python3
"""Two training steps of every net in PyTorch, as golden files for the Go tests.

Weights, inputs and labels are draws by address (SplitMix64, as internal/rng)
that both sides can make. Parameters lie as they do in Go: filters as out × ky ×
kx × in, and the inputs of a dense layer behind images in the order h, w, c.
Arithmetic is float64, so the error that is measured is Go's alone.

A step is forward, backward, and SGD with momentum 0.9 at rate 0.0001; two of them
let the momentum show. A file holds, in text,

    loss  <first step> <second step>
    grad  <span> <norm> <sum> <samples…>      after the first backward pass
    param <span> <norm> <sum> <samples…>      after the second step

with samples at index j·len/count. Run it in this folder to write the files
again; it needs nothing but PyTorch and NumPy.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

GAMMA = np.uint64(0x9E3779B97F4A7C15)


def uniform(key, n):
    """Draws 0 … n−1 of rng.Key(key).Float32: uniform in [0, 1)."""
    with np.errstate(over="ignore"):
        z = np.uint64(key) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * GAMMA
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) * 2.0**-24


class Net:
    """Functions of layers over spans that are made when they are first met."""

    def __init__(self):
        self.spans = {}  # name → tensor, in forward order
        self.counts = {}
        self.training = True

    def name(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind}{self.counts[kind]}"

    def span(self, name, size, centre, width, buffer=False):
        """Uniform in centre ± width, rounded to float32."""
        if name not in self.spans:
            draws = 2 * uniform(1000 + len(self.spans), size) - 1
            v = torch.from_numpy((centre + width * draws).astype(np.float32).astype(np.float64))
            self.spans[name] = v.requires_grad_(not buffer)
        return self.spans[name]

    def conv(self, x, out, k, stride=1, pad=0, bias=True):
        name, c = self.name("conv"), x.shape[1]
        w = self.span(name + ".weight", out * k * k * c, 0, math.sqrt(6 / (k * k * c)))
        b = self.span(name + ".bias", out, 0, 0.1) if bias else None
        return F.conv2d(x, w.view(out, k, k, c).permute(0, 3, 1, 2), b, stride, pad)

    def dense(self, x, out):
        name = self.name("dense")
        w = self.span(name + ".weight", out * x.shape[1], 0, math.sqrt(6 / x.shape[1]))
        b = self.span(name + ".bias", out, 0, 0.1)
        return F.linear(x, w.view(out, -1), b)

    def bn(self, x):
        name, c = self.name("bn"), x.shape[1]
        scale = self.span(name + ".scale", c, 1, 0.1)
        shift = self.span(name + ".shift", c, 0, 0.1)
        mean = self.span(name + ".mean", c, 0, 0.1, buffer=True)
        var = self.span(name + ".var", c, 1, 0.1, buffer=True)
        return F.batch_norm(x, mean, var, scale, shift, training=True, momentum=0.1, eps=1e-5)

    def flat(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)

    def lrn(self, x):
        mean = F.avg_pool2d(x * x, 3, 1, 1, count_include_pad=True)
        return x / (1 + 5e-5 * mean) ** 0.75

    # The zoo.

    def mlp(self, x, classes):
        x = x.flatten(1)
        for h in (512, 256):
            x = F.relu(self.dense(x, h))
        return self.dense(x, classes)

    def lenet5(self, x, classes):
        x = F.max_pool2d(F.relu(self.conv(x, 6, 5, pad=2)), 2)
        x = F.max_pool2d(F.relu(self.conv(x, 16, 5)), 2)
        x = F.relu(self.dense(self.flat(x), 120))
        x = F.relu(self.dense(x, 84))
        return self.dense(x, classes)

    def mnistcnn(self, x, classes):
        x = F.max_pool2d(F.relu(self.conv(x, 32, 5, pad=2)), 2)
        x = F.max_pool2d(F.relu(self.conv(x, 64, 5, pad=2)), 2)
        return self.dense(F.relu(self.dense(self.flat(x), 1024)), classes)

    def cifar10_full(self, x, classes):
        x = self.lrn(F.relu(F.max_pool2d(self.conv(x, 32, 5, pad=2), 3, 2, ceil_mode=True)))
        x = self.lrn(F.avg_pool2d(F.relu(self.conv(x, 32, 5, pad=2)), 3, 2, ceil_mode=True))
        x = F.avg_pool2d(F.relu(self.conv(x, 64, 5, pad=2)), 3, 2, ceil_mode=True)
        return self.dense(self.flat(x), classes)

    def resnet20(self, x, classes):
        x = F.relu(self.bn(self.conv(x, 16, 3, pad=1, bias=False)))
        for stage, width in enumerate((16, 32, 64)):
            for block in range(3):
                stride = 2 if stage and not block else 1
                y = F.relu(self.bn(self.conv(x, width, 3, stride, 1, bias=False)))
                y = self.bn(self.conv(y, width, 3, 1, 1, bias=False))
                s = F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, width - x.shape[1]))
                x = F.relu(y + s)
        return self.dense(x.mean((2, 3)), classes)

    def resnet50(self, x, classes):
        x = F.relu(self.bn(self.conv(x, 64, 7, 2, 3, bias=False)))
        x = F.max_pool2d(x, 3, 2, 1)
        for stage, blocks in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                y = F.relu(self.bn(self.conv(x, width, 1, bias=False)))
                y = F.relu(self.bn(self.conv(y, width, 3, stride, 1, bias=False)))
                y = self.bn(self.conv(y, 4 * width, 1, bias=False))
                if x.shape != y.shape:
                    x = self.bn(self.conv(x, 4 * width, 1, stride, bias=False))
                x = F.relu(y + x)
        return self.dense(x.mean((2, 3)), classes)

    # Transformers, on tokens.

    def linear(self, x, out):
        w = self.span(self.name("linear") + ".weight", out * x.shape[-1], 0, math.sqrt(6 / x.shape[-1]))
        return F.linear(x, w.view(out, -1))

    def table(self, kind, rows, width):
        return self.span(self.name(kind) + ".weight", rows * width, 0, math.sqrt(6 / width)).view(rows, width)

    def norm(self, kind, x):
        scale = self.span(self.name(kind) + ".scale", x.shape[-1], 1, 0.1)
        if kind == "norm":
            return F.layer_norm(x, x.shape[-1:], scale)
        return F.rms_norm(x, x.shape[-1:], scale, 1e-5)

    def attention(self, x, heads, groups, turned=False):
        """x: batch × length × (heads + 2·groups)·d."""
        d = x.shape[-1] // (heads + 2 * groups)
        q, k, v = (t.unflatten(-1, (-1, d)).transpose(1, 2) for t in x.split([heads * d, groups * d, groups * d], -1))
        if turned:  # pairs i and half + i are the parts of complex numbers
            angles = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), 10000.0 ** (-torch.arange(d // 2, dtype=torch.float64) / (d // 2)))
            turn = torch.polar(torch.ones_like(angles), angles)
            q, k = (torch.view_as_real(torch.complex(t[..., : d // 2], t[..., d // 2 :]) * turn).transpose(-1, -2).flatten(-2) for t in (q, k))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(-2)

    def gpt(self, x, classes, width=32, heads=2):
        table = self.table("embedding", classes, width)
        x = table[x] + self.table("positions", x.shape[1], width)
        for _ in range(2):
            y = self.attention(self.linear(self.norm("norm", x), 3 * width), heads, heads)
            x = x + self.linear(y, width)
            x = x + self.linear(F.gelu(self.linear(self.norm("norm", x), 4 * width)), width)
        return F.linear(self.norm("norm", x), table)

    def llama(self, x, classes, width=32, heads=4, groups=2, hidden=48):
        x = self.table("embedding", classes, width)[x]
        for _ in range(2):
            y = self.linear(self.norm("rmsnorm", x), (heads + 2 * groups) * width // heads)
            x = x + self.linear(self.attention(y, heads, groups, turned=True), width)
            a, b = self.linear(self.norm("rmsnorm", x), 2 * hidden).chunk(2, -1)
            x = x + self.linear(F.silu(a) * b, width)
        return self.linear(self.norm("rmsnorm", x), classes)


def tell(out, word, name, v, count):
    v = v.detach().flatten()
    at = [j * len(v) // count for j in range(count)]
    figures = [v.norm().item(), v.sum().item()] + [v[i].item() for i in at]
    print(word, name, *(f"{f:.7g}" for f in figures), file=out)


def golden(model, shape, classes, batch, samples):
    net = Net()
    n = batch * math.prod(shape)
    if len(shape) == 1:  # tokens, and a label for each
        x, y = (torch.from_numpy((uniform(k, n) * classes).astype(np.int64)) for k in (1, 2))
        x = x.view(batch, *shape)
    else:
        x = torch.from_numpy(4 * uniform(1, n) - 2).view(batch, *shape)
        y = torch.from_numpy((uniform(2, batch) * classes).astype(np.int64))
    velocity, losses, grads = {}, [], {}
    for step in range(2):
        net.counts = {}
        loss = F.cross_entropy(getattr(net, model)(x, classes).reshape(-1, classes), y)
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for name, w in net.spans.items():
                if not w.requires_grad:
                    continue
                if step == 0:
                    grads[name] = w.grad.clone()
                velocity[name] = 0.9 * velocity.get(name, 0) + w.grad
                w -= 0.0001 * velocity[name]
                w.grad = None
    with open(model + ".txt", "w") as out:
        print("loss", *(f"{v:.9g}" for v in losses), file=out)
        for name, g in grads.items():
            tell(out, "grad", name, g, samples)
        for name, w in net.spans.items():
            tell(out, "param", name, w, samples)


if __name__ == "__main__":
    torch.set_num_threads(1)
    golden("mlp", (1, 28, 28), 10, 8, 16)
    golden("lenet5", (1, 28, 28), 10, 8, 16)
    golden("mnistcnn", (1, 28, 28), 10, 8, 16)
    golden("cifar10_full", (3, 32, 32), 10, 4, 16)
    golden("resnet20", (3, 32, 32), 10, 8, 8)
    golden("resnet50", (3, 64, 64), 10, 8, 3)
    golden("gpt", (70,), 65, 3, 8)
    golden("llama", (70,), 65, 3, 8)
