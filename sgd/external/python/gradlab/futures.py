"""Futures of a virtual cluster's operations: a wait for one is told to the clock first.

torch's Work.get_future returns futures that C++ makes, so the methods of their class are
replaced. Futures that stand for no operation do what they did.
"""
import weakref

import torch

Future = torch._C.Future
plain_then, plain_wait, plain_done, plain_callback = Future.then, Future.wait, Future.done, Future.add_done_callback
plain_collect = torch._C._collect_all

# The clock and what it must be told before a future's value is used: pairs of what to do and a number.
stands = weakref.WeakKeyDictionary()


def stand(future, clock, waits):
    """Lets a future stand for operations and activities; returns the future."""
    stands[future] = clock, tuple(waits)
    return future


def tell(future):
    """Tells the clock that this thread waits for a future."""
    clock, waits = stands.get(future, (None, ()))
    for do, id in waits:
        clock.tell(do, id=id)
    return clock


def wait(self):
    clock = tell(self)
    try:
        return plain_wait(self)
    finally:
        if clock is not None:
            clock.skip()


def done(self):
    """Whether the future has a value: a caller that knows it has waited for it."""
    there = plain_done(self)
    if there:
        tell(self)
    return there


def activity(self, callback):
    """A callback as an activity that begins behind what the future stands for, and its number."""
    clock, waits = stands[self]
    act = clock.fork(waits)

    def run(future):
        with clock.act(act):
            return callback(future)

    return clock, act, run


def then(self, callback):
    if self not in stands:
        return plain_then(self, callback)
    clock, act, run = activity(self, callback)
    return stand(plain_then(self, run), clock, [("join", act)])


def add_done_callback(self, callback):
    if self in stands:
        _, _, callback = activity(self, callback)
    return plain_callback(self, callback)


def collect_all(futures):
    """What torch.futures.collect_all and wait_all call."""
    futures, together = list(futures), plain_collect(futures)
    of = [stands[f] for f in futures if f in stands]
    return stand(together, of[0][0], [w for _, waits in of for w in waits]) if of else together


Future.then, Future.wait, Future.done, Future.add_done_callback = then, wait, done, add_done_callback
torch._C._collect_all = collect_all
