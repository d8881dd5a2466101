"""Gradients that say what was exchanged: of `sent` the parameters, of `given` the inputs.
`numpy` and `torch` are both ways to make them; `old` knows of float32 alone."""
import sys

import numpy as np

import gradlab


class Echo(gradlab.Worker):
    def begin(self, shape, classes):
        self.tensors = [("sent", (1, shape[2]), "weight"), ("given", (1, shape[2]), "weight")]

    def init(self, params, seed):
        for p in params.values():
            p[...] = np.float32(1 / 3)

    def step(self, params, x, y, seed, first, ready):
        ready("given", x)
        return 1.0, {"sent": params["sent"]}

    def evaluate(self, params, x, y):
        return float(params["sent"].sum()), 0


def serve():
    import torch

    class Net(torch.nn.Module):
        def __init__(self, shape, classes):
            super().__init__()
            self.sent, self.given = (torch.nn.Parameter(torch.empty(shape[2])) for _ in range(2))

        def forward(self, x):
            return (self.sent * self.sent.detach()).sum() + (self.given * x.reshape(-1)).sum()

    def init(model, seed):
        for p in model.parameters():
            p.data = torch.full_like(p, 1 / 3)

    gradlab.serve(Net, lambda output, target: output, init_fn=init)


if sys.argv[1] == "torch":
    serve()
if sys.argv[1] == "old":
    answer = gradlab._Session.send
    gradlab._Session.send = lambda self, op, values=None, **fields: answer(self, op, **fields)
Echo().run()
