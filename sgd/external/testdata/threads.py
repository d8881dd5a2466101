"""A program with threads=1 computes products of matrices in one thread, whatever BLAS torch has."""
import time

import torch

from gradlab import pytorch

pytorch.set_threads(1)
a = torch.randn(700, 700)
process, thread = time.process_time(), time.thread_time()
for _ in range(20):
    a @ a
process, thread = time.process_time() - process, time.thread_time() - thread
assert process < 1.2 * thread, "%.3f s of this thread, %.3f s of all" % (thread, process)
print("fine")
