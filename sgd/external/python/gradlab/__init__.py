"""Computes a model for gradlab: serve() for PyTorch, Worker for anything that makes numpy arrays.

The protocol is docs/external.md of gradlab.
"""
import json
import math
import os
import struct
import traceback

from gradlab.memory import Memory

VERSION = 2

clock = None  # of gradlab.virtual, where this process is a rank of a virtual cluster


def serve(model, loss_fn, train_set=None, test_set=None, **options):
    """Serves a torch.nn.Module to the engine that started this process; see gradlab.pytorch."""
    from gradlab import pytorch
    pytorch.Module(model, loss_fn, train_set, test_set, **options).run()


def ddp_hook(codec, model=None, **options):
    """A codec as communication hook of DistributedDataParallel; see gradlab.ddp."""
    from gradlab import ddp
    return ddp.ddp_hook(codec, model, **options)


def fsdp(model, codec, **options):
    """A codec for the gradients of a sharded model; see gradlab.sharded."""
    from gradlab import sharded
    return sharded.fsdp(model, codec, **options)


class Worker:
    """A model: subclass it, list its tensors, and write init, step and evaluate.

    tensors: a list of (name, (rows, cols), role), role one of weight, embedding, bias, norm, buffer.
    Params and gradients are dicts of float32 arrays of those shapes, by name.
    """

    tensors = []
    shapes = {}  # of tensors in a file of weights, by name, where they are not (rows, cols)
    # what evaluate measures beside the loss: "more" or "less", whichever is better, by the
    # metric's name, or with its unit: {"mae": "less", "delay": ("less", "ms")}
    metrics = {}
    counts = True  # whether evaluate counts correct predictions
    takes = ()  # what not every program is sent: "mixed" samples, "sides" that pictures have
    side = 0  # of the square pictures of this step, where it is not that of begin

    def begin(self, shape, classes):
        """Is told (channels, height, width) of a sample, and the number of classes.

        It may set tensors, and returns None or, by name, the floating-point operations
        of a forward pass of one sample in which a tensor takes part.
        """

    def at(self, side):
        """Of a worker that takes "sides": as begin, the operations on square pictures of a side,
        or an error if it cannot compute them."""
        raise NotImplementedError("at(side) is needed of a worker that takes sides")

    def init(self, params, seed):
        """Fills params in place."""
        raise NotImplementedError("init(params, seed) fills the first parameters")

    def step(self, params, x, y, seed, first, ready):
        """Returns (mean loss, gradients). x is (n, dim) float32, y is (n,) int32. Of a
        worker that takes "mixed" y may also be (n, classes) float32: the share of each class
        in a sample. One that takes "sides" finds that of the pictures in side, 0 for its own.

        Sample i is at position first + i of the stream: draw noise by (seed, first + i).
        ready(name, gradient) may hand a gradient over before the end; it is then not returned.
        """
        raise NotImplementedError("step(params, x, y, seed, first, ready) returns loss and gradients")

    def evaluate(self, params, x, y):
        """Returns (mean loss, number of correct predictions), and where metrics has names their
        means by name. What is counted where counts is False is not looked at."""
        raise NotImplementedError("evaluate(params, x, y) returns loss and correct predictions")

    def share(self, size, half, before):
        """Maps the memory that is shared with the engine, anew when it has grown."""
        return Memory(size, self.tensors, half, before)

    def run(self):
        """Serves the engine that started this process, until it ends it."""
        _Session(self).run()


def frame(body):
    """A message as it travels."""
    return struct.pack("<I", len(body)) + body


