"""Whole numbers in few bits, as torch operations on whatever device they are: the bytes of gradlab's package bits.

Bytes are tensors of uint8, numbers of int64. The first value has the lowest bits.

Few operations on much: on a GPU what counts is how many there are.
"""
import torch

CORRUPT = "corrupt payload: %s"


def pack(bits):
    """Bytes from bits, one a uint8, with zeros behind the last."""
    n = -(-len(bits) // 8)
    full = bits if len(bits) == 8 * n else torch.nn.functional.pad(bits, (0, 8 * n - len(bits)))
    # Eight zeros and ones as one number; a product brings the lowest bit of each to its highest byte.
    return (full.view(torch.int64) * 0x0102040810204080 >> 56).to(torch.uint8)


def unpack(b):
    """The bits of bytes, one a uint8."""
    return digits(b, 8).view(-1)


def digits(values, width):
    """Of each value its lowest bits, one a number."""
    values = values.to(torch.uint8) if width <= 8 else values
    return values.unsqueeze(-1) >> torch.arange(width, dtype=values.dtype, device=values.device) & 1


def whole(bits):
    """The reverse: the values whose bits are the rows, one a uint8."""
    if bits.shape[-1] <= 8:
        return pack(torch.nn.functional.pad(bits, (0, 8 - bits.shape[-1])).view(-1)).long()
    return (bits.long() << torch.arange(bits.shape[-1], device=bits.device)).sum(-1)


def fields(values, width):
    """Bytes of values one behind the other, so many bits each."""
    if width == 8:
        return values.to(torch.uint8)
    return pack(digits(values, width).to(torch.uint8).view(-1))


def unfield(b, n, width):
    """n values from their bytes, as fields writes them."""
    want = -(-n * width // 8)
    if len(b) != want:
        raise ValueError(CORRUPT % ("%d bytes, want %d" % (len(b), want)))
    bits = unpack(b)
    if bits[n * width:].any():
        raise ValueError(CORRUPT % "padding is not zero")
    return whole(bits[:n * width].view(n, width))


def little(values, size):
    """Bytes of whole numbers, size of them each, the lowest first."""
    return (values.unsqueeze(-1) >> torch.arange(0, 8 * size, 8, device=values.device) & 255).to(torch.uint8).view(-1)


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
    bits[after(at, b)] = digits(v, b).to(torch.uint8)
    return pack(bits)


def after(at, b):
    """The b places behind each."""
    return at.unsqueeze(-1) + torch.arange(1, b + 1, device=at.device)


def unrice(payload, k, b):
    """k values from Rice codes and nothing behind them.

    A code ends b bits behind the first one from its beginning on. So where the next code
    begins is known for every bit, and the beginnings of all are found by doubling: with
    those of n codes, and how far n codes go from anywhere, one has those of 2n.
    """
    bits = unpack(payload)
    n = len(bits)
    ones = torch.cat([bits.nonzero().view(-1), torch.full((1,), n, device=bits.device)])
    before = torch.nn.functional.pad(torch.cumsum(bits, 0), (1, 0))
    one = ones[before]  # the first one from here on
    next = torch.clamp(one + (1 + b), max=n)
    begins = torch.zeros(1, dtype=torch.int64, device=bits.device)
    while len(begins) < k:
        begins = torch.cat([begins, next[begins]])
        next = next[next]
    begins = begins[:k]
    at = one[begins]  # of each code its one
    end = int(at[-1]) + 1 + b
    if end > n or n - end >= 8 or bits[end:].any():
        raise ValueError(CORRUPT % "codes end early or late")
    return (at - begins) << b | whole(bits[after(at, b)])


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
