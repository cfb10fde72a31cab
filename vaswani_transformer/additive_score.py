"""Additive attention, which the paper weighs against its own in section 3.2.1: the score of Bahdanau, Cho and Bengio (2015, section A.1.2).

Shapes: B sentences, T queries, S keys, H heads, K = d_k (`head_dim`).
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

LARGEST = 2**20
"""How many numbers the hidden layers of all pairs may hold at once: 4 MiB in float32, which a processor's cache holds."""


class AdditiveScore(nn.Module):
    """w^T tanh(q + k): a feed-forward network of one hidden layer, with K units in each head.

    The projections of queries and keys are the hidden layer's weights, Bahdanau's W and U; `weight` `[H, K]` is his v.
    """

    def __init__(self, heads: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, units))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """The scores `[B, H, T, S]` of `queries` `[B, H, T, K]` and `keys` `[B, H, S, K]`.

        Hidden layers of more than `LARGEST` numbers are computed for a few queries at a time, and again in the backward pass.
        """
        at_once = max(LARGEST // max(keys.numel(), 1), 1)
        if queries.shape[2] <= at_once:
            return self.scores(queries, keys)
        parts = queries.split(at_once, dim=2)
        if not torch.is_grad_enabled():
            return torch.cat([self.scores(part, keys) for part in parts], dim=2)
        return torch.cat([checkpoint(self.scores, part, keys, use_reentrant=False, preserve_rng_state=False) for part in parts], dim=2)

    def scores(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """The same, all at once."""
        hidden = (queries.unsqueeze(3) + keys.unsqueeze(2)).tanh_()
        return torch.matmul(hidden, self.weight[:, None, :, None]).squeeze(-1)


__all__ = ["AdditiveScore"]
