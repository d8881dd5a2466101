"""Programs whose outputs are more than scores of classes: python3 torch_tokens.py tokens|pair.

tokens: what comes next in sequences, of which each position has a score for each token, in a
dictionary. pair: classes, beside something else.
"""
import sys

import torch
from torch import nn

import gradlab

TOKENS, LENGTH = 7, 5
cross_entropy = nn.functional.cross_entropy


class Sequences(torch.utils.data.Dataset):
    """Each token is the one before and one more."""

    def __len__(self):
        return 70

    def __getitem__(self, i):
        s = torch.arange(i, i + LENGTH + 1) % TOKENS
        return s[:-1], s[1:] if sys.argv[1] == "tokens" else s[0]


class Next(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Embedding(TOKENS, TOKENS)

    def forward(self, x):
        y = self.scores(x)
        return {"logits": y, "first": y[:, 0]} if sys.argv[1] == "tokens" else (y[:, 0], y)


def loss(out, target):
    return cross_entropy(out["logits"].transpose(1, 2), target) if sys.argv[1] == "tokens" else cross_entropy(out[0], target)


gradlab.serve(Next(), loss, Sequences(), Sequences())
