"""Random numbers by address, as gradlab draws them: SplitMix64 over a key and an index, in torch's integers."""

ALL = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & ALL
    z = (z ^ z >> 27) * 0x94D049BB133111EB & ALL
    return z ^ z >> 31


def key(seed, purpose, *more):
    """The key of a purpose under a seed, extended by more, all of them whole numbers."""
    h = 14695981039346656037
    for b in purpose.encode():
        h = (h ^ b) * 1099511628211 & ALL
    return extend(mix(seed + GAMMA & ALL) ^ mix(h), *more)


def extend(k, *more):
    for v in more:
        k = mix(k + GAMMA & ALL) ^ (mix(v + 0x632BE59BD9B4E019 & ALL) * GAMMA & ALL)
    return k


def signed(v):
    """64 bits as torch's int64 has them."""
    return v - (1 << 64) if v >> 63 else v


def right(z, n):
    """A shift that brings in zeros; torch's brings in signs."""
    return (z >> n) & ((1 << (64 - n)) - 1)


def uint64(k, i):
    """Draws number i, an int64 tensor, of a key: 64 bits each."""
    z = (i + 1) * signed(GAMMA) + signed(k)
    z = (z ^ right(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ right(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ right(z, 31)
