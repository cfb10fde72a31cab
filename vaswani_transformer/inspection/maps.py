"""The attention weights of one translation, for every encoder-decoder of transformers."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from .translating import Translating, Translation
from .words import Places, labels, units_of, words_of

Level = Literal["subword", "word"]

_LOCK = threading.RLock()
"""Held while settings of a model or tokenizer are changed: two threads would put back each other's."""

MEMORY_LIMIT = 4 * 2**30
"""The most bytes that maps may take unless the caller allows more: 4 GiB, what a laptop can spare.

Every head of every layer has a number for each pair of tokens, so that n tokens on both sides take `3 * layers * heads * n * n` numbers of
4 bytes: 600 tokens (400 words) 0.2 GiB in the paper's base model, and 10,000 words above 100 GiB.
"""


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Where each head of each layer looks while a source is read and its translation is written.

    S source units, T target units, H heads. A unit is a subword, or a word after `words()`. Every row of every map sums to 1.
    """

    source: tuple[str, ...]
    """S units that the encoder reads, the end of the sentence included."""
    target: tuple[str, ...]
    """T units as the decoder writes them, the end of the sentence included; one for each query."""
    read: tuple[str, ...]
    """T units that the decoder has read: its start, then all of `target` but the last. The keys of `decoder`."""
    encoder: Tensor
    """`[encoder layers, H, S, S]`: self-attention of the encoder; queries, then keys."""
    decoder: Tensor
    """`[decoder layers, H, T, T]`: self-attention of the decoder; row t is the query of `target[t]`, column t the key `read[t]`."""
    cross: Tensor
    """`[decoder layers, H, T, S]`: attention over the source. Row t is the query that writes `target[t]`."""
    log_probabilities: Tensor
    """`[T]`: natural logarithm of the probability of each unit of `target`, given what is before it."""
    source_text: str
    target_text: str
    score: float | None = None
    """What the search ranked this translation by; `None` for a target that was given."""
    source_words: Places = ()
    """The places in `source` of each word; empty after `words()`."""
    target_words: Places = ()
    read_words: Places = ()

    def words(self) -> "AttentionMaps":
        """The same maps by words: weights summed over the keys of a word, then averaged over its queries."""
        if not self.source_words:
            return self
        return replace(
            self,
            source=labels(self.source, self.source_words),
            target=labels(self.target, self.target_words),
            read=labels(self.read, self.read_words),
            encoder=merged(self.encoder, self.source_words, self.source_words),
            decoder=merged(self.decoder, self.target_words, self.read_words),
            cross=merged(self.cross, self.target_words, self.source_words),
            log_probabilities=torch.stack([self.log_probabilities[list(places)].sum() for places in self.target_words]),
            source_words=(),
            target_words=(),
            read_words=(),
        )

    def _repr_html_(self) -> str:
        """A notebook shows the maps as the page that `attention_page` makes of them."""
        from .page import attention_page  # which is made of maps

        return attention_page(self)._repr_html_()


def merged(weights: Tensor, queries: Places, keys: Places) -> Tensor:
    """`[..., queries, keys]` of subwords to those of words: summed over a word's keys, averaged over its queries."""
    columns = torch.stack([weights[..., list(places)].sum(-1) for places in keys], dim=-1)
    return torch.stack([columns[..., list(places), :].mean(-2) for places in queries], dim=-2)


