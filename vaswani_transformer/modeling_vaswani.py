"""The post-LayerNorm encoder-decoder: section 3 of "Attention Is All You Need" (2017), top to bottom.

Shapes: B sentences, S source positions, T target positions, L positions of either, D = d_model, H heads,
K = d_k (`head_dim`), V = d_v (`value_head_dim`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .bare_layers import attention_weights, replaceable
from .configuration_vaswani import VaswaniConfig
from .decoding import PaperSearch
from .packing import SAVE_BEFORE, WeightType, check_that_tensors_stay, is_packed, pack_linear_layers, refuse

if TYPE_CHECKING:
    # Not needed here: a saved model takes along the files its code imports, and should take the pipeline.
    from .pipeline_translation import TranslationPipeline  # noqa: F401


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


def shift_tokens_right(labels: torch.Tensor, pad_token_id: int, decoder_start_token_id: int) -> torch.Tensor:
    """The decoder's input for `labels` `[B, T]`: behind the start token, padding in place of -100."""
    shifted = labels.roll(1, dims=-1)
    shifted[:, 0] = decoder_start_token_id
    return shifted.masked_fill(shifted == -100, pad_token_id)


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
    """Equation 1: softmax(Q K^T / sqrt(d_k)) V, where `attn_implementation="eager"`.

    Args:
        query: `[B, H, T, K]`.
        key: `[B, H, S, K]`.
        value: `[B, H, S, V]`.
        attention_mask: `[B or 1, 1, T, S]`, added to the scores; its dtype's lowest number hides a position.
        scaling: 1 / sqrt(d_k).
        dropout: rate on the weights.

    Returns:
        The output `[B, T, H, V]` and the attention weights `[B, H, T, S]`.
    """
    weights = attention_weights(query, key, attention_mask, scaling)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2), weights


