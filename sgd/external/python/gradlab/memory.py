"""The memory that a program shares with the engine: parameters, gradients, then a batch."""
import mmap

import numpy as np


class Memory:
    """Parameters and gradients by name.

    first: where init puts the first parameters, float32.
    params: those of a pass, float32; read() takes what the engine sent.
    stored, grads: what the engine wrote of parameters and reads of gradients: float32 or,
        with half, bfloat16 as uint16.
    """

    def __init__(self, size, tensors, half, before=None):
        raw = np.frombuffer(mmap.mmap(4, size), np.uint8)
        n, width, stored = sum(rows * cols for _, (rows, cols), _ in tensors), 2 if half else 4, np.uint16 if half else np.float32

        def named(flat):
            out, at = {}, 0
            for name, (rows, cols), _ in tensors:
                out[name] = flat[at:at + rows * cols].reshape(rows, cols)
                at += rows * cols
            return out

        self.raw, self.half, self.rest, self.there = raw, half, raw[2 * width * n:], []
        self.first = named(raw[:4 * n].view(np.float32))
        self.sent, self.grads = raw[:width * n].view(stored), named(raw[width * n:2 * width * n].view(stored))
        self.stored = named(self.sent)
        self.flat, self.params = self.sent, self.first
        if half:  # widened they are memory of this process, the same after the shared memory has grown
            self.flat = before.flat if before is not None else np.empty(n, np.float32)
            self.params = before.params if before is not None else named(self.flat)
        if before is not None:
            before.close()

    def close(self):
        """Is called when larger memory has taken the place of this one."""

    def batch(self, n, dim, mixed=0):
        """The inputs and labels of a batch; of mixed samples the shares of so many classes."""
        end = 4 * n * dim
        labels = self.rest[end:end + 4 * n].view(np.int32)
        if mixed:
            others, share = self.rest[end + 4 * n:end + 8 * n].view(np.int32), self.rest[end + 8 * n:end + 12 * n].view(np.float32)
            first, labels = labels, np.zeros((n, mixed), np.float32)
            np.add.at(labels, (np.arange(n), first), share)
            np.add.at(labels, (np.arange(n), others), 1 - share)
        return self.rest[:end].view(np.float32).reshape(n, dim), labels

    def read(self):
        """Makes params what the engine sent."""
        if self.half:
            widen(self.flat, self.sent)

    def write(self, name, grad):
        """Begins to hand over the gradient of a tensor."""
        grad = np.asarray(grad, dtype=np.float32)
        self.fits(name, grad)
        if self.half:
            narrow(self.grads[name].reshape(-1), grad.reshape(-1))
        else:
            self.grads[name][...] = grad
        self.there.append(name)

    def fits(self, name, grad):
        if tuple(grad.shape) != self.grads[name].shape:
            raise ValueError("gradient of %r has shape %s; want %s" % (name, tuple(grad.shape), self.grads[name].shape))

    def arrived(self, wait=False):
        """The tensors whose gradients have got there since the last call; with wait all that are under way."""
        out, self.there = self.there, []
        return out


def widen(dst, src):
    """float32 from bfloat16, exactly. dst is float32, src uint16."""
    np.left_shift(src, 16, out=dst.view(np.uint32), dtype=np.uint32)


def narrow(dst, src):
    """bfloat16 from float32: to nearest, ties to even; a NaN stays one. dst is uint16, src float32."""
    block = 1 << 16  # elements, so that what is between stays in cache
    for lo in range(0, len(src), block):
        x = np.ascontiguousarray(src[lo:lo + block]).view(np.uint32)
        r = x >> 16
        r &= 1
        r += 0x7FFF
        r += x
        r >>= 16
        nan = x & 0x7FFFFFFF > 0x7F800000
        if nan.any():
            kept = x[nan] >> 16
            r[nan] = np.where(kept & 0x7F, kept, kept | 0x40)  # a payload that is lost must not make it an infinity
        dst[lo:lo + block] = r
