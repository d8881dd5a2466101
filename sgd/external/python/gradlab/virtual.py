"""PyTorch's ranks on a virtual cluster: torch.distributed.init_process_group("gradlab").

Gloo moves the numbers, between processes of this machine. What each rank computes and
which collectives it makes is told to the command that started the processes,

    gradlab virtual network.bandwidth=10Gbps -- torchrun --nproc_per_node=8 train.py

and its virtual clock says how long that would take if each rank had a machine of its
own. `python3 -m gradlab.virtual train.py` runs a script that names another backend.
"""
import collections
import datetime
import inspect
import json
import multiprocessing.util
import os
import socket
import sys
import threading
import time
import weakref
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import gradlab
from gradlab.operations import Waiter, in_order, one_type, overloads, results, size, then, width

WHERE, STATED = "GRADLAB_VIRTUAL", "GRADLAB_STATED"
ENDED = "the virtual cluster has ended; gradlab virtual says why"


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
        self.pid, self.lock, self.count = os.getpid(), threading.RLock(), 0
        self.measured, self.stated = not os.environ.get(STATED), 0.0
        self.of = threading.local()
        self.of.act, self.of.last = 0, time.thread_time()
        self.pending = []  # what the end of a backward pass waits for
        self.tell("hello", rank=rank, world=world)
        # At the end of a process that multiprocessing forked, too, where atexit calls nothing.
        multiprocessing.util.Finalize(None, self.end, exitpriority=0)

    def number(self):
        with self.lock:
            self.count += 1
            return self.count

    def tell(self, do, **fields):
        """Tells what the activity of this thread does next."""
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
        if os.getpid() != self.pid:
            return  # a process that was forked, such as one that loads data
        try:
            self.socket.sendall(json.dumps(event).encode() + b"\n")
        except OSError:
            raise RuntimeError(ENDED) from None

    def end(self):
        try:
            self.tell("end")
        except RuntimeError:
            pass  # the cluster has ended before

    def skip(self):
        """What this thread did since it told something last is not billed."""
        self.of.last = time.thread_time()

    @contextmanager
    def unbilled(self):
        """What this thread does here is not billed; what it did before is, later."""
        before = time.thread_time() - getattr(self.of, "last", time.thread_time())
        try:
            yield
        finally:
            self.of.last = time.thread_time() - before

    def ask(self):
        if getattr(self.of, "act", None) != 0:
            raise RuntimeError("the time is that of the thread that called init_process_group: ask there")
        self.tell("now")
        answer = self.answers.readline()
        self.skip()
        if not answer:
            raise RuntimeError(ENDED)
        return float(answer)

    def begin(self, do, **fields):
        """Begins an operation and returns its number."""
        id = self.number()
        self.tell(do, id=id, **fields)
        return id

    def fork(self, after=()):
        """The number of an activity that begins now, and waits first for pairs of what to do and a number.

        These are told at once: the clock must not need the first event of an activity that
        begins when other ranks have done something. The backward pass that goes on waits for its end.
        """
        id = self.number()
        self.tell("fork", id=id)
        with self.lock:
            for do, what in after:
                self.write(dict(do=do, act=id, id=what))
        self.after_backward("join", id)
        return id

    @contextmanager
    def act(self, id):
        """This thread is an activity."""
        outer = getattr(self.of, "act", None)
        with self.unbilled():
            self.of.act = id
            self.skip()
            try:
                yield
            finally:
                self.tell("end")
                self.of.act = outer

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


# What PyTorch may ask of a group's backend and not of the group.
ASKED = ("allgather", "all_gather_single", "all_gather_single_coalesced", "allgather_coalesced", "allreduce", "allreduce_coalesced",
         "all_to_all_single", "alltoall", "barrier", "broadcast", "gather", "recv", "recv_anysource", "reduce", "reduce_scatter",
         "reduce_scatter_single", "reduce_scatter_single_coalesced", "scatter", "send")


