"""Codecs as torch operations, on whatever device a tensor is. Their payloads are the bytes of gradlab's library.

codec("feedback(topk(keep=0.01))", ...) makes one of a tensor. There are bf16, fp16, sign, qsgd and
topk with all their options but sampled, and feedback around any of them; codec() returns None
for others.
"""
import math
import re

import numpy as np
import torch
from torch.nn.functional import pad

from gradlab import draws, packing
from gradlab.packing import CORRUPT, as_type

MAGNITUDE, INFINITY = 0x7FFFFFFF, 0x7F800000


class NotFinite(ValueError):
    """A gradient has NaN or Inf."""

    def __init__(self):
        super().__init__("gradient has NaN or Inf")


def codec(text, n, name="tensor", rank=0, seed=0):
    """The codec of a tensor of n elements, or None where it has no such form.

    text: spec text, as gradlab.library.spec gives it. name and rank are what draws depend on.
    """
    return make(parse(text), dict(n=n, name=name, rank=rank, seed=seed))


def make(spec, of):
    family, places, options = spec
    of_family = FAMILIES.get(family)
    if of_family is None:
        return None
    inner = [make(p, of) for p in places]
    if None in inner or len(inner) != (of_family is Feedback):
        return None
    made = of_family(of, *inner, **options)
    return None if getattr(made, "sampled", False) else made


def parse(text):
    """Spec text as (name, codecs inside, options): name(codec, key=value)."""
    words = re.findall(r"[(),=]|[^(),=\s]+", text)

    def codec():
        name, places, options = words.pop(0), [], {}
        if words and words[0] == "(":
            while words.pop(0) != ")":
                if words[0] == ")":
                    continue
                if len(words) > 1 and words[1] == "=":
                    options[words[0]] = value(words[2])
                    del words[:3]
                else:
                    places.append(codec())
        return name, places, options

    return codec()


def value(word):
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(word, word)


class Format:
    """How single values travel."""

    def __init__(self, dtype, largest):
        self.dtype, self.largest, self.size = dtype, largest, torch.empty(0, dtype=dtype).element_size()

    def put(self, x):
        """Bytes of values, of which those that are too large become the largest."""
        x = x.clamp(-self.largest, self.largest).to(self.dtype) if self.size < 4 else x.clone()
        return x.view(torch.uint8)

    def get(self, b):
        """float32 values from bytes."""
        x = as_type(b, self.dtype).float()
        if not x.isfinite().all():
            raise ValueError(CORRUPT % "a value is not finite")
        return x


FORMATS = {"f32": Format(torch.float32, 3.4028234663852886e38), "bf16": Format(torch.bfloat16, 3.3895313892515355e38),
           "fp16": Format(torch.float16, 65504.0)}


class Codec:
    """A codec of one tensor. sums is the type in which encodings may be added, or None; size the
    bytes of a payload, or None where that varies. A subclass sets them and writes encode and
    add_to."""

    sums = None

    def __init__(self, of, purpose=""):
        self.n = of["n"]
        # Of draws that differ from rank to rank; this one sends to nobody in particular.
        self.key = draws.key(of["seed"], purpose + "/" + of["name"], 0, of["rank"], draws.ALL)

    def draw(self, step, i):
        return draws.uint64(draws.extend(self.key, step), i)

    def encode(self, g, step=0):
        """The payload of g, a flat float32 tensor, as a tensor of uint8."""
        raise NotImplementedError

    def add_to(self, dst, payload, scale=1.0):
        """Adds scale times what a payload stands for to dst, in place."""
        raise NotImplementedError

    def take(self, p, step=0):
        """The payload of p, and takes what it stands for off p."""
        payload = self.encode(p, step)
        self.add_to(p, payload, -1.0)
        return payload

    def state(self):
        """What must survive a restart, as bytes."""
        return b""

    def restore(self, state):
        """Takes what state gave."""
        if state:
            raise ValueError("this codec keeps nothing, and was given %d bytes" % len(state))

    def sized(self, payload, want):
        if len(payload) != want:
            raise ValueError(CORRUPT % ("%d bytes, want %d" % (len(payload), want)))


def magnitudes(g):
    """The bits of the elements without their signs, as int32; they order like the magnitudes."""
    bits = g.view(torch.int32) & MAGNITUDE
    if len(bits) and int(bits.max()) >= INFINITY:
        raise NotFinite
    return bits


