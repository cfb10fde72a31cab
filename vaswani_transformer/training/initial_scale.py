"""Smaller first weights in the residual branches: the insight of DeepNorm and Admin without another architecture.

In post-LayerNorm, x becomes LayerNorm(x + f(x)). With a smaller f, a layer starts nearer to the identity, and an early update changes
what the stack computes by less.
"""

from typing import Literal

import torch

from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import VaswaniPreTrainedModel

_SCALED = ("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight")
"""What a branch's output grows with. Queries and keys only decide where attention looks."""


def scale_residual_branches(model: VaswaniPreTrainedModel, scale: float | Literal["deepnorm"]) -> None:
    """Multiply the weights of all values, output projections and feed-forward networks of `model`, in place.

    Args:
        model: with its first weights.
        scale: one factor for both stacks, or `deepnorm` for those of `deepnorm_factors`.
    """
    encoder, decoder = deepnorm_factors(model.config) if scale == "deepnorm" else (scale, scale)
    stacks = [(model.base_model.encoder, encoder)]
    if model.config.is_encoder_decoder:
        stacks.append((model.base_model.decoder, decoder))
    with torch.no_grad():
        for stack, factor in stacks:
            for name, parameter in stack.layers.named_parameters():
                if name.endswith(_SCALED):
                    parameter.mul_(factor)


def deepnorm_factors(config: VaswaniConfig) -> tuple[float, float]:
    """The encoder's and the decoder's beta of DeepNorm (Wang et al., 2022, section 4, figure 2) for N and M layers.

    0.87 * (N^4 * M)^(-1/16), and (12 * M)^(-1/4). An encoder alone has (8 * N)^(-1/4).
    """
    layers, decoder_layers = config.encoder_layers, config.decoder_layers
    if not config.is_encoder_decoder:
        return (8 * layers) ** (-1 / 4), 1.0
    return 0.87 * (layers**4 * decoder_layers) ** (-1 / 16), (12 * decoder_layers) ** (-1 / 4)
