"""Copies between a GPU and memory of the host: from pinned pages, and beside what the GPU computes."""
import fcntl
import itertools
import os
import tempfile
from contextlib import contextmanager

import torch

held = []  # what marks GPUs as taken, as long as this process lives


def claim(name, count=torch.cuda.device_count, folder=None):
    """The device of a name; cuda:* is a GPU of this host that no other process of this user
    has claimed, and where each is claimed, one of those that the fewest have. A device is itself."""
    if name != "cuda:*":
        return torch.device(name)
    gpus = count()
    if gpus == 0:
        raise ValueError("device cuda:*: PyTorch sees no GPU here; cpu computes on processors")
    folder = folder or tempfile.gettempdir()
    for turn in itertools.count():
        for i in range(gpus):
            mark = os.path.join(folder, "gradlab-%d-gpu-%d.%d" % (os.getuid(), i, turn))
            f = os.fdopen(os.open(mark, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                f.close()
                continue
            held.append(f)
            return torch.device("cuda", i)


class Copies:
    """A stream of its own for the copies of a device. api is torch.cuda, or what stands in for it in a test."""

    def __init__(self, device, api=torch.cuda):
        self.device, self.api, self.stream, self.locked = device, api, api.Stream(device), set()

    def pin(self, memory):
        """Pins the pages of host memory that is mapped already. Where that is refused copies are
        right too, but wait."""
        if int(self.api.cudart().cudaHostRegister(memory.data_ptr(), memory.numel() * memory.element_size(), 0)) == 0:
            self.locked.add(memory.data_ptr())

    def unpin(self, memory):
        """Is to be called before such memory is unmapped, when no copy is under way."""
        if memory.data_ptr() in self.locked:
            self.locked.remove(memory.data_ptr())
            self.api.cudart().cudaHostUnregister(memory.data_ptr())

    def down(self, pairs):
        """Begins to copy tensors of the device to the host, once what computes them is done; each
        pair is (host, device). The event says when they have got there; they must be kept
        until then."""
        self.stream.wait_stream(self.api.current_stream(self.device))
        with self.api.stream(self.stream):
            for host, there in pairs:
                host.copy_(there, non_blocking=True)
            return self.mark()

    def mark(self):
        """An event behind what the current stream of the device has to do."""
        event = self.api.Event()
        event.record(self.api.current_stream(self.device))
        return event

    @contextmanager
    def behind(self, event):
        """Makes this thread work on the device, and on this stream, behind an event."""
        with self.api.device(self.device), self.api.stream(self.stream):
            self.stream.wait_event(event)
            yield
