"""The encoder for a search: the same function as `VaswaniEncoder`, without computing padding.

Sentences of a batch differ in length, and padding takes as long to compute as tokens. Here the real tokens of all sentences are rows of
one matrix; only attention sees them in their places. The result is 0 on padding.

Shapes: B sentences, S positions, R real tokens, D = d_model.
"""

from typing import cast

import torch

from .bare_layers import BareLayer, Unpadded, attend, positions_between
from .layers import EmbeddedTokens, VaswaniEncoderLayer


def encode(encoder: EmbeddedTokens, input_ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The states `[B, S, D]` that `encoder`, a `VaswaniEncoder`, computes for `input_ids` `[B, S]` under `mask` `[B, S]`, 0 on padding."""
    x = encoder.embed(input_ids, None)
    if mask is None or (mask.shape == input_ids.shape and bool((mask == 1).all())):
        x = x * encoder.config.d_model**0.5 if encoder.config.scale_embedding else x
        tokens = Unpadded(x + positions_between(encoder, 0, x.shape[1], x), None)
    else:
        tokens = Unpadded(encoder.add_positions(x, mask), mask)
    x = tokens.rows
    for layer in encoder.layers:
        x = _through(BareLayer(cast(VaswaniEncoderLayer, layer)), x, tokens)
    return tokens.spread(x).view(*tokens.shape, -1)


def _through(layer: BareLayer, x: torch.Tensor, tokens: Unpadded) -> torch.Tensor:
    """`x` `[R, D]` through a layer, with a row for each of `tokens`."""
    projected = tokens.spread(layer.project(x))
    queries, keys, values = layer.split_heads(projected, tokens.shape[0]).unbind(0)
    attended = attend(queries, keys, values, tokens.hidden, layer.scaling)
    x = layer.add_attended(x, attended if tokens.places is None else attended[tokens.places])
    return layer.feed_forward(x)


__all__ = ["encode"]
