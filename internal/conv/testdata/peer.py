"""Times convolutions of PyTorch (oneDNN), by request.

Says the version of PyTorch in one line, or in one that begins with "error" what
is wrong with it. Then a line "threads op n h w in out kernel stride pad repeats",
where op is forward, data or weights, is answered by the seconds the repeats took
in the faster of two layouts, NCHW and channels last, and its name. It ends with
its input.
"""
import sys
import time

try:
    import torch
except Exception as error:  # whatever is wrong with the installation
    print("error: cannot import torch: %s" % error, flush=True)
    sys.exit(1)

torch.set_grad_enabled(False)
layouts = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}


def product(op, n, h, w, cin, cout, k, stride, pad, layout):
    """A function that does one product of random images."""
    def make(*shape):
        return torch.randn(*shape).contiguous(memory_format=layout)
    x, wt = make(n, cin, h, w), make(cout, cin, k, k)
    if op == "forward":
        return lambda: torch.nn.functional.conv2d(x, wt, None, stride, pad)
    dy = torch.nn.functional.conv2d(x, wt, None, stride, pad)
    wanted = [op == "data", op == "weights", False]
    return lambda: torch.ops.aten.convolution_backward(
        dy, x, wt, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, wanted)


print(torch.__version__, flush=True)
asked, calls = None, {}
for line in sys.stdin:
    threads, op, *rest = line.split()
    *shape, repeats = map(int, rest)
    if asked != (threads, op, shape):
        asked = threads, op, shape
        torch.set_num_threads(int(threads))
        calls = {name: product(op, *shape, layout) for name, layout in layouts.items()}
        for call in calls.values():
            call()
    took = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        took[name] = time.perf_counter() - start
    best = min(took, key=took.get)
    print(took[best], best, flush=True)
