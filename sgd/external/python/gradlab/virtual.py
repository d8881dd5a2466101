"""PyTorch's ranks on a virtual cluster: torch.distributed.init_process_group("gradlab").

Gloo moves the numbers, between processes of this machine. What each rank computes and
which collectives it makes is told to the command that started the processes,

    gradlab virtual network.bandwidth=10Gbps -- torchrun --nproc_per_node=8 train.py

and its virtual clock says how long that would take if each rank had a machine of its
own. `python3 -m gradlab.virtual train.py` runs a script that names another backend.
"""
import atexit
import collections
import inspect
import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

import gradlab

WHERE, STATED = "GRADLAB_VIRTUAL", "GRADLAB_STATED"

# Gloo has no sums of these types; the cluster is told of the narrow ones.
WIDER = {torch.bfloat16: torch.float32, torch.int16: torch.int32}


def now():
    """This rank's time in seconds on the virtual clock."""
    return the_clock().ask()


def spend(seconds):
    """Lets the virtual device compute for so long, whatever this machine took.

    For what is not measured: only the time of this thread on a processor is, and nothing
    with gradlab virtual --stated.
    """
    the_clock().stated += seconds


def the_clock():
    if gradlab.clock is None:
        raise RuntimeError('there is no virtual clock: begin with torch.distributed.init_process_group("gradlab")')
    return gradlab.clock


class Clock:
    """Tells the command what this rank does.

    What goes on at once in a rank is told apart as activities: 0 is the thread that made
    the clock, others begin with fork and end with the end of act.
    """

    def __init__(self, path, rank, world):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.answers = self.socket.makefile("r")
        self.pid, self.lock, self.count = os.getpid(), threading.Lock(), 0
        self.measured, self.stated = not os.environ.get(STATED), 0.0
        self.of = threading.local()
        self.of.act, self.of.last = 0, time.thread_time()
        self.pending = []  # what the end of a backward pass waits for
        self.tell("hello", rank=rank, world=world)
        atexit.register(self.tell, "end")

    def number(self):
        self.count += 1
        return self.count

    def tell(self, do, **fields):
        """Tells what the activity of this thread does next."""
        if os.getpid() != self.pid:
            return  # a process that was forked, such as one that loads data
        with self.lock:
            act = getattr(self.of, "act", None)
            if act is None:  # a thread that nobody told of: it goes on from where the first one is
                act = self.number()
                self.write(dict(do="fork", id=act))
                self.write(dict(do=do, act=act, **fields))
                self.write(dict(do="end", act=act))
                return
            e = dict(do=do, act=act, **fields)
            if self.measured:
                e["spent"] = max(time.thread_time() - self.of.last, 0)
            if act == 0 and self.stated:
                e["stated"], self.stated = self.stated, 0.0
            self.write(e)
        self.skip()

    def write(self, event):
        self.socket.sendall(json.dumps(event).encode() + b"\n")

    def skip(self):
        """What this thread did since it told something last is not billed."""
        self.of.last = time.thread_time()

    def ask(self):
        if getattr(self.of, "act", None) != 0:
            raise RuntimeError("the time is that of the thread that called init_process_group: ask there")
        self.tell("now")
        answer = self.answers.readline()
        self.skip()
        if not answer:
            raise RuntimeError("the virtual cluster has ended; gradlab virtual says why")
        return float(answer)

    def begin(self, do, **fields):
        """Begins an operation and returns its number."""
        with self.lock:
            id = self.number()
        self.tell(do, id=id, **fields)
        return id

    def fork(self):
        """The number of an activity that begins now; the backward pass that goes on waits for its end."""
        with self.lock:
            id = self.number()
        self.tell("fork", id=id)
        self.after_backward("join", id)
        return id

    @contextmanager
    def act(self, id, after=None):
        """This thread is an activity, behind another."""
        self.of.act = id
        self.skip()
        if after is not None:
            self.tell("join", id=after)
        try:
            yield
        finally:
            self.tell("end")
            self.of.act = None

    def after_backward(self, do, id):
        """Has the end of the backward pass wait for what was begun in it; False if none goes on."""
        try:
            torch.autograd.Variable._execution_engine.queue_callback(self.backward_over)
        except RuntimeError:
            return False
        self.pending.append((do, id))
        return True

    def backward_over(self):
        pending, self.pending = self.pending, []
        for do, id in pending:
            self.tell(do, id=id)
        if pending:
            self.tell("step")


