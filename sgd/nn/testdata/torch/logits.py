#!/usr/bin/python3
"""Logits of torchvision's networks in PyTorch, as golden files for the Go tests.

The modules are plain ones with torchvision's names (torchvision itself is not asked
for): what is compared is names, shapes, layouts and the forward pass in inference.
Parameters are draws by address as in golden.py: tensor i of the sorted names is drawn
from key 5000 + i. Arithmetic is float64. A file holds, in text,

    tensor <name> <sizes…> <centre> <width>     uniform in centre ± width
    input  <batch> <channels> <height> <width>
    logits <of one sample…>

Run it in this folder to write the files again; it needs PyTorch and NumPy.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from golden import uniform


class Block(nn.Module):
    def __init__(self, c, width, stride, expansion):
        super().__init__()
        out = width * expansion
        shapes = [(c, width, 3, stride), (width, width, 3, 1)]
        if expansion > 1:
            shapes = [(c, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        self.n = len(shapes)
        for i, (a, b, k, s) in enumerate(shapes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(a, b, k, s, k // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or c != out:
            self.downsample = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y) if i < self.n else y
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, blocks, expansion, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        c = 64
        for i, n in enumerate(blocks):
            layer = []
            for j in range(n):
                layer.append(Block(c, 64 << i, 2 if i and not j else 1, expansion))
                c = (64 << i) * expansion
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class AlexNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        relu, pool = nn.ReLU, lambda: nn.MaxPool2d(3, 2)
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), relu(), pool(), nn.Conv2d(64, 192, 5, 1, 2), relu(), pool(),
            nn.Conv2d(192, 384, 3, 1, 1), relu(), nn.Conv2d(384, 256, 3, 1, 1), relu(),
            nn.Conv2d(256, 256, 3, 1, 1), relu(), pool())
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(9216, 4096), relu(), nn.Dropout(), nn.Linear(4096, 4096), relu(), nn.Linear(4096, classes))

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 6).flatten(1))


class VGG(nn.Module):
    """vgg16_bn's features, and a mean and one dense layer."""

    def __init__(self, classes):
        super().__init__()
        layers, c = [], 3
        for width, n in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(n):
                layers += [nn.Conv2d(c, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()]
                c = width
            layers.append(nn.MaxPool2d(2))
        self.features, self.classifier = nn.Sequential(*layers), nn.Linear(512, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Basic(nn.Module):
    def __init__(self, c, out, k, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(c, out, k, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(out, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches of (name, out, kernel, stride, padding), joined; a list in a branch is
    units side by side; "mean" and "max" are pools."""

    def __init__(self, c, branches):
        super().__init__()
        self.branches, self.out = branches, 0
        for branch in branches:
            n = c
            for unit in branch:
                if isinstance(unit, list):
                    for u in unit:
                        setattr(self, u[0], Basic(n, *u[1:]))
                    n = sum(u[1] for u in unit)
                elif not isinstance(unit, str):
                    setattr(self, unit[0], Basic(n, *unit[1:]))
                    n = unit[1]
            self.out += n

    def forward(self, x):
        out = []
        for branch in self.branches:
            y = x
            for unit in branch:
                if isinstance(unit, list):
                    y = torch.cat([getattr(self, u[0])(y) for u in unit], 1)
                elif unit == "mean":
                    y = F.avg_pool2d(y, 3, 1, 1)
                elif unit == "max":
                    y = F.max_pool2d(y, 3, 2)
                else:
                    y = getattr(self, unit[0])(y)
            out.append(y)
        return torch.cat(out, 1)


WIDE, TALL, WIDE3, TALL3 = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0)), ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))


def mixed_a(pool):
    return [[("branch1x1", 64, 1)], [("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5, 1, 2)],
            [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 1, 1)],
            ["mean", ("branch_pool", pool, 1)]]


def mixed_c(n):
    return [[("branch1x1", 192, 1)], [("branch7x7_1", n, 1), ("branch7x7_2", n, *WIDE), ("branch7x7_3", 192, *TALL)],
            [("branch7x7dbl_1", n, 1), ("branch7x7dbl_2", n, *TALL), ("branch7x7dbl_3", n, *WIDE),
             ("branch7x7dbl_4", n, *TALL), ("branch7x7dbl_5", 192, *WIDE)], ["mean", ("branch_pool", 192, 1)]]


MIXED_B = [[("branch3x3", 384, 3, 2)],
           [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 2)], ["max"]]
MIXED_D = [[("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3, 2)],
           [("branch7x7x3_1", 192, 1), ("branch7x7x3_2", 192, *WIDE), ("branch7x7x3_3", 192, *TALL),
            ("branch7x7x3_4", 192, 3, 2)], ["max"]]
MIXED_E = [[("branch1x1", 320, 1)],
           [("branch3x3_1", 384, 1), [("branch3x3_2a", 384, *WIDE3), ("branch3x3_2b", 384, *TALL3)]],
           [("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3, 1, 1),
            [("branch3x3dbl_3a", 384, *WIDE3), ("branch3x3dbl_3b", 384, *TALL3)]], ["mean", ("branch_pool", 192, 1)]]


class Inception3(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.order, c = [], 3
        for name, *args in (("Conv2d_1a_3x3", 32, 3, 2), ("Conv2d_2a_3x3", 32, 3), ("Conv2d_2b_3x3", 64, 3, 1, 1), ("max",),
                            ("Conv2d_3b_1x1", 80, 1), ("Conv2d_4a_3x3", 192, 3), ("max",)):
            self.order.append(name)
            if args:
                setattr(self, name, Basic(c, *args))
                c = args[0]
        for name, branches in (
                ("5b", mixed_a(32)), ("5c", mixed_a(64)), ("5d", mixed_a(64)), ("6a", MIXED_B), ("6b", mixed_c(128)),
                ("6c", mixed_c(160)), ("6d", mixed_c(160)), ("6e", mixed_c(192)), ("7a", MIXED_D), ("7b", MIXED_E), ("7c", MIXED_E)):
            m = Mixed(c, branches)
            c = m.out
            self.order.append("Mixed_" + name)
            setattr(self, "Mixed_" + name, m)
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        for name in self.order:
            x = F.max_pool2d(x, 3, 2) if name == "max" else getattr(self, name)(x)
        return self.fc(x.mean((2, 3)))


def golden(name, net, shape, gain):
    """gain is fan-in times the variance of weights, so that a sample shows at the end."""
    net = net.double().eval()
    state = net.state_dict()
    with open(f"logits_{name}.txt", "w") as out:
        names = sorted(k for k in state if not k.endswith("num_batches_tracked"))
        for i, key in enumerate(names):
            v = state[key]
            centre, width = 0.0, 0.1
            if v.dim() > 1:
                width = round(math.sqrt(3 * gain / (v.numel() // v.shape[0])), 4)
            elif key.endswith("running_var") or (key.endswith(".weight") and v.dim() == 1):
                centre = 1.0
            print("tensor", key, *v.shape, centre, width, file=out)
            draws = (2 * uniform(5000 + i, v.numel()) - 1) * width + centre
            v.copy_(torch.from_numpy(draws.astype(np.float32).astype(np.float64)).view(v.shape))
        x = torch.from_numpy(4 * uniform(1, math.prod(shape)) - 2).view(shape)
        print("input", *shape, file=out)
        with torch.no_grad():
            for row in net(x):
                print("logits", *(f"{v:.9g}" for v in row), file=out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    golden("resnet18", ResNet((2, 2, 2, 2), 1, 7), (2, 3, 64, 64), 1)
    golden("resnet50", ResNet((3, 4, 6, 3), 4, 7), (2, 3, 64, 64), 1)
    golden("alexnet", AlexNet(7), (2, 3, 96, 90), 2)
    golden("vgg16", VGG(7), (2, 3, 32, 40), 3)
    golden("inception3", Inception3(7), (2, 3, 96, 90), 5)
