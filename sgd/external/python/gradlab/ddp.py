"""Gradlab's codecs as a communication hook of DistributedDataParallel: gradlab.ddp_hook(codec)."""
import atexit
import collections
import ctypes
import queue
import threading
import warnings
import weakref
from contextlib import nullcontext

import torch
import torch.distributed as dist

import gradlab
from gradlab import cuda
from gradlab.device_hook import OnDevice
from gradlab.library import F64, I64, PTR, TEXT, bytes_of, call, library, spec

# What a round asks for, in the order of gradlab_asks: vectors, then bytes.
VECTORS = (torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int16)
GATHER, EVEN, SCATTER = 6, 7, 8

# What collectives of gloo cannot carry goes as the next wider type that they can.
WIDER = {torch.bfloat16: torch.float32, torch.int16: torch.int32}


# Tensors that collectives were given last. A thread of gloo lets go of a tensor a little
# after its collective is over; where it is the last to do so and the interpreter is ending,
# PyTorch aborts the process. So these live on, and at the end for good.
lent = collections.deque(maxlen=256)


@atexit.register
def immortal():
    for t in lent:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(t))


def timeout():
    """The timeout of init_process_group, as an argument of new_group, which has 30 minutes of its own; {}: PyTorch does not say it."""
    group = dist.distributed_c10d._get_default_group()
    places = [lambda: group] + [lambda d=d: group._get_backend(torch.device(d)) for d in ("cpu", "cuda")]
    for place in places:
        try:
            return {"timeout": place().options._timeout}
        except (AttributeError, RuntimeError):  # of other versions, or a device that the group does not serve
            pass
    return {}


def sent(t):
    """Bytes of a tensor as it is; of a sparse one, those of its indices and values."""
    return sent(t._indices()) + sent(t._values()) if t.is_sparse else t.numel() * t.element_size()


