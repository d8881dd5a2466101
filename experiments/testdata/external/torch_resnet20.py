"""CIFAR's ResNet-20 (He et al. 2015, option A)."""
import os

import torch
from torch import nn
from torch.nn import functional as F

import gradlab


class ResNet20(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        at, size = 0, shape[0]
        for width in [16] * 7 + [32] * 6 + [64] * 6:
            at += 1
            stride = 2 if at > 1 and size != width else 1
            setattr(self, "conv%d" % at, nn.Conv2d(size, width, 3, stride, 1, bias=False))
            setattr(self, "bn%d" % at, nn.BatchNorm2d(width))
            size = width
        self.dense1 = nn.Linear(size, classes)

    def layer(self, i, x):
        return getattr(self, "bn%d" % i)(getattr(self, "conv%d" % i)(x))

    def forward(self, x):
        x = F.relu(self.layer(1, x))
        for i in range(2, 20, 2):
            y = self.layer(i + 1, F.relu(self.layer(i, x)))
            stride = x.shape[2] // y.shape[2]
            x = F.relu(y + F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, y.shape[1] - x.shape[1])))
        return self.dense1(x.mean((2, 3)))


gradlab.serve(ResNet20, F.cross_entropy, device=os.environ.get("GRADLAB_TEST_DEVICE", "cpu"))
