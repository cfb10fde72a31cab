"""The post-LayerNorm encoder-decoder as a transformers model: stacks, heads, masks and outputs around the layers of `layers.py`.

Shapes: B sentences, S source positions, T target positions, L positions of either, D = d_model.
"""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple, logging
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .additive_score import AdditiveScore
from .attention_window import check_cache, is_near, reach_of, real_tokens, self_attention_cache
from .bare_layers import replaceable
from .configuration_vaswani import VaswaniConfig
from .decoding import PaperSearch, with_known_signature
from .layers import (
    EmbeddedTokens,
    VaswaniAttention,
    VaswaniCrossAttention,
    VaswaniDecoderLayer,
    VaswaniEncoderLayer,
    VaswaniSelfAttention,
    attention_implementation,
    check_ids,
    scaled_dot_product_attention,
    sinusoids,
)
from .packing import SAVE_BEFORE, Function, WeightType, check_that_tensors_stay, is_packed, pack_linear_layers, refuse
from .parallel_heads import heads_of

if TYPE_CHECKING:
    # Not used here: a saved model includes the files that its code imports, and should include the pipelines and the other tasks.
    from .modeling_tasks import VaswaniEncoderModel  # noqa: F401
    from .pipeline_question_answering import QuestionAnsweringPipeline  # noqa: F401
    from .pipeline_translation import TranslationPipeline  # noqa: F401


logger = logging.get_logger(__name__)


def shift_tokens_right(labels: torch.Tensor, pad_token_id: int, decoder_start_token_id: int) -> torch.Tensor:
    """The decoder's input for `labels` `[B, T]`: shifted right after the start token, with padding in place of -100."""
    shifted = labels.roll(1, dims=-1)
    shifted[:, 0] = decoder_start_token_id
    return shifted.masked_fill(shifted == -100, pad_token_id)


