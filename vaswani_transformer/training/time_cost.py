"""The time of an update or a translation, predicted from shorter texts that are measured on this machine, in float32 on its CPU."""

import time
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import torch

from ..configuration_vaswani import PAPER_SEARCH, VaswaniConfig
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..recipe import TrainingSettings
from .dropout import use_bit_dropout
from .loss import TranslationLoss, target_positions
from .optimization import build_optimizer, set_learning_rate

PARTS = (16, 8, 4, 2)
"""The lengths that are measured: the one that is asked for, divided by each."""

_ENOUGH_SECONDS = 1.0
_RUNS = 5

Coefficients = tuple[float, float, float]
"""c, a and b of the seconds c + a n + b n^2."""


class Trial:
    """A model with first weights, which trains on random tokens, or translates them."""

    def __init__(self, config: VaswaniConfig, sentences: int = 1, beams: int = 4) -> None:
        self.sentences, self.beams = sentences, beams
        self.model = VaswaniForConditionalGeneration(config).train()
        self.model.set_attn_implementation("eager")  # as a training on a CPU
        use_bit_dropout(self.model)
        settings = TrainingSettings()
        self.loss = TranslationLoss(self.model, settings.label_smoothing)
        self.optimizer = build_optimizer(self.loss, settings)
        set_learning_rate(self.optimizer, 1e-6)

    def update(self, length: int) -> None:
        """One update on pairs of `length` source and as many target tokens."""
        source, labels = self._tokens(length), self._tokens(length)
        found = self.loss(source, torch.ones_like(source), labels, target_positions(labels))
        found.smoothed.div(labels.numel()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def translate(self, length: int) -> None:
        """One search over sources of `length` tokens, which makes as many, as trained checkpoints search."""
        source = self._tokens(length)
        self.model.eval().set_attn_implementation("sdpa")
        search = {**PAPER_SEARCH, "num_beams": self.beams, "min_new_tokens": length, "max_new_tokens": length}
        with torch.inference_mode():
            self.model.generate(source, attention_mask=torch.ones_like(source), **search)

    def _tokens(self, length: int) -> torch.Tensor:
        """No special ones."""
        entries = min(self.model.config.vocab_size, self.model.config.decoder_entries)
        return torch.randint(min(10, entries - 1), entries, (self.sentences, length))


def predicted_seconds(config: VaswaniConfig, length: int, sentences: int = 1, beams: int = 4) -> tuple[float, float]:
    """Seconds of one update and of one translation, by the clock and with PyTorch's threads of this process.

    They are fitted to those at a half, a quarter, an eighth and a sixteenth of the length, which takes about as long as two updates and a
    translation of the length itself.

    Args:
        config: the architecture; its weights do not matter.
        length: tokens of a source, and of its target.
        sentences: pairs of the update, or sentences translated at once.
        beams: hypotheses of a sentence.
    """
    lengths = sorted({max(length // part, 1) for part in PARTS})
    trial, seconds = Trial(config, sentences, beams), []
    for run in (trial.update, trial.translate):
        run(lengths[0])  # makes what is made once, as Adam's moments
        seconds.append(at(fit(lengths, [_fastest(run, shorter) for shorter in lengths]), length))
    return seconds[0], seconds[1]


def _fastest(run: Callable[[int], None], length: int) -> float:
    """The least seconds of some runs, of one where it takes long."""
    taken: list[float] = []
    while not taken or (len(taken) < _RUNS and sum(taken) < _ENOUGH_SECONDS):
        begun = time.perf_counter()
        run(length)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def fit(lengths: Sequence[int], seconds: Sequence[float]) -> Coefficients:
    """The least squares of relative errors, with no coefficient below 0.

    c is what an update takes whatever its length, above all Adam's step; a n the products with weights; b n^2 attention. Where a fit has a
    coefficient below 0, the best one without that term counts.
    """
    n, t = np.array(lengths, dtype=float), np.array(seconds, dtype=float)
    columns = np.stack([np.ones_like(n), n, n**2], axis=1) / t[:, None]
    best, least = (0.0, 0.0, 0.0), float("inf")
    for terms in (terms for size in (1, 2, 3) if size <= len(n) for terms in combinations(range(3), size)):
        found = np.linalg.lstsq(columns[:, terms], np.ones_like(t), rcond=None)[0]
        error = float(((columns[:, terms] @ found - 1) ** 2).sum())
        if (found >= 0).all() and error < least - 1e-12:
            whole = dict(zip(terms, map(float, found), strict=True))
            best, least = (whole.get(0, 0.0), whole.get(1, 0.0), whole.get(2, 0.0)), error
    return best


def at(coefficients: Coefficients, length: int) -> float:
    """c + a n + b n^2."""
    constant, linear, square = coefficients
    return constant + linear * length + square * length**2
