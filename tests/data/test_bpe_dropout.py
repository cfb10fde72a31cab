"""BPE-dropout: the distribution of the paper's Algorithm 1, the same text, and a function of seed, epoch and pair alone."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.data.bpe_dropout import RandomSegmentation, ResegmentedCorpus, _MergeTable
from vaswani_transformer.data.encoding import EncodedCorpus, TokenSequences, encode_corpus
from vaswani_transformer.data.sources.corpus import SentencePair

SOURCES = [
    "The small house isn't small, and I've seen it.",
    "A house \N{HOUSE BUILDING} of  two\tstories; </s> 42.",
    "小さな家は古くない。",
]
TARGETS = ["Das kleine Haus ist nicht klein.", "Ein Häuschen: <pad> zwei Stockwerke, 42!", "Kein altes kleines Haus."]
TOKENIZER = train_tokenizer([*SOURCES, *TARGETS] * 3, 420)
NEVER = 1 - 2**-50
"""A rate at which no merge is made."""


@pytest.fixture
def corpus(tmp_path: Path) -> EncodedCorpus:
    pairs = [SentencePair(source, target, "pairs", line) for line, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True), 1)]
    return encode_corpus(pairs * 20, TOKENIZER, tmp_path / "corpus", max_tokens=200)


def cut_anew(corpus: EncodedCorpus, rate: float, seed: int = 1, limits: tuple[int, int] = (999, 999)) -> ResegmentedCorpus:
    return ResegmentedCorpus(corpus, TOKENIZER, rate=rate, seed=seed, limits=limits)


def all_ids(sequences: TokenSequences) -> list[list[int]]:
    return [ids.tolist() for ids in sequences]


def plain(texts: list[str]) -> TokenSequences:
    return TokenSequences.of(TOKENIZER(texts)["input_ids"], np.int32)


def drawn(texts: list[str], rate: float, times: int = 1) -> list[list[int]]:
    segmentation, sequences = RandomSegmentation(TOKENIZER, rate), plain(texts * times)
    return all_ids(segmentation.draw(sequences, segmentation.word_starts(sequences), np.arange(len(sequences), dtype=np.uint64)))


def merging(*merges: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE of these merges, such as "a b"."""
    alphabet = ["</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {token: number for number, token in enumerate([*alphabet, *dict.fromkeys(merge.replace(" ", "") for merge in merges)])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[(a, b) for a, b in map(str.split, merges)]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


def frequencies(tokenizer: PreTrainedTokenizerFast, word: str, rate: float, times: int) -> Counter[tuple[str, ...]]:
    segmentation = RandomSegmentation(tokenizer, rate)
    sequences = TokenSequences.of([tokenizer(word, add_special_tokens=False)["input_ids"]] * times, np.int32)
    found = segmentation.draw(sequences, segmentation.word_starts(sequences), np.arange(times, dtype=np.uint64))
    counted = Counter(map(tuple, all_ids(found)))
    return Counter({tuple(tokenizer.convert_ids_to_tokens(ids)): count for ids, count in counted.items()})


def paper(word: str, merges: tuple[str, ...], rate: float) -> dict[tuple[str, ...], float]:
    """The probability of each segmentation by Algorithm 1, all ways followed to their ends."""

    @cache
    def ends(symbols: tuple[str, ...]) -> dict[tuple[str, ...], float]:
        possible = sorted(
            (merges.index(f"{left} {right}"), place)
            for place, (left, right) in enumerate(itertools.pairwise(symbols))
            if f"{left} {right}" in merges
        )
        found: Counter[tuple[str, ...]] = Counter({symbols: rate ** len(possible)})  # type: ignore[dict-item]
        for dropped, (_, place) in enumerate(possible):
            joined = (*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :])
            for end, probability in ends(joined).items():
                found[end] += (1 - rate) * rate**dropped * probability  # type: ignore[assignment]
        return dict(found)

    return ends(tuple(word))


def upper_tail(squares: float, freedom: int) -> float:
    """The probability of a chi-square above `squares`."""
    return float(torch.special.gammaincc(torch.tensor(freedom / 2, dtype=torch.float64), torch.tensor(squares / 2, dtype=torch.float64)))


MERGES = ("a b", "b c", "ab c", "c a", "ab ab", "abc ab", "a a", "aa a")


