"""The attention weights of one translation, for every encoder-decoder of transformers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .words import Places, labels, words_of


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
    level: str = "subword",
    **search: Any,
) -> AttentionMaps:
    """All attention weights of a model as it translates `source`.

    Args:
        model: an encoder-decoder of transformers; its attention implementation is put back afterwards.
        tokenizer: the model's.
        source: the text to translate.
        target: its translation, or `None` for the one that the model's own search finds.
        level: `"subword"` or `"word"`.
        search: settings of `generate`, for the model's own translation.
    """
    device = model.device
    inputs = tokenizer(source, return_tensors="pt").to(device)
    with torch.no_grad(), eager(model):
        if target is None:
            found = model.generate(**inputs, **search)[0]
        else:
            written = tokenizer(text_target=target, return_tensors="pt").input_ids[0]
            found = torch.cat((torch.tensor([model.config.decoder_start_token_id]), written)).to(device)
        outputs = model(**inputs, decoder_input_ids=found[None, :-1], output_attentions=True, use_cache=False)
    ids = inputs["input_ids"][0].tolist()
    pieces, read, written_pieces = (
        tuple(tokenizer.convert_ids_to_tokens(list(part))) for part in (ids, found[:-1].tolist(), found[1:].tolist())
    )
    maps = AttentionMaps(
        source=pieces,
        target=written_pieces,
        read=read,
        encoder=torch.cat(outputs.encoder_attentions).cpu(),
        decoder=torch.cat(outputs.decoder_attentions).cpu(),
        cross=torch.cat(outputs.cross_attentions).cpu(),
        log_probabilities=outputs.logits[0].log_softmax(-1).gather(-1, found[1:, None])[:, 0].cpu(),
        source_text=source,
        target_text=tokenizer.decode(found[1:], skip_special_tokens=True),
        source_words=words_of(tokenizer, ids),
        target_words=words_of(tokenizer, found[1:].tolist()),
        read_words=words_of(tokenizer, found[:-1].tolist()),
    )
    return maps.words() if level == "word" else maps


@contextmanager
def eager(model: PreTrainedModel) -> Iterator[None]:
    """Run equation 1 as it is written, which alone returns its weights, and put the setting back."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
