"""A model that 4 ranks train, then 3, then 5, in other wrappers each time: python3 resize.py MEETING RANK 5 CODEC...

What a codec keeps goes along by torch.save. Prints for each codec the largest difference, over all
steps of all of them, of the mean gradients from what was sent and what is still to be sent.
"""
import io
import sys

import torch
import torch.distributed as dist
from torch import nn

import matrix  # ends the program where PyTorch is too old
from torch.distributed.device_mesh import DeviceMesh

PHASES = [(4, "DDP"), (3, "FSDP2"), (5, "FSDP1"), (2, "DDP")]


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


def owed(state, group):
    """What a rank still has to send on average, by name."""
    out = {name: matrix.residual(state, name) for name in state.tensors}
    for t in out.values():
        dist.all_reduce(t, group=group)
    return {name: t / dist.get_world_size(group) for name, t in out.items()}


def phase(n, wrapper, codec, states, groups, step, total):
    """Three steps of the first n ranks; returns the state, and adds gradients less what was sent to total."""
    rank, (group, hooks) = dist.get_rank(), groups
    torch.manual_seed(7)
    plain = matrix.Net()
    torch.manual_seed(7)
    mesh = DeviceMesh.from_group(group, "cpu") if wrapper == "FSDP2" else None
    options = {"DDP": dict(ddp=dict(process_group=group)), "FSDP1": dict(fsdp1=dict(process_group=group, use_orig_params=True)), "FSDP2": dict(fsdp2=dict(mesh=mesh))}
    model = matrix.wrapped(wrapper, matrix.Net(), **options[wrapper])
    state = matrix.hooked(wrapper, model, codec, **(dict(process_group=hooks) if wrapper == "DDP" else {}))
    if states:
        state.load_state_dict(states)
    for s in range(step, step + 3):
        x, y = matrix.samples(rank, s)
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        got = {}
        if wrapper == "FSDP1":
            with matrix.FullyShardedDataParallel.summon_full_params(model, with_grads=True):
                got = {matrix.named(k): p.grad.clone() for k, p in model.named_parameters()}
        else:
            got = {matrix.named(k).removeprefix("module."): p.grad.full_tensor() if mesh is not None else p.grad for k, p in model.named_parameters()}
        names, params = zip(*plain.named_parameters())
        for name, g in zip(names, torch.autograd.grad(nn.functional.cross_entropy(plain(x), y), params)):
            dist.all_reduce(g, group=group)
            total[name] += (g / n - got[name]).view(-1)
    return state


def main(meeting, rank, codecs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=5)
    for codec in codecs:
        total, states, step, worst = {name: torch.zeros(p.numel()) for name, p in matrix.Net().named_parameters()}, [], 0, 0.0
        for n, wrapper in PHASES:
            groups = dist.new_group(range(n)), dist.new_group(range(n))
            mine = None
            if rank < n:
                state = phase(n, wrapper, codec, states, groups, step, total)
                left = owed(state, groups[0])
                worst = max([worst] + [(total[name] - left[name]).abs().max().item() for name in total])
                assert state.steps == step + 3 and set(state.tensors) == set(total), (state.steps, set(state.tensors))
                mine = through_a_file(state.state_dict())
            step += 3
            everyones = [None] * 5
            dist.all_gather_object(everyones, mine)
            states = everyones[:n]
            for t in total.values():
                dist.broadcast(t, 0)
        if rank == 0:
            print(codec, "%.3g" % worst, "%.3g" % max(t.abs().max().item() for t in total.values()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[4:])
