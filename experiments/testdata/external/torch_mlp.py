import torch

import gradlab


def make(shape, classes):
    c, h, w = shape
    unused = torch.nn.Linear(2, 2)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(c * h * w, 24), torch.nn.BatchNorm1d(24),
                              torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(24, classes))
    net.unused = unused  # takes no part: its gradient is 0
    net.forward = lambda x: torch.nn.Sequential.forward(net[:], x)
    return net


gradlab.serve(make, torch.nn.functional.cross_entropy)
