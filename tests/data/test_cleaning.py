"""Cleaning: each reason to drop a pair, by hand."""

import hashlib
from typing import Any

import pytest

from vaswani_transformer.data.cleaning import clean
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.recipe import CleaningSettings


def pair(source: str, target: str) -> SentencePair:
    return SentencePair(source, target, "t", 1)


def texts(pairs: list[SentencePair]) -> list[tuple[str, str]]:
    return [pair[:2] for pair in pairs]


def reason(source: str, target: str, held_out: tuple[SentencePair, ...] = (), **settings: Any) -> str | None:
    """Why a pair alone is dropped, None if it is kept."""
    kept, report = clean([pair(source, target)], CleaningSettings(**settings), held_out)
    assert len(list(kept)) == report.kept == 1 - sum(report.dropped.values())
    return next((name for name, count in report.dropped.items() if count), None)


@pytest.mark.parametrize("empty", ["", "  ", "\t\u2028\xa0", "\0\0", "\x1b\x7f", "\ufeff\u200b"])
def test_a_side_without_anything_to_see_is_empty(empty: str) -> None:
    assert reason(empty, "Text") == reason("Text", empty) == "empty_side"


def test_too_long_counts_words() -> None:
    assert reason("a " * 5, "b " * 6, max_words=6) is None
    assert reason("a " * 5, "b " * 7, max_words=6) == reason("b " * 7, "a " * 5, max_words=6) == "too_long"


def test_scripts_without_spaces_count_characters() -> None:
    assert reason("家" * 6, "house", max_words=6) is None
    assert reason("家" * 7, "house", max_words=6) == "too_long"
    assert reason("the old house is very small", "その古い家はとても小さい", max_length_ratio=3) is None
    assert reason("ok", "その古い家はとても小さい", max_length_ratio=9) == "length_ratio"
    assert reason("ok", "บ้านเก่าหลังนั้น", max_length_ratio=9) == "length_ratio"


def test_a_megabyte_without_a_space_is_too_long() -> None:
    assert reason("x" * 1_000_000, "y") == "too_long"
    assert reason("Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen", "badge", max_length_ratio=1) is None


def test_length_ratio() -> None:
    assert reason("a " * 9, "b", max_length_ratio=9.0) is None
    assert reason("a " * 10, "b", max_length_ratio=9.0) == reason("b", "a " * 10) == "length_ratio"


def test_identical_sides() -> None:
    assert reason("Berlin  2024 ", " Berlin 2024") == "identical_sides"
    assert reason("Berlin", "Berlin", drop_identical_sides=False) is None
    assert reason("Berlin", "berlin") is None


def test_held_out_sources_are_dropped_whatever_their_translation() -> None:
    test_set = (pair("Good  morning. ", "Guten Morgen."),)
    assert reason("Good morning.", "Guten Morgen.", test_set) == "held_out"
    assert reason(" Good morning.", "Moin.", test_set) == "held_out"
    assert reason("Morning.", "Guten Morgen.", test_set) is None
    assert reason("Good morning.", "Guten Morgen.", test_set, drop_held_out=False) is None


def test_duplicates_are_pairs_not_sentences() -> None:
    pairs = [pair("a", "b"), pair("a ", " b"), pair("a", "c"), pair("d", "b"), pair("a", "b")]
    kept, report = clean(pairs, CleaningSettings())
    assert texts(list(kept)) == [("a", "b"), ("a", "c"), ("d", "b")]
    assert report.dropped["duplicate"] == 2
    assert len(list(clean(pairs, CleaningSettings(drop_duplicates=False))[0])) == 5


def test_the_same_pair_in_two_languages_is_no_duplicate() -> None:
    pair = SentencePair("Yes, OK.", "OK.", "a", 1)
    pairs = [pair._replace(language=language) for language in ("de", "fr", "de")]
    kept, report = clean(pairs, CleaningSettings())
    assert [pair.language for pair in kept] == ["de", "fr"]
    assert report.dropped["duplicate"] == 1


def test_a_duplicate_of_a_dropped_pair_is_dropped_for_the_same_reason() -> None:
    kept, report = clean([pair("a", "a"), pair("a", "a")], CleaningSettings())
    assert not list(kept)
    assert report.dropped == dict.fromkeys(report.dropped, 0) | {"identical_sides": 2}


def test_kept_text_loses_white_space_at_its_ends_only() -> None:
    kept, report = clean([pair(" a  b\u2028c\0 ", "d"), pair("e", "f")], CleaningSettings())
    assert texts(list(kept)) == [("a  b\u2028c\0", "d"), ("e", "f")]
    assert report.trimmed == 1


def test_the_report_adds_up_and_counts_along() -> None:
    pairs = [pair("a", "b"), pair("", "b"), pair("a", "b"), pair("c", "c"), pair("d", "e")]
    kept, report = clean(iter(pairs), CleaningSettings(), [pair("d", "x")])
    next(kept)
    assert (report.pairs_in, report.kept) == (1, 1)
    assert list(kept) == []
    assert report.to_dict() == {
        "pairs_in": 5,
        "kept": 1,
        "trimmed": 0,
        "dropped": {
            "empty_side": 1,
            "too_long": 0,
            "length_ratio": 0,
            "identical_sides": 1,
            "held_out": 1,
            "duplicate": 1,
        },
        "text_sha256": hashlib.sha256(b"a\nb\n\nb\na\nb\nc\nc\nd\ne\n").hexdigest(),
    }


def test_the_outcome_does_not_depend_on_the_number_of_processes() -> None:
    """Of 5,000 pairs, so several chunks; duplicates and held-out sources lie in other chunks than what they repeat."""
    pairs = [SentencePair(f"number {i % 3000}", " " if i % 500 == 0 else f" Nummer {i % 3000}", "n", i) for i in range(5000)]
    held_out = [SentencePair("number 7", "", "h", 1), SentencePair("number 2999", "", "h", 2)]
    outcomes = []
    for processes in (1, 2, 3):
        kept, report = clean(iter(pairs), CleaningSettings(), held_out, processes)
        outcomes.append((list(kept), report.to_dict()))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    report = outcomes[0][1]
    assert (report["pairs_in"], report["dropped"]["held_out"], report["dropped"]["empty_side"]) == (
        5000,
        3,
        10,
    )
    assert report["dropped"]["duplicate"] == 2000 - 4 - 1
    assert report["kept"] == 5000 - 3 - 10 - 1995