def attention_maps(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    *,
    level: Level = "subword",
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    memory_limit: int | None = MEMORY_LIMIT,
    **search: Any,
) -> AttentionMaps:
    """All attention weights of a model as it translates `source`: equation 1 of "Attention Is All You Need", softmax(Q K^T / sqrt(d_k)).

    The source is read, and its translation found, as `pipeline("translation")` does it: with a task's prefix, a language's token, and
    the settings of the checkpoint, which for our own models are the paper's search. The weights are then those of one pass over the
    finished translation, which at each step sees what the search saw on the way to it, whatever beams it came through. This pass runs the
    model's own eager formula without dropout; the attention implementation and the training mode are put back, after an error, too.
    (Meanwhile no other thread should run the model, except through this function.)

    The numbers are those that the model computes with, in float32 or, of a float64 model, float64. In a model of fewer bits, a row sums
    to 1 as closely as those bits allow. With int8 weights, the pass over a whole translation rounds otherwise than the search did.

    Args:
        model: an encoder-decoder of transformers, such as ours, Marian, T5, BART, mBART, NLLB or M2M-100; adapters and packed weights are
            fine.
        tokenizer: the model's.
        source: the text to translate, one sentence for a model that has learned from sentences.
        target: its translation, or `None` for the one that the model's own search finds.
        level: `"subword"`, or `"word"` for `AttentionMaps.words()`.
        src_lang: the source's language, for a multilingual model whose tokenizer has not been told it.
        tgt_lang: the target's language, likewise.
        memory_limit: the most bytes that the maps may take; `None` for any number.
        search: settings of `generate` for the model's own translation, such as `num_beams`; of a given target, only those of the decoder's
            first tokens count.

    Raises:
        TypeError: source or target is no string.
        ValueError: one of them is empty, is too long for the model or the limit, or holds half a surrogate pair; the model has no encoder
            and decoder, or does not tell its weights; the tokenizer is another model's; a language or setting is impossible.
    """
    if level not in get_args(Level):
        raise ValueError(f"There is no level {level!r}; choose {' or '.join(get_args(Level))}.")
    (maps,) = _all_maps(model, tokenizer, source, target, 1, (src_lang, tgt_lang), memory_limit, search)
    return maps.words() if level == "word" else maps


def candidate_maps(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    count: int,
    *,
    level: Level = "subword",
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    memory_limit: int | None = MEMORY_LIMIT,
    **search: Any,
) -> list[AttentionMaps]:
    """The maps of the `count` best translations of `source`, best first.

    Each has the score that the search ranked it by: under the paper's search `log P(Y | X) / ((5 + |Y|) / 6)^alpha`, under Hugging Face's
    `log P(Y | X) / |Y|^alpha`. Samples (`do_sample=True`) are ranked by `log P(Y | X)`. The search follows at least `count` beams. If it
    finds fewer translations, there are fewer. `memory_limit` is for all of them together.

    The other arguments and the errors are those of `attention_maps`.
    """
    if level not in get_args(Level):
        raise ValueError(f"There is no level {level!r}; choose {' or '.join(get_args(Level))}.")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"`count` is {count!r}; it must be a whole number from 1.")
    found = _all_maps(model, tokenizer, source, None, count, (src_lang, tgt_lang), memory_limit, search)
    return [maps.words() for maps in found] if level == "word" else found


def _all_maps(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None,
    count: int,
    languages: tuple[str | None, str | None],
    memory_limit: int | None,
    search: dict[str, Any],
) -> list[AttentionMaps]:
    with _LOCK:
        translating = Translating(model, tokenizer, *languages)
        inputs = translating.read(source)
        read = inputs["input_ids"].shape[1]
        with torch.no_grad(), at_rest(model):
            check_size(model, "source", read, 0, memory_limit)
            own = [] if target is None else [translating.given(target, inputs, search)]
            translations = own or translating.found(inputs, count, search)
            for translation in translations:
                limit = None if memory_limit is None else memory_limit // len(translations)
                check_size(model, "translation" if target is None else "target", read, len(translation.ids) - 1, limit)
            maps = [_maps(translating, inputs, translation, source, target) for translation in translations]
    if count > 1 and all(one.score is None for one in maps):
        maps = [replace(one, score=float(one.log_probabilities.sum())) for one in maps]
        maps.sort(key=lambda one: -(one.score or 0.0))
    return maps


def _maps(translating: Translating, inputs: Mapping[str, Any], translation: Translation, source: str, target: str | None) -> AttentionMaps:
    """One pass over a whole translation."""
    model, tokenizer, ids = translating.model, translating.tokenizer, translation.ids
    read = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    with eager(model):
        outputs = model(**read, decoder_input_ids=ids[None, :-1], output_attentions=True, use_cache=False, return_dict=True)
    source_ids, target_ids = inputs["input_ids"][0].tolist(), ids.tolist()
    queries, keys = len(target_ids) - 1, len(source_ids)
    log_probabilities = _at_least_float32(outputs.logits[0].cpu()).log_softmax(-1).gather(-1, ids[1:, None].cpu())[:, 0]
    return AttentionMaps(
        source=units_of(tokenizer, source_ids, "source"),
        target=units_of(tokenizer, target_ids[1:]),
        read=units_of(tokenizer, target_ids[:-1]),
        encoder=_stacked(model, "encoder", outputs.encoder_attentions, keys, keys),
        decoder=_stacked(model, "decoder", outputs.decoder_attentions, queries, queries),
        cross=_stacked(model, "attention over the source", outputs.cross_attentions, queries, keys),
        log_probabilities=log_probabilities,
        source_text=source,
        target_text=target
        if target is not None
        else tokenizer.decode(ids[1:], skip_special_tokens=True, clean_up_tokenization_spaces=False),
        score=translation.score,
        source_words=words_of(tokenizer, source_ids, "source"),
        target_words=words_of(tokenizer, target_ids[1:]),
        read_words=words_of(tokenizer, target_ids[:-1]),
    )


