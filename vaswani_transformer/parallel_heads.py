"""Heads that propose several next tokens at once (Stern, Shazeer and Uszkoreit 2018, "Blockwise Parallel Decoding", section 6).

Shapes: D = d_model, F = decoder_ffn_dim, k tokens proposed a step; the first is the decoder's own, and k - 1 are those of the heads.
"""

import torch
from torch import nn

from .configuration_vaswani import VaswaniConfig
from .layers import activation


class ParallelHeads(nn.Module):
    """One feed-forward network for all heads, with a residual connection from the decoder's state to each head's (section 6).

    The hidden layer has (k - 1) * F units, of which every head sees all.
    """

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__()
        self.heads = config.parallel_heads - 1
        self.activation_fn = activation(config.activation_function)
        self.fc1 = nn.Linear(config.d_model, self.heads * config.decoder_ffn_dim)
        self.fc2 = nn.Linear(self.heads * config.decoder_ffn_dim, self.heads * config.d_model)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The decoder's last states `[..., D]` to states `[..., k - 1, D]`.

        The map before the softmax turns the decoder's own state into the scores of the next token, and these into the scores of the tokens
        2, 3, ... k steps ahead.
        """
        steps = self.fc2(self.activation_fn(self.fc1(states))).unflatten(-1, (self.heads, -1))
        return states.unsqueeze(-2) + steps


__all__ = ["ParallelHeads"]
