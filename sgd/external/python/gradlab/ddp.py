"""Gradlab's codecs as a communication hook of DistributedDataParallel: gradlab.ddp_hook(codec)."""
import threading
import weakref
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gradlab
from gradlab import cuda
from gradlab.state import ENCODED, State, lent, named, role_of, sent


class Hooked(State):
    """The state of a hook, whose collectives are made by a thread of their own."""

    def __init__(self, codec, model=None, seed=0, process_group=None, device=False, start=0, scaler=None):
        super().__init__(codec, seed, process_group, device, start, scaler)
        # The model holds its hook, and not the other way round.
        self.model = weakref.ref(model) if model is not None else None
        self.finds_unused = getattr(model, "find_unused_parameters", False) and not getattr(model, "static_graph", False)
        self.called, self.known = {}, {}  # names and roles, and tensors, by a parameter's id
        self.copies = None  # where gradients are on a GPU
        self.act = None  # on a virtual cluster: the activity of the exchange that began last
        self.failed = None

    def names(self):
        return {name for name, _ in called(self.model()).values()} if self.model is not None else None

    def of(self, p):
        """The tensor of a parameter."""
        known = self.known.get(id(p))
        if known is None:
            # Buckets and their parameters come in the same order on all ranks.
            name, role = "p%d" % len(self.known), "weight" if p.dim() > 1 else "bias"
            if self.model is not None:
                if id(p) not in self.called:
                    self.called = called(self.model())
                if id(p) not in self.called:
                    raise ValueError("a parameter of shape %s is none of the model that ddp_hook was given" % (tuple(p.shape),))
                name, role = self.called[id(p)]
            known = self.known[id(p)] = p, self.tensor(name, role, p.shape)
        return known[1]

    def average(self, flat, params, last):
        """Replaces flat, the gradients of params one behind the other, by their mean over the ranks.

        A sparse gradient is a bucket of its own, and sent as it is.
        """
        dense = not flat.is_sparse and not self.as_it_is()
        if flat.is_sparse and not self.as_it_is():
            self.finite(flat)
        if not dense or not self.by_codec(flat, params):
            self.counts[1] += sent(flat) if flat.is_sparse else 4 * flat.numel()
            self.count(sent(flat), sent(flat))
            self.all_reduce(flat, dist.ReduceOp.SUM)
            flat.div_(self.world)
        if last:
            self.ended()

    def by_codec(self, flat, params):
        """As encoded, of the parameters that some rank has used, in the order of their elements, which
        is not that of memory where a parameter is channels_last."""
        tensors = [self.of(p) for p in params]
        if not tensors:
            return True
        if not self.finds_unused and all(p.is_contiguous() for p in params):
            return self.encoded(flat, tensors, 1 / self.world)
        parts = zip(params, flat.split([p.numel() for p in params]))
        views = [g.as_strided(p.shape, p.stride()) if dense(p) else g.view(p.shape) for p, g in parts]
        there = [(t, v) for t, v, used in zip(tensors, views, self.used(views)) if used]
        if there:
            whole = torch.cat([v.reshape(-1) for _, v in there])
            if not self.encoded(whole, [t for t, _ in there], 1 / self.world):
                return False
            for (_, v), part in zip(there, whole.split([v.numel() for _, v in there])):
                v.copy_(part.view(v.shape))
        return True

    def used(self, gradients):
        """Which gradients are not 0 on all ranks. DistributedDataParallel hands over none where it finds that
        no rank has used a parameter, so what was owed and sent with it would be lost."""
        if not self.finds_unused:
            return [True] * len(gradients)
        there = torch.stack([g.count_nonzero() for g in gradients]).clamp(max=1).to(torch.int32)
        there = there if self.on_device else there.cpu()
        self.count(0, 4 * len(gradients))
        self.all_reduce(there, dist.ReduceOp.MAX)
        return there.bool().tolist()

    def average_as_it_is(self, flat, last):
        """Begins what average does, of gradients that are summed where they lie: no thread is needed."""
        self.counts[1] += sent(flat) if flat.is_sparse else 4 * flat.numel()
        self.count(sent(flat), sent(flat))
        if last:
            self.ended()
        lent.append(flat)
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        return work.get_future().then(lambda sum: sum.value()[0].div_(self.world))


