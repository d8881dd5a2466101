"""Gradlab's codecs between the shards of fully_shard and FullyShardedDataParallel: gradlab.fsdp(model, codec)."""
import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.distributed.fsdp import FullyShardedDataParallel

try:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter
    from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo
except ImportError:  # before there was fully_shard, or where it lay elsewhere
    FSDPModule, ReduceScatter = None, object

from gradlab.state import ENCODED, State, named, role_of, sent, size


def fsdp(model, codec, seed=0, device=False, start=0, scaler=None):
    """Encodes the gradients of a model that fully_shard or FullyShardedDataParallel has sharded; returns the State.

    model: the root; every unit of it that is sharded sends by the codec, each tensor in its
        own shape, under its name in the model.
    codec, seed, device, start, scaler: those of gradlab.ddp_hook.

    A unit's gradients are exchanged when they are ready, and its own thread waits for them.
    """
    units = [(name, m) for name, m in model.named_modules() if FSDPModule is not None and isinstance(m, FSDPModule)]
    if units:
        return shards(model, units, codec, seed, device, start, scaler)
    units = [(name, m) for name, m in model.named_modules() if isinstance(m, FullyShardedDataParallel)]
    if units:
        return vectors(model, units, codec, seed, device, start, scaler)
    raise ValueError("no module of the model is sharded. Call fully_shard or FullyShardedDataParallel first; "
                     "for DistributedDataParallel there is gradlab.ddp_hook")


class Sharded(State):
    """The state of sharded units. A step is a backward pass in which some unit's gradients were reduced."""

    task = -1  # the backward pass that is under way
    within = frozenset()  # the names of the units' tensors

    def names(self):
        return self.within

    def begin(self):
        task = torch._C._current_graph_task_id()
        if task not in (-1, self.task):
            self.task = task
            Variable._execution_engine.queue_callback(self.close)

    def close(self):
        self.task = -1
        self.ended()

    def reduced(self, places, dtype, device, factor):
        """The whole gradients of tensors, flat, or None: the codec does not send this step.

        places: pairs of a tensor's name, role and shape, and its gradient as it is here. Gradients
            become factor times their sum over the ranks.
        """
        if self.as_it_is() or not places:
            return None
        tensors = [self.tensor(*of) for of, _ in places]
        if dtype not in ENCODED:
            raise TypeError("the gradient of %s is %s; gradlab's codecs encode float32, float16 and bfloat16, raw sends others too"
                            % (tensors[0].name, dtype))
        flat = self.space("whole", sum(map(size, tensors)), torch.float32, device=device)
        parts = flat.split([size(t) for t in tensors])
        for (_, grad), part in zip(places, parts):
            part.view(grad.shape).copy_(grad)
        return parts if self.encoded(flat, tensors, factor) else None

    def told(self, bytes, n):
        """Accounts for gradients of n elements that went as they are."""
        self.counts[1] += 4 * n
        self.count(bytes, bytes)


# fully_shard: a unit's groups of parameters have a reduce-scatter that can be replaced.


def shards(model, units, codec, seed, device, start, scaler):
    groups = [(name, g) for name, m in units for g in m._get_fsdp_state()._fsdp_param_groups]
    of = {}
    for name, g in groups:
        if not isinstance(g.mesh_info, FSDPMeshInfo):
            raise ValueError("%s is replicated and not sharded: there is no reduce-scatter for a codec" % (name or "the root"))
        if not hasattr(g, "_prepare_reduce_scatter_inputs"):
            raise NotImplementedError("fully_shard of PyTorch %s does not say which gradients it reduces; gradlab.fsdp is for 2.15"
                                      % torch.__version__)
        of.setdefault(id(g.mesh_info.shard_process_group), (name, g.mesh_info.shard_process_group))
    if len(of) != 1:
        raise ValueError("units are sharded over different groups of ranks: %s. Call gradlab.fsdp for each part of the model that has one"
                         % ", ".join(name or "the root" for name, _ in of.values()))
    (_, group), = of.values()
    state = Sharded(codec, seed, group, device, start, scaler)
    modules = {id(m): named(name + "." if name else "") for name, m in model.named_modules()}
    reduces = [Reduce(state, g, modules) for _, g in groups]
    state.within = {name for r in reduces for name, _ in r.names.values()}
    return state


