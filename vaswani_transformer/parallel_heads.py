"""Heads that propose several next tokens, which the decoder then verifies in one pass (blockwise parallel decoding).

Shapes: B sentences, T target tokens, S source tokens, D = d_model, F = decoder_ffn_dim, k tokens proposed a step; the first is the
decoder's own, and k - 1 are those of the heads.
"""

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask

from .configuration_vaswani import VaswaniConfig
from .layers import VaswaniCrossAttention, VaswaniLayer, activation


class ParallelHeads(nn.Module):
    """One feed-forward network for all heads, with a residual connection from the decoder's state to each head's.

    This is section 6 of Stern, Shazeer and Uszkoreit (2018), "Blockwise Parallel Decoding for Deep Autoregressive Models". The hidden layer
    has (k - 1) * F units, of which every head sees all.
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


class ChainedHeads(VaswaniLayer):
    """One layer that proposes a token after the other: from the state before, the token that followed it, and the source.

    It is a layer of the decoder in which that token takes the place of self-attention. Heads that see the tokens before their own are right
    more often than heads that do not (Ankner et al., 2024, "Hydra", section 3; Li et al., 2024, "EAGLE", section 3), and a translation's
    next words stand in its source.
    """

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config, config.decoder_ffn_dim)
        self.config = config
        self.heads = config.parallel_heads - 1
        self.token_proj = nn.Linear(2 * config.d_model, config.d_model)
        self.token_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.encoder_attn = VaswaniCrossAttention(config, config.decoder_attention_heads, config.decoder_layers)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self, states: torch.Tensor, following: torch.Tensor, source: torch.Tensor, source_mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        """States whose scores are those of the tokens 2, 3, ... k steps ahead of each of `states`.

        Args:
            states: the decoder's last states `[B, T, D]`.
            following: the embedding of the token that follows each of them, not scaled yet, `[B, T, D]`.
            source: the encoder's states `[B, S, D]`.
            source_mask: `[B, S]`, 0 on padding.

        Returns:
            k - 1 tensors. Tensor j, from 1, is `[B, T - j, D]`: its row t belongs to the token j + 1 steps ahead of `states[:, t]`, and has
            seen the first j of them.
        """
        if self.config.scale_embedding:  # section 3.4
            following = following * self.config.d_model**0.5
        proposed = []
        for step in range(self.heads):
            states, tokens = states[:, :-1], following[:, step:-1]
            if states.shape[1]:
                states = self._one(states, tokens, source, source_mask)
            proposed.append(states)
        return tuple(proposed)

    def _one(self, states: torch.Tensor, following: torch.Tensor, source: torch.Tensor, source_mask: torch.Tensor | None) -> torch.Tensor:
        x = self.add_and_norm(self.token_layer_norm, states, self.token_proj(torch.cat((states, following), dim=-1)))
        mask = create_bidirectional_mask(self.config, inputs_embeds=x, attention_mask=source_mask, encoder_hidden_states=source)
        attended, _ = self.encoder_attn(x, source, mask)
        x = self.add_and_norm(self.encoder_attn_layer_norm, x, attended)
        return self.add_and_norm(self.final_layer_norm, x, self.feed_forward(x))


def heads_of(config: VaswaniConfig) -> ParallelHeads | ChainedHeads | None:
    """New heads as the configuration has them, or none."""
    if config.parallel_heads == 1:
        return None
    return ChainedHeads(config) if config.chained_heads else ParallelHeads(config)


__all__ = ["ChainedHeads", "ParallelHeads"]
