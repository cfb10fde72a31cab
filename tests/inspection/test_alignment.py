"""Alignments: hand-made attention whose links are known, error rates computed by hand, and real models end to end."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor
from transformers import MarianMTModel, PreTrainedTokenizerBase

import vaswani_transformer
from tests.inspection.families import FAMILIES, translator
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.inspection.alignment import (
    WordAlignment,
    align,
    alignment_error_rate,
    alignment_of,
    choose_layer,
    control_labels,
    read_pharaoh,
)
from vaswani_transformer.inspection.maps import AttentionMaps, attention_maps

# The source "the small doggy" has its last word in two subwords; the decoder ends with </s>.
SOURCE, SOURCE_WORDS = ("the", "small", "dog", "gy", "</s>"), ((0,), (1,), (2, 3), (4,))
TARGET, TARGET_WORDS = ("der", "kleine", "Hund", "</s>"), ((0,), (1,), (2,), (3,))

ALIGNED = [[6, 1, 1, 1, 1], [1, 6, 1, 1, 1], [1, 1, 2, 5, 1], [1, 1, 1, 1, 6]]
"""Row t looks at the source of the word that it writes."""
LATE = [[1, 1, 1, 1, 6], *ALIGNED[:3]]
"""Row t looks at the source of the word that it has read."""
SINK = [[3, 1, 1, 1, 4]] * 4
"""Every row looks at the end, and then at the first word."""


def maps_of(*layers: Sequence[Sequence[Sequence[float]]], end: bool = True) -> AttentionMaps:
    """Maps whose attention over the source is that of `layers`, each a list of heads, which are scaled so that rows sum to 1."""
    cross = torch.tensor(layers, dtype=torch.float64)
    cross = cross / cross.sum(-1, keepdim=True)
    steps = len(TARGET) if end else len(TARGET) - 1
    own = torch.eye(steps, dtype=torch.float64)[None, None]
    return AttentionMaps(
        source=SOURCE,
        target=TARGET[:steps],
        read=("<s>", *TARGET[: steps - 1]),
        encoder=torch.eye(5, dtype=torch.float64)[None, None],
        decoder=own,
        cross=cross[:, :, :steps],
        log_probabilities=torch.zeros(steps),
        source_text="the small doggy",
        target_text="der kleine Hund",
        source_words=SOURCE_WORDS,
        target_words=TARGET_WORDS[:steps],
        read_words=TARGET_WORDS[:steps],
    )


MONOTONE = ((0, 0), (1, 1), (2, 2))


def test_each_word_is_linked_to_where_its_step_looks() -> None:
    found = alignment_of(maps_of([ALIGNED]), layer=0, shifted=False)
    assert found == WordAlignment(("the", "small", "doggy"), ("der", "kleine", "Hund"), MONOTONE)
    assert found.pharaoh() == "0-0 1-1 2-2"
    assert found.pairs() == [("the", "der"), ("small", "kleine"), ("doggy", "Hund")]


def test_shifted_takes_the_step_that_reads_the_word() -> None:
    late = maps_of([LATE])
    assert alignment_of(late, layer=0, shifted=True).links == MONOTONE
    assert alignment_of(late, layer=0, shifted=False).links == ((0, 0), (0, 1), (1, 2))  # the first row looks at </s>, then at all alike


def test_the_last_word_of_a_translation_without_an_end_is_never_read() -> None:
    cut = maps_of([LATE], end=False)
    found = alignment_of(cut, layer=0, shifted=True)
    assert found.target == ("der", "kleine", "Hund")
    assert found.links == ((0, 0), (1, 1))
    assert alignment_of(cut, layer=0, shifted=True, level="word").links == ((0, 0), (1, 1))


def test_control_tokens_never_align() -> None:
    found = alignment_of(maps_of([SINK]), layer=0, shifted=False)
    assert found.links == ((0, 0), (0, 1), (0, 2))
    named = alignment_of(maps_of([SINK]), ("</s>", "the"), layer=0, shifted=False)
    assert named.source == ("small", "doggy")


def test_the_prefix_of_a_task_is_not_of_the_text() -> None:
    maps = maps_of([ALIGNED])
    found = alignment_of(replace(maps, source_text="small doggy"), layer=0, shifted=False)
    assert found.source == ("small", "doggy")
    assert found.links == ((0, 0), (0, 1), (1, 2))
    other = alignment_of(replace(maps, source_text="another spelling"), layer=0, shifted=False)
    assert other.source == ("the", "small", "doggy")


def test_layer_and_head_are_those_asked_for() -> None:
    backwards = [ALIGNED[2], ALIGNED[1], ALIGNED[0], ALIGNED[3]]
    maps = maps_of([ALIGNED, SINK], [backwards, ALIGNED])
    crossed = ((0, 2), (1, 1), (2, 0))
    assert alignment_of(maps, layer=0, head=0, shifted=False).links == MONOTONE
    assert alignment_of(maps, layer=1, head=0, shifted=False).links == crossed
    assert alignment_of(maps, layer=1, head=1, shifted=False).links == MONOTONE
    assert alignment_of(maps, layer=0, shifted=False).links == MONOTONE  # 6 + 3 against 1 + 3 in each row


def test_by_subword_the_best_piece_decides_and_by_word_their_sum() -> None:
    """Hund looks at small with 4 of 10, at dog and gy with 3 each."""
    maps = maps_of([[ALIGNED[0], ALIGNED[1], [0, 4, 3, 3, 0], ALIGNED[3]]])
    assert alignment_of(maps, layer=0, shifted=False, level="subword").links == ((0, 0), (1, 1), (1, 2))
    assert alignment_of(maps, layer=0, shifted=False, level="word").links == MONOTONE


def test_a_threshold_links_all_or_nothing() -> None:
    maps = maps_of([[[4, 4, 1, 1, 0], [1, 1, 1, 1, 6], [0, 0, 4, 4, 2], ALIGNED[3]]])
    assert alignment_of(maps, layer=0, shifted=False, threshold=0.4).links == ((0, 0), (1, 0), (2, 2))
    assert alignment_of(maps, layer=0, shifted=False, threshold=0.5).links == ()
    assert alignment_of(maps, layer=0, shifted=False, threshold=0.5, level="word").links == ((2, 2),)


def test_the_layer_that_agrees_with_itself_is_chosen() -> None:
    assert choose_layer([maps_of([SINK], [ALIGNED], [LATE])], layer=1) == (1, False, pytest.approx(6 / 7))
    maps = maps_of([SINK], [ALIGNED])
    assert choose_layer([maps])[:2] == (1, False)
    assert alignment_of(maps).links == MONOTONE
    late = maps_of([LATE], [SINK])
    assert choose_layer([late])[:2] == (0, True)
    assert alignment_of(late).links == MONOTONE
    assert choose_layer([maps, late, late], shifted=True)[:2] == (0, True)


def test_agreement_by_hand() -> None:
    """ALIGNED: three subwords look at the, small, gy; the, small, dog, gy are looked at most by 0, 1, 2, 2: 3 of 3 + 4 links twice.

    SINK: all three look at the; of equal rows the first counts: 1 of 3 + 4 twice.
    """
    assert choose_layer([maps_of([ALIGNED])], layer=0, shifted=False).agreement == pytest.approx(2 * 3 / 7)
    assert choose_layer([maps_of([SINK])], layer=0, shifted=False).agreement == pytest.approx(2 * 1 / 7)
    both = [maps_of([ALIGNED]), maps_of([SINK])]
    assert choose_layer(both, layer=0, shifted=False).agreement == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2, "shifted": False}, "no layer 2: the decoder's layers are 0 to 1"),
        ({"layer": -1, "shifted": False}, "no layer -1"),
        ({"layer": 0, "head": 1, "shifted": False}, "no head 1: the decoder's heads are 0 to 0"),
        ({"head": 0}, "`head` is 0 without a layer"),
        ({"level": "letter"}, "no level 'letter'"),
        ({"threshold": 0.0}, "`threshold` is 0.0"),
        ({"threshold": 1.5}, "at most 1"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alignment_of(maps_of([ALIGNED], [LATE]), **options)  # type: ignore[arg-type]


def test_maps_by_words_and_no_maps_are_refused() -> None:
    with pytest.raises(ValueError, match="by words"):
        alignment_of(maps_of([ALIGNED]).words())
    with pytest.raises(ValueError, match="no maps"):
        choose_layer([])


def test_links_between_other_words_of_the_same_text() -> None:
    found = WordAlignment(("twenty", "-", "seven", "dogs", "don't"), ("siebenundzwanzig", "Hunde"), ((0, 0), (2, 0), (3, 1)))
    other = found.between(("twenty-seven", "dogs", "do", "n't"), ("siebenundzwanzig", "Hun", "de"))
    assert other.links == ((0, 0), (1, 1), (1, 2))
    assert other.between(found.source, found.target).links == ((0, 0), (1, 0), (2, 0), (3, 1))
    with pytest.raises(ValueError, match="not the same text"):
        found.between(("twenty-eight", "dogs", "don't"), found.target)


def test_pharaoh_is_read_as_it_is_written() -> None:
    assert read_pharaoh("0-0 1-12\n") == [(0, 0), (1, 12)]
    assert read_pharaoh("") == []
    for wrong in ("0-0 1", "a-b", "0--1", "1-²", "0:1"):
        with pytest.raises(ValueError, match="is no alignment"):
            read_pharaoh(wrong)


# --- Error rates ----------------------------------------------------------------------------------------------------------------------


def test_error_rate_by_hand() -> None:
    """A = 3 links, of which 1 is sure and 2 are possible; S = 2."""
    found, sure, possible = [[(0, 0), (1, 2), (2, 0)]], [[(0, 0), (1, 1)]], [[(1, 2), (2, 2)]]
    rate = alignment_error_rate(found, sure, possible)
    assert rate == (pytest.approx(1 - (1 + 2) / (3 + 2)), pytest.approx(2 / 3), pytest.approx(1 / 2), 3, 2)


def test_error_rate_is_of_the_corpus_and_not_a_mean() -> None:
    found = [[(0, 0)], [(0, 0), (1, 1), (2, 2), (3, 0)]]
    sure = [[(0, 1)], [(0, 0), (1, 1), (2, 2), (3, 3)]]
    rate = alignment_error_rate(found, sure)
    assert rate.aer == pytest.approx(1 - (3 + 3) / (5 + 5))
    assert (rate.precision, rate.recall) == (pytest.approx(3 / 5), pytest.approx(3 / 5))


LINKS = some.frozensets(some.tuples(some.integers(0, 4), some.integers(0, 4)), min_size=1)


@given(LINKS, LINKS, LINKS)
def test_properties_of_the_error_rate(
    found: frozenset[tuple[int, int]], sure: frozenset[tuple[int, int]], more: frozenset[tuple[int, int]]
) -> None:
    rate = alignment_error_rate([found], [sure], [more])
    assert 0 <= rate.aer <= 1
    assert alignment_error_rate([sure], [sure], [more]).aer == 0
    assert alignment_error_rate([sure | more], [sure], [more]).aer == 0
    assert rate == alignment_error_rate([found], [sure], [more | sure])
    plain = alignment_error_rate([found], [sure])
    both = plain.precision + plain.recall
    assert plain.aer == pytest.approx(1 - (2 * plain.precision * plain.recall / both if both else 0))  # 1 - F1 where nothing is in doubt


def test_nothing_found_and_nothing_sure() -> None:
    assert alignment_error_rate([[]], [[(0, 0)]]) == (1, 1, 0, 0, 1)
    assert alignment_error_rate([[(0, 0)]], [[]], [[(0, 0)]]) == (0, 1, 1, 1, 0)
    with pytest.raises(ValueError, match="neither a found nor a sure link"):
        alignment_error_rate([[]], [[]])


def test_error_rates_of_impossible_links_are_refused() -> None:
    with pytest.raises(ValueError, match="2 with found links, 1 sure, 1 possible"):
        alignment_error_rate([[], []], [[(0, 0)]])
    with pytest.raises(ValueError, match="Sentence 2 has no words for the link 0--1"):
        alignment_error_rate([[], []], [[(0, 0)], [(0, -1)]])
    one = WordAlignment(("a",), ("b", "c"), ((0, 0),))
    with pytest.raises(ValueError, match="link 1-0: it has 1 source and 2 target words"):
        alignment_error_rate([one], [[(0, 0)]], [[(1, 0)]])


# --- Models ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ours(tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    torch.manual_seed(5)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=128,
    )  # fmt: skip
    return VaswaniForConditionalGeneration(config).eval()


def by_hand(maps: AttentionMaps, weights: Tensor) -> set[tuple[int, int]]:
    """The best source subword of each target subword, as words; the ends are the last units of both sides."""
    word = [{place: number for number, places in enumerate(words) for place in places} for words in (maps.source_words, maps.target_words)]
    return {(word[0][int(weights[t, :-1].argmax())], word[1][t]) for t in range(len(maps.target) - 1)}


def test_our_model(ours: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> None:
    source, target = "A man reads the old book.", "Ein Mann liest das alte Buch."
    maps = attention_maps(ours, tokenizer, source, target)
    found = vaswani_transformer.align(ours, tokenizer, source, target, layer=1, head=0, shifted=False)
    assert ("".join(found.source), "".join(found.target)) == (source.replace(" ", ""), target.replace(" ", ""))
    assert set(found.links) == by_hand(maps, maps.cross[1, 0])
    shifted = align(ours, tokenizer, source, target, layer=0, shifted=True)
    assert set(shifted.links) == by_hand(maps, maps.cross[0].mean(0).roll(-1, 0))


def test_marian_with_several_texts_is_what_each_text_gives_alone(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    sources = ["A man reads.", "Two dogs play in the park."]
    together = align(model, tokenizer, sources)
    assert together == [align(model, tokenizer, source) for source in sources]
    assert [found.source for found in together] == [("A", "man", "reads", "."), ("Two", "dogs", "play", "in", "the", "park", ".")]
    given = align(model, tokenizer, sources, ["Ein Mann liest.", "Zwei Hunde spielen."])
    assert [found.target[-2:] for found in given] == [("liest", "."), ("spielen", ".")]
    assert all({target for _, target in found.links} == set(range(len(found.target))) for found in given)
    assert align(model, tokenizer, []) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_aligns_the_words_of_the_text_only(family: str, tmp_path: Path) -> None:
    """Neither an end, nor a language, nor the prefix of a task is a word; every target word but a cut one has a link."""
    model, tokenizer, _ = translator(family, tmp_path)
    languages = {"src_lang": "en", "tgt_lang": "de"} if family == "t5" else {}
    found = align(model, tokenizer, "A man reads the book.", "Ein Mann liest.", **languages)
    assert (found.source, found.target) == (("A", "man", "reads", "the", "book", "."), ("Ein", "Mann", "liest", "."))
    assert {target for _, target in found.links} == {0, 1, 2, 3}
    assert {source for source, _ in found.links} <= set(range(6))


def test_control_labels_are_those_of_the_maps(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    assert control_labels(tokenizer) == {"<pad>", "<s>", "</s>"}
    assert attention_maps(model, tokenizer, "A man reads.", "Ein Mann.").target[-1] in control_labels(tokenizer)


def test_texts_and_targets_that_do_not_fit_are_refused(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(TypeError, match="one text and `target` is several"):
        align(model, tokenizer, "A man.", ["Ein", "Mann"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="several texts and `target` is one"):
        align(model, tokenizer, ["A man."], "Ein Mann")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        align(model, tokenizer, ["A man.", "A dog."], ["Ein Mann."])
    with pytest.raises(ValueError, match="empty"):
        align(model, tokenizer, "")
    with pytest.raises(ValueError, match="no layer 1"):
        align(model, tokenizer, "A man.", "Ein Mann.", layer=1, shifted=False)
    with pytest.raises(ValueError, match="no level"):
        align(model, tokenizer, "A man.", level="letter")