def backend_of(group):
    """A backend that hands all it is asked to the group, so that no way in goes past the clock; None where
    PyTorch lets no class of Python be one."""
    kind = getattr(c10d, "Backend", None)
    if kind is None or not hasattr(kind, "all_gather_single"):
        return None
    of = weakref.ref(group)
    methods = {name: lambda self, *args, name=name: getattr(of(), name)(*args) for name in ASKED if hasattr(Group, name)}
    return type("Backend", (kind,), dict(methods, getBackendName=lambda self: "gradlab"))(group.me, group.world)


class Group(dist.ProcessGroup):
    """A process group over gloo that tells the virtual clock what it does."""

    made = collections.Counter()

    def __init__(self, clock, store, rank, world, timeout, ranks):
        super().__init__(rank, world)
        self.clock, self.ranks, self.me, self.world = clock, list(ranks), rank, world
        name = tuple(ranks)
        self.where = dict(group=self.ranks, of=Group.made[name])
        Group.made[name] += 1
        if sum(Group.made.values()) > 1:  # gloo waits for all ranks of the group here
            clock.tell("wait", id=clock.begin("barrier", **self.where))
        self.inner = dist.ProcessGroupGloo(store, rank, world, timeout)
        self.backend = backend_of(self)
        if self.backend is not None:
            self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, self.backend)
            self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
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

    def _set_group_name(self, name):
        """PyTorch keeps the name with backends, and older ones have none here."""
        self.called = name

    @property
    def group_name(self):
        return self.called

    def _get_backend(self, device):
        """Whom PyTorch asks what a group can do."""
        return self.inner

    def global_rank(self, rank):
        if not 0 <= rank < self.world:
            raise ValueError("rank %d is not in a group of %d ranks" % (rank, self.world))
        return self.ranks[rank]

    def begin(self, do, run, outputs=None, finish=None, **fields):
        """Begins an operation of gloo, and tells of it if gloo takes it."""
        with self.clock.unbilled():
            inner = run()
        id = self.clock.begin(do, **self.where, **fields)
        w = Waiter(self.clock, id, inner, outputs if finish is not None else None, finish)
        if getattr(self.clock.of, "act", None) == 0:
            self.clock.after_backward("wait", id)
        self.clock.skip()
        self.kept.append(w)
        return w

    @overloads(c10d.AllreduceOptions, "op")
    def allreduce(self, tensors, opts):
        moved, finish = results(tensors, wider=True)
        do = "all_gather" if tensors[0].is_sparse else "all_reduce"  # gloo gathers sparse ones
        return self.begin(do, lambda: self.inner.allreduce(moved, opts), tensors, finish, bytes=size(tensors), width=width(tensors))

    @overloads(c10d.AllreduceCoalescedOptions)
    def allreduce_coalesced(self, tensors, opts):
        moved, finish = results(tensors, wider=True)
        return self.begin("all_reduce", lambda: self.inner.allreduce_coalesced(moved, opts), tensors, finish,
                          bytes=size(tensors), width=width(tensors))

    @overloads(c10d.ReduceOptions, "root", "op")
    def reduce(self, tensors, opts):
        peer = self.global_rank(opts.rootRank)
        moved, finish = results(tensors, wider=True)
        return self.begin("reduce", lambda: self.inner.reduce(moved, opts), tensors, finish, bytes=size(tensors), width=width(tensors), peer=peer)

    @overloads(c10d.BroadcastOptions, "root")
    def broadcast(self, tensors, opts):
        peer = self.global_rank(opts.rootRank)
        moved, finish = results(tensors)
        return self.begin("broadcast", lambda: self.inner.broadcast(moved, opts), tensors, finish, bytes=size(tensors), peer=peer)

    @overloads(c10d.AllgatherOptions)
    def allgather(self, output_tensors, input_tensors, opts):
        moved, finish = results(output_tensors[0])
        own = [in_order(t) for t in input_tensors]
        return self.begin("all_gather", lambda: self.inner.allgather([moved], own, opts), output_tensors, finish, bytes=size(own))

    def all_gather_single(self, output, input, *opts):
        if output.numel() != self.world * input.numel():
            raise ValueError("all_gather: an output of %d elements; want %d of each of %d ranks" % (output.numel(), input.numel(), self.world))
        (whole,), finish = results([output])
        parts = list(whole.view(self.world, -1).unbind())
        return self.begin("all_gather", lambda: self.inner.allgather([parts], [in_order(input).view(-1)]), output, finish or (lambda: None),
                          bytes=size([input]))

    def all_gather_single_coalesced(self, outputs, inputs, *opts):
        sizes = [t.numel() for t in inputs]
        whole = torch.empty(self.world * sum(sizes), dtype=one_type("all_gather", inputs))

        def finish():
            for t, part in zip(outputs, whole.view(self.world, -1).split(sizes, 1)):
                t.copy_(part.reshape(t.shape))

        return then(self.all_gather_single(whole, torch.cat([t.reshape(-1) for t in inputs])), finish, outputs)

    def allgather_coalesced(self, output_lists, input_list, *opts):
        pairs = [results(outputs) for outputs in output_lists]
        own = [in_order(t) for t in input_list]

        def finish():
            for _, f in pairs:
                if f is not None:
                    f()

        return self.begin("all_gather", lambda: self.inner.allgather_coalesced([moved for moved, _ in pairs], own, *opts), output_lists, finish,
                          bytes=size(own))

    @overloads(c10d.GatherOptions, "root", empty=["output_tensors"])
    def gather(self, output_tensors, input_tensors, opts):
        peer = self.global_rank(opts.rootRank)
        moved, finish = results(output_tensors[0]) if self.me == opts.rootRank else ([], None)
        own = [in_order(t) for t in input_tensors]
        outputs = [moved] if self.me == opts.rootRank else output_tensors
        return self.begin("gather", lambda: self.inner.gather(outputs, own, opts), output_tensors, finish, bytes=size(own), peer=peer)

    @overloads(c10d.ScatterOptions, "root", empty=["input_tensors"])
    def scatter(self, output_tensors, input_tensors, opts):
        peer = self.global_rank(opts.rootRank)
        moved, finish = results(output_tensors)
        parts = [[in_order(t) for t in l] for l in input_tensors]
        return self.begin("scatter", lambda: self.inner.scatter(moved, parts, opts), output_tensors, finish, bytes=size(output_tensors), peer=peer)

    @overloads(c10d.ReduceScatterOptions, "op")
    def reduce_scatter(self, output_tensors, input_tensors, opts):
        """Not every gloo has one: every rank sums all of it, the cluster is told of a reduce-scatter of equal parts."""
        (output,), parts = output_tensors, input_tensors[0]
        if len(parts) != self.world or parts[self.me].numel() != output.numel():
            raise ValueError("reduce_scatter: inputs of %s elements for %d ranks, and an output of %d on rank %d; want one input for each rank, and an output like that for its own"
                             % ([t.numel() for t in parts], self.world, output.numel(), self.me))
        whole = in_order(torch.cat([t.reshape(-1) for t in parts]), wider=True)
        o = c10d.AllreduceOptions()
        o.reduceOp, o.timeout = opts.reduceOp, opts.timeout
        at = sum(t.numel() for t in parts[:self.me])

        def finish():
            output.copy_(whole[at:at + output.numel()].view_as(output))

        each = -(-whole.numel() // self.world) * output.element_size()
        return self.begin("reduce_scatter", lambda: self.inner.allreduce([whole], o), [output], finish, bytes=each, width=output.element_size())

    def reduce_scatter_single(self, output, input, *opts):
        if input.numel() != self.world * output.numel():
            raise ValueError("reduce_scatter: an input of %d elements; want %d for each of %d ranks" % (input.numel(), output.numel(), self.world))
        return self.reduce_scatter([output], [list(in_order(input).view(self.world, -1).unbind())], *opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, *opts):
        sizes = [t.numel() for t in outputs]
        own = torch.empty(sum(sizes), dtype=one_type("reduce_scatter", inputs))

        def finish():
            for t, part in zip(outputs, own.split(sizes)):
                t.copy_(part.view(t.shape))

        return then(self.reduce_scatter_single(own, torch.cat([t.reshape(self.world, -1) for t in inputs], 1), *opts), finish, outputs)

    @overloads(c10d.AllToAllOptions, lists=False)
    def all_to_all_single(self, output, input, output_split_sizes, input_split_sizes, opts):
        """The cluster is told of equal parts."""
        (whole,), finish = results([output])
        own, out_sizes, in_sizes = in_order(input), list(output_split_sizes), list(input_split_sizes)
        return self.begin("all_to_all", lambda: self.inner.alltoall_base(whole, own, out_sizes, in_sizes, opts), output, finish,
                          bytes=-(-size([own]) // self.world))

    @overloads(c10d.AllToAllOptions)
    def alltoall(self, output_tensors, input_tensors, opts):
        """Gloo's works on one tensor a rank."""
        if len(output_tensors) != self.world or len(input_tensors) != self.world:
            raise ValueError("all_to_all: %d outputs and %d inputs; want one of each for each of %d ranks" % (len(output_tensors), len(input_tensors), self.world))
        whole = torch.cat([t.reshape(-1) for t in input_tensors])
        sizes = [t.numel() for t in output_tensors]
        out = torch.empty(sum(sizes), dtype=output_tensors[0].dtype, device=whole.device)

        def finish():
            for t, o in zip(output_tensors, out.split(sizes)):
                t.copy_(o.view_as(t))

        return self.begin("all_to_all", lambda: self.inner.alltoall_base(out, whole, sizes, [t.numel() for t in input_tensors], opts),
                          output_tensors, finish, bytes=-(-size(input_tensors) // self.world))

    # What PyTorch called them before 2.15.
    _allgather_base, _reduce_scatter_base, alltoall_base = all_gather_single, reduce_scatter_single, all_to_all_single

    @overloads(c10d.BarrierOptions)
    def barrier(self, opts):
        return self.begin("barrier", lambda: self.inner.barrier(opts))

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        if isinstance(timeout, (int, float)):
            timeout = datetime.timedelta(seconds=timeout)
        self.clock.tell("wait", id=self.clock.begin("barrier", **self.where))
        try:
            self.inner.monitored_barrier(*([] if timeout is None else [timeout]), wait_all_ranks=wait_all_ranks)
        finally:
            self.clock.skip()

    def send(self, tensors, dst, tag=0):
        peer = self.global_rank(dst)
        own = [in_order(t) for t in tensors]
        return self.begin("send", lambda: self.inner.send(own, dst, tag), bytes=size(own), peer=peer, tag=tag)

    def recv(self, tensors, source, tag=0):
        peer = self.global_rank(source)
        moved, finish = results(tensors)
        return self.begin("recv", lambda: self.inner.recv(moved, source, tag), tensors, finish, peer=peer, tag=tag)

    def recv_anysource(self, tensors, tag=0):
        moved, finish = results(tensors)
        return self.begin("recv", lambda: self.inner.recv_anysource(moved, tag), tensors, finish, peer=-1, tag=tag)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """torch.distributed.monitored_barrier, which is for gloo and asks for its name."""
    of = group if group is not None else dist.distributed_c10d._get_default_group()
    if isinstance(of, Group):
        return of.monitored_barrier(timeout, wait_all_ranks)
    return theirs(group, timeout, wait_all_ranks)


theirs, dist.monitored_barrier = dist.monitored_barrier, monitored_barrier


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


def in_place():
    """Has init_process_group and new_group of a script make groups of the backend gradlab, whatever it says."""
    init, new = dist.init_process_group, dist.new_group

    def init_process_group(backend=None, *args, **options):
        return init("gradlab", *args, **options)

    def new_group(ranks=None, timeout=None, backend=None, *args, **options):
        return new(ranks, *([] if timeout is None else [timeout]), **options)

    dist.init_process_group, dist.new_group = init_process_group, new_group


def main():
    """Runs a script on the virtual cluster, whichever backend it names."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python3 -m gradlab.virtual SCRIPT [ARGUMENT ...]")
    import runpy
    in_place()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    # What the script imports is the module, not __main__.
    from gradlab import virtual
    virtual.main()