class Waiter(Work):
    """An operation: complete when gloo has moved the numbers, and later on the virtual clock."""

    def __init__(self, clock, id, inner, finish=None):
        super().__init__()
        self.clock, self.id, self.inner, self.finish = clock, id, inner, finish

    def wait(self, *timeout):
        self.clock.tell("wait", id=self.id)
        done = self.inner.wait(*timeout)
        if self.finish is not None:
            self.finish()
            self.finish = None
        self.clock.skip()
        return done

    def get_future(self):
        future = self.inner.get_future()
        if self.finish is not None:
            finish = self.finish
            return future.then(lambda f: (finish(), f.value())[1])
        return future

    def is_completed(self):
        return self.inner.is_completed()

    def is_success(self):
        return self.inner.is_success()

    def exception(self):
        return self.inner.exception()

    def result(self):
        return self.inner.result()

    def _source_rank(self):
        return self.inner._source_rank()

    def synchronize(self):
        self.wait()


def size(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


class Group(dist.ProcessGroup):
    """A process group over gloo that tells the virtual clock what it does."""

    made = collections.Counter()

    def __init__(self, clock, store, rank, world, timeout, ranks):
        super().__init__(rank, world)
        self.clock, self.inner, self.ranks = clock, dist.ProcessGroupGloo(store, rank, world, timeout), list(ranks)
        self.me, self.world = rank, world
        name = tuple(ranks)
        self.where = dict(group=self.ranks, of=Group.made[name])
        Group.made[name] += 1
        # PyTorch's own code may hold an operation when Python holds it no more.
        self.kept = collections.deque(maxlen=1024)

    def getBackendName(self):
        return "gradlab"

    def name(self):
        return "gradlab"

    def rank(self):
        return self.me

    def size(self):
        return self.world

    def begin(self, do, run, finish=None, **fields):
        id = self.clock.begin(do, **self.where, **fields)
        w = Waiter(self.clock, id, run(), finish)
        if getattr(self.clock.of, "act", None) == 0:
            self.clock.after_backward("wait", id)
        self.clock.skip()
        self.kept.append(w)
        return w

    def widened(self, do, tensors, run, **fields):
        """An operation with arithmetic: gloo may need a wider type for it."""
        wide = [t.to(WIDER[t.dtype]) if t.dtype in WIDER else t for t in tensors]

        def finish():
            for t, w in zip(tensors, wide):
                t.copy_(w)

        changed = any(t is not w for t, w in zip(tensors, wide))
        return self.begin(do, lambda: run(wide), finish if changed else None, bytes=size(tensors), width=tensors[0].element_size(), **fields)

    def allreduce(self, tensors, opts=None):
        opts = opts if opts is not None else dist.AllreduceOptions()
        return self.widened("all_reduce", tensors, lambda wide: self.inner.allreduce(wide, opts))

    def allreduce_coalesced(self, tensors, opts=None):
        opts = opts if opts is not None else dist.AllreduceCoalescedOptions()
        return self.begin("all_reduce", lambda: self.inner.allreduce_coalesced(tensors, opts), bytes=size(tensors))

    def reduce(self, tensors, opts):
        return self.widened("reduce", tensors, lambda wide: self.inner.reduce(wide, opts), peer=self.ranks[opts.rootRank])

    def broadcast(self, tensors, opts):
        return self.begin("broadcast", lambda: self.inner.broadcast(tensors, opts), bytes=size(tensors), peer=self.ranks[opts.rootRank])

    def allgather(self, outputs, inputs, *opts):
        return self.begin("all_gather", lambda: self.inner.allgather(outputs, inputs, *opts), bytes=size(inputs))

    def _allgather_base(self, output, input, *opts):
        return self.allgather([list(output.view(-1).split(input.numel()))], [input.reshape(-1)], *())

    def allgather_coalesced(self, outputs, inputs, *opts):
        return self.begin("all_gather", lambda: self.inner.allgather_coalesced(outputs, inputs, *opts), bytes=size(inputs))

    def gather(self, outputs, inputs, opts):
        return self.begin("gather", lambda: self.inner.gather(outputs, inputs, opts), bytes=size(inputs), peer=self.ranks[opts.rootRank])

    def scatter(self, outputs, inputs, opts):
        return self.begin("scatter", lambda: self.inner.scatter(outputs, inputs, opts), bytes=size(outputs), peer=self.ranks[opts.rootRank])

    def reduce_scatter(self, outputs, inputs, opts=None):
        """Gloo has none: every rank sums all of it, the cluster is told of a reduce-scatter."""
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        whole = torch.cat([t.reshape(-1) for t in inputs[0]])
        wide = whole.to(WIDER.get(whole.dtype, whole.dtype))
        o = dist.AllreduceOptions()
        o.reduceOp = op
        at = sum(t.numel() for t in inputs[0][:self.me])

        def finish():
            outputs[0].copy_(wide[at:at + outputs[0].numel()].view_as(outputs[0]))

        return self.begin("reduce_scatter", lambda: self.inner.allreduce([wide], o), finish, bytes=size(outputs), width=outputs[0].element_size())

    def _reduce_scatter_base(self, output, input, opts=None):
        return self.reduce_scatter([output], [list(input.view(-1).split(output.numel()))], opts)

    def alltoall_base(self, output, input, output_sizes, input_sizes, opts=None):
        """Gloo's works on one tensor a rank; the cluster is told of equal parts."""
        opts = opts if opts is not None else dist.AllToAllOptions()
        return self.begin("all_to_all", lambda: self.inner.alltoall_base(output, input, output_sizes, input_sizes, opts), bytes=-(-size([input]) // self.world))

    # What PyTorch 2.15 calls them.
    all_gather_single, reduce_scatter_single, all_to_all_single = _allgather_base, _reduce_scatter_base, alltoall_base

    def alltoall(self, outputs, inputs, opts=None):
        if len({t.numel() for t in inputs + outputs}) != 1:
            raise NotImplementedError("the backend gradlab makes all_to_all of tensors of one size; use all_to_all_single for others")
        whole, out = torch.stack(inputs), torch.empty((self.world,) + outputs[0].shape, dtype=outputs[0].dtype)

        def finish():
            for t, o in zip(outputs, out):
                t.copy_(o)

        o = opts if opts is not None else dist.AllToAllOptions()
        return self.begin("all_to_all", lambda: self.inner.alltoall_base(out, whole, [], [], o), finish, bytes=size(inputs[:1]))

    def barrier(self, opts=None):
        return self.begin("barrier", lambda: self.inner.barrier(*(() if opts is None else (opts,))))

    def send(self, tensors, to, tag=0):
        return self.begin("send", lambda: self.inner.send(tensors, to, tag), bytes=size(tensors), peer=self.ranks[to], tag=tag)

    def recv(self, tensors, source, tag=0):
        return self.begin("recv", lambda: self.inner.recv(tensors, source, tag), peer=self.ranks[source], tag=tag)

    def recv_anysource(self, tensors, tag=0):
        return self.begin("recv", lambda: self.inner.recv_anysource(tensors, tag), peer=-1, tag=tag)


def create(options, _=None):
    """Makes the group of init_process_group and of new_group."""
    path = os.environ.get(WHERE)
    if not path:
        raise RuntimeError("the backend gradlab needs a virtual cluster. Start the script by it: "
                           "gradlab virtual network.bandwidth=10Gbps -- torchrun --nproc_per_node=8 train.py")
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    if gradlab.clock is None:
        gradlab.clock = Clock(path, options.group_rank, options.group_size)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    g = Group(gradlab.clock, options.store, options.group_rank, options.group_size, options.timeout, ranks)
    gradlab.clock.skip()
    return g


if not hasattr(dist.Backend, "GRADLAB"):
    # PyTorch 2 asks which devices a backend is for, PyTorch 1.13 does not know the question.
    known = inspect.signature(dist.Backend.register_backend).parameters
    dist.Backend.register_backend("gradlab", create, extended_api=True, **({"devices": ["cpu"]} if "devices" in known else {}))


def main():
    """Runs a script whose init_process_group gets the backend gradlab, whatever it says."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python3 -m gradlab.virtual SCRIPT [ARGUMENT ...]")
    import runpy
    was = dist.init_process_group

    def init_process_group(backend=None, *args, **options):
        return was("gradlab", *args, **options)

    dist.init_process_group = init_process_group
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    # What the script imports is the module, not __main__.
    from gradlab import virtual
    virtual.main()
