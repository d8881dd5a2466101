"""A PyTorch worker beside `gradlab bench train`.

Its one argument is JSON: the model, the input, the batch and the threads. It
builds that model with the layers of sgd/nn, makes a random batch, takes one step
to warm up, and says hello in one line of JSON. Then every line on standard input
is a number of training steps to take; the answer is one line of JSON with the
seconds they took and the page faults they cost. It ends with its input.
"""
import json
import resource
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except Exception as error:  # whatever is wrong with the installation
    say(error="cannot import torch: %s" % error)
    sys.exit(1)


def mnistcnn(ask):
    # The pool stands before the ReLU, as in ours: they commute, and a quarter is left.
    side = ask["height"] // 2 // 2 * (ask["width"] // 2 // 2)
    return nn.Sequential(
        nn.Conv2d(ask["channels"], 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(inplace=True),
        nn.Conv2d(32, 64, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(inplace=True),
        nn.Flatten(), nn.Linear(64 * side, 1024), nn.ReLU(inplace=True), nn.Dropout(0.4),
        nn.Linear(1024, ask["classes"]))


def mlp(ask):
    size = ask["channels"] * ask["height"] * ask["width"]
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, 512), nn.ReLU(inplace=True),
        nn.Linear(512, 256), nn.ReLU(inplace=True), nn.Linear(256, ask["classes"]))


def normed(size, out, kernel, stride=1):
    """A convolution without bias, then batch norm."""
    return [nn.Conv2d(size, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out)]


class Residual(nn.Module):
    """ReLU(body(x) + shortcut(x))"""

    def __init__(self, shortcut, *body):
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), shortcut

    def forward(self, x):
        return F.relu_(self.body(x).add_(self.shortcut(x)))


class OptionA(nn.Module):
    """Every stride-th pixel, and zeros for the channels that are new: no parameters."""

    def __init__(self, stride, more):
        super().__init__()
        self.stride, self.more = stride, more

    def forward(self, x):
        return F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.more))


def head(size, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(size, classes)]


def resnet20(ask):
    layers, size = normed(ask["channels"], 16, 3) + [nn.ReLU(inplace=True)], 16
    for out in (16, 32, 64):
        for _ in range(3):
            stride = 1 if out == size else 2
            layers.append(Residual(
                nn.Identity() if out == size else OptionA(stride, out - size),
                *normed(size, out, 3, stride), nn.ReLU(inplace=True), *normed(out, out, 3)))
            size = out
    return nn.Sequential(*layers, *head(size, ask["classes"]))


def resnet50(ask):
    # Version 1.5: the stride is in the 3x3 convolution.
    layers = normed(ask["channels"], 64, 7, 2) + [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    size = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            side = nn.Identity() if block else nn.Sequential(*normed(size, 4 * width, 1, stride))
            layers.append(Residual(
                side,
                *normed(size, width, 1), nn.ReLU(inplace=True),
                *normed(width, width, 3, stride), nn.ReLU(inplace=True),
                *normed(width, 4 * width, 1)))
            size = 4 * width
    return nn.Sequential(*layers, *head(size, ask["classes"]))


MODELS = {"mnistcnn": mnistcnn, "mlp": mlp, "resnet20": resnet20, "resnet50": resnet50}


def main():
    ask = json.loads(sys.argv[1])
    if ask["model"] not in MODELS:
        say(error="no model %s here; there are %s" % (ask["model"], ", ".join(MODELS)))
        sys.exit(1)
    torch.set_num_threads(ask["threads"])
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    model = MODELS[ask["model"]](ask).train()
    x = torch.randn(ask["batch"], ask["channels"], ask["height"], ask["width"])
    y = torch.randint(ask["classes"], (ask["batch"],))
    if ask["channels_last"]:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=ask.get("autocast", False)):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    loss = step().item()
    say(params=sum(p.numel() for p in model.parameters()), torch=torch.__version__,
        threads=torch.get_num_threads(), loss=loss)
    for line in sys.stdin:
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        start = time.perf_counter()
        for _ in range(int(line)):
            step()
        seconds = time.perf_counter() - start
        say(seconds=seconds, faults=resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)


main()
