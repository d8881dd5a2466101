import numpy as np

import gradlab


class Softmax(gradlab.Worker):
    tensors = [("w", (10, 64), "weight"), ("b", (1, 10), "bias")]
    metrics = {"brier": "less"}

    def init(self, params, seed):
        params["w"][...] = np.random.default_rng(seed).normal(0, 0.1, (10, 64))
        params["b"][...] = 0

    def scores(self, p, x, y):
        z = x @ p["w"].T + p["b"]
        q = np.exp(z - z.max(1, keepdims=True))
        q /= q.sum(1, keepdims=True)
        return q, -np.log(q[np.arange(len(y)), y]).mean()

    def step(self, p, x, y, seed, first, ready):
        q, loss = self.scores(p, x, y)
        q[np.arange(len(y)), y] -= 1
        ready("b", q.mean(0, keepdims=True))
        return loss, {"w": q.T @ x / len(y)}

    def evaluate(self, p, x, y):
        q, loss = self.scores(p, x, y)
        return loss, (q.argmax(1) == y).sum(), {"brier": ((q - np.eye(10)[y]) ** 2).sum(1).mean()}


if __name__ == "__main__":
    Softmax().run()
