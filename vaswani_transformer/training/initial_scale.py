"""Smaller first weights: in the residual branches, the insight of DeepNorm and Admin without another architecture; and of the tokens.

In post-LayerNorm, x becomes LayerNorm(x + f(x)). With a smaller f, a layer starts nearer to the identity, and an early update changes
what the stack computes by less.

A token's first vector says nothing, and that of a rare token stays near what it was. With smaller vectors, such tokens disturb the others
less, and positions say more.
"""

from typing import Literal

import torch

from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import VaswaniPreTrainedModel

_SCALED = ("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight")
"""What a branch's output grows with. Queries and keys only decide where attention looks."""


def scale_residual_branches(model: VaswaniPreTrainedModel, scale: float | Literal["deepnorm"], *, only_decoder: bool = False) -> None:
    """Multiply the weights of all values, output projections and feed-forward networks of `model`, in place.

    Args:
        model: with its first weights.
        scale: one factor for both stacks, or `deepnorm` for those of `deepnorm_factors`.
        only_decoder: the encoder is a trained one, and stays as it is.
    """
    encoder, decoder = deepnorm_factors(model.config) if scale == "deepnorm" else (scale, scale)
    stacks = [] if only_decoder else [(model.base_model.encoder, encoder)]
    if model.config.is_encoder_decoder:
        stacks.append((model.base_model.decoder, decoder))
    with torch.no_grad():
        for stack, factor in stacks:
            for name, parameter in stack.layers.named_parameters():
                if name.endswith(_SCALED):
                    parameter.mul_(factor)


def scale_embeddings(model: VaswaniPreTrainedModel, scale: float) -> None:
    """Multiply the token embeddings of all stacks of `model` by `scale`, in place; a tied softmax is the same matrix.

    Their first deviation is D^-0.5, which the model multiplies by the root of D (section 3.4): behind that, it is `scale`.
    """
    base = model.base_model
    stacks = (base.encoder, base.decoder) if model.config.is_encoder_decoder else (base.encoder,)
    with torch.no_grad():
        for matrix in {stack.embed_tokens.weight for stack in stacks}:
            matrix.mul_(scale)


def deepnorm_factors(config: VaswaniConfig) -> tuple[float, float]:
    """The encoder's and the decoder's beta of DeepNorm (Wang et al., 2022, section 4, figure 2) for N and M layers.

    0.87 * (N^4 * M)^(-1/16), and (12 * M)^(-1/4). An encoder alone has (8 * N)^(-1/4).
    """
    layers, decoder_layers = config.encoder_layers, config.decoder_layers
    if not config.is_encoder_decoder:
        return (8 * layers) ** (-1 / 4), 1.0
    return 0.87 * (layers**4 * decoder_layers) ** (-1 / 16), (12 * decoder_layers) ** (-1 / 4)
