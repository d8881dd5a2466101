"""A codec's exchanges of the gradients of a model: what ddp.py and sharded.py have in common."""
import atexit
import collections
import ctypes
import math
import queue
import threading
import warnings
import weakref

import torch
import torch.distributed as dist

from gradlab.device_hook import OnDevice
from gradlab.library import F64, I64, PTR, SKIPPED, TEXT, NotFinite, bytes_of, call, library, spec

# What a round asks for, in the order of gradlab_asks: vectors, then bytes.
VECTORS = (torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int16)
GATHER, EVEN, SCATTER = 6, 7, 8

# What collectives of gloo cannot carry goes as the next wider type that they can.
WIDER = {torch.bfloat16: torch.float32, torch.int16: torch.int32}

# Gradients that codecs encode, as float32.
ENCODED = (torch.float32, torch.float16, torch.bfloat16)

# Parts of a parameter's name that are a wrapper's and not the model's.
WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


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


def named(name):
    """A parameter's name in the model itself, whatever wraps it."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def role_of(module, shape):
    """What a parameter of a module is for."""
    from gradlab.pytorch import is_norm, is_table
    return "norm" if is_norm(module) else "embedding" if is_table(module) else "weight" if len(shape) > 1 else "bias"


def as_tensor(b):
    """Bytes as torch.load takes them by default."""
    return torch.frombuffer(bytearray(b), dtype=torch.uint8) if b else torch.empty(0, dtype=torch.uint8)


# A tensor of the session: its number there, and what it is known by.
Tensor = collections.namedtuple("Tensor", "id name role rows cols")


def size(t):
    return t.rows * t.cols


class State:
    """What a codec keeps between steps, and what it has sent.

    A tensor is known by its name in the model, its role and its shape: whatever wraps the
    model and in whichever bucket its gradient comes, what is kept of it goes on.

    epoch and lr are told to codecs that want them; set them as training goes on.
    steps counts the steps made. bytes is what this rank's encodings took in the last of
    them, raw_bytes what its gradients would have taken as float32, wire_bytes what it
    handed to collectives: with lengths, padding, and elements widened to a type that the
    backend can carry. total_bytes is the sum of bytes over all steps. void is the last step
    that was not finite on some rank, -1 before there is one. device says whether
    encodings are made where the gradients are.
    """

    def __init__(self, codec, seed=0, process_group=None, device=False, start=0, scaler=None):
        self.codec, self.start, self.scaler = spec(codec), start, scaler
        # Collectives of a hook are made by a thread of its own, so they need a group of
        # their own: theirs would else get between those of the training loop.
        self.group = process_group if process_group is not None else dist.new_group(**timeout())
        self.rank, self.world = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.session = call("gradlab_open", TEXT(self.codec.encode()), I64(self.rank), I64(self.world), ctypes.c_uint64(seed))
        self.plain = call("gradlab_plain", I64(self.session)) == 1
        self.local = OnDevice(self.codec, self.rank, seed) if device and not self.plain else None
        if self.local is not None and not self.local.there:
            warnings.warn("codec %s has no form in torch operations, so gradients are encoded on the host: on a GPU they are copied "
                          "there and back. bf16, fp16, sign, qsgd and topk have one, and feedback around them." % self.codec, stacklevel=5)
            self.local = None
        self.device = device and (self.plain or self.local is not None)
        backend = dist.get_backend(self.group)
        self.wider = WIDER if backend == "gloo" else {}
        self.on_device = backend == "nccl"
        self.epoch = self.lr = 0.0
        self.steps = self.bytes = self.raw_bytes = self.wire_bytes = self.total_bytes = 0
        self.counts, self.void, self.scale = [0, 0, 0], -1, 1.0
        self.tensors, self.before = {}, {}  # before: with a scaler, what tensors kept before this step
        self.kept, self.asked = {}, (ctypes.c_int64 * (SCATTER + self.world))()
        self.due, self.threads = queue.Queue(), []  # of a hook's thread
        weakref.finalize(self, end, self.due, self.threads, self.session)

    def names(self):
        """The names of the model's tensors; None: they are not known."""
        return None

    def as_it_is(self):
        """Whether this step's gradients are summed without the codec."""
        return self.plain or self.steps < self.start

    def tensor(self, name, role, shape):
        """The tensor of a name."""
        rows = shape[0] if len(shape) > 1 else 1
        cols = math.prod(shape) // rows
        t = self.tensors.get(name)
        if t is None:
            i = call("gradlab_add", I64(self.session), TEXT(name.encode()), TEXT(role.encode()), I64(rows), I64(cols))
            t = self.tensors[name] = Tensor(i, name, role, rows, cols)
        elif (t.role, t.rows, t.cols) != (role, rows, cols):
            raise ValueError("%s is a %s of %d by %d; what is kept under that name is of a %s of %d by %d"
                             % (name, role, rows, cols, t.role, t.rows, t.cols))
        return t

    def state_dict(self):
        """What this rank must keep over a restart: every rank has its own."""
        tensors = {t.name: dict(role=t.role, rows=t.rows, cols=t.cols, state=as_tensor(self.kept_of(t))) for t in self.tensors.values()}
        return dict(codec=self.codec, steps=self.steps, total_bytes=self.total_bytes, world=self.world, rank=self.rank, tensors=tensors)

    def load_state_dict(self, state):
        """Takes what state_dict gave to the same rank of as many ranks under the same codec; or a list
        of what it gave to all ranks, however many they were.

        From another number of ranks each takes over the mean of what theirs had left to be sent.
        """
        ranks = [state] if isinstance(state, dict) else sorted(state, key=lambda s: s["rank"])
        for s in ranks:
            if s["codec"] != self.codec:
                raise ValueError("the state is of codec %s, not of %s" % (s["codec"], self.codec))
        if not isinstance(state, dict):
            if [(s["rank"], s["world"]) for s in ranks] != [(r, len(ranks)) for r in range(len(ranks))]:
                raise ValueError("states of ranks %s; want one of each rank"
                                 % ", ".join("%d of %d" % (s["rank"], s["world"]) for s in ranks))
            if len(ranks) == self.world:
                ranks = [ranks[self.rank]]
        elif (state["rank"], state["world"]) != (self.rank, self.world):
            raise ValueError("the state is of rank %d of %d, this is rank %d of %d: give load_state_dict a list of all ranks' states"
                             % (state["rank"], state["world"], self.rank, self.world))
        names = self.names()
        for name, of in ranks[0]["tensors"].items():
            if names is not None and name not in names:
                raise ValueError("the state has a tensor %s; the model has none of that name, but %s"
                                 % (name, ", ".join(sorted(names)[:3] + ["…"][:len(names) > 3])))
            t = self.tensor(name, of["role"], (of["rows"], of["cols"]))
            self.restore(t, [s["tensors"][name]["state"].numpy().tobytes() for s in ranks])
        self.steps = ranks[0]["steps"]
        self.total_bytes = sum(s["total_bytes"] for s in (ranks if len(ranks) == 1 else ranks[self.rank::self.world]))

    def kept_of(self, t):
        return self.local.state(t.name) if self.local is not None else bytes_of("gradlab_state", I64(self.session), I64(t.id))

    def restore(self, t, states):
        if self.local is None or len(states) > 1:
            n = len(states)
            call("gradlab_restore", I64(self.session), I64(t.id), I64(n), (ctypes.c_char_p * n)(*states),
                 (ctypes.c_int64 * n)(*map(len, states)))
        if self.local is not None:
            kept = states[0] if len(states) == 1 else bytes_of("gradlab_state", I64(self.session), I64(t.id))
            self.local.codec(t.name, size(t)).restore(kept)

    def encoded(self, flat, tensors, factor):
        """Replaces flat, the gradients of tensors one behind the other, by factor times their sum over the
        ranks, as the codec encodes them.

        Says whether it did: a step that is not finite on some rank is the caller's, as it is.
        """
        if not self.finite(flat):
            return False
        self.counts[1] += 4 * flat.numel()
        if self.scaler is not None:
            self.before.update((t, self.kept_of(t)) for t in tensors)
            factor *= self.scale
        if self.local is not None:
            host = flat if self.scale == 1 else flat.float() * (1 / self.scale)
            done = self.unless_beyond(lambda: self.local.average(self, host, [(t.name, size(t)) for t in tensors], factor))
        else:
            host = flat
            if flat.dtype != torch.float32 or flat.is_cuda:
                # In one stream a buffer is not written to before it has been read.
                host = self.space("host", flat.numel(), torch.float32, pinned=flat.is_cuda)
                host.copy_(flat.float() if flat.is_cuda else flat, non_blocking=flat.is_cuda)
                if flat.is_cuda:
                    torch.cuda.current_stream().synchronize()
            if self.scale != 1:
                host.mul_(1 / self.scale)
            done = self.exchange(host, tensors, factor)
        if done and host is not flat:
            flat.copy_(host.to(flat.device, non_blocking=True))
        if not done:
            self.undo()
            flat.fill_(math.inf)
        return True

    def finite(self, flat):
        """Whether a step is finite on all ranks so far, where a scaler wants to know. All ranks say the
        same, and what the step has changed is undone where they say no."""
        if self.scaler is None:
            return True
        if self.void == self.steps:
            return False
        if not self.before:
            self.scale = self.scaler.get_scale()
        values = flat._values() if flat.is_sparse else flat
        worst = torch.tensor([0.0 if values.isfinite().all() else 1.0], device="cuda" if self.on_device else "cpu")
        self.count(0, 4)
        self.all_reduce(worst, dist.ReduceOp.MAX)
        if worst.item() == 0:
            return True
        self.undo()
        return False

    def undo(self):
        """Takes the step back: what was kept before it is kept."""
        for t, kept in self.before.items():
            self.restore(t, [kept])
        self.before.clear()
        self.void = self.steps

    def unless_beyond(self, output):
        """Says whether output() gives what is finite: with a scaler, all ranks go on where it does not."""
        try:
            output()
        except NotFinite:
            if self.scaler is None:
                raise
            return False
        return True

    def ended(self):
        """Ends the step's accounts."""
        self.bytes, self.raw_bytes, self.wire_bytes = self.counts
        self.counts = [0, 0, 0]
        self.before.clear()
        self.steps, self.total_bytes = self.steps + 1, self.total_bytes + self.bytes

    def exchange(self, host, tensors, factor):
        n, at = len(tensors), host.data_ptr()
        ids = (ctypes.c_int64 * n)(*(t.id for t in tensors))
        sizes = (ctypes.c_int64 * n)(*(size(t) for t in tensors))
        grads = (ctypes.c_void_p * n)()
        for i, of in enumerate(sizes):
            grads[i], at = at, at + 4 * of
        try:
            bucket = I64(call("gradlab_begin", I64(self.session), I64(self.steps), F64(self.epoch), F64(self.lr),
                              I64(n), ids, sizes, grads))
        except NotFinite as why:
            raise NotFinite(str(why) + SKIPPED) from None
        try:
            turn = 0
            while call("gradlab_asks", bucket, I64(self.world), self.asked):
                asked = list(self.asked)
                for what, dtype in enumerate(VECTORS):
                    if asked[what]:
                        self.reduce(bucket, what, asked[what], dtype)
                if asked[GATHER]:
                    self.gather(bucket, turn, asked[GATHER], asked[EVEN])
                if any(asked[SCATTER:]):
                    self.scatter(bucket, turn, asked[SCATTER:])
                call("gradlab_next", bucket)
                turn += 1
            return self.unless_beyond(lambda: call("gradlab_output", bucket, grads, ctypes.c_float(factor)))
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

    def reduce(self, bucket, what, n, dtype):
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


def end(due, threads, session):
    """Ends the thread, before the interpreter ends: one that is then still within torch
    takes the process with it. A thread that waits for ranks that are gone is not waited for."""
    due.put(None)
    for t in threads:
        if t is not threading.current_thread():
            t.join(timeout=10)
    library().gradlab_close(session)
