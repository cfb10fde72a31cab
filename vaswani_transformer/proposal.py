"""A first recipe for a corpus: settings that fit its size, and the reasons for them as comments.

The sizes come from trainings that are known to work: "Transformer-Tiny" on the 29,000 captions of Multi30k (Wu et al., 2021), fairseq's
model for the 160,000 sentences of IWSLT 2014, and the paper's base model on the 4.5 million pairs of WMT 2014.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from .data.survey import Survey

_TOKENS_A_WORD = 1.3
"""Of byte-level BPE: 1.27 on 2,000 captions of Multi30k with 4,100 entries."""


class Size(NamedTuple):
    """A model and how it is trained, for corpora from `pairs` on."""

    pairs: int
    reason: str
    model: dict[str, object]
    batch_tokens: int
    micro_batches: int
    most_updates: int
    warmup_updates: int
    peak_rate: float
    average: int
    """How many checkpoints; behind a cooldown the last one alone is better."""
    averaged_share: float
    d_model: int
    epochs: int = 75
    """So often do the tokens of the captions fit into the 8,000 updates of `multi30k_en_de`, padding aside."""
    more: Mapping[str, float | str] = MappingProxyType({})
    """Other settings of `training`, each for one of the `REASONS`."""
    teaches_itself: bool = False
    """Whether a second run on the model's own translations is known to help."""


REASONS = {
    "optimizer": "captions reached the loss of Adam for 0.7 of the compute",
    "initial_scale": "source and target align sooner",
    "weight_decay": "with as many passes as here, the model would else know the sentences by heart",
    "word_dropout": "the model must tell some words from those around them",
    "cooldown_share": "the learning rate falls to zero over the last updates",
}

_TINY = {"preset": "tiny", "dropout": 0.2}
_OFTEN_SEEN: Mapping[str, float | str] = {
    "optimizer": "muon", "initial_scale": 0.5, "weight_decay": 0.3, "word_dropout": 0.1, "cooldown_share": 0.15
}  # fmt: skip
_IWSLT = {"preset": "base", "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
_CAPTIONS = Size(
    0,
    'as "Transformer-Tiny" for the 29,000 pairs of Multi30k',
    _TINY,
    batch_tokens=4096,
    micro_batches=4,
    most_updates=5_200,
    warmup_updates=1000,
    peak_rate=4e-3,
    average=1,
    averaged_share=0.0193,
    d_model=128,
    epochs=49,  # likewise of the 5,200 updates of `multi30k_en_de_muon`
    more=_OFTEN_SEEN,
    teaches_itself=True,
)
_SIZES = [
    _CAPTIONS,
    _CAPTIONS._replace(
        pairs=100_000,
        reason="so many pairs need little dropout",
        model={**_TINY, "dropout": 0.1},
        most_updates=16_000,
        average=10,
        averaged_share=0.25,
        epochs=75,
        more={"initial_scale": 0.5},
        teaches_itself=False,
    ),
    Size(250_000, "as fairseq's for IWSLT 2014", {**_IWSLT, "dropout": 0.3}, 8192, 2, 60_000, 4000, 5e-4, 10, 0.25, 512),
    Size(1_500_000, "the paper's base model", {"preset": "base"}, 25_000, 8, 100_000, 4000, 512**-0.5 * 4000**-0.5, 5, 0.075, 512),
]


class SecondRun(NamedTuple):
    """How a model goes on with the references and with its own translations of their sources, as `multi30k_en_de_distilled` does."""

    updates: int
    warmup_updates: int
    peak_rate: float
    learning_rate_scale: float
    cooldown_share: float
    dropout: float
    checkpoint_every: int
    validate_every: int


@dataclass(frozen=True)
class Proposal:
    """The settings for one corpus."""

    size: Size
    vocab_size: int
    max_sentence_tokens: int
    tokens: int
    updates: int
    warmup_updates: int
    learning_rate_scale: float
    average: int
    checkpoint_every: int
    validate_every: int

    @property
    def rounds(self) -> float:
        """How often the estimated tokens fit into the training."""
        return self.updates * self.size.batch_tokens / self.tokens

    @property
    def second(self) -> SecondRun | None:
        """What follows the run; `None` where nothing is known to help."""
        if not self.size.teaches_itself:
            return None
        updates = _rounded(0.33 * self.updates)
        warmup, peak_rate, every = updates // 5, 1.6e-3, max(updates // 35, 1)
        return SecondRun(
            updates=updates,
            warmup_updates=warmup,
            peak_rate=peak_rate,
            learning_rate_scale=_scale(peak_rate, self.size.d_model, warmup),
            cooldown_share=0.8,
            dropout=0.15,
            checkpoint_every=every,
            validate_every=5 * every,
        )


def propose(survey: Survey) -> Proposal:
    """Settings that fit what `survey` has counted."""
    size = next(size for size in reversed(_SIZES) if survey.pairs >= size.pairs)
    longer = max(survey.source.total_words, survey.target.total_words)
    tokens = round(_TOKENS_A_WORD * longer * survey.pairs / max(survey.cleaning.kept, 1)) + survey.pairs
    updates = _rounded(min(size.most_updates, max(size.epochs * tokens / size.batch_tokens, 500)))
    warmup = min(size.warmup_updates, updates // 5)
    average = size.average
    checkpoint_every = max(round(updates * size.averaged_share) // average, 1)
    longest = max(survey.source.quantile(0.999), survey.target.quantile(0.999))
    return Proposal(
        size=size,
        vocab_size=_vocabulary(survey),
        max_sentence_tokens=min(max(32 * math.ceil(2 * longest / 32), 64), 256),
        tokens=tokens,
        updates=updates,
        warmup_updates=warmup,
        learning_rate_scale=_scale(size.peak_rate, size.d_model, warmup),
        average=average,
        checkpoint_every=checkpoint_every,
        validate_every=checkpoint_every * max(updates // (16 * checkpoint_every), 1),
    )


def _scale(peak_rate: float, d_model: int, warmup_updates: int) -> float:
    """What equation 3 is multiplied by, so that its peak is `peak_rate`."""
    return round(peak_rate * (d_model * warmup_updates) ** 0.5, 3)


def _vocabulary(survey: Survey) -> int:
    """From 10,000 entries for 700,000 words (Multi30k) to 37,000 for 225 million (WMT 2014), and no more than half the different words."""
    words = survey.source.total_words + survey.target.total_words
    by_size = 10_000 * (max(words, 1) / 700_000) ** 0.227
    different = len(survey.source.words | survey.target.words)
    return int(_rounded(max(min(by_size, 256 + different / 2, 37_000), 300)))


def _rounded(number: float) -> int:
    """To two digits."""
    unit = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return int(round(number / unit) * unit)
