"""What training scripts do, under every codec and wrapper: python3 matrix.py MEETING RANK WORLD 1/N|quick|WHAT CODEC...

Quick leaves out what the inductor compiles; 1/N takes one cell of N, by a hash of its names. Prints a
line for each cell, "what | wrapper | codec | right" or what came instead. Right is the parameters of the
same script without a codec, if the codec loses nothing. Of every codec it is the same parameters on all
ranks, and in sharded models those of DistributedDataParallel, bit by bit. Of feedback it is that what
was sent and what is still to be sent are the mean of the gradients.
"""
import contextlib
import io
import sys
import warnings
import zlib

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

if not hasattr(torch._C._distributed_c10d, "Backend") or not hasattr(torch._C._distributed_c10d.Backend, "all_gather_single"):
    print("older")  # than PyTorch 2.15
    sys.exit()
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffload, CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp import MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

import gradlab
from gradlab.state import named

warnings.simplefilter("ignore")
STEPS = 3


class Net(nn.Module):
    """Layers of several roles, with a branch that is not always taken."""

    def __init__(self, side=None, embedding=False, sparse=False, odd=False, tied=False, conv=False):
        super().__init__()
        self.words = nn.Embedding(30, 12, sparse=sparse) if embedding else None
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten()) if conv else None
        self.first = nn.Linear(16 if conv else 12, 33)
        self.norm = nn.LayerNorm(33)
        self.hidden = nn.Linear(33, 33)
        self.again = nn.Linear(33, 33)
        if tied:
            self.again.weight = self.hidden.weight
        self.side = nn.Linear(33, 33) if side is not None else None
        self.last = nn.Linear(33, 5)
        self.odd = nn.ParameterList([nn.Parameter(torch.zeros(0, 4)), nn.Parameter(torch.ones(1))]) if odd else None
        self.takes, self.spoilt = side, False  # whether gradients of the first layer are not finite

    def forward(self, x, step=0):
        if self.words is not None:
            x = self.words((x.abs() * 9).long().clamp(max=29)[:, :3]).mean(1)
        if self.conv is not None:
            x = self.conv(x[:, :1, None, None].expand(-1, 3, 4, 4) * torch.linspace(-1, 1, 16).view(4, 4))
        x = self.first(x)
        if self.spoilt:
            x.register_hook(lambda g: g * float("inf"))
        x = self.hidden(torch.relu(self.norm(x)))
        x = self.again(torch.relu(x))
        if self.side is not None and self.takes(step):
            x = x + self.side(x)
        x = self.last(torch.relu(x))
        return x * self.odd[1] + self.odd[0].sum() if self.odd is not None else x


def samples(rank, step, micro=0):
    torch.manual_seed(1000 * step + 10 * rank + micro)
    return torch.randn(6, 12), torch.randint(5, (6,))


def wrapped(wrapper, net, **options):
    """The network in its wrapper."""
    cpu = torch.device("cpu")
    if wrapper == "DDP":
        return DistributedDataParallel(net, **options.get("ddp", {}))
    inner = [name for name in ("first", "hidden", "again", "last") if not options.get("one unit")]
    if wrapper == "FSDP1":
        kw = dict(dict(device_id=cpu, use_orig_params=True), **options.get("fsdp1", {}))
        for name in inner:
            setattr(net, name, FullyShardedDataParallel(getattr(net, name), **kw))
        return FullyShardedDataParallel(net, **kw)
    for name in inner:
        fully_shard(getattr(net, name), **options.get("fsdp2", {}))
    return fully_shard(net, **options.get("fsdp2", {}))


def hooked(wrapper, model, codec, **options):
    """The state of a codec, None without one."""
    if codec is None:
        return None
    device, codec = codec.startswith("device "), codec.removeprefix("device ")
    if wrapper != "DDP":
        return gradlab.fsdp(model, codec, device=device, **options)
    while hasattr(model, "_orig_mod"):
        model = model._orig_mod
    state, hook = gradlab.ddp_hook(codec, model, device=device, **options)
    model.register_comm_hook(state, hook)
    return state


