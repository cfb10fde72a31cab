"""The layers of "Attention Is All You Need" (2017), sections 3.1 to 3.5, without a library's model code around them.

Shapes: B sentences, S source positions, T target positions, L positions of either, D = d_model, H heads,
K = d_k (`head_dim`), V = d_v (`value_head_dim`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from .additive_score import AdditiveScore
from .attention_window import Reach, attend_nearby, reach_of
from .configuration_vaswani import VaswaniConfig


def sinusoids(positions: torch.Tensor, d_model: int, layout: str = "interleaved") -> torch.Tensor:
    """The positional encodings of section 3.5, computed for any position and never stored.

    PE(pos, 2i) = sin(pos / 10000^(2i / D)), PE(pos, 2i+1) = cos(pos / 10000^(2i / D)).

    Args:
        positions: integers of any shape.
        d_model: D, an even number.
        layout: `"interleaved"` is the equation above; `"concatenated"` has all sines before all cosines;
            `"tensor2tensor"` is concatenated, with the frequencies 10000^(-i / (D/2 - 1)).

    Returns:
        `[*positions.shape, D]`, in float64 where the device has it: a float32 angle is off by 3e-4 at 5000.
    """
    precision = torch.float32 if positions.device.type == "mps" else torch.float64
    steps = torch.arange(d_model // 2, device=positions.device, dtype=precision)
    exponents = steps / max(d_model // 2 - 1, 1) if layout == "tensor2tensor" else 2 * steps / d_model
    angles = positions.to(precision).unsqueeze(-1) * torch.pow(10_000.0, -exponents)
    if layout == "interleaved":
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class EmbeddedTokens:
    """Token embeddings (section 3.4) plus positions (section 3.5): the input of an encoder's or a decoder's layers."""

    config: VaswaniConfig
    embed_tokens: nn.Embedding
    embed_positions: nn.Embedding
    dropout: nn.Dropout
    layers: Any
    """All `VaswaniEncoderLayer` or all `VaswaniDecoderLayer`."""

    def embed(self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None) -> torch.Tensor:
        """Vectors of `input_ids` `[B, L]`, unless given as `inputs_embeds` `[B, L, D]`; not scaled yet."""
        if input_ids is None and inputs_embeds is not None:
            return inputs_embeds
        if input_ids is None or inputs_embeds is not None:
            raise ValueError(
                f"{type(self).__name__} takes either `input_ids` or `inputs_embeds` (the decoder's begin "
                f"with `decoder_`), and got {'neither' if input_ids is None else 'both'}; pass exactly one."
            )
        check_tokens(input_ids, self.embed_tokens.weight.shape[0], type(self).__name__)
        return self.embed_tokens(input_ids)

    def add_positions(self, inputs_embeds: torch.Tensor, mask: torch.Tensor | None, past: int | torch.Tensor = 0) -> torch.Tensor:
        """Dropout(embeddings * sqrt(D) + positions), sections 3.4, 3.5 and 5.4.

        Args:
            inputs_embeds: `[B, L, D]`.
            mask: `[B, past + L]` with 0 on padding, or `None`. Positions count real tokens only, so that
                padding on the left moves nothing.
            past: number of positions already in the cache.
        """
        if self.config.scale_embedding:
            inputs_embeds = inputs_embeds * self.config.d_model**0.5
        x = inputs_embeds + self._positions(inputs_embeds, mask, past)
        return self.dropout(x)

    def _positions(self, inputs_embeds: torch.Tensor, mask: torch.Tensor | None, past: int | torch.Tensor) -> torch.Tensor:
        """Position vectors in the dtype of the inputs: `[L, D]` or, under a mask, `[B, L, D]`."""
        length, device = inputs_embeds.shape[1], inputs_embeds.device
        if mask is None or mask.ndim != 2:
            numbers = distinct = torch.arange(length, device=device) + past
        else:
            numbers = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
            distinct = torch.arange(mask.shape[-1], device=device)
        if self.config.position_embedding_type == "learned":
            return self.position_vectors(numbers).to(inputs_embeds.dtype)
        table = self.position_vectors(distinct).to(inputs_embeds.dtype)
        return table if numbers is distinct else table[numbers]

    def position_vectors(self, numbers: torch.Tensor) -> torch.Tensor:
        """The vectors `[..., D]` of positions `[...]` (section 3.5)."""
        config = self.config
        if config.position_embedding_type == "learned":
            what = f"{type(self).__name__} got a text with the position"
            remedy = "shorten it, or use a model with sinusoidal positions, which have no limit"
            check_ids(numbers, config.max_position_embeddings, what, remedy)
            return self.embed_positions(numbers + config.position_offset)
        return sinusoids(numbers + config.position_offset, config.d_model, config.sinusoidal_layout)


def attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    score: AdditiveScore | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Equation 1: softmax(Q K^T / sqrt(d_k)) V.

    Args:
        queries: `[B, H, T, K]`.
        keys: `[B, H, S, K]`.
        values: `[B, H, S, V]`.
        mask: `[B or 1, 1, T, S]`, see `attention_weights`.
        scaling: 1 / sqrt(d_k).
        dropout: rate on the weights.
        score: what gives the scores in place of the scaled dot products.

    Returns:
        The weighted values, `[B, H, T, V]`, and the weights `[B, H, T, S]`.
    """
    scores = torch.matmul(queries * scaling, keys.transpose(-2, -1)) if score is None else score(queries, keys)
    weights = attention_weights(scores, mask)
    if dropout:
        weights = nn.functional.dropout(weights, p=dropout)
    return torch.matmul(weights, values), weights


