"""The encoder for a search: the same function as `VaswaniEncoder`, padding left out.

Sentences of a batch differ in length, and what stands behind the shorter ones takes as long as their tokens. Here the real tokens of all
sentences are rows of one matrix; only attention sees them in their places. The result is 0 on padding.

Shapes: B sentences, S positions, R real tokens, D = d_model.
"""

from typing import Any

import torch

from .bare_layer import BareLayer, attend, hiding, spread


def encode(encoder: Any, input_ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """What `encoder`, a `VaswaniEncoder`, makes of `input_ids` `[B, S]` under `mask` `[B, S]`, 0 on padding: `[B, S, D]`."""
    x = encoder.add_positions(encoder.embed(input_ids, None), mask)
    shape, x = x.shape, x.flatten(0, 1)
    hidden = places = None
    if mask is not None and not bool(mask.all()):
        places = mask.flatten().nonzero().squeeze(-1)
        hidden, x = hiding(mask[:, None, None, :].bool(), x.dtype), x[places]
    for layer in encoder.layers:
        x = _through(BareLayer(layer), x, shape[:2], hidden, places)
    return spread(x, shape[:2], places).view(shape)


def _through(
    layer: BareLayer,
    x: torch.Tensor,
    shape: torch.Size,
    hidden: torch.Tensor | None,
    places: torch.Tensor | None,
) -> torch.Tensor:
    """`x` `[R, D]` through a layer; `places` `[R]` are its rows' among all B * S of `shape`, and `hidden` is `[B, 1, 1, S]`."""
    queries, keys, values = layer.split_heads(spread(layer.project(x), shape, places), shape[0]).unbind(0)
    attended = attend(queries, keys, values, hidden, layer.scaling)
    x = layer.add_attended(x, attended if places is None else attended[places])
    return layer.feed_forward(x)


__all__ = ["encode"]
