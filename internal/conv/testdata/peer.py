"""Times convolutions of PyTorch (oneDNN) on one thread, by request.

A line "op n h w in out kernel stride pad repeats", where op is forward, data or
weights, is answered by the seconds the repeats took in the faster of the two
layouts, NCHW and channels last, and its name.
"""
import sys
import time

import torch

torch.set_num_threads(1)
torch.set_grad_enabled(False)
layouts = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}


def call(op, n, h, w, cin, cout, k, stride, pad, layout):
    def make(*shape):
        return torch.randn(*shape).contiguous(memory_format=layout)
    x, wt = make(n, cin, h, w), make(cout, cin, k, k)
    if op == "forward":
        return lambda: torch.nn.functional.conv2d(x, wt, None, stride, pad)
    dy = torch.nn.functional.conv2d(x, wt, None, stride, pad)
    mask = [op == "data", op == "weights", False]
    return lambda: torch.ops.aten.convolution_backward(
        dy, x, wt, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, mask)


calls = {}
print(torch.__version__, flush=True)
for line in sys.stdin:
    op, *numbers = line.split()
    *shape, repeats = map(int, numbers)
    key = (op, *shape)
    if key not in calls:
        calls = {key: {name: call(*key, layout) for name, layout in layouts.items()}}
        for fn in calls[key].values():
            fn()
    took = {}
    for name, fn in calls[key].items():
        fn()
        start = time.perf_counter()
        for _ in range(repeats):
            fn()
        took[name] = time.perf_counter() - start
    best = min(took, key=took.get)
    print(took[best], best, flush=True)
