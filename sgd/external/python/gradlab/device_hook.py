"""A bucket's exchange by codecs that are torch operations: nothing but payloads leaves the device."""
import torch
import torch.distributed as dist

from gradlab import device
from gradlab.library import SKIPPED, Error, NotFinite


class OnDevice:
    """The codecs of a model's tensors. there says whether the codec has such a form."""

    def __init__(self, codec, rank, seed):
        self.make = lambda name, n: device.codec(codec, n, name, rank, seed)
        self.there = self.make("", 1) is not None
        self.codecs = {}

    def codec(self, name, n):
        if name not in self.codecs:
            self.codecs[name] = self.make(name, n)
        return self.codecs[name]

    def state(self, name):
        """What a tensor's codec must keep, as the library has it."""
        return self.codecs[name].state() if name in self.codecs else b""

    def average(self, of, flat, tensors, factor):
        """Replaces flat, the gradients of (name, elements) one behind the other, by factor times their sum over the ranks."""
        codecs, sizes = [self.codec(*t) for t in tensors], [n for _, n in tensors]
        payloads = []
        for (name, _), codec, g in zip(tensors, codecs, flat.float().split(sizes)):
            try:
                payloads.append(codec.encode(g, of.steps))
            except device.NotFinite as why:
                raise Error("rank %d, step %d, %s: %s%s" % (of.rank, of.steps, name, why, SKIPPED))
        if codecs[0].sums is not None:
            total = self.sum(of, torch.cat(payloads).view(codecs[0].sums))
        else:
            total = torch.zeros(flat.numel(), device=flat.device)
            for rank, parts in enumerate(self.gather(of, codecs, payloads, flat.device)):
                for (name, _), codec, part, dst in zip(tensors, codecs, parts, total.split(sizes)):
                    try:
                        codec.add_to(dst, part)
                    except ValueError as why:
                        raise Error("rank %d, step %d, %s: payload of rank %d: %s" % (of.rank, of.steps, name, rank, why))
        flat.copy_(total * factor + 0.0)  # a zero has no sign, as elsewhere

    def sum(self, of, own):
        # All backends sum where the gradients are; gloo copies them to pinned memory itself.
        sent = of.space("sum", own.numel(), of.wider.get(own.dtype, own.dtype), device=own.device)
        sent.copy_(own)
        of.count(own.numel() * own.element_size(), sent.numel() * sent.element_size())
        of.all_reduce(sent, dist.ReduceOp.SUM)
        total = sent.to(own.dtype).float()
        if not total.isfinite().all():
            raise NotFinite("rank %d, step %d: a sum is beyond the range of %s; use bf16, or scale the loss" % (of.rank, of.steps, own.dtype))
        return total

    def gather(self, of, codecs, payloads, home):
        """For each rank its payloads."""
        framed = []
        for codec, payload in zip(codecs, payloads):
            if codec.size is None:
                framed.append(torch.tensor(list(uvarint(len(payload))), dtype=torch.uint8, device=home))
            framed.append(payload)
        own = torch.cat(framed)
        n, even = len(own), all(c.size is not None for c in codecs)
        ends = [n] * of.world if even else [l[0] for l in of.lengths([n])]
        most = max(ends)
        # Gloo gathers on the host, by way of pinned memory.
        where = dict(device=own.device) if of.on_device else dict(pinned=own.is_cuda)
        sent = of.space("payloads", most, torch.uint8, **where)
        sent[:n] = own
        wholes = list(of.space("all payloads", most * of.world, torch.uint8, **where).split(most))
        of.count(n, most)
        of.all_gather(wholes, sent)
        for whole, end in zip(wholes, ends):
            yield split(whole[:end].to(home), [c.size for c in codecs])


def uvarint(n):
    while n > 127:
        yield n & 127 | 128
        n >>= 7
    yield n


def split(b, sizes):
    """Payloads of so many bytes each; where that is None their length comes first."""
    at, out = 0, []
    for size in sizes:
        if size is None:
            size = shift = 0
            for v in b[at:at + 10].tolist():
                size, shift, at = size | (v & 127) << shift, shift + 7, at + 1
                if v < 128:
                    break
        if at + size > len(b):
            raise Error("payloads end early")
        out.append(b[at:at + size])
        at += size
    if at < len(b):
        raise Error("%d bytes behind the payloads" % (len(b) - at))
    return out