def parameters(wrapper, model):
    """All parameters by name, whole."""
    if wrapper == "FSDP1":
        with FullyShardedDataParallel.summon_full_params(model):
            return {named(n): p.detach().clone() for n, p in model.named_parameters()}
    return {name: (p.full_tensor() if wrapper == "FSDP2" else p).detach().clone() for name, p in by_name(model)}


def by_name(model):
    return [(named(n).removeprefix("module."), p) for n, p in model.named_parameters()]


def residual(state, name):
    """What is still to be sent of a tensor, where feedback is outermost."""
    b = state.state_dict()["tensors"][name]["state"].numpy().tobytes()
    n = int(np.frombuffer(b[:4], np.uint32)[0])
    return torch.from_numpy(np.frombuffer(b[4:4 + 4 * n], np.float32).copy())


def add(to, g):
    to += g.to_dense() if g.is_sparse else g


class Told(dict):
    """Sums of a model's own gradients and of those that it was given, by name."""

    def __init__(self, model):
        super().__init__({name: (p, torch.zeros_like(p), torch.zeros_like(p)) for name, p in by_name(model) if p.requires_grad})
        for p, own, _ in self.values():
            p.register_hook(lambda g, own=own: add(own, g))

    def given(self):
        for p, _, got in self.values():
            if p.grad is not None:
                add(got, p.grad)

    def wrong(self, state):
        """The first tensor for which own gradients are not what was given and what is owed."""
        for name, (p, own, got) in self.items():
            if p.numel() == 0:
                continue
            owed = residual(state, name).view(p.shape) if name in state.tensors else torch.zeros_like(p)
            total = torch.cat([own.reshape(-1), owed.reshape(-1)])
            dist.all_reduce(total)
            own, owed = (total / dist.get_world_size()).split(own.numel())
            off = (own - owed - got.reshape(-1)).abs().max().item()
            if off > (1e-6 if "16" not in state.codec else 1e-3) * max(1, own.abs().max().item()):  # sums of halves are rounded on the way
                return "%s is off by %.2g" % (name, off)
        return None


# What scripts do. Each takes a wrapper and a codec and returns the model (or several), and its Told.


def train(wrapper, codec, net=lambda: Net(), make=lambda m: m, after=lambda m: m, context=contextlib.nullcontext,
          micro=1, sync=None, start=0, around=contextlib.nullcontext, **options):
    torch.manual_seed(7)
    model = after(wrapped(wrapper, make(net()), **options))
    state = hooked(wrapper, model, codec, **(dict(start=start) if start else {}))
    told = Told(model) if wrapper == "DDP" and codec is not None and codec.startswith("feedback(") and not options.get("low") else None
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.5)
    for step in range(STEPS):
        optimizer.zero_grad()
        for m in range(micro):
            x, y = samples(dist.get_rank(), step, m)
            with sync(wrapper, model, m == micro - 1) if sync else contextlib.nullcontext(), around(), context():
                out = model(x.to(next(model.parameters()).dtype) if options.get("low") else x, step)
                loss = nn.functional.cross_entropy(out.float(), y)
            with sync(wrapper, model, m == micro - 1) if sync else contextlib.nullcontext(), around():
                loss.backward()
        if told is not None:
            told.given()
        optimizer.step()
    return wrapper, model, state, told


@contextlib.contextmanager
def only_last(wrapper, model, last):
    if wrapper == "FSDP2":
        model.set_requires_gradient_sync(last)
        yield
    else:
        with contextlib.nullcontext() if last else model.no_sync():
            yield