class _Session:
    def __init__(self, worker):
        self.worker = worker
        self.pipe = os.fdopen(3, "r+b", buffering=0)
        self.memory = None
        self.id = 0  # of the message that is being answered

    def read(self, n):
        out = b""
        while len(out) < n:
            part = self.pipe.read(n - len(out))
            if not part:
                raise SystemExit(0)  # the engine has ended
            out += part
        return out

    def send(self, op, **fields):
        self.write(frame(json.dumps(dict(op=op, id=self.id, **fields), allow_nan=False).encode()))

    def write(self, message):
        left = memoryview(message)
        while left:
            left = left[self.pipe.write(left):]

    def run(self):
        try:
            while True:
                (n,) = struct.unpack("<I", self.read(4))
                m = json.loads(self.read(n))
                self.id = m.get("id", 0)
                getattr(self, "on_" + m["op"])(m)
        except Exception:
            self.send("error", text=traceback.format_exc())
            raise SystemExit(1)

    def on_hello(self, m):
        values = m.get("values", "f32")
        if values not in ("f32", "bf16"):
            raise ValueError("the engine asks for values=%s; this package exchanges f32 and bf16" % values)
        self.half = values == "bf16"
        self.classes = m.get("classes", 0)
        flops = self.worker.begin(tuple(m.get("shape", ())), self.classes)
        self.ready = {t[0]: b'{"op":"ready","span":%d,"id":' % i for i, t in enumerate(self.worker.tensors)}
        self.layout(flops, takes=list(self.worker.takes), measures=self.measures(), **(dict(values=values) if self.half else {}))

    def measures(self):
        found = [dict(name="accuracy", unit="share")] if self.worker.counts else []
        found.append(dict(name="loss", less_is_better=True))
        for name, better in self.worker.metrics.items():
            better, unit = better if isinstance(better, (tuple, list)) else (better, "")
            if better not in ("more", "less"):
                raise ValueError("metric %s is better with %r; want \"more\" or \"less\"" % (name, better))
            found.append(dict(name=name, unit=unit, less_is_better=better == "less"))
        return found

    def on_side(self, m):
        self.layout(self.worker.at(m["side"]))

    def layout(self, flops, **fields):
        flops = flops or {}
        shapes = self.worker.shapes
        spans = [dict(name=n, rows=s[0], cols=s[1], role=r, flops=float(flops.get(n, 0)), shape=list(shapes.get(n, s)))
                 for n, s, r in self.worker.tensors]
        self.send("layout", version=VERSION, spans=spans, **fields)

    def on_map(self, m):
        self.memory = self.worker.share(m["size"], self.half, self.memory)

    def batch(self, m):
        self.memory.read()
        self.worker.side = m.get("side", 0)
        return self.memory.batch(m["n"], m.get("dim", 0), self.classes if m.get("mixed") else 0)

    def on_init(self, m):
        self.worker.init(self.memory.first, m.get("seed", 0))
        self.send("done")

    def on_step(self, m):
        left = set(self.ready)

        def tell(wait=False):
            for name in self.memory.arrived(wait):
                self.write(frame(self.ready[name] + b"%d}" % self.id))

        def ready(name, grad):
            if name not in left:
                raise ValueError("gradient of %r: no such tensor, or handed over twice" % name)
            left.discard(name)
            self.memory.write(name, grad)
            tell()

        x, y = self.batch(m)
        loss, grads = self.worker.step(self.memory.params, x, y, m.get("seed", 0), m.get("first", 0), ready)
        for name in reversed(list(grads)):
            ready(name, grads[name])
        if left:
            raise ValueError("no gradient for %s" % ", ".join(sorted(left)))
        tell(wait=True)
        self.done(loss)

    def on_evaluate(self, m):
        x, y = self.batch(m)
        loss, correct, *more = self.worker.evaluate(self.memory.params, x, y)
        metrics = {name: float(x) for name, x in more[0].items()} if more else {}
        for name, x in metrics.items():
            if name not in self.worker.metrics:
                raise ValueError("metric %s: whether more or less of it is better is not said; name it in metrics, such as "
                                 "metrics={%r: \"less\"}" % (name, name))
            if not math.isfinite(x):
                raise ValueError("metric %s is %s" % (name, x))
        self.done(loss, correct=int(correct), metrics=metrics)

    def done(self, loss, **fields):
        loss = float(loss)
        self.send("done", loss=loss if math.isfinite(loss) else None, **fields)