def _stacked(model: nn.Module, name: str, layers: tuple[Any, ...] | None, queries: int, keys: int) -> Tensor:
    """The weights of all layers on the CPU, `[layers, heads, queries, keys]`."""
    told = [layer for layer in layers or () if isinstance(layer, Tensor)]
    if not told or len(told) < len(layers or ()):
        raise ValueError(f"{type(model).__name__} does not tell the weights of its {name}, so there is nothing to see.")
    shapes = {tuple(layer.shape) for layer in told}
    if len(shapes) > 1 or told[0].ndim != 4 or told[0].shape[::2] != (1, queries) or told[0].shape[3] != keys:
        found = " and ".join(map(str, sorted(shapes)))
        raise ValueError(
            f"{type(model).__name__} tells weights of its {name} in the shape {found}, and one for each pair of tokens would be "
            f"(1, heads, {queries}, {keys}); attention within windows, or over what prefix tuning adds, cannot be shown."
        )
    return torch.cat([_at_least_float32(layer).cpu() for layer in told])


def _at_least_float32(numbers: Tensor) -> Tensor:
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def check_size(model: Any, what: str, read: int, written: int, memory_limit: int | None) -> None:
    """Refuse more tokens than the model has positions for, or maps of more than `memory_limit` bytes.

    Args:
        what: the text that is to be named as too long.
        read: tokens of the source.
        written: tokens of the target.
    """
    stack = model.get_decoder() if written else model.get_encoder()
    positions, most = getattr(stack, "embed_positions", None), getattr(model.config, "max_position_embeddings", None)
    tokens = written or read
    if isinstance(positions, nn.Embedding) and most is not None and tokens > most:
        raise ValueError(f"The {what} has {tokens:,} tokens, and the model has positions for {most:,}; shorten it.")
    encoder, decoder = _heads(model.config, "encoder"), _heads(model.config, "decoder")
    numbers = encoder * read**2 + decoder * written * (written + read)
    size = numbers * max(4, model.dtype.itemsize)
    if memory_limit is not None and size > memory_limit:
        raise ValueError(
            f"The {what} has {tokens:,} tokens, and the weights for every pair would take {size / 2**30:,.1f} GiB, above the limit of "
            f"{memory_limit / 2**30:,.1f} GiB; look at one sentence at a time, or allow more (memory_limit, in bytes)."
        )


def _heads(config: Any, stack: Literal["encoder", "decoder"]) -> int:
    """The heads of all layers of the encoder or decoder together."""
    own = getattr(config, stack, None)
    part = own if isinstance(own, PreTrainedConfig) else config.get_text_config(**{stack: True})
    return (getattr(config, f"num_{stack}_layers", None) or part.num_hidden_layers) * part.num_attention_heads


@contextmanager
def eager(model: nn.Module) -> Iterator[None]:
    """Run equation 1 as it is written, which alone returns its weights, and put the setting back.

    It is set on every configuration in the model, of which T5 has three: the whole's, the encoder's and the decoder's.
    """
    with _LOCK:
        before = [(config, config._attn_implementation) for config in _configurations(model)]
        for config, _ in before:
            config._attn_implementation_internal = "eager"  # the plain name would set those of sub-configurations, too
        try:
            yield
        finally:
            for config, implementation in before:
                config._attn_implementation_internal = implementation


def _configurations(model: nn.Module) -> list[Any]:
    """Every configuration in `model` that chooses an attention function, once."""
    ahead: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    found: dict[int, Any] = {}
    while ahead:
        config = ahead.pop()
        if id(config) not in found and hasattr(config, "_attn_implementation_internal"):
            found[id(config)] = config
            ahead += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Run without dropout, and put back which modules were in training."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
