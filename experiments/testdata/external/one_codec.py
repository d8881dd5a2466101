"""Payloads of codecs by gradlab's C library: for every codec named, their sum and what they decode to."""
import hashlib
import sys

import numpy as np

from gradlab import library

g = ((np.arange(600) * 37 % 101 - 50) / 16).astype(np.float32)
for codec in sys.argv[1:]:
    c = library.Codec(codec, 20, 30, name="w", role="weight", rank=1, world=3, seed=5)
    payload = c.encode(g, step=2)
    back = np.ones(600, np.float32)
    c.add_to(back, payload, scale=0.5, rank=1, step=2)
    claims = library.claims(codec, 20, 30)
    print(hashlib.sha256(payload).hexdigest(), len(payload), hashlib.sha256(back.tobytes()).hexdigest(), claims["size"], claims["exact"])
for wrong in (lambda: library.Codec("tokp", 2, 2), lambda: library.Codec("raw", 0, 2), lambda: c.encode(g[:5]), lambda: c.encode(g.astype(float)),
              lambda: c.add_to(g.copy(), b"nonsense")):
    try:
        wrong()
        print("taken")
    except (library.Error, TypeError) as why:
        print(why)