class Cast(Codec):
    """Two bytes an element: bf16 and fp16."""

    def __init__(self, of, format, stochastic=False):
        super().__init__(of, format)
        self.format, self.name, self.stochastic = FORMATS[format], format, stochastic
        self.size, self.sums = 2 * self.n, self.format.dtype

    def encode(self, g, step=0):
        bits = magnitudes(g)
        if not self.stochastic:
            return self.format.put(g)
        sign, bits, at = (g.view(torch.int32) < 0).long() << 15, bits.long(), torch.arange(self.n, device=g.device)
        random = self.draw(step, at >> 2) >> (at & 3) * 16 & 0xFFFF
        if self.name == "bf16":
            return packing.little(sign | torch.clamp((bits + random) >> 16, max=0x7F7F), 2)
        half = torch.clamp((bits - 0x38000000 + (random & 0x1FFF)) >> 13, max=0x7BFF)
        # Below the least normal half they are evenly spaced.
        units = g.abs().double() * (1 << 24)
        below = units.floor()
        chance = draws.right(self.draw(step, at | 1 << 40), 11).double() * 2.0 ** -53
        small = (below + (chance < units - below).double()).long()
        return packing.little(sign | torch.where(bits < 0x38800000, small, half), 2)

    def add_to(self, dst, payload, scale=1.0):
        self.sized(payload, self.size)
        dst += self.format.get(payload) * scale


