"""The layers of Table 1, each as a module from states `[1, n, d]` to states `[1, n, d]`, and what the paper says of each.

Shapes: n positions, d = d_model, k the kernel's width, r the neighbourhood's size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from vaswani_transformer.additive_score import AdditiveScore
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.layers import VaswaniSelfAttention

HEAD_DIM = 64
"""The paper's d_k (section 3.2.2). Wider layers have more heads, so that a head's cost stays."""

NEIGHBOURS = 128
"""r of restricted self-attention."""

REFERENCE = "attention"
"""What the others are compared with: the layer as the paper's models have it."""


@dataclass(frozen=True)
class Claims:
    """A row of Table 1.

    Attributes:
        operations: the complexity of a layer, as the paper writes it.
        length, width: the exponents of n and d in it.
        sequential: the minimum number of sequential operations.
        path: the maximum path length.
    """

    operations: str
    length: int
    width: int
    sequential: str
    path: str


@dataclass(frozen=True)
class Kind:
    """A type of layer.

    Attributes:
        title: for people.
        claims: what the paper says of it.
        build: a layer for a width and for its place in a stack, counted from 0.
        is_recurrent: whether it goes from position to position.
    """

    title: str
    claims: Claims
    build: Callable[[int, int], nn.Module]
    is_recurrent: bool = False


class SelfAttention(nn.Module):
    """Multi-head self-attention with its four projections, as in the model's encoder."""

    def __init__(self, d_model: int, implementation: str, **variant: Any) -> None:
        super().__init__()
        heads = max(d_model // HEAD_DIM, 1)
        config = VaswaniConfig(d_model=d_model, encoder_attention_heads=heads, decoder_attention_heads=heads, **variant)
        config._attn_implementation = implementation
        self.attention = VaswaniSelfAttention(config, heads, layer_idx=0, is_causal=False)
        for part in self.modules():
            if isinstance(part, AdditiveScore):  # a whole model would have initialised it
                nn.init.normal_(part.weight, std=HEAD_DIM**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended: torch.Tensor = self.attention(x)[0]
        return attended


class BareAttention(nn.Module):
    """Scaled dot-product attention of the states to themselves, without projections: what the paper's n^2 * d counts."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.heads = max(d_model // HEAD_DIM, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(split, split, split).transpose(1, 2).flatten(-2)


class Recurrent(nn.Module):
    """`torch.nn.LSTM` or `torch.nn.GRU`, one layer in one direction."""

    def __init__(self, d_model: int, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.cells = kind(d_model, d_model, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.cells(x)[0]
        return states


class Convolution(nn.Module):
    """`torch.nn.Conv1d` from all d channels to all d, centred on each position."""

    def __init__(self, d_model: int, width: int, dilation: int) -> None:
        super().__init__()
        self.kernel = nn.Conv1d(d_model, d_model, width, padding=dilation * (width // 2), dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.kernel(x.transpose(1, 2))
        return states.transpose(1, 2)


class SeparableConvolution(nn.Module):
    """A convolution of each channel by itself, then a map of all channels at each position: k * n * d and n * d^2 operations."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.of_channels = nn.Conv1d(d_model, d_model, width, padding=width // 2, groups=d_model)
        self.of_positions = nn.Linear(d_model, d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.of_positions(self.of_channels(x.transpose(1, 2)).transpose(1, 2))
        return states


def _attention(implementation: str, d_model: int, place: int, **variant: Any) -> nn.Module:
    return SelfAttention(d_model, implementation, **variant)


def _bare_attention(d_model: int, place: int) -> nn.Module:
    return BareAttention(d_model)


def _recurrent(kind: type[nn.LSTM] | type[nn.GRU], d_model: int, place: int) -> nn.Module:
    return Recurrent(d_model, kind)


def _contiguous(width: int, d_model: int, place: int) -> nn.Module:
    return Convolution(d_model, width, dilation=1)


def _separable(width: int, d_model: int, place: int) -> nn.Module:
    return SeparableConvolution(d_model, width)


def _dilated(width: int, d_model: int, place: int) -> nn.Module:
    return Convolution(d_model, width, dilation=width**place)


_ATTENTION = Claims("n^2 d", 2, 1, "1", "1")
_RESTRICTED = Claims("r n d", 1, 1, "1", "n / r")
_RECURRENT = Claims("n d^2", 1, 2, "n", "n")
_CONTIGUOUS = Claims("k n d^2", 1, 2, "1", "n / k")
_DILATED = Claims("k n d^2", 1, 2, "1", "log_k n")
_SEPARABLE = Claims("k n d + n d^2", 1, 2, "1", "n / k")

KINDS = {
    REFERENCE: Kind("self-attention", _ATTENTION, partial(_attention, "sdpa")),
    "eager": Kind("self-attention, weights stored", _ATTENTION, partial(_attention, "eager")),
    "bare": Kind("self-attention without projections", _ATTENTION, _bare_attention),
    "restricted": Kind(f"restricted, r = {NEIGHBOURS}", _RESTRICTED, partial(_attention, "sdpa", attention_window=NEIGHBOURS)),
    "lstm": Kind("recurrent, LSTM", _RECURRENT, partial(_recurrent, nn.LSTM), is_recurrent=True),
    "gru": Kind("recurrent, GRU", _RECURRENT, partial(_recurrent, nn.GRU), is_recurrent=True),
    "convolution_3": Kind("convolution, k = 3", _CONTIGUOUS, partial(_contiguous, 3)),
    "convolution_7": Kind("convolution, k = 7", _CONTIGUOUS, partial(_contiguous, 7)),
    "dilated_3": Kind("dilated convolution, k = 3", _DILATED, partial(_dilated, 3)),
    "dilated_7": Kind("dilated convolution, k = 7", _DILATED, partial(_dilated, 7)),
    "separable_7": Kind("separable convolution, k = 7", _SEPARABLE, partial(_separable, 7)),
    "additive": Kind("additive self-attention", _ATTENTION, partial(_attention, "eager", attention_score="additive")),
}