def scaled(wrapper, codec):
    """An Inf on one rank in the second of four steps, in what comes last of the backward pass: nobody steps,
    the scale halves, what is owed stays."""
    torch.manual_seed(7)
    net = Net()
    model = wrapped(wrapper, net, ddp=dict(bucket_cap_mb=1e-4))
    kw = dict(init_scale=1024.0, growth_interval=1000)
    scaler = torch.amp.GradScaler("cpu", **kw) if wrapper != "FSDP1" else ShardedGradScaler("cpu", **kw)
    state = hooked(wrapper, model, codec, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scales = []
    for step in range(4):
        before = [kept(state), parameters(wrapper, model)] if step == 1 else None
        optimizer.zero_grad()
        x, y = samples(dist.get_rank(), step)
        net.spoilt = step == 1 and dist.get_rank() == 1
        loss = nn.functional.cross_entropy(model(x, step), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        if before is not None:
            after = parameters(wrapper, model)
            assert kept(state) == before[0], "what is kept has changed"
            assert all(after[n].equal(p) for n, p in before[1].items()), "parameters have changed"
            assert state is None or state.plain or state.void == 1
    assert scales == [1024, 512, 512, 512], scales
    return wrapper, model, state, None


def kept(state):
    if state is None:
        return None
    return {n: t["state"].numpy().tobytes() for n, t in state.state_dict()["tensors"].items()}


def saved(wrapper, codec):
    """A state that goes through torch.save and torch.load by its default, and into a model wrapped anew."""
    torch.manual_seed(7)
    whole, states = None, None
    for part in range(2):
        torch.manual_seed(7)
        net = Net()
        if whole is not None:
            with torch.no_grad():
                for n, p in net.named_parameters():
                    p.copy_(whole[n])
        model = wrapped(wrapper, net, **(dict(ddp=dict(bucket_cap_mb=1e-4)) if part else {}))
        state = hooked(wrapper, model, codec)
        if part and state is not None:
            state.load_state_dict(torch.load(io.BytesIO(states)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2 * part, 2 * part + 2):
            optimizer.zero_grad()
            x, y = samples(dist.get_rank(), step)
            nn.functional.cross_entropy(model(x, step), y).backward()
            optimizer.step()
        whole = parameters(wrapper, model)
        if state is not None:
            file = io.BytesIO()
            torch.save(state.state_dict(), file)
            states = file.getvalue()
    return wrapper, model, state, None


def unbroken(wrapper, codec):
    torch.manual_seed(7)
    model = wrapped(wrapper, Net())
    state = hooked(wrapper, model, codec)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        x, y = samples(dist.get_rank(), step)
        nn.functional.cross_entropy(model(x, step), y).backward()
        optimizer.step()
    return wrapper, model, state, None


def two_models(wrapper, codec):
    torch.manual_seed(7)
    models = [wrapped(wrapper, Net()) for _ in range(2)]
    states = [hooked(wrapper, m, codec) for m in models]
    optimizer = torch.optim.SGD([p for m in models for p in m.parameters()], lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = samples(dist.get_rank(), step)
        sum(nn.functional.cross_entropy(m(x, step), y) for m in models).backward()
        optimizer.step()
    return wrapper, nn.ModuleList(models), states[0], None


def uneven(wrapper, codec):
    torch.manual_seed(7)
    model = wrapped(wrapper, Net())
    state = hooked(wrapper, model, codec)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for step in range(STEPS + dist.get_rank()):
            optimizer.zero_grad()
            x, y = samples(dist.get_rank(), step)
            nn.functional.cross_entropy(model(x, step), y).backward()
            optimizer.step()
    return wrapper, model, state, None


def hybrid(wrapper, codec):
    """Two groups of ranks, each with a copy of the model."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("copies", "shards"))
    return train(wrapper, codec, fsdp1=dict(device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD), fsdp2=dict(mesh=mesh))


def of(**options):
    return lambda wrapper, codec: train(wrapper, codec, **options)


def checkpointed(net):
    for name in ("hidden", "again"):
        setattr(net, name, checkpoint_wrapper(getattr(net, name)))
    return net


def frozen(net):
    for p in net.first.parameters():
        p.requires_grad = False
    return net


def compiled(backend):
    return lambda m: torch.compile(m, backend=backend)


def in_place(net):
    net.compile(backend="aot_eager")
    return net


@contextlib.contextmanager
def compiled_autograd():
    with torch._dynamo.config.patch(compiled_autograd=True, optimize_ddp="python_reducer"):
        yield


low16 = dict(fsdp1=dict(mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)),
             fsdp2=dict(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)))
EVERY, DDP, SHARDED = ("DDP", "FSDP1", "FSDP2"), ("DDP",), ("FSDP1", "FSDP2")
FEATURES = {
    "a step": (EVERY, of()),
    "buckets rebuilt": (DDP, of(ddp=dict(bucket_cap_mb=1e-4))),
    "gradient_as_bucket_view": (DDP, of(ddp=dict(gradient_as_bucket_view=True))),
    "static_graph": (DDP, of(ddp=dict(static_graph=True))),
    "unused parameters": (EVERY, of(net=lambda: Net(side=lambda step: step % 2 == 0), ddp=dict(find_unused_parameters=True))),
    "4 backward passes a step": (EVERY, of(micro=4)),
    "no_sync, 4 passes": (EVERY, of(micro=4, sync=only_last)),
    "GradScaler, an Inf": (EVERY, scaled),
    "autocast to bfloat16": (EVERY, of(context=lambda: torch.autocast("cpu", torch.bfloat16))),
    "MixedPrecision": (SHARDED, of(**low16, low=True)),
    "bfloat16 parameters": (EVERY, of(net=lambda: Net().bfloat16(), low=True)),
    "float16 parameters": (EVERY, of(net=lambda: Net().half(), low=True)),
    "sparse embedding": (EVERY, of(net=lambda: Net(embedding=True, sparse=True))),
    "embedding": (EVERY, of(net=lambda: Net(embedding=True))),
    "parameters of 0 and 1 elements": (EVERY, of(net=lambda: Net(odd=True))),
    "shared weights": (EVERY, of(net=lambda: Net(tied=True), **{"one unit": True})),
    "frozen parameters": (EVERY, of(make=frozen)),
    "batch norm": (EVERY, of(net=lambda: Net(conv=True))),
    "channels_last": (EVERY, of(net=lambda: Net(conv=True).to(memory_format=torch.channels_last))),
    "activation checkpoints": (EVERY, of(make=checkpointed)),
    "two models in one pass": (EVERY, two_models),
    "compiled, then wrapped": (EVERY, of(make=in_place)),
    "wrapped, then compiled": (EVERY, of(after=compiled("aot_eager"))),
    "compiled by inductor": (EVERY, of(after=compiled("inductor"))),
    "compiled backward pass": (DDP, of(after=compiled("aot_eager"), around=compiled_autograd)),
    "CPU offload": (SHARDED, of(fsdp1=dict(cpu_offload=CPUOffload(True)), fsdp2=dict(offload_policy=CPUOffloadPolicy(pin_memory=False)))),
    "join, uneven inputs": (DDP, uneven),
    "saved and loaded": (EVERY, saved),
    "start=2": (EVERY, of(start=2)),
    "SHARD_GRAD_OP": (("FSDP1",), of(fsdp1=dict(sharding_strategy=ShardingStrategy.SHARD_GRAD_OP))),
    "NO_SHARD": (("FSDP1",), of(fsdp1=dict(sharding_strategy=ShardingStrategy.NO_SHARD))),
    "use_orig_params=False": (("FSDP1",), of(fsdp1=dict(use_orig_params=False), **{"one unit": True})),
    "reshard_after_forward=False": (("FSDP2",), of(fsdp2=dict(reshard_after_forward=False))),
    "HSDP": (SHARDED, hybrid),
}


# Where a sharded model is no more than near the one of DistributedDataParallel: it has zeros for gradients
# that are none, and adds up what has been reduced, where DDP hands its hook all of a step so far.
APART = {"unused parameters", "4 backward passes a step"}


# What depends on the codec; the rest is tried with the first ten, and what is compiled with three.
EACH = {"a step", "unused parameters", "no_sync, 4 passes", "GradScaler, an Inf", "bfloat16 parameters", "embedding",
        "parameters of 0 and 1 elements", "channels_last", "saved and loaded", "start=2"}


def cell(what, wrapper, codec, known):
    """What came of it: right, or what did not."""
    do = FEATURES[what][1]

    def result(wrapper, codec):
        if (wrapper, codec) not in known:
            wrapper_, model, state, told = do(wrapper, codec)
            if isinstance(model, nn.ModuleList):
                params = {"%d.%s" % (i, n): p for i, m in enumerate(model) for n, p in parameters(wrapper_, m).items()}
            else:
                params = parameters(wrapper_, model)
            wrong = told.wrong(state) if told is not None else None
            if state is not None and not state.plain and not state.tensors:
                wrong = "the codec was not asked"
            known[wrapper, codec] = params, wrong, state.steps if state is not None else 0
        return known[wrapper, codec]

    got, wrong, steps = result(wrapper, codec)
    if wrong:
        return wrong
    flat = torch.cat([p.reshape(-1).float() for p in got.values()])
    first = flat.clone()
    dist.broadcast(first, 0)
    if not flat.equal(first):
        return "ranks differ by %.2g" % (flat - first).abs().max()
    if not flat.isfinite().all():
        return "not finite"
    lossless = codec == "raw" or codec.endswith("topk(keep=1)")
    low = "16" in what or what == "MixedPrecision"
    if lossless:
        plain, _, _ = result(wrapper, None)
        off = max([(plain[n].float() - p.float()).abs().max().item() for n, p in got.items() if p.numel()])
        if off > (2e-2 if low else 1e-6):
            return "differs by %.2g from what is without a codec" % off
    if wrapper != "DDP" and what not in APART and "DDP" in FEATURES[what][0] and (lossless or not low):
        try:
            ddp, _, want = result("DDP", codec)
        except Exception:
            return "right"
        if steps != want:
            return "%d steps, with DDP %d" % (steps, want)
        # Sums of floats of more than two ranks depend on what they are summed with.
        exact = codec != "raw" and not low and "compile" not in what and (what != "start=2" or dist.get_world_size() == 2)
        off = max([(ddp[n].float() - p.float()).abs().max().item() for n, p in got.items() if p.numel()])
        if off > (0 if exact else 2e-2 if low else 1e-5):
            return "differs by %.2g from DDP" % off
    if what == "saved and loaded":
        whole = parameters(wrapper, unbroken(wrapper, codec)[1])
        if not all(whole[n].equal(p) or codec == "raw" and torch.allclose(whole[n], p, atol=1e-6) for n, p in got.items()):
            return "goes on otherwise than without a break"
    return "right"


def said(do):
    """What do() returns, or what it raised."""
    try:
        return do()
    except Exception as why:
        return "%s: %s" % (type(why).__name__, str(why).strip().split("\n")[0][:300])


def main(meeting, rank, world, features, codecs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world)
    share = int(features[2:]) if features.startswith("1/") else 1
    for what, (wrappers, _) in FEATURES.items():
        if share == 1 and features not in ("1/1", what) and (features != "quick" or what == "compiled by inductor"):
            continue
        known = {}
        for wrapper in wrappers:
            for codec in codecs if what in EACH else codecs[:3 if "compile" in what else 10]:
                if zlib.crc32(("%s %s %s" % (what, wrapper, codec)).encode()) % share:
                    continue
                says = said(lambda: cell(what, wrapper, codec, known))
                if ": " in says and said(lambda: FEATURES[what][1](wrapper, None)) == says:
                    says = "PyTorch itself: " + says
                if rank == 0:
                    print("%s | %s | %s | %s" % (what, wrapper, codec, says), flush=True)
                torch._dynamo.reset()
                dist.barrier()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