@pytest.mark.parametrize("word", ["abc", "abcab", "ababab", "aaaa", "cabcabca"])
@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_segmentations_are_as_frequent_as_the_paper_says(word: str, rate: float) -> None:
    times = 40_000
    found, expected = frequencies(merging(*MERGES), word, rate, times), paper(word, MERGES, rate)
    assert sum(expected.values()) == pytest.approx(1) and found.keys() <= expected.keys()
    often = {end: times * share for end, share in expected.items() if times * share >= 5}
    squares = [(found[end] - count) ** 2 / count for end, count in often.items()]
    rest = times - sum(often.values())
    if rest >= 5:
        squares.append((times - sum(found[end] for end in often) - rest) ** 2 / rest)
    assert len(squares) > 3 and upper_tail(sum(squares), len(squares) - 1) > 0.001


def test_segmentations_are_as_frequent_as_those_of_tokenizers() -> None:
    """Its own dropout cannot be seeded, so the bound is one that chance passes once in a billion."""
    tokenizer, word, rate, times = merging("a b", "ab c", "abc d", "e f"), "abcdef", 0.3, 20_000
    ours = frequencies(tokenizer, word, rate, times)
    model = tokenizer.backend_tokenizer.model
    model.dropout = rate
    theirs = Counter(tuple(token.value for token in model.tokenize(word)) for _ in range(times))
    model.dropout = None
    ends = ours.keys() | theirs.keys()
    squares = sum((ours[end] - theirs[end]) ** 2 / (ours[end] + theirs[end]) for end in ends)
    assert len(ends) == 8 and upper_tail(squares, len(ends) - 1) > 1e-9


def test_without_dropout_ids_are_plain_and_at_the_limit_bytes(corpus: EncodedCorpus) -> None:
    everything = np.arange(len(corpus))
    none = cut_anew(corpus, 0.0).pairs(everything, 3)
    assert all_ids(none.source) == all_ids(corpus.source) and all_ids(none.target) == all_ids(corpus.target)
    whole = cut_anew(corpus, NEVER).pairs(everything, 3)
    for texts, side in ((SOURCES, whole.source), (TARGETS, whole.target)):
        assert side.lengths.tolist() == [len(f" {text}".encode()) + 1 for text in texts] * 20


@given(st.lists(st.text(), min_size=1, max_size=4), st.sampled_from([0.0, 0.3, 0.9]))
def test_the_text_stays_the_same(texts: list[str], rate: float) -> None:
    for text, ids in zip(texts, drawn(texts, rate), strict=True):
        assert TOKENIZER.decode(ids, skip_special_tokens=True) == text
        assert ids[-1] == TOKENIZER.eos_token_id and not {0, 1, 2} & set(ids[:-1])


def test_words_are_those_of_the_pre_tokenizer() -> None:
    segmentation, sequences = RandomSegmentation(TOKENIZER, 0.5), plain(SOURCES)
    starts = np.split(segmentation.word_starts(sequences), sequences.offsets[1:-1])
    for text, ids, is_start in zip(SOURCES, sequences, starts, strict=True):
        tokens = TOKENIZER.convert_ids_to_tokens(ids.tolist())
        words = "".join(f"|{token}" if begins else token for token, begins in zip(tokens, is_start, strict=True)).split("|")[1:]
        split = TOKENIZER.backend_tokenizer.pre_tokenizer.pre_tokenize_str(f" {text}")
        assert words == [*(word for word, _ in split), "</s>"]


def test_words_of_tokenised_text_stay_words() -> None:
    text = "the small house is n't small , and it 's 42 ."
    cuts = drawn([text], 0.5, times=50)
    assert len({tuple(ids) for ids in cuts}) > 40
    for ids in cuts:
        assert not any(" " in TOKENIZER.decode([number])[1:] for number in ids)
        assert TOKENIZER.decode(ids, skip_special_tokens=True).split() == text.split()


def test_a_pair_depends_on_seed_and_epoch_and_on_no_other_pair(corpus: EncodedCorpus) -> None:
    everything = np.arange(len(corpus))
    one = cut_anew(corpus, 0.3).pairs(everything, 2)
    few = cut_anew(corpus, 0.3).pairs(np.array([7, 3, 7]), 2)
    assert all_ids(few.source) == [one.source[i].tolist() for i in (7, 3, 7)]
    assert all_ids(few.target) == [one.target[i].tolist() for i in (7, 3, 7)]
    assert len({tuple(ids) for ids in all_ids(one.source)[::3]}) > 15  # equal sentences, each cut in its own way
    others = [cut_anew(corpus, 0.3).pairs(everything, 3), cut_anew(corpus, 0.3, seed=2).pairs(everything, 2)]
    for other in others:
        same = [np.array_equal(a, b) for a, b in zip(one.source, other.source, strict=True)]
        assert sum(same) < len(same) / 10


