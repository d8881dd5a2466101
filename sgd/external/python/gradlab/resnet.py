"""The residual networks of ImageNet in PyTorch, for those who have GPUs.

    gradlab run goyal2017 data=imagenet \\
      'model=external(command="python3 -m gradlab.resnet resnet50(zero_gamma=true,init=goyal) --device=cuda:*")'

They are what model=resnet18, 34, 50, 101 and 152 are, with the same options and defaults, and
their tensors have torchvision's names. First weights are of the same laws, drawn by torch.
"""
import argparse
import math
import re

import torch
from torch import nn
from torch.nn import functional as F

from gradlab import cuda, pytorch

BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}
DEFAULTS = {"zero_gamma": "false", "smoothing": "0", "init": "he", "stem": "imagenet", "version": "v1.5", "bn_momentum": "0"}
ALLOWED = {"zero_gamma": ("false", "true"), "init": ("he", "goyal"), "stem": ("imagenet", "cifar"), "version": ("v1.5", "v1")}


class Block(nn.Module):
    """Two 3×3 convolutions, or with four times the channels behind it 1×1, 3×3 and 1×1."""

    def __init__(self, inside, width, stride, expansion, version):
        super().__init__()
        out = expansion * width
        layers = [(inside, width, 3, stride), (width, width, 3, 1)]
        if expansion > 1:
            first, second = (stride, 1) if version == "v1" else (1, stride)
            layers = [(inside, width, 1, first), (width, width, 3, second), (width, out, 1, 1)]
        self.count = len(layers)
        for i, (a, b, kernel, step) in enumerate(layers, 1):
            self.add_module("conv%d" % i, nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False))
            self.add_module("bn%d" % i, nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or inside != out:
            self.downsample = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def last(self):
        return getattr(self, "bn%d" % self.count)

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, "bn%d" % i)(getattr(self, "conv%d" % i)(y))
            if i < self.count:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A network by its name and options, for samples of a shape. narrow is None or the type of
    values that its products are of, width the channels of its first stage."""

    def __init__(self, name, options, shape, classes, narrow=None, width=64):
        super().__init__()
        self.options, self.narrow = options, narrow
        expansion = 1 if name in ("resnet18", "resnet34") else 4
        self.imagenet = options["stem"] == "imagenet"
        self.conv1 = nn.Conv2d(shape[0], width, 7, 2, 3, bias=False) if self.imagenet else nn.Conv2d(shape[0], width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inside = width
        for stage, count in enumerate(BLOCKS[name]):
            blocks = []
            for i in range(count):
                blocks.append(Block(inside, width << stage, 2 if stage and not i else 1, expansion, options["version"]))
                inside = expansion * width << stage
            self.add_module("layer%d" % (stage + 1), nn.Sequential(*blocks))
        self.fc = nn.Linear(inside, classes)
        momentum = float(options["bn_momentum"])
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d) and momentum > 0:
                m.momentum = momentum

    def forward(self, x):
        with torch.autocast(x.device.type, self.narrow, self.narrow is not None):
            return self.outputs(x).float()

    def outputs(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.imagenet:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))

    def start(self, seed):
        """Draws the first weights: convolutions N(0, 2/fan in) and Glorot's classifier, or with
        init=goyal N(0, 2/fan out) and N(0, 0.01²) (Goyal et al. 2017, section 5.1)."""
        pytorch.reset(self, seed)  # of torch's generator too
        goyal = self.options["init"] == "goyal"
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out" if goyal else "fan_in", nonlinearity="relu")
            elif isinstance(m, Block) and self.options["zero_gamma"] == "true":
                nn.init.zeros_(m.last().weight)
        nn.init.zeros_(self.fc.bias)
        if goyal:
            nn.init.normal_(self.fc.weight, 0, 0.01)
        else:
            nn.init.xavier_uniform_(self.fc.weight)


def parse(text):
    """Takes resnet50(zero_gamma=true) apart, into a name and all options."""
    found = re.fullmatch(r"(\w+)(?:\((.*)\))?", text.strip())
    if not found or found.group(1) not in BLOCKS:
        raise ValueError("no network %r: %s are here, with options in brackets" % (text, ", ".join(BLOCKS)))
    options = dict(DEFAULTS)
    for part in filter(None, (found.group(2) or "").split(",")):
        key, _, value = (s.strip() for s in part.partition("="))
        if key not in options or found.group(1) in ("resnet18", "resnet34") and key == "version":
            raise ValueError("%s: no option %r: %s are here" % (text, key, ", ".join(options)))
        if value not in ALLOWED.get(key, (value,)):
            raise ValueError("%s: %s is %r, not one of %s" % (text, key, value, ", ".join(ALLOWED[key])))
        if key not in ALLOWED and not 0 <= number(value) <= 1:
            raise ValueError("%s: %s is %r, not a number from 0 to 1" % (text, key, value))
        options[key] = value
    return found.group(1), options


def number(text):
    try:
        return float(text)
    except ValueError:
        return math.nan


def main(arguments=None):
    args = argparse.ArgumentParser(prog="python3 -m gradlab.resnet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("model", help="resnet18, 34, 50, 101 or 152, with the options of the model of that name but ghost")
    args.add_argument("--device", default="cpu", help="where it computes: cpu, cuda, cuda:1; cuda:* gives each process a GPU that no other has, while there are such")
    args.add_argument("--precision", default="float32", choices=("float32", "bfloat16"), help="of products; parameters and gradients are float32")
    args.add_argument("--threads", type=int, default=1, help="of a process")
    given = args.parse_args(arguments)
    try:
        (name, options), device = parse(given.model), cuda.claim(given.device)
    except ValueError as e:
        args.error(str(e))
    narrow = torch.bfloat16 if given.precision == "bfloat16" else None
    smoothing = float(options["smoothing"])

    def loss(output, target):
        return F.cross_entropy(output, target, label_smoothing=smoothing if output.requires_grad else 0.0)

    pytorch.Module(lambda shape, classes: ResNet(name, options, shape, classes, narrow), loss,
                   init_fn=ResNet.start, device=device, threads=given.threads).run()


if __name__ == "__main__":
    main()