class VaswaniPreTrainedModel(PreTrainedModel):
    """What transformers needs to know about every class here, and the initial weights."""

    config: VaswaniConfig
    config_class = VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    # Of a model without the map before the softmax, and of one that is loaded with `parallel_heads=1`
    _keys_to_ignore_on_load_unexpected: tuple[str, ...] = (r"^parallel_heads\.",)
    _no_split_modules = ("VaswaniEncoderLayer", "VaswaniDecoderLayer")
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True

    def __init__(self, config: VaswaniConfig, *args: Any, **kwargs: Any) -> None:
        # `from_pretrained` sets what it is asked for once the configuration has checked itself
        config.validate_architecture()
        super().__init__(config, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Embeddings and softmax with deviation D^-0.5, for variance 1 once scaled; Xavier elsewhere.

        The paper does not give its initialisation.
        """
        if isinstance(module, nn.Embedding) or module is self.get_output_embeddings():
            init.normal_(module.weight, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        if isinstance(module, nn.Linear) and module.bias is not None:
            init.zeros_(module.bias)
        if isinstance(module, AdditiveScore):
            # Each head's row is Xavier's map from d_k units to one
            bound = (6 / (module.weight.shape[1] + 1)) ** 0.5
            init.uniform_(module.weight, -bound, bound)
        if isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)

    def _check_and_adjust_attn_implementation(self, attn_implementation: str | None, *args: Any, **kwargs: Any) -> str:
        """Refuse flash attention where its kernels would fail in the middle of a forward, and what does not know our variants."""
        head_dim, value_head_dim = self.config.head_dim, self.config.value_head_dim
        if head_dim != value_head_dim and "flash" in (attn_implementation or ""):
            raise ValueError(
                f"Flash attention needs keys and values of one width, and here `head_dim` is {head_dim} and "
                f'`value_head_dim` {value_head_dim}; use attn_implementation="sdpa".'
            )
        score, window = self.config.attention_score, self.config.attention_window
        known = ("eager",) if score == "additive" else ("eager", "sdpa", "flex_attention")
        if attn_implementation is None and score == "additive":
            attn_implementation = "eager"
        is_other = attn_implementation in ALL_ATTENTION_FUNCTIONS.valid_keys() and attn_implementation not in known
        if is_other and (score == "additive" or window is not None):
            raise ValueError(
                f"attn_implementation={attn_implementation!r} cannot compute attention_score={score!r} with attention_window={window}; "
                f"choose {' or '.join(map(repr, known))}."
            )
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    def _resize_token_embeddings(
        self, new_num_tokens: int, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the encoder's embeddings and the softmax, and the decoder's embeddings if it has its own."""
        if is_packed(self):
            refuse("resized", "resize the embeddings before `pack_weights`")
        if self.config.is_encoder_decoder and self.config.target_vocab_size is not None:
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

    def _adjust_missing_and_unexpected_keys(self, loading_info: Any) -> None:
        """transformers calls this once the weights are loaded, before it reports what it missed and what it did not expect."""
        encoder, decoder = ({name for name in self.state_dict() if f"{part}.layers." in name} for part in ("encoder", "decoder"))
        if decoder and decoder <= loading_info.missing_keys and not encoder & loading_info.missing_keys:
            logger.warning(
                f"The folder has an encoder and no decoder, so all weights of the decoder of this {type(self).__name__} are new; train it "
                "before it translates."
            )
        super()._adjust_missing_and_unexpected_keys(loading_info)

    def _apply(self, fn: Function, recurse: bool = True) -> "VaswaniPreTrainedModel":
        """What `to`, `half`, `cuda` and their kind do with every tensor."""
        check_that_tensors_stay(self, fn)
        return super()._apply(fn, recurse)


class VaswaniStack(EmbeddedTokens, VaswaniPreTrainedModel):
    """What encoder and decoder share: everything before the first layer."""

    def __init__(self, config: VaswaniConfig, vocab_size: int) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        if config.position_embedding_type == "learned":
            entries = config.max_position_embeddings + config.position_offset
            self.embed_positions = nn.Embedding(entries, config.d_model)
        self.gradient_checkpointing = False

    def config_of_masks(self, asked: Mapping[str, Any]) -> VaswaniConfig:
        """The configuration to make masks with, for the attention function that can return what is `asked` for."""
        implementation = attention_implementation(self.config, asked)
        if implementation == self.config._attn_implementation:
            return self.config
        config = copy.copy(self.config)
        config._attn_implementation = implementation
        return config

    def mask_of_itself(self, make: Callable[..., Any], attention_mask: torch.Tensor | None, config: VaswaniConfig, is_causal: bool) -> Any:
        """The mask of self-attention: what `make` gives for `config` or, within a window, the real tokens, unless flex attention runs."""
        if config.attention_window is None:
            return make(config)
        real = real_tokens(attention_mask)
        if config._attn_implementation != "flex_attention":
            return real
        return make(config, and_mask_function=is_near(reach_of(config.attention_window, is_causal)))


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
        make = partial(create_bidirectional_mask, inputs_embeds=inputs_embeds, attention_mask=attention_mask)
        mask = self.mask_of_itself(make, attention_mask, self.config_of_masks(kwargs), is_causal=False)
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
        """Decode after a cached past of P positions (0 without a cache).

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
            past_key_values = EncoderDecoderCache(self_attention_cache(self.config), DynamicCache())
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        own_cache = past_key_values
        if isinstance(past_key_values, EncoderDecoderCache):
            own_cache = past_key_values.self_attention_cache
        config = self.config_of_masks(kwargs)
        if config.attention_window is not None:
            check_cache(own_cache)
        make = partial(create_causal_mask, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=own_cache)
        causal_mask = self.mask_of_itself(make, attention_mask, config, is_causal=True)
        source_mask = create_bidirectional_mask(
            config,
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
        config = config.for_translator()
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
        """Replace the embedding, and the decoder's too if it shares the matrix."""
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
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, return_dict=True, **kwargs
            )
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            raise ValueError(
                "A translator scores a target's tokens, and got no target, neither `labels` nor `decoder_input_ids`; for classes or the "
                "encoder's states, load its folder as the model of that task, such as VaswaniForSequenceClassification or "
                "VaswaniEncoderModel."
            )
        encoded = encoder_outputs if isinstance(encoder_outputs, BaseModelOutput) else BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            return_dict=True,
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
    """The encoder-decoder and the map before the softmax, which is the embedding matrix (section 3.4).

    `parallel_heads`, which only blockwise parallel decoding runs, is `None` where the configuration has none.
    """

    _tied_weights_keys = {  # noqa: RUF012
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
    }

    def __init__(self, config: VaswaniConfig) -> None:
        config = config.for_translator()
        super().__init__(config)
        self.model = VaswaniModel(config)
        self.lm_head = nn.Linear(config.d_model, config.decoder_entries, bias=config.lm_head_bias)
        if not config.has_one_embedding:
            self._tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
        self.parallel_heads = heads_of(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding; see `VaswaniModel.set_input_embeddings`."""
        self.model.set_input_embeddings(value)

    # transformers finds these three by trying names, which takes a search of one sentence as long as several products
    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """The encoder; `modality` is for models that read more than text, and transformers answers it."""
        return self.model.encoder if modality is None else super().get_encoder(modality)

    def get_decoder(self) -> nn.Module:
        """The decoder, without the map to the vocabulary."""
        return self.model.decoder

    def get_output_embeddings(self) -> nn.Module:
        """The map to the vocabulary; its weights are the embedding's where they are tied (section 3.4)."""
        return self.lm_head

    def pack_weights(self, dtype: WeightType = "float32") -> "VaswaniForConditionalGeneration":
        """Make this model translate faster on a CPU, for good: its weights can then be neither trained nor saved.

        Args:
            dtype: `"float32"` changes no result beyond rounding. For speed, `"float16"` rounds the weights, and `"bfloat16"` and `"int8"`
                round what is multiplied by them, too. See `PackedLinear`.

        Returns:
            The model itself.

        Raises:
            ValueError: the type is another or this CPU lacks it, or the model is not on a CPU, has adapters or is packed already.
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
        """`generate` calls this for a static cache. A prompt's mask stays `[B, T]`, because positions are counted by it."""
        if attention_mask is not None:
            return attention_mask
        return create_causal_mask(config, inputs_embeds, attention_mask, past_key_values=past_key_values)

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """The decoder's input for `labels` `[B, T]`; data collators call this."""
        if labels.ndim != 2:
            raise ValueError(
                f"A translator's `labels` are the target's token ids, `[B, T]`, and got the shape {tuple(labels.shape)}; for classes, load "
                "this folder as VaswaniForSequenceClassification or VaswaniForTokenClassification."
            )
        pad, start = self.config.pad_token_id, self.config.decoder_start_token_id
        if pad is None or start is None:
            raise ValueError(
                "Making the decoder's input from `labels` needs `pad_token_id` and `decoder_start_token_id`; "
                "set both in the configuration, or pass `decoder_input_ids`."
            )
        return shift_tokens_right(labels, pad, start)

    @with_known_signature
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
            decoder_input_ids: start token and target, `[B, T]`; made from `labels` when absent.
            decoder_attention_mask: `[B, T]`, 0 on padding; padding at the end needs none, as nothing sees it.
            encoder_outputs: an encoded source, in place of `input_ids`.
            past_key_values: keys and values of the target so far.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.
            decoder_inputs_embeds: `[B, T, D]`, in place of `decoder_input_ids`; not scaled.
            labels: `[B, T]`, -100 where there is nothing to predict.
            num_items_in_batch: what to divide the summed loss by, where a trainer accumulates batches.

        Returns:
            `logits` `[B, T, decoder_entries]` and, with `labels`, the plain cross entropy as a mean over real tokens.
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
            return_dict=True,
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


__all__ = [
    "VaswaniAttention",
    "VaswaniForConditionalGeneration",
    "VaswaniModel",
    "VaswaniPreTrainedModel",
    "scaled_dot_product_attention",
    "sinusoids",
]
