"""Codecs as torch operations beside gradlab's library: the same payloads, the same sums of what
they stand for, and the same payloads refused."""
import os

import numpy as np
import torch

from gradlab import device, library

torch.set_num_threads(1)
DEVICE = os.environ.get("GRADLAB_TEST_DEVICE", "cpu")
CODECS = ["bf16", "fp16", "bf16(stochastic=true)", "fp16(stochastic=true)", "sign", "sign(scale=none)",
          "qsgd(bits=4,bucket=0)", "qsgd(bits=3,bucket=100)", "qsgd(bits=8,norm=l2)", "qsgd(bits=4,norm=l2,bucket=0)",
          "topk(keep=0.02,chunk=64)", "topk(keep=0.1,chunk=100,index=block)", "topk(keep=1)", "topk(keep=1,values=bf16)",
          "feedback(topk(keep=0.05))", "feedback(sign)", "feedback(bf16)", "feedback(topk(keep=0.1,index=bitmap),decay=0.9,lowpass=0.25)"]
CODECS += ["qsgd(bits=%d)" % b for b in (2, 3, 5, 7, 8)]
CODECS += ["topk(keep=%s,index=%s%s)" % (keep, index, values) for keep in ("0.01", "0.3")
           for index, values in (("rice", ""), ("rice", ",values=fp16"), ("varint", ",values=bf16"), ("bitmap", ""), ("raw32", ""))]
SIZES = [1, 2, 3, 8, 15, 17, 33, 64, 100, 513, 2053, 16387]
draw = np.random.default_rng(1)


def inputs(n):
    x = draw.normal(0, 1, n)
    yield x
    yield np.round(2 * x) / 2  # ties, zeros of both signs
    yield -np.zeros(n)
    yield 1e-40 * x
    yield 1e-7 * x
    yield 3.4e38 * np.clip(x, -1, 1)
    yield x * np.exp(draw.normal(0, 12, n))
    yield np.where(np.arange(n) == n - 1, 1 + n * 2.0 ** -24, 1)  # the mean lies between two float32, for powers of two
    yield np.where(np.arange(n) == n // 2, np.inf, x)


def both(f, g):
    """What two ways give, or that they refuse it."""
    out = []
    for way, refused in ((f, library.Error), (g, ValueError)):
        try:
            out.append(way())
        except refused:
            out.append(None)
    return out


def added(codec, dst, payload, **of):
    dst = dst.copy()
    if isinstance(codec, device.Codec):
        there = torch.from_numpy(dst).to(DEVICE)
        codec.add_to(there, torch.tensor(list(payload), dtype=torch.uint8, device=DEVICE), 0.37)
        dst = there.cpu().numpy()
    else:
        codec.add_to(dst, payload, scale=0.37, **of)
    return dst.tobytes()


in_order, near = device.in_lanes, []
device.in_lanes = lambda terms: near.append(1) or in_order(terms)
count = refused = differ = 0
for text in CODECS:
    for n in SIZES:
        try:
            there = library.Codec(text, 1, n, name="w", rank=1, world=3, seed=5)
        except library.Error:
            continue  # feedback over what is no contraction at this size
        here = device.codec(library.spec(text), n, name="w", rank=1, seed=5)
        for step, x in enumerate(inputs(n)):
            x = x.astype(np.float32)
            want, got = both(lambda: there.encode(x, step=step), lambda: here.encode(torch.from_numpy(x).to(DEVICE), step).cpu().numpy().tobytes())
            count, refused = count + 1, refused + (want is None)
            same = want == got and (here.size is None or want is None or len(want) == here.size)
            if same and want is not None:
                dst = draw.normal(0, 1, n).astype(np.float32)
                hostile = bytearray(want)
                hostile[draw.integers(len(want))] ^= 1 << int(draw.integers(8))
                for p in (want, bytes(hostile), want[:-1], want + b"\0", draw.bytes(len(want))):
                    a, b = both(lambda: added(there, dst, p, rank=1, step=step), lambda: added(here, dst, p))
                    same = same and a == b
            if not same:
                differ += 1
                print("differs:", text, n, step)
print("%d payloads, %d refused, %d differ" % (count, refused, differ))

print(len(near), "means and norms so near to the middle of two float32 that the library's order of adding decides")
print(device.codec(library.spec("powersgd(rank=2)"), 9), device.codec(library.spec("topk(keep=0.1,sampled=true)"), 9))
