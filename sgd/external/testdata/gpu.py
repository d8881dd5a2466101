"""Gradients that come from a GPU, played by a stand-in for torch.cuda whose copies arrive when it is told."""
import contextlib
import os

import torch

from gradlab import cuda, pytorch

log, locked = [], {}


class Event:
    def __init__(self):
        self.there = False

    def record(self, stream):
        log.append(("record", stream))

    def query(self):
        return self.there

    def synchronize(self):
        log.append("synchronize")
        self.there = True


class Stream:
    def __init__(self, device):
        self.device = device

    def wait_stream(self, other):
        log.append(("wait for", other))

    def wait_event(self, event):
        log.append(("wait for", event))


class Runtime:
    def cudaHostRegister(self, at, size, flags):
        if refuse:
            return 1
        locked[at] = size
        return 0

    def cudaHostUnregister(self, at):
        del locked[at]
        return 0


class Cuda:
    Stream, Event, current = Stream, Event, "the model's"

    def cudart(self):
        return Runtime()

    def current_stream(self, device):
        return self.current

    @contextlib.contextmanager
    def stream(self, s):
        before, self.current = self.current, s
        yield
        self.current = before

    def device(self, d):
        return contextlib.nullcontext()


TENSORS = [("a", (1, 3), "bias"), ("b", (2, 2), "weight")]
for refuse in (False, True):
    for half in (False, True):
        log.clear()
        os.ftruncate(4, 4096)
        copies = cuda.Copies("cuda:0", Cuda())
        m = pytorch.TensorMemory(200, TENSORS, half, None, copies)
        m = pytorch.TensorMemory(4096, TENSORS, half, m, copies)  # has grown
        m.together = 4
        assert list(locked.values()) == ([] if refuse else [4096]), locked
        m.write("a", torch.full((3,), 1 / 3))
        m.write("b", torch.full((2, 2), 2 / 3))
        # The copy waits for the model's stream, and its event is one of the copies' own.
        assert log == [("wait for", "the model's"), ("record", copies.stream)] * 2, log
        assert m.arrived() == [], "nothing has arrived"
        m.under_way[0][1].there = True
        assert m.arrived() == ["a"] and m.arrived() == []
        assert m.arrived(wait=True) == ["b"] and not m.under_way
        want = 2 / 3 if not half else torch.tensor(2 / 3).bfloat16().item()
        got = pytorch.as_tensor(m.grads["b"])
        assert torch.all(got.float() == torch.tensor(want)), got
        # Small ones are copied together, the last when nothing else comes.
        log.clear()
        m.together = 1000
        m.write("a", torch.full((3,), 1 / 4))
        m.write("b", torch.full((2, 2), 1 / 2))
        assert not log and m.arrived() == [] and m.arrived(wait=True) == ["a", "b"], log
        assert log == [("wait for", "the model's"), ("record", copies.stream), "synchronize"], log
        assert pytorch.as_tensor(m.grads["a"])[0, 0] == 1 / 4
        with copies.behind("an event"):
            assert copies.mark() is not None and log[-2:] == [("wait for", "an event"), ("record", copies.stream)], log
        m.close()
        assert not locked, "pages are still locked"
print("fine")
