"""Gradients that are a function of the sample's position alone: as a model of a run, and
as a module of DistributedDataParallel under gradlab's hook."""
import hashlib
import os
import sys

import numpy as np

import gradlab

DEVICE = os.environ.get("GRADLAB_TEST_DEVICE", "cpu")
TENSORS = [("emb.weight", (40, 16), "weight"), ("fc.weight", (8, 40), "weight"), ("fc.bias", (1, 8), "bias"), ("scale", (1, 33), "bias")]
STEPS, BATCH = 4, 2


def gradient(first, whole):
    """Multiples of 1/8, whose sums over four ranks are exact in any order and in any format of
    16 bits and more; or any values."""
    r = np.random.default_rng([7, first])
    out = {name: r.normal(0, 1, shape).astype(np.float32) for name, shape, _ in TENSORS}
    return {n: np.round(g * 8) / np.float32(8) + 0.0 for n, g in out.items()} if whole else out


class Prescribed(gradlab.Worker):
    tensors = TENSORS

    def init(self, params, seed):
        for p in params.values():
            p[...] = 0

    def step(self, params, x, y, seed, first, ready):
        return 1.0, gradient(first, "whole" in sys.argv)

    def evaluate(self, params, x, y):
        return 1.0, 0


def trained(codec, rank, world, whole, resume):
    """The parameters after the steps, and what was sent."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, shape, _ in TENSORS:
                at = self
                *above, leaf = name.split(".")
                for a in above:
                    if not hasattr(at, a):
                        setattr(at, a, torch.nn.Module())
                    at = getattr(at, a)
                setattr(at, leaf, torch.nn.Parameter(torch.zeros(shape[1] if shape[0] == 1 else shape)))

        def forward(self, g):
            return sum((p * torch.from_numpy(g[n]).to(p.device).view(p.shape)).sum() for n, p in self.named_parameters())

    model = Module().to(DEVICE)
    # Where a state is restored, one rank encodes on the device and the other on the host, and
    # afterwards the other way round.
    on, codec = codec.startswith("device "), codec.replace("device ", "")
    device = on and (rank == 0 or not resume)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.002)
    state, hook = gradlab.ddp_hook(codec, model, seed=1, device=device)
    ddp.register_comm_hook(state, hook)
    for step in range(STEPS):
        if step == STEPS - 1 and resume:  # as a process that starts again does
            kept = state.state_dict()
            assert state.device or not device, codec
            again = DistributedDataParallel(model, bucket_cap_mb=0.002)
            state, hook = gradlab.ddp_hook(codec, model, seed=1, device=on and not device)
            state.load_state_dict(kept)
            again.register_comm_hook(state, hook)
            ddp = again
        ddp.zero_grad()
        state.lr, state.epoch = 1.0, step * BATCH * world / 1000
        ddp(gradient((step * world + rank) * BATCH, whole)).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= p.grad
    trained = dict(model.named_parameters())
    flat = b"".join(trained[name].detach().cpu().numpy().astype("<f4").tobytes() for name, _, _ in TENSORS)
    return hashlib.sha256(flat).hexdigest(), state


def main(meeting, rank, world, whole, codecs):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world)
    for i, codec in enumerate(codecs):
        sum, state = trained(codec, rank, world, whole, i % 2 == 0)
        print(codec, sum, state.total_bytes, state.bytes, state.wire_bytes, state.raw_bytes, state.steps, flush=True)
    dist.barrier()


if __name__ == "__main__":
    if sys.argv[1] == "model":
        Prescribed().run()
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "whole", sys.argv[5:])
