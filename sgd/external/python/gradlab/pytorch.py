"""A torch.nn.Module as the model of a gradlab run: gradlab.serve(model, loss_fn)."""
import collections
import ctypes

import numpy as np
import torch

import gradlab
from gradlab import cuda
from gradlab.memory import Memory


class Module(gradlab.Worker):
    """Serves a module. Its parameters become tensors of the run, its floating-point
    buffers (running statistics) tensors of role buffer.

    model: the module, or a function of (shape, classes) that makes it.
    loss_fn(output, target): the mean loss of a batch. Where samples are mixed (mixup, cutmix)
        target has the share of each class in a sample, as cross_entropy takes it.
    train_set, test_set: with data=external, what samples are read from, by number; an item
        is (input, target). Without them samples are the run's own.
    correct_fn(output, target): the number of right predictions, or False where there is
        nothing to be right about (the loss then compares runs). The default compares the
        largest output with the target, of several outputs the first or the one that is called
        logits; where a sample of the program's own has no class for its target, it is False.
    metrics_fn(output, target): other means over a batch, by name: {"mae": 0.3}.
    metrics: whether more or less is better of each, perhaps with its unit: {"mae": "less"},
        {"delay": ("less", "ms")}.
    init_fn(model, seed): draws the first weights; the default calls reset_parameters of
        every layer that has it, after torch.manual_seed(seed).
    device: where the module computes, such as cuda. cuda:* gives each process a GPU that no
        other has, while there are such.
    threads: threads of a process; there are as many processes as workers at work.

    Chance (dropout, augmentation) is drawn from torch's generator, which is set anew from
    the run's seed and the first sample's position before each step. So a step depends on
    nothing before it, and a run that was stopped goes on with the same bits.
    """

    takes = ("mixed", "sides")

    def __init__(self, model, loss_fn, train_set=None, test_set=None, correct_fn=None,
                 init_fn=None, metrics_fn=None, metrics=None, device="cpu", threads=1):
        set_threads(threads)
        self.make, self.model = (None, model) if isinstance(model, torch.nn.Module) else (model, None)
        if correct_fn is None:
            correct_fn = correct if train_set is None or is_class(train_set[0][1]) else False
        self.loss_fn, self.correct_fn, self.init_fn = loss_fn, correct_fn, init_fn or reset
        self.metrics_fn, self.metrics = metrics_fn or (lambda output, target: {}), dict(metrics or {})
        self.counts = correct_fn is not False
        self.sets, self.device, self.copies = (train_set, test_set), cuda.claim(device), None

    def begin(self, shape, classes):
        self.shape, self.bound = shape, None
        if self.model is None:
            self.model = self.make(shape, classes)
        self.model.to(self.device)
        roles = roles_of(self.model)
        self.parts, self.tensors, self.shapes = {}, [], {}
        for name, p in self.model.named_parameters():
            if not p.requires_grad:
                continue
            self.add(name, p, roles[id(p)])
        for name, b in self.model.named_buffers():
            if b.is_floating_point():
                self.add(name, b, "buffer")
        return self.flops()

    def add(self, name, tensor, role):
        if tensor.dtype != torch.float32:
            raise TypeError("%s is of %s; gradlab trains float32" % (name, tensor.dtype))
        self.parts[name] = (tensor, role)
        rows = tensor.shape[0] if tensor.dim() > 1 else 1
        self.tensors.append((name, (rows, tensor.numel() // rows), role))
        self.shapes[name] = tuple(tensor.shape) or (1, 1)

    def flops(self):
        """Two operations for each product of a dense layer or a convolution, of one sample."""
        names = {id(p): n for n, (p, _) in self.parts.items()}
        out, hooks, shape = {}, [], self.sized()

        def count(m, inputs, output):
            if id(m.weight) in names:
                positions = output[0].numel() / m.weight.shape[0]
                out[names[id(m.weight)]] = out.get(names[id(m.weight)], 0) + 2 * m.weight.numel() * positions

        for m in self.model.modules():
            if isinstance(m, (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)):
                hooks.append(m.register_forward_hook(count))
        self.model.eval()
        with torch.no_grad():
            self.model(self.inputs(np.zeros((1, int(np.prod(shape))), np.float32), np.zeros(1, np.int32))[0])
        for h in hooks:
            h.remove()
        return out

    def at(self, side):
        self.side = side
        return self.flops()

    def sized(self):
        """The shape of the samples of this step."""
        return tuple(self.shape[:1]) + (self.side, self.side) if self.side else tuple(self.shape)

    def share(self, size, half, before):
        if self.device.type == "cuda" and self.copies is None:
            self.copies = cuda.Copies(self.device)
        self.memory = TensorMemory(size, self.tensors, half, before, self.copies)
        return self.memory

    def init(self, params, seed):
        self.init_fn(self.model, seed)
        for name, (t, _) in self.parts.items():
            params[name][...] = t.detach().cpu().numpy().reshape(params[name].shape)

    def load(self, params):
        """Takes what was sent. On a CPU parameters are the shared memory itself."""
        with torch.no_grad():
            if self.device.type != "cpu":
                there, at = self.memory.all.to(self.device, non_blocking=True), 0  # in one copy
                for t, _ in self.parts.values():
                    t.copy_(there[at:at + t.numel()].view(t.shape))
                    at += t.numel()
                return
            for name, (t, role) in self.parts.items():
                sent = torch.from_numpy(params[name]).view(t.shape)
                if role == "buffer":
                    t.copy_(sent)
                elif self.bound is not params:
                    t.data = sent
        self.bound = params

    def inputs(self, x, y):
        """The samples of a batch as tensors: the run's, or those that their numbers name."""
        if self.sets[0] is None:
            x, y = torch.from_numpy(x).view((-1,) + self.sized()), torch.from_numpy(y)
            return x.to(self.device), (y if y.is_floating_point() else y.long()).to(self.device)
        if x.shape[1] != 1:
            raise ValueError("the program has samples of its own, and was sent others: data=external(train=...,test=...)")
        picked = []
        for i, part in zip(x[:, 0].astype(int), y):
            if i >= len(self.sets[part]):
                raise IndexError("%s sample %d of %d: the counts of data=external are not those of the program" %
                                 (("training", "test")[part], i, len(self.sets[part])))
            picked.append(self.sets[part][int(i)])
        columns = [torch.stack([torch.as_tensor(v) for v in c]).to(self.device) for c in zip(*picked)]
        return columns[0], columns[1]

    def step(self, params, x, y, seed, first, ready):
        torch.manual_seed((seed * 0x9E3779B97F4A7C15 + first) % (1 << 63))
        self.load(params)
        self.model.train()
        self.model.zero_grad(set_to_none=True)
        old = {n: t.detach().clone() for n, (t, role) in self.parts.items() if role == "buffer"}
        left = self.parts.keys() - old.keys()

        def hand(name, grad):
            left.discard(name)
            ready(name, grad.detach())

        # The hook of a leaf runs once, when its gradient is whole.
        hooks = [self.parts[n][0].register_hook(lambda g, n=n: hand(n, g)) for n in left]
        try:
            data, target = self.inputs(x, y)
            loss = self.loss_fn(self.model(data), target)
            loss.backward()
        finally:
            for h in hooks:
                h.remove()
        for name in sorted(left):  # took no part
            ready(name, torch.zeros_like(self.parts[name][0]))
        for name, before in old.items():
            ready(name, before - self.parts[name][0].detach())
        return loss.item(), {}

    def evaluate(self, params, x, y):
        self.load(params)
        self.model.eval()
        with torch.no_grad():
            data, target = self.inputs(x, y)
            output = self.model(data)
            right = int(self.correct_fn(output, target)) if self.correct_fn else 0
            return self.loss_fn(output, target).item(), right, self.metrics_fn(output, target)


class TensorMemory(Memory):
    """Memory whose gradients come as tensors, in their own shapes. With copies they come from
    a GPU, some at a time, and are there when their events say so."""

    together = 4 << 20  # bytes that are copied at once: each copy costs the thread of the backward pass

    def __init__(self, size, tensors, half, before=None, copies=None):
        super().__init__(size, tensors, half, before)
        self.copies, self.due, self.under_way = copies, [], collections.deque()
        self.places = {name: as_tensor(g) for name, g in self.grads.items()}
        self.all = as_tensor(self.sent)  # parameters, in the order of tensors
        if copies is not None:
            copies.pin(torch.from_numpy(self.raw))

    def close(self):
        if self.copies is not None:
            self.copies.unpin(torch.from_numpy(self.raw))

    def read(self):
        if self.half and self.copies is None:
            torch.from_numpy(self.flat).copy_(as_tensor(self.sent))

    def write(self, name, grad):
        to = self.places[name]
        grad = grad.reshape(to.shape)
        if self.copies is None:
            to.copy_(grad)
            self.there.append(name)
        else:  # rounded on the device, so that the copy is of as few bytes
            grad = grad.to(to.dtype)
            self.due.append((name, to, grad))
            if sum(t.numel() * t.element_size() for _, t, _ in self.due) >= self.together:
                self.send()

    def send(self):
        """Begins to copy what is due."""
        self.under_way.append((self.due, self.copies.down([d[1:] for d in self.due])))
        self.due = []

    def arrived(self, wait=False):
        if wait and self.due:
            self.send()
        while self.under_way and (wait or self.under_way[0][1].query()):
            sent, event = self.under_way.popleft()
            event.synchronize()
            self.there.extend(name for name, _, _ in sent)
        return super().arrived(wait)


def as_tensor(a):
    """An array as a tensor of the same memory, uint16 as bfloat16."""
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if a.dtype == np.uint16 else torch.from_numpy(a)


def set_threads(n):
    """Sets the threads of torch's operations, and of an OpenBLAS that torch is linked with.

    An OpenBLAS with threads of its own, as Debian has it, takes every core whatever
    torch.set_num_threads says, and what waits there spins.
    """
    torch.set_num_threads(n)
    with open("/proc/self/maps") as f:
        loaded = {line.split()[-1] for line in f if "openblas" in line}
    for path in sorted(loaded):
        set_blas = getattr(ctypes.CDLL(path), "openblas_set_num_threads", None)
        if set_blas is not None:
            set_blas(n)


def roles_of(model):
    """The roles of a model's parameters, by their ids. A table that is tied to a layer stays a table."""
    roles = {id(p): "weight" if p.dim() > 1 else "bias" for p in model.parameters()}
    for m in model.modules():
        role = "norm" if is_norm(m) else "embedding" if is_table(m) else None
        roles.update({id(p): role for p in m.parameters(recurse=False) if role})
    return roles


def is_table(m):
    return isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag))


def is_norm(m):
    return isinstance(m, (torch.nn.modules.batchnorm._NormBase, torch.nn.LayerNorm, torch.nn.GroupNorm, torch.nn.LocalResponseNorm,
                          getattr(torch.nn, "RMSNorm", torch.nn.LayerNorm)))


def is_class(target):
    """Whether a sample's target is the number of its class."""
    target = torch.as_tensor(target)
    return target.dim() == 0 and not target.is_floating_point()


def correct(output, target):
    if isinstance(output, dict):
        output = output["logits"] if "logits" in output else next(iter(output.values()))
    elif isinstance(output, (tuple, list)):
        output = output[0]
    if output.dim() != 2 or target.is_floating_point():
        return 0
    return (output.argmax(1) == target).sum()


def reset(model, seed):
    torch.manual_seed(seed % (1 << 63))
    for m in model.modules():
        if hasattr(m, "reset_parameters"):
            m.reset_parameters()
