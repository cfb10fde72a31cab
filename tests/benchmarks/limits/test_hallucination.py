"""The detector: its measures by hand, and its thresholds on values whose truth is known."""

import pytest
import torch

from benchmarks.limits.hallucination import (
    Detector,
    Reading,
    area_under_curve,
    calibrate,
    detachment,
    halves,
    has_words,
    is_oscillating,
    repeated,
    threshold,
    top_ngram_count,
)
from vaswani_transformer.inspection.maps import AttentionMaps


def maps(cross: list[list[float]]) -> AttentionMaps:
    """A source of three words, a full stop and an end; an output of as many words as there are rows, and an end that looks nowhere new."""
    source, target = ("a", "b", "c", ".", "</s>"), (*"xyz"[: len(cross)], "</s>")
    weights = torch.tensor([*cross, [0, 0, 0, 0, 1.0]])[None, None]
    words = tuple((place,) for place in range(5))
    own = tuple((place,) for place in range(len(target)))
    square = torch.zeros(1, 1, 1, 1)
    return AttentionMaps(
        source, target, ("<s>", *target[:-1]), square, square, weights, torch.zeros(len(target)), "a b c .", " ".join(target[:-1]), None,
        words, own, own,
    )  # fmt: skip


def test_repetition_by_hand() -> None:
    assert [top_ngram_count(text.split(), n) for text, n in [("a b a b a", 2), ("a b", 3), ("", 4), ("a a a a a a", 4)]] == [2, 0, 0, 3]
    assert is_oscillating("one two three four", "a b c d a b c d a b c d")
    assert not is_oscillating("one two three four", "a b c d a b c d")  # one more than the source is not enough
    assert not is_oscillating("a b c d a b c d a b c d", "w x y z w x y z w x y z")  # the source repeats itself as well
    assert is_oscillating("abcd", "abcdabcdabcd", list) and not is_oscillating("abcd", "abcdabcdabcd")  # within a word
    assert repeated("a b c d e f", 1) == "a b c d e b c d e b c d e b c d e f" and is_oscillating("a b c d", repeated("a b c d e f", 1))
    assert not has_words(" .?!") and has_words("a") and has_words("3")


def test_attention_that_leaves_words_out_by_hand() -> None:
    """Every word of the source is looked at; then only the first; the full stop and the end never count."""
    whole = maps([[0.9, 0.1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    assert detachment(whole, Reading(0, False)) == {"ignored": 0, "unaligned": 0}
    sink = maps([[0.4, 0.1, 0.1, 0, 0.4], [0.4, 0.05, 0.15, 0.4, 0]])
    assert detachment(sink, Reading(0, False)) == pytest.approx({"ignored": 1 / 3, "unaligned": 2 / 3})
    later = detachment(sink, Reading(0, True))  # the steps that read: the second, and the one that writes the end
    assert later == pytest.approx({"ignored": 2 / 3, "unaligned": 2 / 3})


def test_thresholds_and_areas_by_hand() -> None:
    values = [0.0, 0.1, 0.1, 0.2, 0.9]
    assert [threshold(values, alarms) for alarms in (0, 0.2, 0.4, 0.9)] == [0.9, 0.2, 0.1, 0.0]
    assert area_under_curve([0, 1], [2, 3]) == 1 and area_under_curve([0, 1], [0, 1]) == 0.5 and area_under_curve([1], [0]) == 0


def test_the_measure_that_finds_more_is_taken_and_checked_on_what_it_has_not_seen() -> None:
    first, rest = halves(range(20), 7)
    assert sorted(first + rest) == list(range(20)) and len(first) == 10 and first != sorted(first)
    own = [{"ignored": 0.9 if number in rest[:3] else 0.1, "unaligned": 0.6} for number in range(20)]
    detached = [{"ignored": 0.0 if number in rest[:5] else 0.8, "unaligned": 0.5} for number in range(20)]
    detector, checks = calibrate(own, detached, 0.05, seed=7)
    assert detector == Detector("ignored", 0.1)
    ignored, unaligned = checks
    assert (ignored.pairs, ignored.found, ignored.false_alarms) == (10, 0.5, 0.3)
    assert (unaligned.found, unaligned.threshold, unaligned.area) == (0, 0.6, 0)
    with pytest.raises(ValueError, match="at least 4 sentences of each class"):
        calibrate(own[:3], detached, 0.05)
    with pytest.raises(ValueError, match="false alarms is 5; it is from 0"):
        calibrate(own, detached, 5)
