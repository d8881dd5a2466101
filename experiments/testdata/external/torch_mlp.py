import os

import torch
from torch import nn

import gradlab


class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        c, h, w = shape
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(c * h * w, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(24, classes)
        self.unused = nn.Linear(2, 2)  # takes no part: its gradient is 0

    def forward(self, x):
        return self.head(self.body(x))


gradlab.serve(Net, nn.functional.cross_entropy, device=os.environ.get("GRADLAB_TEST_DEVICE", "cpu"))
