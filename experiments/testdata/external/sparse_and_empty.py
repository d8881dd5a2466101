"""Two ranks whose model has a sparse gradient and a parameter without elements: with a codec that
loses nothing the gradients are those of DistributedDataParallel alone; prints the bytes of a step."""
import sys

import torch
import torch.distributed as dist
from torch import nn

import gradlab

dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8, sparse=True)
        self.nothing = nn.Parameter(torch.zeros(0, 4))
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.words(x).mean(1)).square().sum() + self.nothing.sum()


def gradients(codec):
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=1e-5)
    state = None
    if codec is not None:
        state, hook = gradlab.ddp_hook(codec.removeprefix("device "), model, device=codec.startswith("device "))
        model.register_comm_hook(state, hook)
    for step in range(2):
        model.zero_grad()
        torch.manual_seed(10 * step + dist.get_rank())
        model(torch.randint(50, (4, 5 + dist.get_rank()))).backward()
    return [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in model.parameters()], model.module.words.weight.grad, state


want, words, _ = gradients(None)
assert words.is_sparse
# This rank's rows in the last step: 8 bytes of index and 32 of values each.
torch.manual_seed(10 + dist.get_rank())
rows = len(torch.randint(50, (4, 5 + dist.get_rank())).unique())
for codec in sys.argv[3:]:
    got, _, state = gradients(codec)
    exact = "raw" in codec or "keep=1)" in codec
    for w, g in zip(want, got):
        assert g.shape == w.shape and (not exact or torch.allclose(g, w, atol=1e-6)), (codec, g, w)
    print(codec, state.bytes - 40 * rows, state.raw_bytes - 40 * rows, state.steps)
