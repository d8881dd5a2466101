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


class Block(nn.Module):
    """x + attention(norm(x)), then x + W2 gelu(W1 norm(x)), without biases."""

    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Tables of tokens and positions, blocks, a norm, and the table of tokens again."""

    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.empty(context, width))
        self.blocks = nn.Sequential(*(Block(heads, width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):
        return F.linear(self.norm(self.blocks(self.tokens(x) + self.positions)), self.tokens.weight)


def gpt(ask, layers=4, heads=4, width=128):
    return GPT(ask["vocabulary"], ask["context"], int(layers), int(heads), int(width))


MODELS = {"mnistcnn": mnistcnn, "mlp": mlp, "resnet20": resnet20, "resnet50": resnet50, "gpt": gpt}


def adamw(model):
    """Weights decay, what has one dimension does not; in one kernel where there is one."""
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    try:
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    except (RuntimeError, TypeError):  # before 2.4
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))


def main():
    ask = json.loads(sys.argv[1])
    family, _, options = ask["model"].rstrip(")").partition("(")
    if family not in MODELS:
        say(error="no model %s here; there are %s" % (family, ", ".join(MODELS)))
        sys.exit(1)
    if ask["compiled"] and not hasattr(torch, "compile"):
        say(eager=True)
        sys.exit()
    torch.set_num_threads(ask["threads"])
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    model = MODELS[family](ask, **dict(option.split("=") for option in options.split(",") if option)).train()
    if ask["vocabulary"]:
        x = torch.randint(ask["vocabulary"], (ask["batch"], ask["context"]))
        y = torch.randint(ask["classes"], (ask["batch"] * ask["context"],))
        optimizer = adamw(model)
    else:
        x = torch.randn(ask["batch"], ask["channels"], ask["height"], ask["width"])
        y = torch.randint(ask["classes"], (ask["batch"],))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if ask["channels_last"]:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    forward = torch.compile(model) if ask["compiled"] else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=ask.get("autocast", False)):
            loss = F.cross_entropy(forward(x).view(-1, ask["classes"]), y)
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
