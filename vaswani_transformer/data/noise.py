"""Noise that a pretraining teaches a model to undo: masked tokens, or spans that one mask each takes the place of.

How many tokens and spans of a text are hidden follows from its length alone, so batches can be planned without drawing anything. Which
ones they are follows from seed, epoch and the text's number, so every epoch hides others, and a resumed training the same.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from ..recipe import NoiseSettings
from .encoding import TokenPairs, TokenSequences

_MASKED, _RANDOM = 0.8, 0.1
"""Shares of the hidden tokens: replaced by a mask, and by any token; the rest stays (Devlin et al., 2019, section 3.1)."""


class NoisedCorpus:
    """The texts of a corpus with noise, drawn anew in every epoch.

    Args:
        corpus: its sources are the texts, `</s>` included.
        tokenizer: the one that wrote them, with a mask.
        settings: the kind of noise and its share.
        seed: of the training.

    Raises:
        ValueError: the tokenizer has no mask.
    """

    def __init__(self, corpus: TokenPairs, tokenizer: PreTrainedTokenizerBase, settings: NoiseSettings, seed: int) -> None:
        if tokenizer.mask_token_id is None:
            raise ValueError("The tokenizer has no `<mask>`, which pretraining needs; set `tokenizer.method: train`.")
        self._corpus, self._settings, self._seed = corpus, settings, seed
        self._mask, self._size = int(tokenizer.mask_token_id), len(tokenizer)
        special = {*tokenizer.all_special_ids, self._mask}
        self._plain = np.array([number for number in range(self._size) if number not in special])

    def lengths(self, epoch: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """[n] tokens of each noised text, and of what is to be said about it; the same in every epoch."""
        whole = self._corpus.source_lengths
        hidden, spans = self._hidden(whole)
        if self._settings.kind == "masking":
            return whole, hidden.astype(np.int32)
        return (whole - hidden + spans).astype(np.int32), whole

    def pairs(self, indices: NDArray[np.int64], epoch: int) -> TokenPairs:
        """The texts `indices` [B] with the noise of an epoch, and their targets.

        A target is the whole text for denoising; for masking, `place * vocabulary + token` of each hidden token.
        """
        noise = self._masked if self._settings.kind == "masking" else self._infilled
        both = [noise(self._corpus.source[i], np.random.default_rng([self._seed, epoch, i])) for i in indices.tolist()]
        sources, targets = ([pair[side] for pair in both] for side in (0, 1))
        return TokenPairs(TokenSequences.of(sources, np.int64), TokenSequences.of(targets, np.int64))

    def _hidden(self, lengths: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many tokens of texts of these `lengths` are hidden, and in how many spans; `</s>` never is."""
        words = lengths.astype(np.int64) - 1
        hidden = np.clip(np.rint(self._settings.share * words), np.minimum(words, 1), np.maximum(words, 1)).astype(np.int64)
        hidden = np.maximum(hidden, 1)  # an empty text hides its `</s>`: a target may not be empty
        spans = np.clip(np.rint(hidden / self._settings.mean_span), 1, np.maximum(np.minimum(hidden, words - hidden + 1), 1))
        return hidden, spans.astype(np.int64)

    def _masked(self, ids: NDArray[np.int64], draw: np.random.Generator) -> tuple[Sequence[int], Sequence[int]]:
        (hidden,), _ = self._hidden(np.array([len(ids)], dtype=np.int32))
        places = np.sort(draw.choice(max(len(ids) - 1, 1), int(hidden), replace=False))
        source = ids.astype(np.int64)
        targets = places * self._size + source[places]
        fate, anything = draw.random(len(places)), draw.choice(self._plain, len(places))
        source[places] = np.where(fate < _MASKED, self._mask, np.where(fate < _MASKED + _RANDOM, anything, source[places]))
        return source.tolist(), targets.tolist()

    def _infilled(self, ids: NDArray[np.int64], draw: np.random.Generator) -> tuple[Sequence[int], Sequence[int]]:
        """BART's text infilling (Lewis et al., 2020, section 2.2); spans are drawn as T5 does (Raffel et al., 2020, section 3.1.4)."""
        (hidden,), (spans,) = self._hidden(np.array([len(ids)], dtype=np.int32))
        text, end = ids.tolist()[: max(len(ids) - 1, 1)], ids.tolist()[max(len(ids) - 1, 1) :]
        kept = len(text) - int(hidden)
        inside = _parts(int(hidden), int(spans), 1, draw)
        outside = _parts(kept, int(spans) + 1, 0, draw)
        source, start = [], 0
        for gap, span in zip(outside, [*inside, 0], strict=True):
            source += text[start : start + gap]
            source += [self._mask] if span else []
            start += gap + span
        return [*source, *end], ids.tolist()


def _parts(total: int, parts: int, least: int, draw: np.random.Generator) -> list[int]:
    """`total` as a random sum of `parts` numbers of at least `least`, 0 or 1, all sums equally likely."""
    free = total + parts * (1 - least)  # the same as parts of at least 1
    cuts = np.sort(draw.choice(free - 1, parts - 1, replace=False)) + 1 if parts > 1 else np.array([], dtype=np.int64)
    sizes = np.diff(np.concatenate([[0], cuts, [free]]))
    return (sizes - (1 - least)).tolist()