class Reduce(ReduceScatter):
    """The reduce-scatter of one group of parameters."""

    def __init__(self, state, group, modules):
        self.state, self.group, self.plain = state, group, group._reduce_scatter_comm
        # Parameters are the group's own objects; what is registered with the module changes.
        self.names = {}
        for p in group.fsdp_params:
            of = p._module_info
            self.names[id(p)] = modules[id(of.module)] + of.param_name, role_of(of.module, p._orig_size)
        self.params, prepare = [], group._prepare_reduce_scatter_inputs

        def prepared(params, grads, world):
            self.params = list(params)
            return prepare(params, grads, world)

        group._prepare_reduce_scatter_inputs, group._reduce_scatter_comm = prepared, self

    def allocate(self, size, *, dtype, device):
        return self.plain.allocate(size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        state, world, work = self.state, self.state.world, None
        state.begin()
        at, params = 0, []  # with where their columns begin
        for p in self.params:
            if p._orig_size.numel() > 0:
                params.append((p, at))
            at += p.padded_sharded_param_size.numel()
        ranks = input_tensor.view(world, at)
        factor = 1.0 if op == dist.ReduceOp.SUM else 1 / world if op == dist.ReduceOp.AVG else 1 / self.group.gradient_divide_factor
        parts = state.reduced([((*self.names[id(p)], tuple(p._orig_size)), joined(p, ranks[:, at:])) for p, at in params],
                              input_tensor.dtype, input_tensor.device, factor)
        if parts is None:
            state.told(sent(input_tensor), input_tensor.numel())
            work = self.plain(output_tensor=output_tensor, input_tensor=input_tensor, group=group, op=op, async_op=async_op)
        else:
            output_tensor.zero_()
            for (p, at), part in zip(params, parts):
                own = chunk(p, part, state.rank)
                output_tensor[at:at + own.numel()].copy_(own)
        if state.task == -1:  # outside of a backward pass, as finalize_backward is
            state.ended()
        return work


def joined(p, columns):
    """A parameter's whole gradient, flat, from what is for each rank and begins with its shard."""
    columns, dim = columns[:, :p.padded_sharded_param_size.numel()], p.fsdp_placement.dim
    if dim == 0:
        return columns.reshape(-1)[:p._orig_size.numel()]  # padding is behind the last row
    return torch.cat([c.view(p.sharded_size) for c in columns], dim).reshape(-1)


def chunk(p, flat, rank):
    """What a rank has of a parameter's whole gradient, flat."""
    dim = p.fsdp_placement.dim
    if dim == 0:
        n = p.padded_sharded_param_size.numel()
        return flat[rank * n:(rank + 1) * n]
    return flat.view(p._orig_size).narrow(dim, rank * p.sharded_size[dim], p.sharded_size[dim]).reshape(-1)


# FullyShardedDataParallel: a unit has one flat vector, and a hook that is handed it.


def vectors(model, units, codec, seed, device, start, scaler):
    if not hasattr(units[0][1], "_handle"):
        raise NotImplementedError("FullyShardedDataParallel of PyTorch %s keeps its vectors otherwise; gradlab.fsdp is for 2.15" % torch.__version__)
    units = [(name, m) for name, m in units if m._handle is not None]
    of = {id(m.process_group): m.process_group for _, m in units}
    if len(of) != 1:
        raise ValueError("units of the model are sharded over %d groups of ranks; want one" % len(of))
    (group,) = of.values()
    state = Sharded(codec, seed, group, device, start, scaler)
    for name, m in units:
        if "HYBRID" in m.sharding_strategy.name:
            raise ValueError("FullyShardedDataParallel takes no hook where %s is under %s; fully_shard over a mesh of two dimensions does"
                             % (name or "the root", m.sharding_strategy.name))
    model.register_comm_hook(None, reduce_vector)
    for name, m in units:
        m._comm_hook_state = Vector(state, named(name), m._handle)
    state.within = {name for _, m in units for (name, _, _), _, _ in m._comm_hook_state.places}
    return state


class Vector:
    """A unit's flat gradient."""

    def __init__(self, state, prefix, handle):
        self.state, self.places, at = state, [], 0  # names, roles and shapes of tensors; where they begin, and their strides
        flat = handle.flat_param
        of = zip(flat._fqns, flat._param_infos, flat._shapes, flat._strides)
        for n, padding in zip(flat._numels_with_padding, flat._is_padding_mask):
            if not padding:
                name, info, shape, strides = next(of)
                if n > 0:
                    name = (prefix + "." if prefix else "") + named(name)
                    self.places.append(((name, role_of(info.module, shape), tuple(shape)), at, strides))
            at += n

    def views(self, grad):
        """The tensors' gradients within the unit's."""
        return [grad.as_strided(shape, strides, grad.storage_offset() + at) for (_, _, shape), at, strides in self.places]


def reduce_vector(unit, grad, shard=None):
    """The hook: grad is a unit's gradient, padded for shards, and shard where this rank's goes; without
    one, grad is averaged in place."""
    from torch.distributed.algorithms._comm_hooks import default_hooks
    state = unit.state
    state.begin()
    views = unit.views(grad)
    parts = state.reduced([(of, v) for (of, _, _), v in zip(unit.places, views)], grad.dtype, grad.device, 1 / state.world)
    if parts is None:
        state.told(sent(grad), grad.numel())
        plain = default_hooks.DefaultState(state.group)
        if shard is None:
            default_hooks.allreduce_hook(plain, grad)
        else:
            default_hooks.reduce_scatter_hook(plain, grad, shard)
        return
    for v, part in zip(views, parts):
        v.copy_(part.view(v.shape))
    if shard is not None:
        shard.copy_(grad[state.rank * shard.numel():(state.rank + 1) * shard.numel()])
