"""What gradlab.resnet says of itself: laws of first weights, options, and what is refused; and which GPU a process claims."""
import tempfile

import torch

from gradlab import cuda, resnet


def refused(text, says):
    try:
        resnet.parse(text)
    except ValueError as e:
        assert says in str(e), (text, e)
    else:
        raise AssertionError("%s is taken" % text)


refused("resnet20", "resnet18, resnet34")
refused("resnet50(", "no network")
refused("resnet50(ghost=32)", "no option 'ghost'")
refused("resnet18(version=v1)", "no option 'version'")
refused("resnet50(version=v2)", "v1.5, v1")
refused("resnet50(init=glorot)", "he, goyal")
refused("resnet50(smoothing=lots)", "from 0 to 1")
refused("resnet50(bn_momentum=2)", "from 0 to 1")
assert resnet.parse("resnet18") == ("resnet18", resnet.DEFAULTS)
assert resnet.parse("resnet50(zero_gamma=true, init=goyal)")[1] == dict(resnet.DEFAULTS, zero_gamma="true", init="goyal")

for text, deviation, fc in (("resnet18", (2 / (64 * 9)) ** 0.5, (2 / (512 + 1000)) ** 0.5), ("resnet18(init=goyal,zero_gamma=true)", (2 / (128 * 9)) ** 0.5, 0.01)):
    name, options = resnet.parse(text)
    net = resnet.ResNet(name, options, (3, 32, 32), 1000)
    net.start(1)
    first = net.fc.weight.clone()
    assert sum(p.numel() for p in net.parameters()) == 11689512
    for tensor, want in ((net.layer2[0].conv1.weight, deviation), (net.fc.weight, fc)):
        assert abs(tensor.std().item() / want - 1) < 0.02 and abs(tensor.mean().item()) < 0.02 * want, (text, tensor.std(), want)
    assert net.fc.bias.abs().max() == 0
    gamma = net.layer1[0].bn2.weight
    assert gamma.eq(0 if "zero" in text else 1).all() and net.layer1[0].bn1.weight.eq(1).all()
    net.start(2)
    other = net.fc.weight.clone()
    net.start(1)
    assert first.equal(net.fc.weight) and not first.equal(other)

for text, strides in (("resnet50", [1, 2, 1]), ("resnet50(version=v1)", [2, 1, 1]), ("resnet34", [2, 1])):  # which convolution halves the grid
    name, options = resnet.parse(text)
    block = resnet.ResNet(name, options, (3, 32, 32), 10, width=8).layer2[0]
    assert [getattr(block, "conv%d" % (i + 1)).stride[0] for i in range(block.count)] == strides and block.downsample[0].stride[0] == 2, text

narrow = resnet.ResNet("resnet18", resnet.DEFAULTS, (3, 32, 32), 10, torch.bfloat16)
seen = []
narrow.layer1[0].conv1.register_forward_hook(lambda m, x, y: seen.append(y.dtype))
assert narrow(torch.zeros(2, 3, 32, 32)).dtype == torch.float32 and seen == [torch.bfloat16], seen

# Two GPUs: each is claimed once before one is claimed twice, and free again when who claimed it ends.
with tempfile.TemporaryDirectory() as folder:
    claims = [cuda.claim("cuda:*", lambda: 2, folder).index for _ in range(5)]
    assert claims == [0, 1, 0, 1, 0], claims
    cuda.held.pop(1).close()
    assert cuda.claim("cuda:*", lambda: 2, folder).index == 1
    assert cuda.claim("cpu", lambda: 0, folder).type == "cpu" and cuda.claim("cuda:1", lambda: 2, folder).index == 1
    try:
        cuda.claim("cuda:*", lambda: 0, folder)
    except ValueError as e:
        assert "no GPU" in str(e)
    else:
        raise AssertionError("a GPU is claimed where there is none")
print("fine")
