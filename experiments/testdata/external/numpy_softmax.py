import os
import sys

import numpy as np

import gradlab


class Softmax(gradlab.Worker):
    """Softmax regression on digits, with noise on the inputs that is drawn by address."""

    tensors = [("w", (10, 64), "weight"), ("b", (1, 10), "bias")]

    def begin(self, shape, classes):
        assert (shape, classes) == ((1, 8, 8), 10), (shape, classes)
        return {"w": 2 * 640}

    def init(self, params, seed):
        params["w"][...] = np.random.default_rng(seed).normal(0, 0.1, (10, 64))
        params["b"][...] = 0

    def scores(self, p, x, y):
        z = x @ p["w"].T + p["b"]
        q = np.exp(z - z.max(1, keepdims=True))
        q /= q.sum(1, keepdims=True)
        return q, -np.log(q[np.arange(len(y)), y]).mean()

    def step(self, p, x, y, seed, first, ready):
        if len(sys.argv) > 2 and first >= 400:  # of a file that says that it hangs
            open(sys.argv[2], "w").close()
            os.read(os.pipe()[0], 1)
        if len(sys.argv) > 1 and first >= 400:
            print("the disk is full", flush=True)
            sys.exit(9)
        x = x + np.stack([np.random.default_rng((seed, first + i)).normal(0, 0.1, 64) for i in range(len(y))])
        q, loss = self.scores(p, x, y)
        q[np.arange(len(y)), y] -= 1
        ready("b", q.mean(0, keepdims=True))
        return loss, {"w": q.T @ x / len(y)}

    def evaluate(self, p, x, y):
        q, loss = self.scores(p, x, y)
        return loss, (q.argmax(1) == y).sum()


Softmax().run()