class Sign(Codec):
    """One bit an element, and with scale=mean the mean magnitude."""

    def __init__(self, of, scale="mean"):
        super().__init__(of)
        self.mean = scale == "mean"
        self.size = 4 * self.mean + -(-self.n // 8)

    def encode(self, g, step=0):
        magnitudes(g)
        bits = packing.pack((g.view(torch.int32) < 0).to(torch.uint8))
        if not self.mean:
            return bits
        mean = of_sums(g.view(1, -1), torch.abs, lambda s: s / self.n)
        return torch.cat([mean.view(torch.uint8), bits])

    def add_to(self, dst, payload, scale=1.0):
        self.sized(payload, self.size)
        bits = packing.unpack(payload[4 * self.mean:])
        if bits[self.n:].any():
            raise ValueError(CORRUPT % "padding is not zero")
        value = torch.full((1,), scale, dtype=torch.float32, device=dst.device)
        if self.mean:
            mean = as_type(payload[:4], torch.float32)
            if not float(mean) >= 0 or math.isinf(float(mean)) or int(mean.view(torch.int32)) < 0:
                raise ValueError(CORRUPT % ("mean %s" % float(mean)))
            value = value * mean
        dst += torch.where(bits[:self.n].bool(), -value, value)


def of_sums(x, term, f):
    """f, which does not fall, of the sum over each row of the terms of x, as float32.

    The library adds in float64, in the order of its sixteen lanes. Here the order is torch's
    own, and a bound says by how much the sums may differ: where float32 would see
    that, the row is added up on the host in the library's order. For n elements that is
    about n times in 10 000 million.
    """
    rows, n = x.shape
    block = 1024
    terms = term(pad(x, (0, -n % block)).double()).view(rows, -1, block)
    s = terms.sum(2).sum(1)
    off = (block + terms.shape[1] + n / 16 + 8) * 2.0 ** -52
    low, high = f(s * (1 - off)).float(), f(s * (1 + off)).float()
    for row in (low != high).nonzero().view(-1).tolist():
        low[row] = f(torch.tensor(in_lanes(term(x[row].double().cpu()).numpy()), dtype=torch.float64)).float()
    return low


def in_lanes(terms):
    """Their sum in the order of the library, from numpy's float64."""
    lanes = np.zeros(-(-len(terms) // 16) * 16)
    lanes[:len(terms)] = terms
    s = np.add.accumulate(lanes.reshape(-1, 16), axis=0)[-1]
    t = [(s[j] + s[j + 4]) + (s[j + 8] + s[j + 12]) for j in range(4)]
    return (t[0] + t[1]) + (t[2] + t[3])


class QSGD(Codec):
    """Random rounding to even levels of each bucket's norm."""

    def __init__(self, of, bits=4, bucket=512, norm="max"):
        super().__init__(of, "qsgd")
        self.bits, self.levels, self.l2 = bits, (1 << bits - 1) - 1, norm == "l2"
        self.bucket = min(bucket or self.n, self.n)
        self.buckets = -(-self.n // self.bucket)
        self.size = 4 * self.buckets + -(-self.n * bits // 8)

    def rows(self, x):
        return pad(x, (0, self.buckets * self.bucket - self.n)).view(self.buckets, self.bucket)

    def encode(self, g, step=0):
        magnitudes(g)
        x, s = self.rows(g), self.levels
        norm = of_sums(x, torch.square, torch.sqrt) if self.l2 else x.abs().amax(1)
        if not norm.isfinite().all():
            raise NotFinite
        # In fixed point with 24 fraction bits; a power of two keeps the factor in range.
        wide = norm.double()
        pre = torch.where(wide < 2.0 ** -60, 2.0 ** 64, torch.where(wide >= 2.0 ** 126, 0.25, 1.0)).double()
        per = torch.where(norm == 0, torch.zeros_like(norm), (s * 2.0 ** 24 / (wide * pre)).float())
        r = torch.clamp(x.abs() * pre.float()[:, None] * per[:, None], max=float(s << 24)).round().long()
        level = (r.view(-1)[:self.n] + (self.fractions(step, g.device) >> 8)) >> 24
        codes = torch.where(g.view(torch.int32) < 0, s - level, s + level)
        return torch.cat([norm.view(torch.uint8), packing.fields(codes, self.bits)])

    def fractions(self, step, device):
        """32 random bits for each element: a draw of 64 serves four of sixteen, two of them with
        its halves exchanged."""
        groups = -(-self.n // 16)
        draw = self.draw(step, torch.arange(4 * groups, device=device))
        halves = torch.stack([draw & 0xFFFFFFFF, draws.right(draw, 32)], 1).view(groups, 8)
        turned = (halves << 16 | halves >> 16) & 0xFFFFFFFF
        return torch.cat([halves, turned], 1).view(-1)[:self.n]

    def add_to(self, dst, payload, scale=1.0):
        self.sized(payload, self.size)
        norm, codes = as_type(payload[:4 * self.buckets], torch.float32), packing.unfield(payload[4 * self.buckets:], self.n, self.bits)
        if not norm.isfinite().all() or bool((norm.view(torch.int32) < 0).any()) or int(codes.max()) > 2 * self.levels:
            raise ValueError(CORRUPT % "a norm or a code")
        unit = norm.double() / self.levels
        values = self.rows(codes - self.levels).double() * unit[:, None] + 0.0
        dst += values.float().view(-1)[:self.n] * scale


class TopK(Codec):
    """The k largest entries; among equals the first."""

    def __init__(self, of, keep=0.01, index="rice", values="f32", chunk=0, sampled=False):
        super().__init__(of)
        self.index, self.values, self.sampled = index, FORMATS[values], sampled
        self.chunk = min(chunk or self.n, self.n)
        self.full, rest = self.n // self.chunk, self.n % self.chunk
        self.each, self.last = kept(keep, self.chunk), kept(keep, rest) if rest else 0
        self.k = self.full * self.each + self.last
        self.width = max(self.chunk - 1, 0).bit_length()
        coded = {"raw32": 4 * self.k, "bitmap": -(-self.n // 8), "block": -(-self.k * self.width // 8)}.get(index)
        self.size = None if coded is None and self.k < self.n else self.k * self.values.size + (coded if self.k < self.n else 0)

    def encode(self, g, step=0):
        if self.k == self.n:
            magnitudes(g)
            return self.values.put(g)
        idx = self.largest(g)
        return torch.cat([self.values.put(g[idx]), self.code(idx)])

    def take(self, p, step=0):
        if self.k == self.n:
            return super().take(p, step)
        idx = self.largest(p)  # so they need not be decoded
        kept = p[idx]
        values = self.values.put(kept)
        p[idx] = kept - self.values.get(values)
        return torch.cat([values, self.code(idx)])

    def largest(self, g):
        """The positions of what is kept, ascending."""
        bits = magnitudes(g)
        # Numbers that order by magnitude and then by place; none is there twice.
        n, end = self.n, self.full * self.chunk
        ranked = bits.long() << 32 | torch.arange(n - 1, -1, -1, device=g.device)
        parts = [(ranked[:end].view(self.full, self.chunk), self.each), (ranked[end:].view(1, -1), self.last)]
        top = torch.cat([p.topk(k, 1, sorted=False).values.view(-1) for p, k in parts if k])
        return (n - 1 - (top & 0xFFFFFFFF)).sort().values

    def code(self, idx):
        if self.index == "raw32":
            return packing.little(idx, 4)
        if self.index == "bitmap":
            bits = torch.zeros(self.n, dtype=torch.uint8, device=idx.device)
            bits[idx] = 1
            return packing.pack(bits)
        if self.index == "block":
            return packing.fields(idx % self.chunk, self.width)
        gaps = packing.gaps(idx)
        return packing.varints(gaps) if self.index == "varint" else packing.rice(gaps, packing.rice_param(self.k, self.n))

    def places(self, b):
        """The positions that bytes stand for, ascending."""
        if self.index in ("varint", "rice"):
            gaps = packing.unvarints(b, self.k) if self.index == "varint" else packing.unrice(b, self.k, packing.rice_param(self.k, self.n))
            return packing.positions(gaps, self.n)
        if self.index == "bitmap":
            idx = packing.unpack(b).nonzero().view(-1)
        elif self.index == "raw32":
            idx = packing.unfield(b, self.k, 32)
        else:
            of = torch.arange(self.full, device=b.device).repeat_interleave(self.each)
            idx = packing.unfield(b, self.k, self.width) + self.chunk * torch.cat([of, of.new_full((self.last,), self.full)])
        if len(idx) != self.k or int(idx[-1]) >= self.n or bool((idx[1:] <= idx[:-1]).any()):
            raise ValueError(CORRUPT % "positions")
        return idx

    def add_to(self, dst, payload, scale=1.0):
        if self.size is not None:
            self.sized(payload, self.size)
        end = self.k * self.values.size
        if len(payload) < end or len(payload) == end and self.k < self.n:
            raise ValueError(CORRUPT % ("%d bytes" % len(payload)))
        values = self.values.get(payload[:end]) * scale
        if self.k == self.n:
            dst += values
        else:
            idx = self.places(payload[end:])
            dst[idx] = dst[idx] + values


def kept(keep, d):
    x = keep * d
    return min(d, max(1, math.ceil(x - x * 1e-12)))


class Feedback(Codec):
    """Remembers what the codec inside leaves out and adds it next time."""

    def __init__(self, of, inside, decay=1, lowpass=0, unchecked=False):
        super().__init__(of)
        self.inside, self.decay, self.lowpass = inside, float(np.float32(decay)), float(np.float32(lowpass))
        self.size, self.sums, self.e = inside.size, inside.sums, None

    def encode(self, g, step=0):
        e = torch.zeros_like(g) if self.e is None else self.e.to(g.device)
        p = g + e * self.decay
        payload = self.inside.take(p, step)
        if self.lowpass:
            p *= float(np.float32(1) - np.float32(self.lowpass))
            p += e * self.lowpass
        self.e = p
        return payload

    def add_to(self, dst, payload, scale=1.0):
        self.inside.add_to(dst, payload, scale)

    def state(self):
        """The residual as the library keeps it: its length, 4 bytes, and float32 values."""
        kept = [] if self.e is None else self.e.cpu().numpy()
        return np.uint32(len(kept)).tobytes() + np.asarray(kept, np.float32).tobytes() + self.inside.state()

    def restore(self, state):
        n = int(np.frombuffer(state[:4], np.uint32)[0])
        if n not in (0, self.n) or len(state) < 4 + 4 * n:
            raise ValueError("a residual of %d elements in %d bytes; the tensor has %d" % (n, len(state), self.n))
        self.inside.restore(state[4 + 4 * n:])
        self.e = torch.from_numpy(np.frombuffer(state[4:4 + 4 * n], np.float32).copy()) if n else None


FAMILIES = {"bf16": lambda of, **o: Cast(of, "bf16", **o), "fp16": lambda of, **o: Cast(of, "fp16", **o),
            "sign": Sign, "qsgd": QSGD, "topk": TopK, "feedback": Feedback}
