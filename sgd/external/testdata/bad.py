"""Softmax regression that fails in the way that is named."""
import os
import sys

import gradlab
import numpy as np
from softmax import Softmax

done = gradlab._Session.done
if sys.argv[1] == "twice":
    gradlab._Session.done = lambda self, loss, **fields: (done(self, loss, **fields), done(self, loss, **fields))


class Bad(Softmax):
    metrics = {"infinite": {"mae": "less"}, "named": {"a/b": "less"}, "double": {"loss": "less"}, "either": {"mae": "either"},
               "many": {"m%d" % i: "less" for i in range(65)}}.get(sys.argv[1], Softmax.metrics)

    def init(self, params, seed):
        super().init(params, seed)
        if sys.argv[1] == "first":
            params["b"][0, 3] = np.nan

    def step(self, p, x, y, seed, first, ready):
        print("the last words", flush=True)
        how = sys.argv[1]
        if how == "dies":
            os._exit(3)
        if how == "hangs":
            os.read(os.pipe()[0], 1)
        if how == "size":
            return 0.0, {"w": np.zeros((3, 3)), "b": np.zeros((1, 10))}
        if how == "garbage":
            os.write(3, b"\xff" * 64)
        if how == "shrinks":
            os.ftruncate(4, 0)
        if how == "daemon":
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    open(sys.argv[2], "w").write(str(os.getpid()))
                    os.execvp("sleep", ["sleep", "1000"])
                os._exit(0)
        if how in ("twice", "daemon"):
            return super().step(p, x, y, seed, first, ready)
        if how == "throws":
            raise RuntimeError("no luck")
        return float("nan"), {"w": np.full((10, 64), np.nan), "b": np.zeros((1, 10))}

    def evaluate(self, p, x, y):
        print("the last words", flush=True)
        how = sys.argv[1]
        if how == "twice":
            return super().evaluate(p, x, y)
        return 0.0, 0, {"mae": float("inf")}


Bad().run()
