"""A program with samples of its own: points in a plane, and the side of a line they lie on."""
import torch

import gradlab


class Points(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 2, generator=g)
        self.y = (self.x @ torch.tensor([1.0, -2.0]) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def measured(output, target):
    p = torch.softmax(output, 1)[:, 1]
    return {"mae": (p - target).abs().mean()}


gradlab.serve(torch.nn.Linear(2, 2), torch.nn.functional.cross_entropy, Points(500, 1), Points(100, 2), metrics_fn=measured, metrics={"mae": "less"})