def test_lengths_are_those_of_the_epoch(corpus: EncodedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaswani_transformer.data.bpe_dropout._SENTENCES_AT_ONCE", 7)
    again = cut_anew(corpus, 0.3)
    pairs = again.pairs(np.arange(len(corpus)), 5)
    for found, side in zip(again.lengths(5), (pairs.source, pairs.target), strict=True):
        assert found.dtype == np.int32 and found.tolist() == side.lengths.tolist()


def test_what_becomes_too_long_keeps_its_plain_segmentation(corpus: EncodedCorpus) -> None:
    limits = int(corpus.source_lengths.max()), int(corpus.target_lengths.max())
    everything = np.arange(len(corpus))
    free, bounded = (cut_anew(corpus, 0.3, limits=bound).pairs(everything, 0) for bound in ((999, 999), limits))
    kept = 0
    for side, limit in zip(("source", "target"), limits, strict=True):
        assert getattr(free, side).lengths.max() > limit >= getattr(bounded, side).lengths.max()
        for ids, wanted, original in zip(*(getattr(pairs, side) for pairs in (bounded, free, corpus)), strict=True):
            assert np.array_equal(ids, original if len(wanted) > limit else wanted)
            kept += len(wanted) > limit
    assert 0 < kept < 2 * len(corpus)


@pytest.mark.parametrize("lefts", [1, 7, 300])
def test_every_merge_is_found_and_no_other(lefts: int) -> None:
    """Also where all merges begin with the same symbol, or every pair of symbols is one."""
    entries = 300
    merges = [(left, right, (left + right) % entries) for right in range(entries) for left in range(lefts)][:20_000]
    table, ranks = _MergeTable(merges, entries), {pair[:2]: rank for rank, pair in enumerate(merges)}
    symbols = np.random.default_rng(1).integers(entries, size=5000).astype(np.int32)
    symbols[::2] %= lefts
    found = table.keys(symbols)
    for place, pair in enumerate(itertools.pairwise(symbols.tolist())):
        assert found[place] == (ranks[pair] << 32 | place if pair in ranks else np.iinfo(np.int64).max)
    assert table.joined.tolist() == [joined for _, _, joined in merges]


def test_a_language_stays_one_token(tmp_path: Path) -> None:
    tokenizer = train_tokenizer([*SOURCES, *TARGETS] * 3, 420, target_languages=["de", "fr"])
    pairs = [SentencePair(SOURCES[0], TARGETS[0], "pairs", line, "fr" if line % 2 else "de") for line in range(10)]
    corpus = encode_corpus(pairs, tokenizer, tmp_path / "corpus", max_tokens=99, target_languages=["de", "fr"])
    found = ResegmentedCorpus(corpus, tokenizer, rate=0.5, seed=1, limits=(999, 999)).pairs(np.arange(10), 0)
    assert tokenizer.convert_ids_to_tokens([ids[0] for ids in all_ids(found.source)]) == ["<2de>", "<2fr>"] * 5
    for ids in all_ids(found.source):
        assert tokenizer.decode(ids, skip_special_tokens=True) == SOURCES[0] and ids[-1] == tokenizer.eos_token_id


def whole_words() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))


def taking_whole_entries() -> PreTrainedTokenizerFast:
    tokenizer = merging("a b")
    tokenizer.backend_tokenizer.model.ignore_merges = True
    return tokenizer


@pytest.mark.parametrize(("make", "why"), [(whole_words, "another kind"), (taking_whole_entries, "does nothing else")])
def test_another_tokenizer_is_refused(make: Callable[[], PreTrainedTokenizerFast], why: str) -> None:
    with pytest.raises(ValueError, match=rf"{why}.*set `tokenizer\.bpe_dropout` to 0"):
        RandomSegmentation(make(), 0.1)


def test_ids_that_merges_do_not_lead_to_are_refused(corpus: EncodedCorpus) -> None:
    state = json.loads(TOKENIZER.backend_tokenizer.to_str())
    del state["model"]["merges"][20:]
    other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)))
    with pytest.raises(ValueError, match="merges alone do not lead to the ids"):
        ResegmentedCorpus(corpus, other, rate=0.1, seed=1, limits=(999, 999))