class VaswaniAttention(nn.Module):
    """Multi-head attention (section 3.2.2): what self-attention and attention over the source share.

    d_k and d_v are free of D / H, as Table 3's rows A and B want them.
    """

    is_causal = False

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.num_heads = num_heads
        self.head_dim = cast(int, config.head_dim)
        self.value_head_dim = cast(int, config.value_head_dim)
        self.scaling = self.head_dim**-0.5
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
        """Attend with each head's queries `[B, H, T, K]`, and project what the heads found.

        Returns:
            `[B, T, D]` and, where the implementation has them, the weights `[B, H, T, S]`.
        """
        attention: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, scaled_dot_product_attention)
        heads, weights = attention(
            self,
            queries,
            keys,
            values,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        return self.out_proj(heads.flatten(-2)), weights


@replaceable
class VaswaniSelfAttention(VaswaniAttention):
    """Attention over the sequence itself (section 3.2.3): all of it, or in the decoder what came before."""

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int, is_causal: bool) -> None:
        super().__init__(config, num_heads, layer_idx)
        self.is_causal = is_causal
        self.qkv_proj: nn.Module | None = None

    def queries_keys_and_values(self, states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`[B, L, D]` to queries and keys `[B, H, L, K]` and values `[B, H, L, V]`; `pack_weights` makes one product of the three."""
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
        return self.attend(queries, keys, values, attention_mask, **kwargs)


@replaceable
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
        return self.attend(queries, keys, values, attention_mask, **kwargs)


def activation(name: str) -> nn.Module:
    """The nonlinearity of that name."""
    if name not in ACT2FN:
        raise ValueError(f"There is no `activation_function` {name!r}; choose one of {', '.join(sorted(ACT2FN))}.")
    return ACT2FN[name]


class VaswaniLayer(GradientCheckpointingLayer):
    """What all layers share: section 3.1's residual rule and section 3.3's feed-forward network."""

    def __init__(self, config: VaswaniConfig, ffn_dim: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.activation_dropout = nn.Dropout(config.activation_dropout)
        self.activation_fn = activation(config.activation_function)
        self.fc1 = nn.Linear(config.d_model, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def add_and_norm(self, norm: nn.LayerNorm, x: torch.Tensor, sublayer_output: torch.Tensor) -> torch.Tensor:
        """LayerNorm(x + Dropout(Sublayer(x))), sections 3.1 and 5.4."""
        return norm(x + self.dropout(sublayer_output))

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        """Equation 2: max(0, x W1 + b1) W2 + b2."""
        return self.fc2(self.activation_dropout(self.activation_fn(self.fc1(x))))


@replaceable
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


@replaceable
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


class VaswaniPreTrainedModel(PreTrainedModel):
    """What transformers needs to know of every class here, and the initial weights."""

    config: VaswaniConfig
    config_class = VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ("VaswaniEncoderLayer", "VaswaniDecoderLayer")
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Embeddings and softmax with deviation D^-0.5, for variance 1 once scaled; Xavier elsewhere.

        The paper does not say how it began.
        """
        if isinstance(module, nn.Embedding) or module is self.get_output_embeddings():
            init.normal_(module.weight, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        if isinstance(module, nn.Linear) and module.bias is not None:
            init.zeros_(module.bias)
        if isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)

    def _check_and_adjust_attn_implementation(self, attn_implementation: str | None, *args: Any, **kwargs: Any) -> str:
        """Refuse flash attention where its kernels would fail in the middle of a forward."""
        head_dim, value_head_dim = self.config.head_dim, self.config.value_head_dim
        if head_dim != value_head_dim and "flash" in (attn_implementation or ""):
            raise ValueError(
                f"Flash attention needs keys and values of one width, and here `head_dim` is {head_dim} and "
                f'`value_head_dim` {value_head_dim}; use attn_implementation="sdpa".'
            )
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    def _resize_token_embeddings(
        self, new_num_tokens: int, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Beside the encoder's embeddings and the softmax, resize the decoder's, where they are its own."""
        if is_packed(self):
            refuse("resized", "resize the embeddings before `pack_weights`")
        if self.config.target_vocab_size is not None:
            raise ValueError(
                "Source and target have vocabularies of their own here, and `resize_token_embeddings` knows one size for both; "
                "build a model with the sizes you want and copy the weights that stay."
            )
        embeddings = super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        decoder = getattr(self.base_model, "decoder", None)
        if decoder is not None and decoder.embed_tokens.weight is not embeddings.weight:
            size = embeddings.weight.shape[0]
            own = self._get_resized_embeddings(decoder.embed_tokens, size, mean_resizing=mean_resizing)
            decoder.embed_tokens = own.requires_grad_(decoder.embed_tokens.weight.requires_grad)
        return embeddings

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "VaswaniPreTrainedModel":
        """What `to`, `half`, `cuda` and their kind do with every tensor."""
        check_that_tensors_stay(self, fn)
        return super()._apply(fn, recurse)


class VaswaniStack(VaswaniPreTrainedModel):
    """What encoder and decoder share: token embeddings (section 3.4) plus positions (section 3.5)."""

    def __init__(self, config: VaswaniConfig, vocab_size: int) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        if config.position_embedding_type == "learned":
            entries = config.max_position_embeddings + config.position_offset
            self.embed_positions = nn.Embedding(entries, config.d_model)
        self.gradient_checkpointing = False

    def embed(self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None) -> torch.Tensor:
        """Vectors of `input_ids` `[B, L]`, unless given as `inputs_embeds` `[B, L, D]`; not scaled yet."""
        if input_ids is None and inputs_embeds is not None:
            return inputs_embeds
        if input_ids is None or inputs_embeds is not None:
            raise ValueError(
                f"{type(self).__name__} takes either `input_ids` or `inputs_embeds` (the decoder's begin "
                f"with `decoder_`), and got {'neither' if input_ids is None else 'both'}; pass exactly one."
            )
        what = f"{type(self).__name__} got the token id"
        remedy = "the tokenizer is another model's, or new tokens were added without `resize_token_embeddings`"
        check_ids(input_ids, self.embed_tokens.weight.shape[0], what, remedy)
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


def check_ids(ids: torch.Tensor, entries: int, what: str, remedy: str) -> None:
    """Say in a sentence what looking up beyond a table's end would say in an index error.

    On the CPU only, where checking needs no synchronisation.
    """
    if ids.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing() or not ids.numel():
        return
    smallest, largest = (int(bound) for bound in torch.aminmax(ids))
    if smallest < 0 or largest >= entries:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(f"{what} {wrong}, which is outside of 0 to {entries - 1}; {remedy}.")


@replaceable
class VaswaniEncoder(VaswaniStack):
    """N identical layers over the source (section 3.1)."""

    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": VaswaniEncoderLayer,
        "attentions": VaswaniSelfAttention,
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config, config.vocab_size)
        self.layers = nn.ModuleList(VaswaniEncoderLayer(config, i) for i in range(config.encoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """Encode a source.

        Args:
            input_ids: `[B, S]`.
            attention_mask: `[B, S]`, 0 on padding.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.

        Returns:
            `last_hidden_state` `[B, S, D]`.
        """
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        mask = create_bidirectional_mask(self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask)
        x = self.add_positions(inputs_embeds, attention_mask)
        for layer in self.layers:
            x = layer(x, mask, **kwargs)
        return BaseModelOutput(last_hidden_state=x)


@replaceable
class VaswaniDecoder(VaswaniStack):
    """N identical layers over the target's past and the encoded source (section 3.1)."""

    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": VaswaniDecoderLayer,
        "attentions": OutputRecorder(VaswaniSelfAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(VaswaniCrossAttention, index=1, layer_name="encoder_attn"),
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config, config.decoder_entries)
        self.layers = nn.ModuleList(VaswaniDecoderLayer(config, i) for i in range(config.decoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode behind a cached past of P positions (0 without a cache).

        Args:
            input_ids: `[B, T]`.
            attention_mask: `[B, P + T]`, 0 on padding.
            encoder_hidden_states: `[B, S, D]`.
            encoder_attention_mask: `[B, S]`, 0 on padding.
            past_key_values: keys and values of the past; filled in place.
            inputs_embeds: `[B, T, D]`, in place of `input_ids`; not scaled.

        Returns:
            `last_hidden_state` `[B, T, D]` and the cache.
        """
        if encoder_hidden_states is None:
            raise ValueError(
                "VaswaniDecoder attends to an encoded source and got no `encoder_hidden_states`; pass the "
                "`last_hidden_state` of VaswaniEncoder."
            )
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        own_cache = past_key_values
        if isinstance(past_key_values, EncoderDecoderCache):
            own_cache = past_key_values.self_attention_cache
        causal_mask = create_causal_mask(self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=own_cache)
        source_mask = create_bidirectional_mask(
            self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )
        x = self.add_positions(inputs_embeds, attention_mask, past)
        for layer in self.layers:
            x = layer(x, causal_mask, encoder_hidden_states, source_mask, past_key_values=past_key_values, **kwargs)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=x, past_key_values=past_key_values)


@replaceable
class VaswaniModel(VaswaniPreTrainedModel):
    """The encoder-decoder without the softmax (Figure 1)."""

    _tied_weights_keys = {  # noqa: RUF012
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        if config.has_one_embedding:
            self.shared = nn.Embedding(config.vocab_size, config.d_model)
        else:
            self._tied_weights_keys = {}
        self.encoder = VaswaniEncoder(config)
        self.decoder = VaswaniDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Exchange the embedding, in the decoder too where it shares the matrix."""
        self.encoder.embed_tokens = value
        if self.config.has_one_embedding:
            self.shared = value
            self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[torch.Tensor, ...] | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Encode, unless `encoder_outputs` are given, and decode.

        The arguments are those of `VaswaniForConditionalGeneration`, without the labels.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        encoded = encoder_outputs if isinstance(encoder_outputs, BaseModelOutput) else BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )


@replaceable
class VaswaniForConditionalGeneration(PaperSearch, VaswaniPreTrainedModel, GenerationMixin):
    """The encoder-decoder and the map before the softmax (section 3.4): the embeddings."""

    _tied_weights_keys = {  # noqa: RUF012
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.model = VaswaniModel(config)
        self.lm_head = nn.Linear(config.d_model, config.decoder_entries, bias=config.lm_head_bias)
        if not config.has_one_embedding:
            self._tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Exchange the embedding; see `VaswaniModel.set_input_embeddings`."""
        self.model.set_input_embeddings(value)

    def pack_weights(self, dtype: WeightType = "float32") -> "VaswaniForConditionalGeneration":
        """Make this model translate faster on a CPU, for good: its weights can then be neither trained nor saved.

        Args:
            dtype: `"float32"` changes no result beyond rounding; `"float16"` rounds the weights for speed, `"bfloat16"` and `"int8"`
                what is multiplied by them, too. `PackedLinear` tells more.

        Returns:
            The model itself.

        Raises:
            ValueError: another type, or one that this CPU has no products for; a model that is not on a CPU, has adapters or is packed
                already.
        """
        pack_linear_layers(self.eval(), dtype)
        return self

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        if is_packed(self):
            refuse("saved", SAVE_BEFORE)
        super().save_pretrained(*args, **kwargs)

    @staticmethod
    def create_masks_for_generate(
        config: VaswaniConfig,
        inputs_embeds: torch.Tensor,
        attention_mask: torch.Tensor | None,
        past_key_values: Cache | None,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """`generate` asks under a static cache. A prompt's mask stays `[B, T]`, for positions count by it."""
        if attention_mask is not None:
            return attention_mask
        return create_causal_mask(config, inputs_embeds, attention_mask, past_key_values=past_key_values)

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """The decoder's input for `labels` `[B, T]`; data collators call this."""
        pad, start = self.config.pad_token_id, self.config.decoder_start_token_id
        if pad is None or start is None:
            raise ValueError(
                "Making the decoder's input from `labels` needs `pad_token_id` and `decoder_start_token_id`; "
                "set both in the configuration, or pass `decoder_input_ids`."
            )
        return shift_tokens_right(labels, pad, start)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[torch.Tensor, ...] | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqLMOutput:
        """Score every next token.

        Args:
            input_ids: source, `[B, S]`.
            attention_mask: `[B, S]`, 0 on padding.
            decoder_input_ids: target behind the start token, `[B, T]`; made from `labels` when absent.
            decoder_attention_mask: `[B, T]`, 0 on padding; padding at the end needs none, as nothing sees it.
            encoder_outputs: an encoded source, in place of `input_ids`.
            past_key_values: keys and values of the target so far.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.
            decoder_inputs_embeds: `[B, T, D]`, in place of `decoder_input_ids`; not scaled.
            labels: `[B, T]`, -100 where nothing is to be predicted.
            num_items_in_batch: what to divide the summed loss by, where a trainer accumulates batches.

        Returns:
            `logits` `[B, T, decoder_entries]` and, with `labels`, plain cross entropy, the mean over real tokens.
        """
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs: Seq2SeqModelOutput = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache if labels is None else False,
            **kwargs,
        )
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None if labels is None else cross_entropy(logits, labels, num_items_in_batch)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, num_items: torch.Tensor | int | None = None) -> torch.Tensor:
    """Mean of -log p(label) over the labels `[B, T]` that are not -100, or their sum over `num_items`."""
    if labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"`labels` has the shape {tuple(labels.shape)} and the decoder's input {tuple(logits.shape[:-1])}; they must be equal."
        )
    remedy = "what is not to be predicted is marked -100"
    check_ids(labels.masked_fill(labels == -100, 0), logits.shape[-1], "`labels` has the token id", remedy)
    logits, labels = logits.flatten(0, 1), labels.flatten().to(logits.device)
    if logits.dtype != torch.float64:
        logits = logits.float()
    if num_items is None:
        return nn.functional.cross_entropy(logits, labels)
    return nn.functional.cross_entropy(logits, labels, reduction="sum") / num_items


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel", "VaswaniPreTrainedModel"]
