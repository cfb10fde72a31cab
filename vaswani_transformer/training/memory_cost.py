"""The memory of a training or a translation, predicted from the architecture and the lengths before anything is computed.

It is that of this package on a CPU in float32, counted tensor by tensor. Shapes: B sentences, S source and T target positions of each,
D = d_model, F = d_ff, H heads, K = d_k, V = d_v, N layers.
"""

from dataclasses import dataclass
from typing import cast

import torch

from ..bare_layers import MANY_SENTENCES
from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..stepping import DecoderSteps
from .loss import CHUNK_TOKENS

_FLOAT = 4
"""Bytes."""


@dataclass(frozen=True)
class Memory:
    """Predicted bytes, without those of the libraries.

    Attributes:
        lasting: weights, and in a training the gradient and Adam's two moments of each.
        states: what grows with the lengths and stays: activations for the backward pass, or keys and values of the past.
        passing: what the largest step needs for itself.
    """

    lasting: int
    states: int
    passing: int

    @property
    def total(self) -> int:
        """The peak."""
        return self.lasting + self.states + self.passing


def parameters(config: VaswaniConfig) -> int:
    """The number of weights of a translator, each matrix that is shared counted once."""
    with torch.device("meta"):
        return VaswaniForConditionalGeneration(config).num_parameters()


def training_memory(config: VaswaniConfig, sentences: int, source_length: int, target_length: int) -> Memory:
    """The peak of an update with one micro-batch, after the first one, without gradient checkpointing, R-Drop or parallel heads.

    The backward pass needs of each encoder layer 4 D + 2 H (K + V) + F numbers a position, and the factors of two dropouts; of each
    decoder layer 6 D + 3 H (K + V) + F, the factors of three, and H (K + V) a source position. Each attention needs its weights, one number
    a head and pair of positions, which is all that grows with the square of the length. The peak is where the backward pass begins.

    Not all that is counted exists at that moment: gradients come later, and scores of attention and of the vocabulary have gone. But the
    heap keeps what was freed, and seldom fits the next tensor into a gap, so all of it counts in full.

    Args:
        config: the architecture.
        sentences: B.
        source_length: S, padding included.
        target_length: T, likewise.

    Raises:
        ValueError: a number is below 1, or the formula does not know the model's kind of attention.
    """
    _check(config, sentences, source_length, target_length)
    weights, width = parameters(config), config.d_model
    factors = width if config.dropout else 0
    own, cross = _heads_width(config, config.encoder_attention_heads), _heads_width(config, config.decoder_attention_heads)
    encoder = 4 * width + 2 * factors + 2 * own + _inside(config, config.encoder_ffn_dim)
    decoder = 6 * width + 3 * factors + 3 * cross + _inside(config, config.decoder_ffn_dim)
    linear = source_length * (config.encoder_layers * encoder + config.decoder_layers * cross + factors)
    linear += target_length * (config.decoder_layers * decoder + 3 * factors)
    kept = 3 if config.attention_dropout else 1  # PyTorch's dropout keeps its factors and its result, too
    of_encoder = config.encoder_attention_heads * source_length**2
    of_decoder = config.decoder_attention_heads * (target_length**2 + target_length * source_length)
    masks = source_length**2 + target_length**2 + target_length * source_length
    square = kept * (config.encoder_layers * of_encoder + config.decoder_layers * of_decoder) + masks
    states = sentences * (linear + square)
    projection = config.decoder_entries * width
    tokens = min(CHUNK_TOKENS["cpu"], sentences * target_length)
    of_scores = 2 * sentences * config.decoder_attention_heads * target_length * max(target_length, source_length)
    gaps = sentences * (config.encoder_layers * of_encoder + config.decoder_layers * of_decoder)
    passing = tokens * config.decoder_entries + 2 * projection + of_scores + gaps
    return Memory(_FLOAT * 4 * weights, _FLOAT * states, _FLOAT * passing)


def translation_memory(config: VaswaniConfig, sentences: int, source_length: int, target_length: int, beams: int = 4) -> Memory:
    """The peak of a search in `generate`, with weights that are not packed.

    Attention over many positions never holds all its weights here, so nothing grows with the square of the length, but for the encoder in
    batches of 16 sentences or more.

    Args:
        config: the architecture.
        sentences: B.
        source_length: S, padding included.
        target_length: T, tokens that the search makes.
        beams: hypotheses of a sentence.

    Raises:
        ValueError: a number is below 1, or the formula does not know the model's kind of attention.
    """
    _check(config, sentences, source_length, target_length, beams)
    width, inside = config.d_model, config.encoder_ffn_dim
    own, cross = _heads_width(config, config.encoder_attention_heads), _heads_width(config, config.decoder_attention_heads)
    encoding = source_length * max(2 * inside + 3 * width, 2 * width + 4 * own)
    if sentences >= MANY_SENTENCES:
        encoding += 2 * config.encoder_attention_heads * source_length**2
    written = target_length + beams * (DecoderSteps.FORGET_EVERY if beams > 1 else 0)
    before, room = _rooms(written)
    past = cross * (source_length + room) * config.decoder_layers
    growing = cross * max(before, source_length)
    scores = 4 * beams * config.decoder_entries
    states = sentences * (source_length * width + past) + target_length * width
    passing = max(sentences * (growing + scores), sentences * encoding - states)
    return Memory(_FLOAT * parameters(config), _FLOAT * states, _FLOAT * passing)


def longest_that_fits(config: VaswaniConfig, limit: int, sentences: int = 1) -> int:
    """The largest length of source and target whose training needs `limit` bytes at most; 0 if none does, at most a learned table's size.

    Raises:
        ValueError: the formula does not know the model's kind of attention.
    """
    too_long = 1
    while training_memory(config, sentences, too_long, too_long).total <= limit:
        too_long *= 2
    fits = too_long // 2
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if training_memory(config, sentences, middle, middle).total <= limit:
            fits = middle
        else:
            too_long = middle
    return min(fits, config.most_positions or fits)


def _rooms(written: int) -> tuple[int, int]:
    """Positions in the buffer of a layer's past that holds `written` of them, and in the one it outgrew; see `LayerStep`."""
    before, room = 0, 0
    while room < written:
        before, room = room, 2 * (room + 1) + 62
    return before, room


def _heads_width(config: VaswaniConfig, heads: int) -> int:
    """H (K + V): a query or key and a value of all heads."""
    return heads * (cast(int, config.head_dim) + cast(int, config.value_head_dim))


def _inside(config: VaswaniConfig, ffn_dim: int) -> int:
    """What the feed-forward network keeps a position: ReLU's gradient follows from its output, which the next product keeps anyway."""
    before = 0 if config.activation_function == "relu" else ffn_dim
    return ffn_dim + before + (2 * ffn_dim if config.activation_dropout else 0)


def _check(config: VaswaniConfig, *numbers: int) -> None:
    if min(numbers) < 1:
        raise ValueError(f"Lengths, sentences and beams must be 1 or more, not {min(numbers)}.")
    if (reason := why_unknown(config)) is not None:
        raise ValueError(reason)


def why_unknown(config: VaswaniConfig) -> str | None:
    """A sentence that says why the memory of this model cannot be predicted; none where it can."""
    if config.attention_window is not None or config.attention_score == "additive":
        return "The formula for memory is that of dot products over the whole sequence, which this model does not have."
    if config.parallel_heads > 1:
        return "The formula for memory does not know parallel heads; ask for the model without them."
    return None
