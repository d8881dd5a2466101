"""Whole numbers in few bits, as torch operations on whatever device they are: the bytes of gradlab's package bits.

Bytes are tensors of uint8, numbers of int64. The first value has the lowest bits.
"""
import torch

CORRUPT = "corrupt payload: %s"


def pack(bits):
    """Bytes from bits, one a uint8, with zeros behind the last."""
    n = -(-len(bits) // 8)
    full = torch.zeros(8 * n, dtype=torch.uint8, device=bits.device)
    full[:len(bits)] = bits
    full = full.view(n, 8)
    out = full[:, 0].clone()
    for j in range(1, 8):
        out |= full[:, j] << j
    return out


def unpack(b):
    """The bits of bytes, one a uint8."""
    return torch.stack([b >> j & 1 for j in range(8)], 1).reshape(-1)


def fields(values, width):
    """Bytes of values one behind the other, so many bits each."""
    if width == 8:
        return values.to(torch.uint8)
    return pack(torch.stack([(values >> j & 1).to(torch.uint8) for j in range(width)], 1).reshape(-1))


def unfield(b, n, width):
    """n values from their bytes, as fields writes them."""
    want = -(-n * width // 8)
    if len(b) != want:
        raise ValueError(CORRUPT % ("%d bytes, want %d" % (len(b), want)))
    bits = unpack(b)
    if bits[n * width:].any():
        raise ValueError(CORRUPT % "padding is not zero")
    bits = bits[:n * width].view(n, width).long()
    out = bits[:, 0].clone()
    for j in range(1, width):
        out |= bits[:, j] << j
    return out


def little(values, size):
    """Bytes of whole numbers, size of them each, the lowest first."""
    return torch.stack([values >> 8 * j & 255 for j in range(size)], 1).to(torch.uint8).reshape(-1)


def as_type(b, dtype):
    """Bytes as the numbers they are; a copy, as they may lie anywhere."""
    return b.clone().view(dtype)


def gaps(idx):
    """What lies between ascending positions."""
    return torch.cat([idx[:1], idx[1:] - idx[:-1] - 1])


def positions(gap, d):
    """The reverse of gaps."""
    idx = torch.cumsum(gap + 1, 0) - 1
    if len(idx) and (bool((gap < 0).any()) or int(idx[-1]) >= d):
        raise ValueError(CORRUPT % "a position beyond the last")
    return idx


def rice_param(k, n):
    """The parameter for k of n positions (Kiely 2004, eq. 6, in integers)."""
    if not 0 < k < n:
        return 0
    return min((481 * (2 * (n - k) + k) // (2000 * k)).bit_length(), 31)


def rice(v, b):
    """Rice codes: of each value v>>b zeros, a one, and its b lowest bits."""
    q = v >> b
    ends = torch.cumsum(q + (1 + b), 0)
    bits = torch.zeros(int(ends[-1]), dtype=torch.uint8, device=v.device)
    at = ends - (1 + b)
    bits[at] = 1
    for j in range(b):
        bits[at + (1 + j)] = (v >> j & 1).to(torch.uint8)
    return pack(bits)


def unrice(payload, k, b):
    """k values from Rice codes and nothing behind them.

    A code ends b bits behind the first one from its beginning on. So where the next code
    begins is known for every bit, and the beginnings of all are found by doubling: with
    those of n codes, and how far n codes go from anywhere, one has those of 2n.
    """
    bits = unpack(payload)
    n = len(bits)
    place = torch.arange(n, device=bits.device)
    ones = torch.where(bits.bool(), place, torch.full_like(place, n))
    one = torch.cummin(ones.flip(0), 0).values.flip(0)  # the first one from here on
    next = torch.clamp(torch.cat([one, one.new_tensor([n])]) + (1 + b), max=n)
    begins = place.new_zeros(1)
    while len(begins) < k:
        begins = torch.cat([begins, next[begins]])
        next = next[next]
    begins = begins[:k]
    at = torch.cat([one, one.new_tensor([n])])[begins]  # of each code its one
    end = int(at[-1]) + 1 + b
    if end > n or n - end >= 8 or bits[end:].any():
        raise ValueError(CORRUPT % "codes end early or late")
    v = (at - begins) << b
    for j in range(b):
        v |= bits[at + (1 + j)].long() << j
    return v


def varints(v):
    """Values in base 128, the lowest digits first."""
    size = 1 + sum((v >> 7 * j > 0).long() for j in range(1, 5))
    ends = torch.cumsum(size, 0)
    begins = ends - size
    out = torch.zeros(int(ends[-1]), dtype=torch.uint8, device=v.device)
    for j in range(5):
        there = size > j
        out[begins[there] + j] = ((v >> 7 * j & 127) | (size > j + 1).long() << 7)[there].to(torch.uint8)
    return out


def unvarints(payload, k):
    """k values from their varints and nothing behind them."""
    ends = (payload < 128).nonzero().view(-1) + 1
    if len(ends) != k or k and int(ends[-1]) != len(payload):
        raise ValueError(CORRUPT % "not %d varints" % k)
    begins = torch.cat([ends.new_zeros(1), ends[:-1]])
    size = ends - begins
    if k and (int(size.max()) > 5 or bool(((size > 1) & (payload[ends - 1] == 0)).any())):
        raise ValueError(CORRUPT % "a varint is too long")
    v = torch.zeros_like(begins)
    for j in range(5):
        there = size > j
        v[there] |= (payload[begins[there] + j].long() & 127) << 7 * j
    return v
