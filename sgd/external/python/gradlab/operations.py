"""What operations of a virtual cluster's groups are made of: their arguments, and their ends."""
import functools
import inspect
import threading

import torch
from torch._C import _distributed_c10d as c10d

from gradlab import futures

# Gloo has no sums of these types; the cluster is told of the narrow ones.
WIDER = {torch.bfloat16: torch.float32, torch.int16: torch.int32}


class Waiter(c10d.Work):
    """An operation: complete when gloo has moved the numbers, and later on the virtual clock.

    outputs is the result where it is not gloo's own, and finish puts it there.
    """

    def __init__(self, clock, id, inner, outputs=None, finish=None):
        super().__init__()
        self.clock, self.id, self.inner = clock, id, inner
        self.outputs, self.finish, self.lock = outputs, finish, threading.Lock()

    def settle(self):
        """Puts the result where it belongs, once."""
        with self.lock:
            if self.finish is not None:
                with torch.no_grad():
                    self.finish()
                self.finish = None

    def wait(self, *timeout):
        self.clock.tell("wait", id=self.id)
        try:
            done = self.inner.wait(*timeout)
            self.settle()
            return done
        finally:
            self.clock.skip()

    def get_future(self):
        future = self.inner.get_future()
        if self.outputs is not None:
            future = futures.plain_then(future, lambda f: (f.value(), self.settle(), self.outputs)[2])
        return futures.stand(future, self.clock, [("wait", self.id)])

    def is_completed(self):
        """Whether the result is there: a caller that knows it has waited for it."""
        if not self.inner.is_completed():
            return False
        self.settle()
        self.clock.tell("wait", id=self.id)
        return True

    def is_success(self):
        return self.inner.is_success()

    def exception(self):
        return self.inner.exception()

    def result(self):
        if self.outputs is None:
            return self.inner.result()
        self.settle()
        return self.outputs

    def _source_rank(self):
        return self.inner._source_rank()

    source_rank = _source_rank

    def synchronize(self):
        self.wait()


def size(tensors):
    """Bytes of tensors; of a sparse one, those of its indices and values."""
    return sum(size([t._indices(), t._values()]) if t.is_sparse else t.numel() * t.element_size() for t in tensors)


def in_order(t, wider=False):
    """The tensor, or a copy that gloo can take: it reads memory in order, and does not add up all types."""
    if t.layout != torch.strided:
        return t
    return (t.to(WIDER[t.dtype]) if wider and t.dtype in WIDER else t).contiguous()


def results(tensors, wider=False):
    """Tensors for gloo to write to, and what copies them to their places; None: they are the places."""
    for t in tensors:
        if t.layout == torch.strided and torch._debug_has_internal_overlap(t) == 1:
            raise ValueError("elements of a tensor of shape %s and strides %s share memory, so no result can be written there; give t.clone()"
                             % (tuple(t.shape), t.stride()))
    moved = [in_order(t, wider) for t in tensors]
    if all(t is m for t, m in zip(tensors, moved)):
        return moved, None

    def finish():
        for t, m in zip(tensors, moved):
            if t is not m:
                t.copy_(m)

    return moved, finish


FIELDS = dict(root="rootRank", op="reduceOp", timeout="timeout")


def overloads(kind, *fields, empty=(), lists=True):
    """A method takes what that of ProcessGroup takes: lists of tensors and options of a kind, or
    this rank's tensors and fields of the options. Lists of the names in empty may be."""
    fields += ("timeout",)

    def decorate(method):
        names = list(inspect.signature(method).parameters)[1:-1]

        @functools.wraps(method)
        def collective(self, *args, **named):
            args, rest = list(args[:len(names)]), list(args[len(names):])
            for name in names[len(args):]:
                key = next((k for k in (name, name[:-1]) if k in named), None)
                if key is None:
                    raise TypeError("%s: argument %s is missing" % (method.__name__, name))
                args.append(named.pop(key))
            opts = rest.pop(0) if rest and (rest[0] is None or isinstance(rest[0], kind)) else named.pop("opts", None)
            opts = kind() if opts is None else opts
            if len(rest) > len(fields) or not named.keys() <= set(fields):
                raise TypeError("%s takes %s, and options or %s" % (method.__name__, ", ".join(names) or "no tensor", ", ".join(fields)))
            for field, value in list(zip(fields, rest)) + list(named.items()):
                if value is not None:
                    setattr(opts, FIELDS[field], value)
            if lists:
                if any(isinstance(a, torch.Tensor) for a in args):
                    args = [[a] if len(names) == 1 or isinstance(a, torch.Tensor) or a else [] for a in args]
                for name, a in zip(names, args):
                    if not a and name not in empty:
                        raise ValueError("%s: %s is empty; want at least one tensor" % (method.__name__, name))
                    if a and isinstance(a[0], (list, tuple)) and (len(a) > 1 or not a[0]):
                        raise ValueError("%s: %s is %d lists of tensors; want one, and not an empty one" % (method.__name__, name, len(a)))
            return method(self, *args, opts)

        return collective

    return decorate


def one_type(what, tensors):
    """The type that all tensors have."""
    if len({t.dtype for t in tensors}) != 1:
        raise ValueError("%s of tensors of %s at once; want one type" % (what, ", ".join(sorted({str(t.dtype) for t in tensors}))))
    return tensors[0].dtype


def then(operation, finish, outputs):
    """An operation whose result goes on to outputs."""
    first = operation.finish

    def both():
        if first is not None:
            first()
        finish()

    operation.finish, operation.outputs = both, outputs
    return operation


def width(tensors):
    """Bytes of an element, by which sums are cut into chunks."""
    widths = {t.element_size() for t in tensors if not t.is_sparse}
    return widths.pop() if len(widths) == 1 else 1