class State:
    """What a codec keeps between steps, and what it has sent.

    epoch and lr are told to codecs that want them; set them as training goes on.
    steps counts the steps made. bytes is what this rank's encodings took in the last of
    them, raw_bytes what its gradients would have taken as float32, wire_bytes what it
    handed to collectives: with lengths, padding, and elements widened to a type that the
    backend can carry. total_bytes is the sum of bytes over all steps. device says whether
    encodings are made where the gradients are.
    """

    def __init__(self, codec, model=None, seed=0, process_group=None, device=False):
        self.codec = spec(codec)
        # Collectives of the hook are made by a thread of its own, so they need a group of
        # their own: theirs would else get between those of the training loop.
        self.group = process_group if process_group is not None else dist.new_group(**timeout())
        self.rank, self.world = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.session = call("gradlab_open", TEXT(self.codec.encode()), I64(self.rank), I64(self.world), ctypes.c_uint64(seed))
        self.plain = call("gradlab_plain", I64(self.session)) == 1
        self.local = OnDevice(self.codec, self.rank, seed) if device and not self.plain else None
        if self.local is not None and not self.local.there:
            warnings.warn("codec %s has no form in torch operations, so gradients are encoded on the host: on a GPU they are copied "
                          "there and back. bf16, fp16, sign, qsgd and topk have one, and feedback around them." % self.codec, stacklevel=4)
            self.local = None
        self.device = device and (self.plain or self.local is not None)
        backend = dist.get_backend(self.group)
        self.wider = WIDER if backend == "gloo" else {}
        self.on_device = backend == "nccl"
        self.epoch = self.lr = 0.0
        self.steps = self.bytes = self.raw_bytes = self.wire_bytes = self.total_bytes = 0
        self.counts = [0, 0, 0]
        self.ids, self.names, self.restored = {}, [], {}
        self.called = called(model) if model is not None else None
        self.copies = None  # where gradients are on a GPU
        self.act = None  # on a virtual cluster: the activity of the exchange that began last
        self.kept, self.asked = {}, (ctypes.c_int64 * (SCATTER + self.world))()
        self.due, self.threads, self.failed = queue.Queue(), [], None
        weakref.finalize(self, end, self.due, self.threads, self.session)

    def state_dict(self):
        """What this rank must keep over a restart: every rank has its own."""
        tensors = {name: self.kept_of(i, name) for i, name in enumerate(self.names)}
        return dict(codec=self.codec, steps=self.steps, total_bytes=self.total_bytes, world=self.world, rank=self.rank,
                    tensors={**self.restored, **tensors})

    def load_state_dict(self, state):
        """Takes what state_dict gave to the same rank of as many ranks under the same codec."""
        for key in ("codec", "world", "rank"):
            if state[key] != getattr(self, key):
                raise ValueError("the state is of %s %s, not of %s" % (key, state[key], getattr(self, key)))
        self.steps, self.total_bytes, self.restored = state["steps"], state["total_bytes"], dict(state["tensors"])
        for i, name in enumerate(self.names):
            self.restore(i, name)

    def kept_of(self, i, name):
        return self.local.state(name) if self.local is not None else bytes_of("gradlab_state", I64(self.session), I64(i))

    def restore(self, i, name):
        if name in self.restored:
            b = self.restored.pop(name)
            if self.local is not None:
                self.local.restored[name] = b
                return
            call("gradlab_restore", I64(self.session), I64(i), b, I64(len(b)))

    def id(self, p):
        """The number of a parameter's tensor."""
        i = self.ids.get(id(p))
        if i is None:
            # Buckets and their parameters come in the same order on all ranks.
            name, role = ("p%d" % len(self.ids), "weight" if p.dim() > 1 else "bias")
            if self.called is not None:
                if id(p) not in self.called:
                    raise ValueError("a parameter of shape %s is none of the model that ddp_hook was given" % (tuple(p.shape),))
                name, role = self.called[id(p)]
            rows = p.shape[0] if p.dim() > 1 else 1
            i = call("gradlab_add", I64(self.session), TEXT(name.encode()), TEXT(role.encode()), I64(rows), I64(p.numel() // rows))
            self.names.append(name)
            self.ids[id(p)] = i
            self.restore(i, name)
        return i

    def average(self, flat, params, last):
        """Replaces flat, the gradients of params one behind the other, by their mean over the ranks.

        A sparse gradient is a bucket of its own, and sent as it is.
        """
        self.counts[1] += sent(flat) if flat.is_sparse else 4 * flat.numel()
        if self.plain or flat.is_sparse:
            self.count(sent(flat), sent(flat))
            self.all_reduce(flat, dist.ReduceOp.SUM)
            flat.div_(self.world)
        elif not params:
            pass  # tensors without elements
        elif self.local is not None:
            self.local.average(self, flat, [(self.names[self.id(p)], p.numel()) for p in params])
        else:
            host = flat
            if flat.dtype != torch.float32 or flat.is_cuda:
                # In one stream a buffer is not written to before it has been read.
                host = self.space("host", flat.numel(), torch.float32, pinned=flat.is_cuda)
                host.copy_(flat.float() if flat.is_cuda else flat, non_blocking=flat.is_cuda)
                if flat.is_cuda:
                    self.copies.stream.synchronize()
            self.exchange(host, params)
            if host is not flat:
                flat.copy_(host.to(flat.device, non_blocking=True))
        if last:
            self.ended()

    def ended(self):
        """Ends the step's accounts."""
        self.bytes, self.raw_bytes, self.wire_bytes = self.counts
        self.counts = [0, 0, 0]
        self.steps, self.total_bytes = self.steps + 1, self.total_bytes + self.bytes

    def average_as_it_is(self, flat, last):
        """Begins what average does, of gradients that are summed where they lie: no thread is needed."""
        self.counts[1] += sent(flat) if flat.is_sparse else 4 * flat.numel()
        self.count(sent(flat), sent(flat))
        if last:
            self.ended()
        lent.append(flat)
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        return work.get_future().then(lambda sum: sum.value()[0].div_(self.world))

    def exchange(self, host, params):
        n, at = len(params), host.data_ptr()
        ids = (ctypes.c_int64 * n)(*(self.id(p) for p in params))
        sizes = (ctypes.c_int64 * n)(*(p.numel() for p in params))
        grads = (ctypes.c_void_p * n)()
        for i, size in enumerate(sizes):
            grads[i], at = at, at + 4 * size
        bucket = I64(call("gradlab_begin", I64(self.session), I64(self.steps), F64(self.epoch), F64(self.lr), I64(n), ids, sizes, grads))
        try:
            turn = 0
            while call("gradlab_asks", bucket, I64(self.world), self.asked):
                asked = list(self.asked)
                for what, dtype in enumerate(VECTORS):
                    if asked[what]:
                        self.reduce(bucket, what, asked[what], dtype, host)
                if asked[GATHER]:
                    self.gather(bucket, turn, asked[GATHER], asked[EVEN])
                if any(asked[SCATTER:]):
                    self.scatter(bucket, turn, asked[SCATTER:])
                call("gradlab_next", bucket)
                turn += 1
            call("gradlab_output", bucket, grads, ctypes.c_float(1 / self.world))
        except BaseException:
            library().gradlab_close(bucket)
            raise

    def space(self, what, n, dtype, pinned=False, device=None):
        """n elements that are used again in the next step."""
        t = self.kept.get((what, dtype))
        if t is None or t.numel() < n:
            t = self.kept[what, dtype] = torch.empty(n, dtype=dtype, pin_memory=pinned, device=device)
        return t[:n]

    def count(self, encoded, handed):
        self.counts[0] += encoded
        self.counts[2] += handed

    def reduce(self, bucket, what, n, dtype, host):
        t = self.space(what, n, dtype)
        call("gradlab_put", bucket, I64(what), PTR(t.data_ptr()), I64(n * t.element_size()))
        sent = t
        if dtype in self.wider:
            sent = self.space(("wide", what), n, self.wider[dtype])
            sent.copy_(t)
        if self.on_device:
            sent = sent.cuda()
        self.count(n * t.element_size(), n * sent.element_size())
        self.all_reduce(sent, dist.ReduceOp.MAX if what == 0 else dist.ReduceOp.SUM)
        if sent is not t:
            t.copy_(sent)
        call("gradlab_take", bucket, I64(what), PTR(t.data_ptr()), I64(n * t.element_size()))

    def all_reduce(self, t, op):
        lent.append(t)
        dist.all_reduce(t, op=op, group=self.group)

    def lengths(self, mine):
        """The lengths that every rank has, mine being a list."""
        own = torch.tensor(mine)
        got = [torch.empty_like(own) for _ in range(self.world)]
        self.all_gather(got, own)
        self.count(0, 8 * len(mine))
        return [t.tolist() for t in got]

    def gather(self, bucket, turn, n, even):
        sizes = [n] * self.world if even else [l[0] for l in self.lengths([n])]
        most = max(sizes)
        own = self.space(("own", turn), most, torch.uint8)
        call("gradlab_put_parts", bucket, I64(-1), PTR(own.data_ptr()), I64(n))
        all = self.space(("all", turn), most * self.world, torch.uint8)
        self.count(n, most)
        self.all_gather(list(all.split(most)), own)
        self.take(bucket, 0, [all.data_ptr() + r * most for r in range(self.world)], sizes)

    def all_gather(self, parts, own):
        if own.is_cuda or not self.on_device:
            lent.extend(parts + [own])
            dist.all_gather(parts, own, group=self.group)
            return
        there = [torch.empty_like(p, device="cuda") for p in parts]
        dist.all_gather(there, own.cuda(), group=self.group)
        for p, t in zip(parts, there):
            p.copy_(t)

    def scatter(self, bucket, turn, sizes):
        """Every rank gets what the others have for it. Where the backend has no all-to-all,
        all ranks get all of it."""
        ranks = self.lengths(sizes)
        most = max(sum(r) for r in ranks)
        own = self.space(("slices", turn), most, torch.uint8)
        at = 0
        for to, n in enumerate(sizes):
            call("gradlab_put_parts", bucket, I64(to), PTR(own.data_ptr() + at), I64(n))
            at += n
        all = self.space(("all slices", turn), most * self.world, torch.uint8)
        self.count(sum(n for to, n in enumerate(sizes) if to != self.rank), most)
        self.all_gather(list(all.split(most)), own)
        self.take(bucket, 1, [all.data_ptr() + r * most + sum(ranks[r][:self.rank]) for r in range(self.world)],
                  [r[self.rank] for r in ranks])

    def take(self, bucket, scattered, parts, sizes):
        call("gradlab_take_parts", bucket, I64(scattered), I64(self.world), (ctypes.c_void_p * self.world)(*parts), (ctypes.c_int64 * self.world)(*sizes))


def called(model):
    """The names and roles of a model's parameters."""
    from gradlab.pytorch import roles_of
    model = getattr(model, "module", model)
    roles = roles_of(model)
    return {id(p): (name, roles[id(p)]) for name, p in model.named_parameters()}


def ddp_hook(codec, model=None, seed=0, process_group=None, device=False):
    """A state and a hook: model.register_comm_hook(state, hook).

    codec: spec text, such as feedback(topk(keep=0.01)).
    model: gives codecs the names and roles of tensors. Without it they are p0, p1, … in the
        order in which their gradients come, and norms have the roles weight and bias.
    seed: of codecs that draw.
    process_group: where the collectives go. All ranks must then use it for nothing else
        while a backward pass runs. Without it the hook makes a group of all ranks,
        with the timeout that init_process_group was given.
    device: encode where the gradients are, in torch operations, to the same bytes. Codecs that
        have no such form are encoded on the host, with a warning.
    """
    return State(codec, model, seed, process_group, device), average


def average(state, bucket, *shard):
    """The hook: gives a bucket's gradients to the thread that exchanges them."""
    if isinstance(bucket, torch.Tensor):  # with its shard, or alone
        raise TypeError("FullyShardedDataParallel hands over one vector of many tensors, or a part of it. Gradlab's codecs work on "
                        "tensors: use DistributedDataParallel")
    flat = bucket.buffer()
    if flat.dtype == torch.float64:
        raise TypeError("gradients are float64; gradlab's codecs encode float32")
    if flat.is_sparse:
        flat = flat.coalesce()
    if state.plain and gradlab.clock is None:
        return state.average_as_it_is(flat, bucket.is_last())
    if not state.threads:
        state.threads.append(threading.Thread(target=exchanges, args=(weakref.ref(state), state.due), name="gradlab", daemon=True))
        state.threads[0].start()
    done, after = torch.futures.Future(), None
    if flat.is_cuda:
        if state.copies is None:
            state.copies = cuda.Copies(flat.device)
        done, after = torch.futures.Future(devices=[flat.device]), state.copies.mark()
    params = [p for p in bucket.parameters() if p.numel() > 0]
    if not state.plain and not flat.is_sparse:
        for p in params:
            state.id(p)  # what the codec refuses is told here
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


def end(due, threads, session):
    """Ends the thread, before the interpreter ends: one that is then still within torch
    takes the process with it. A thread that waits for ranks that are gone is not waited for."""
    due.put(None)
    for t in threads:
        if t is not threading.current_thread():
            t.join(timeout=10)
    library().gradlab_close(session)