def attention_weights(scores: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """The softmax of equation 1 over the last dimension of `scores`.

    A boolean `mask` hides a position by False. Any other `mask` is added, and hides a position by its type's lowest number.
    """
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
        if scores.dtype == torch.float16:
            # Only here can the sum overflow; for a row that sees nothing at all, softmax would then give NaN.
            scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    return nn.functional.softmax(scores, dim=-1)


def scaled_dot_product_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attention` as transformers calls it for `attn_implementation="eager"`: the output is `[B, T, H, V]`."""
    score = getattr(module, "score", None)
    found, weights = attention(query, key, value, attention_mask, scaling, dropout if module.training else 0.0, score)
    return found.transpose(1, 2), weights


def attention_implementation(config: VaswaniConfig, asked: Mapping[str, Any]) -> str:
    """The name of the attention function: `"eager"` for additive scores, and where the weights are `asked` for, which only it knows."""
    return "eager" if wants_weights(config, asked) or config.attention_score == "additive" else config._attn_implementation


def wants_weights(config: VaswaniConfig, asked: Mapping[str, Any]) -> bool:
    """Whether the attention weights are asked for: by the call, or else by the configuration."""
    return bool(asked.get("output_attentions", config.output_attentions))


class VaswaniAttention(nn.Module):
    """Multi-head attention (section 3.2.2): what self-attention and attention over the source share.

    d_k and d_v need not be D / H: Table 3's rows A and B vary them.
    """

    is_causal = False
    reach: Reach | None = None
    """What a position sees, if not everything."""

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.num_heads = num_heads
        self.head_dim = cast(int, config.head_dim)
        self.value_head_dim = cast(int, config.value_head_dim)
        self.scaling = 1.0 if config.attention_score == "dot_product" else self.head_dim**-0.5
        self.score = AdditiveScore(num_heads, self.head_dim) if config.attention_score == "additive" else None
        self.dropout = config.attention_dropout
        bias = config.attention_bias
        self.q_proj = nn.Linear(config.d_model, num_heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(config.d_model, num_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(config.d_model, num_heads * self.value_head_dim, bias=bias)
        self.out_proj = nn.Linear(num_heads * self.value_head_dim, config.d_model, bias=bias)

    def split_heads(self, states: torch.Tensor) -> torch.Tensor:
        """`[B, L, H * width]` to `[B, H, L, width]`."""
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def keys_and_values(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[B, L, D]` to keys `[B, H, L, K]` and values `[B, H, L, V]`."""
        return self.split_heads(self.k_proj(states)), self.split_heads(self.v_proj(states))

    def attend(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend with each head's queries `[B, H, T, K]`.

        Within a window, `attention_mask` is that of `real_tokens`, or flex attention's.

        Returns:
            The heads' outputs, side by side, `[B, T, H * V]` and, if the implementation returns them, the weights `[B, H, T, S]`.
        """
        implementation = attention_implementation(self.config, kwargs)
        attend: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, scaled_dot_product_attention)
        if self.reach is not None and implementation != "flex_attention":
            with_weights, is_alone = wants_weights(self.config, kwargs), self.is_alone_with_its_queries()
            attend = partial(attend_nearby, attend, self.reach, overwrite=is_alone, with_weights=with_weights)
        dropout = self.dropout if self.training else 0.0
        heads, weights = attend(self, queries, keys, values, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs)
        return heads.flatten(-2), weights

    def is_alone_with_its_queries(self) -> bool:
        """Whether nobody else can hold what `q_proj` gave: it is the plain map, and no hook saw its output."""
        projection = getattr(self, "q_proj", None)  # packed weights have none
        is_plain = type(projection) is nn.Linear and not projection._forward_hooks and "forward" not in vars(projection)
        return is_plain and not torch.compiler.is_compiling() and not _has_any_global_hook()