def dense(p):
    """Whether a parameter's elements fill its memory, in whatever order: its gradient has the same."""
    at = 1
    for size, stride in sorted(zip(p.shape, p.stride()), key=lambda of: (of[1], of[0])):
        if size != 1 and stride != at:
            return False
        at *= size
    return True


def called(model):
    """The names and roles of a model's parameters, by their ids; none of a model that is gone."""
    while isinstance(model, DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = getattr(model, "_orig_mod", None) or model.module
    out = {}
    for prefix, m in model.named_modules() if model is not None else ():
        for name, p in m.named_parameters(recurse=False):
            out.setdefault(id(p), (named((prefix + "." if prefix else "") + name), role_of(m, p.shape)))
    return out


def ddp_hook(codec, model=None, seed=0, process_group=None, device=False, start=0, scaler=None):
    """A state and a hook: model.register_comm_hook(state, hook).

    codec: spec text, such as feedback(topk(keep=0.01)).
    model: the DistributedDataParallel, which gives codecs the names and roles of tensors. Without it
        they are p0, p1, … in the order in which their gradients come, and norms have the roles
        weight and bias; and what is sent with a gradient that no rank has is lost.
    seed: of codecs that draw.
    process_group: where the collectives go. All ranks must then use it for nothing else
        while a backward pass runs. Without it the hook makes a group of all ranks,
        with the timeout that init_process_group was given.
    device: encode where the gradients are, in torch operations, to the same bytes. Codecs that
        have no such form are encoded on the host, with a warning.
    start: the first step whose gradients are encoded; those before are averaged as they are.
    scaler: the GradScaler that scales the loss. Codecs then see gradients without its scale. A step
        that is not finite on some rank is averaged as it is on all of them, so that the scaler
        skips it, and what codecs keep is as before it.
    """
    return Hooked(codec, model, seed, process_group, device, start, scaler), average


def average(state, bucket, *shard):
    """The hook: gives a bucket's gradients to the thread that exchanges them."""
    if isinstance(bucket, torch.Tensor):  # with its shard, or alone
        raise TypeError("FullyShardedDataParallel has a hook of its own: gradlab.fsdp(model, codec)")
    flat = bucket.buffer()
    if flat.is_sparse:
        flat = flat.coalesce()
    if state.as_it_is() and gradlab.clock is None:
        return state.average_as_it_is(flat, bucket.is_last())
    params = [p for p in bucket.parameters() if p.numel() > 0]
    if not state.as_it_is() and not flat.is_sparse:
        tensors = [state.of(p) for p in params]  # what the codec refuses is told here
        if flat.dtype not in ENCODED and tensors:
            raise TypeError("the gradient of %s is %s; gradlab's codecs encode float32, float16 and bfloat16, raw sends others too"
                            % (tensors[0].name, flat.dtype))
    if not state.threads:
        state.threads.append(threading.Thread(target=exchanges, args=(weakref.ref(state), state.due), name="gradlab", daemon=True))
        state.threads[0].start()
    done, after = torch.futures.Future(), None
    if flat.is_cuda:
        if state.copies is None:
            state.copies = cuda.Copies(flat.device)
        done, after = torch.futures.Future(devices=[flat.device]), state.copies.mark()
    if gradlab.clock is not None:
        # On a virtual cluster the exchange is an activity that begins here, behind the one before.
        state.act = gradlab.clock.fork([("join", state.act)] if state.act is not None else ())
    state.due.put((flat, params, bucket.is_last(), done, state.act, after))
    return done.then(delivered)


def delivered(future):
    """What a hook's future was given: a gradient, or the error that ended the exchange.

    DistributedDataParallel takes a future for failed only if it comes of a callback that raised.
    """
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


def exchanges(state, due):
    """Exchanges buckets one after the other, as all ranks do, beside the backward pass."""
    while True:
        job = due.get()
        of = state()
        if job is None or of is None:
            return
        flat, params, last, done, act, after = job
        try:
            if of.failed is not None:
                raise of.failed
            # What waits for the future waits for the stream that is the current one here.
            with nullcontext() if after is None else of.copies.behind(after):
                with nullcontext() if act is None else gradlab.clock.act(act):
                    of.average(flat, params, last)
                done.set_result(flat)
        except Exception as why:  # the ranks are no longer at one: nothing more can be exchanged
            of.failed = why
            done.set_result(why)
        del of, job, flat, params, done
