"""Is a translation made up? Two measures that need no reference and no other model, and how they are checked.

- **oscillating** (Raunak, Menezes and Junczys-Dowmunt, 2021, "The Curious Case of Hallucinations in Neural Machine Translation"): the
  output repeats itself. Its most frequent n-gram occurs at least t times more often than the most frequent one of the source; n = 4 and
  t = 2 as in Guerreiro, Voita and Martins (2023), "Looking for a Needle in a Haystack", who call it TNG.
- **detached** (Lee et al., 2018, "Hallucinations in Neural Machine Translation"): the output has nothing to do with the source. Its symptom
  is cross-attention that leaves out the source's words. Two measures of it: `ignored`, the share of source words that receive less than
  0.2 of attention over all steps of the decoder together (Berard, Calapodescu and Roux, 2019, "NAVER LABS Europe's Systems for the WMT19
  Machine Translation Robustness Task"), and `unaligned`, the share of source words that no word of the output is linked to by `align`.

Above which value an output counts as detached depends on the model. `calibrate` therefore makes translations whose source is known to
be another one, and takes the measure and the threshold that find most of them at a given rate of false alarms.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import NamedTuple, TypeVar

from vaswani_transformer.inspection.alignment import alignment_of
from vaswani_transformer.inspection.maps import AttentionMaps
from vaswani_transformer.inspection.words import labels

_Value = TypeVar("_Value")

NGRAM, SURPLUS = 4, 2
LITTLE_ATTENTION = 0.2
MEASURES = ("ignored", "unaligned")


def top_ngram_count(units: Sequence[str], n: int = NGRAM) -> int:
    """How often the most frequent n-gram occurs; 0 in a text of fewer units."""
    counts = Counter(zip(*(units[start:] for start in range(n)), strict=False))
    return max(counts.values(), default=0)


def is_oscillating(source: str, output: str, cut: Callable[[str], Sequence[str]] = str.split) -> bool:
    """Whether the output repeats an n-gram that much more often than the source does; see above.

    Args:
        cut: into units. With the model's own subwords, a syllable that is repeated within one long word is seen as well.
    """
    return top_ngram_count(cut(output)) - top_ngram_count(cut(source)) >= SURPLUS


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit."""
    return any(map(str.isalnum, text))


class Reading(NamedTuple):
    """The decoder layer and the step whose attention is read; see `choose_layer`."""

    layer: int
    shifted: bool


def detachment(maps: AttentionMaps, reading: Reading, control: frozenset[str] = frozenset({"</s>"})) -> dict[str, float]:
    """Both measures of detachment, from 0 (every source word is used) to 1 (none is). Words without a letter or digit do not count.

    Args:
        maps: of a source and an output, by subwords.
        reading: which attention to read.
        control: units that stand for no text; see `control_labels`.
    """
    names = labels(maps.source, maps.source_words)
    counted = [number for number, name in enumerate(names) if name not in control and has_words(name)]
    if not counted:
        return dict.fromkeys(MEASURES, 0.0)
    weights = maps.cross[reading.layer].mean(0)
    steps = [step for step, unit in enumerate(maps.target) if unit not in control]
    rows = [step + reading.shifted for step in steps if step + reading.shifted < len(weights)]
    mass = [float(weights[rows][:, list(maps.source_words[number])].sum()) for number in counted]
    found = alignment_of(maps, control, layer=reading.layer, shifted=reading.shifted)
    linked = {source for source, _ in found.links}
    words = [number for number, word in enumerate(found.source) if has_words(word)]
    return {
        "ignored": fmean(amount < LITTLE_ATTENTION for amount in mass),
        "unaligned": fmean(number not in linked for number in words) if words else 0.0,
    }


@dataclass(frozen=True)
class Detector:
    """An output is detached where `measure` is above `threshold`."""

    measure: str
    threshold: float

    def is_detached(self, values: Mapping[str, float]) -> bool:
        return values[self.measure] > self.threshold


@dataclass(frozen=True)
class Check:
    """How well a detector tells outputs that are known to be detached from the model's own; shares are of outputs that it has not seen."""

    measure: str
    threshold: float
    pairs: int
    """Of each class, on which the check was made."""
    found: float
    """Of the detached ones."""
    false_alarms: float
    """Among the model's own translations."""
    area: float
    """Under the ROC curve: the probability that a detached output has the higher value."""


def calibrate(
    own: Sequence[Mapping[str, float]], detached: Sequence[Mapping[str, float]], alarms: float, seed: int = 1
) -> tuple[Detector, list[Check]]:
    """Choose a threshold for each measure on one half of the outputs, check it on the other, and take the measure that finds more.

    The threshold is the lowest at which at most `alarms` of the own translations are flagged. The first half alone chooses the measure.

    Args:
        own: values of `detachment` for the model's own translations.
        detached: for outputs that belong to other sources.
        alarms: the share of false alarms that is allowed.
        seed: of the halves.

    Returns:
        The detector, and the check of each measure on the second half.

    Raises:
        ValueError: there are fewer than four of a class, or the share is impossible.
    """
    if min(len(own), len(detached)) < 4:
        raise ValueError("The detector needs at least 4 sentences of each class to be set and checked; give more text.")
    if not 0 <= alarms < 1:
        raise ValueError(f"The share of false alarms is {alarms}; it is from 0 to below 1, such as 0.05.")
    (first_own, rest_own), (first_detached, rest_detached) = (halves(side, seed) for side in (own, detached))
    detectors = {name: Detector(name, threshold([values[name] for values in first_own], alarms)) for name in MEASURES}
    seen = {name: fmean(map(detector.is_detached, first_detached)) for name, detector in detectors.items()}
    checks = [_check(detector, rest_own, rest_detached) for detector in detectors.values()]
    return detectors[max(MEASURES, key=lambda name: seen[name])], checks


def halves(values: Sequence[_Value], seed: int) -> tuple[list[_Value], list[_Value]]:
    """`values` in two halves, at random: in some corpora every other sentence is of another kind, such as a longer one."""
    mixed = random.Random(f"{seed} halves").sample(values, len(values))
    return mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]


def threshold(values: Sequence[float], alarms: float) -> float:
    """The lowest of `values` that at most a share `alarms` of them exceeds."""
    ordered = sorted(values)
    return next(value for value in ordered if sum(other > value for other in ordered) <= alarms * len(ordered))


def _check(detector: Detector, own: Sequence[Mapping[str, float]], detached: Sequence[Mapping[str, float]]) -> Check:
    mine, theirs = ([values[detector.measure] for values in side] for side in (own, detached))
    found, alarms = (fmean(map(detector.is_detached, side)) for side in (detached, own))
    return Check(**asdict(detector), pairs=len(own), found=found, false_alarms=alarms, area=area_under_curve(mine, theirs))


def area_under_curve(negatives: Sequence[float], positives: Sequence[float]) -> float:
    """The probability that a positive has a higher value than a negative; ties count half (Hanley and McNeil, 1982)."""
    wins = sum((high > low) + (high == low) / 2 for high in positives for low in negatives)
    return wins / (len(negatives) * len(positives))


def repeated(text: str, start: int, times: int = 3) -> str:
    """`text` with `NGRAM` words from `start` on written `times` more: what an oscillating output looks like."""
    words = text.split()
    piece = words[start : start + NGRAM]
    return " ".join([*words[: start + NGRAM], *piece * times, *words[start + NGRAM :]])