class VaswaniSelfAttention(VaswaniAttention):
    """Attention over the sequence itself (section 3.2.3): all of it, or in the decoder up to the current position."""

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int, is_causal: bool) -> None:
        super().__init__(config, num_heads, layer_idx)
        self.is_causal = is_causal
        self.reach = None if config.attention_window is None else reach_of(config.attention_window, is_causal)
        self.qkv_proj: nn.Module | None = None

    def queries_keys_and_values(self, states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`[B, L, D]` to queries and keys `[B, H, L, K]` and values `[B, H, L, V]`; `pack_weights` joins the three products."""
        if self.qkv_proj is None:
            keys, values = self.keys_and_values(states)
            return self.split_heads(self.q_proj(states)), keys, values
        widths = (self.head_dim, self.head_dim, self.value_head_dim)
        parts = self.qkv_proj(states).split([self.num_heads * width for width in widths], dim=-1)
        return tuple(self.split_heads(part) for part in parts)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        queries, keys, values = self.queries_keys_and_values(hidden_states)
        if isinstance(past_key_values, EncoderDecoderCache):
            past_key_values = past_key_values.self_attention_cache
        if past_key_values is not None:
            keys, values = past_key_values.update(keys, values, self.layer_idx)
        heads, weights = self.attend(queries, keys, values, attention_mask, **kwargs)
        del queries, keys, values  # as large as the output each, and the projection needs none
        return self.out_proj(heads), weights


class VaswaniCrossAttention(VaswaniAttention):
    """Attention over the encoded source (section 3.2.3), whose keys and values are computed once."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if not isinstance(past_key_values, EncoderDecoderCache):
            keys, values = self.keys_and_values(encoder_hidden_states)
        elif past_key_values.is_updated.get(self.layer_idx):
            cached = past_key_values.cross_attention_cache.layers[self.layer_idx]
            keys, values = cached.keys, cached.values
        else:
            keys, values = self.keys_and_values(encoder_hidden_states)
            keys, values = past_key_values.cross_attention_cache.update(keys, values, self.layer_idx)
            past_key_values.is_updated[self.layer_idx] = True
        queries = self.split_heads(self.q_proj(hidden_states))
        heads, weights = self.attend(queries, keys, values, attention_mask, **kwargs)
        return self.out_proj(heads), weights


class VaswaniLayer(GradientCheckpointingLayer):
    """What all layers share: section 3.1's residual rule and section 3.3's feed-forward network."""

    def __init__(self, config: VaswaniConfig, ffn_dim: int) -> None:
        super().__init__()
        self.adds_input = config.residual_connections
        self.dropout = nn.Dropout(config.dropout)
        self.activation_dropout = nn.Dropout(config.activation_dropout)
        self.activation_fn = activation(config.activation_function)
        self.fc1 = nn.Linear(config.d_model, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def add_and_norm(self, norm: nn.LayerNorm, x: torch.Tensor, sublayer_output: torch.Tensor) -> torch.Tensor:
        """LayerNorm(x + Dropout(Sublayer(x))), sections 3.1 and 5.4; without residual connections, x is left out."""
        kept = self.dropout(sublayer_output)
        return norm(x + kept if self.adds_input else kept)

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        """Equation 2: max(0, x W1 + b1) W2 + b2."""
        return self.fc2(self.activation_dropout(self.activation_fn(self.fc1(x))))


def activation(name: str) -> nn.Module:
    """The nonlinearity called `name`."""
    if name not in ACT2FN:
        raise ValueError(f"There is no `activation_function` {name!r}; choose one of {', '.join(sorted(ACT2FN))}.")
    return ACT2FN[name]


class VaswaniEncoderLayer(VaswaniLayer):
    """Self-attention, then feed-forward (section 3.1, encoder)."""

    def __init__(self, config: VaswaniConfig, layer_idx: int) -> None:
        super().__init__(config, config.encoder_ffn_dim)
        self.self_attn = VaswaniSelfAttention(config, config.encoder_attention_heads, layer_idx, is_causal=False)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        x: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        attended, _ = self.self_attn(x, attention_mask, **kwargs)
        x = self.add_and_norm(self.self_attn_layer_norm, x, attended)
        return self.add_and_norm(self.final_layer_norm, x, self.feed_forward(x))


class VaswaniDecoderLayer(VaswaniLayer):
    """Self-attention over the past, attention over the source, then feed-forward (section 3.1, decoder)."""

    def __init__(self, config: VaswaniConfig, layer_idx: int) -> None:
        super().__init__(config, config.decoder_ffn_dim)
        self.self_attn = VaswaniSelfAttention(config, config.decoder_attention_heads, layer_idx, is_causal=True)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.encoder_attn = VaswaniCrossAttention(config, config.decoder_attention_heads, layer_idx)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        x: torch.Tensor,
        attention_mask: torch.Tensor | None,
        encoder_hidden_states: torch.Tensor,  # not by name: gradient checkpointing would lose its gradient
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        attended, _ = self.self_attn(x, attention_mask, past_key_values, **kwargs)
        x = self.add_and_norm(self.self_attn_layer_norm, x, attended)
        attended, _ = self.encoder_attn(x, encoder_hidden_states, encoder_attention_mask, past_key_values, **kwargs)
        x = self.add_and_norm(self.encoder_attn_layer_norm, x, attended)
        return self.add_and_norm(self.final_layer_norm, x, self.feed_forward(x))


def check_ids(ids: torch.Tensor, entries: int, what: str, remedy: str) -> None:
    """Raise one clear sentence for an id beyond a table's end, in place of an index error.

    Only on the CPU, where the check needs no synchronisation.
    """
    if ids.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing() or not ids.numel():
        return
    smallest, largest = (int(bound) for bound in torch.aminmax(ids))
    if smallest < 0 or largest >= entries:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(f"{what} {wrong}, which is outside of 0 to {entries - 1}; {remedy}.")


def check_tokens(ids: torch.Tensor, entries: int, reader: str) -> None:
    """`check_ids` for the tokens that `reader` embeds."""
    remedy = "the tokenizer is another model's, or new tokens were added without `resize_token_embeddings`"
    check_ids(ids, entries, f"{reader} got the token id", remedy)


__all__ = ["EmbeddedTokens", "VaswaniAttention", "VaswaniDecoderLayer", "VaswaniEncoderLayer", "sinusoids"]
