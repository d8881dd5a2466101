"""Runs tests of torch's own distributed_test.py on four ranks.

Prints their names first, and behind the last one a dot. Then each line of the input names
a test and the socket of a virtual cluster, or - for gloo alone; a line of the output says
what became of it.
"""
import os
import sys
import tempfile
import unittest

os.environ.update(BACKEND="gloo", WORLD_SIZE="4", TEMP_DIR=tempfile.mkdtemp(), USE_LIBUV="0")
import torch
import torch.distributed as dist
from torch.testing._internal.distributed import distributed_test

import gradlab.virtual

# Lines are written where nothing that tests print goes.
lines = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

plain = dist.init_process_group, dist.new_group
gradlab.virtual.in_place()
virtual = dist.init_process_group, dist.new_group


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        # Forked: a process that begins anew takes seconds to import torch.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


for name in unittest.TestLoader().getTestCaseNames(Suite):
    print(name, file=lines)
print(".", file=lines, flush=True)
for line in sys.stdin:
    name, socket = line.split()
    os.environ["GRADLAB_VIRTUAL"] = socket
    dist.init_process_group, dist.new_group = plain if socket == "-" else virtual
    result = unittest.TestResult()
    Suite(name).run(result)
    failed = result.failures + result.errors
    print(repr(failed[0][1])[1:-1] if failed else "skipped" if result.skipped else "passed", file=lines, flush=True)
