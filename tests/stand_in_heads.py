"""Parallel heads that know nothing, for searches that must not depend on what they say."""

import torch
from torch import nn

from vaswani_transformer.bare_layers import replaceable


@replaceable
class RandomHeads(nn.Module):
    """k - 1 maps of a state to the states some tokens ahead."""

    def __init__(self, ahead: int, d_model: int, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.maps = nn.Parameter(torch.randn(ahead, d_model, d_model, dtype=torch.double))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return torch.einsum("...d,hde->...he", states, self.maps)
