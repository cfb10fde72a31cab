"""Encoded corpora: what is written comes back, and nothing half-written is ever found."""

import errno
import os
import pickle
import signal
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from vaswani_transformer.data import encoding
from vaswani_transformer.data.batching import collate
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.data.cleaning import clean
from vaswani_transformer.data.encoding import EncodedCorpus, encode_corpus
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.files.checksums import CHECKSUMS, find_damage
from vaswani_transformer.recipe import CleaningSettings
from vaswani_transformer.tokenizer_identity import tokenizer_hash

PAIRS = [
    SentencePair("the house", "das Haus", "a.en", 1),
    SentencePair("a </s> in the text", "ein <pad> im Text", "a.en", 3),
    SentencePair("the " * 40, "die", "a.en", 4),
    SentencePair("one", "eins " * 40, "b.tsv", 2),
    SentencePair("two houses", "zwei Häuser", "b.tsv", 9),
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer([text for pair in PAIRS for text in pair[:2]], 270)


@pytest.fixture
def corpus(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> EncodedCorpus:
    return encode_corpus(PAIRS, tokenizer, tmp_path / "train", max_tokens=30)


def test_ids_are_those_of_the_tokenizer(corpus: EncodedCorpus, tokenizer: PreTrainedTokenizerFast) -> None:
    kept = [PAIRS[0], PAIRS[1], PAIRS[4]]
    assert len(corpus) == 3
    for index, pair in enumerate(kept):
        source, target = corpus.pair(index)
        assert source.tolist() == tokenizer(pair.source)["input_ids"]
        assert target.tolist() == tokenizer(text_target=pair.target)["input_ids"]
        assert (corpus.source_lengths[index], corpus.target_lengths[index]) == (len(source), len(target))
    assert corpus.source_lengths.dtype == corpus.target_lengths.dtype == np.int32


def test_the_target_language_is_a_token_and_beside_it_a_number(tmp_path: Path) -> None:
    texts = [text for pair in PAIRS for text in pair[:2]]
    tokenizer = train_tokenizer(texts, 280, target_languages=["de", "fr"])
    spelled = SentencePair("<2de> a house", "une maison", "c.en", 1, "fr")
    pairs = [PAIRS[0]._replace(language="de"), spelled, PAIRS[2]._replace(language="fr")]
    corpus = encode_corpus(pairs, tokenizer, tmp_path / "train", max_tokens=30, target_languages=["de", "fr"])
    assert corpus.languages is not None and corpus.languages.tolist() == [0, 1]
    assert corpus.target_languages == ["de", "fr"]
    for index, token in enumerate(("<2de>", "<2fr>")):
        source, target = (side.tolist() for side in corpus.pair(index))
        assert source == [
            tokenizer.convert_tokens_to_ids(token),
            *tokenizer(pairs[index].source)["input_ids"],
        ]
        assert tokenizer.decode(source, skip_special_tokens=True) == pairs[index].source
        assert target == tokenizer(pairs[index].target)["input_ids"]
    assert pickle.loads(pickle.dumps(corpus)).languages.tolist() == [0, 1]


def test_tokens_are_counted(corpus: EncodedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_COUNTED_AT_ONCE", 7)
    counts = corpus.source.counts(300)
    every = [token for index in range(len(corpus)) for token in corpus.source[index].tolist()]
    assert counts.shape == (300,) and counts.sum() == len(every) > 7
    assert all(counts[token] == every.count(token) for token in set(every))


def test_a_corpus_of_one_language_has_no_numbers(corpus: EncodedCorpus) -> None:
    assert corpus.languages is None
    assert not (corpus.folder / "languages.bin").exists()


def test_a_pickled_tokenizer_still_makes_no_control_ids(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    corpus = encode_corpus(PAIRS[1:2], pickle.loads(pickle.dumps(tokenizer)), tmp_path / "c", max_tokens=30)
    source, target = corpus.pair(0)
    assert not {0, 1, 2} & {*source[:-1].tolist(), *target[:-1].tolist()}


def test_padding_and_truncation_of_an_earlier_call_do_not_matter(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    before = tokenizer_hash(tokenizer)
    for earlier in ({"max_length": 3, "truncation": True}, {"max_length": 50, "padding": "max_length"}):
        tokenizer("the house", **earlier)
        corpus = encode_corpus(PAIRS[:1], tokenizer, tmp_path / "c", max_tokens=60)
        ids = corpus.pair(0)[0].tolist()
        tokenizer("the house", **earlier)
        assert tokenizer_hash(tokenizer) == before == corpus.tokenizer_hash
        assert ids == tokenizer(PAIRS[0].source)["input_ids"]


def test_the_hash_tells_tokenizers_apart(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    assert tokenizer_hash(PreTrainedTokenizerFast.from_pretrained(tmp_path)) == tokenizer_hash(tokenizer)
    assert tokenizer_hash(train_tokenizer(["another text"] * 9, 260)) != tokenizer_hash(tokenizer)
    careless = PreTrainedTokenizerFast.from_pretrained(tmp_path, split_special_tokens=False)
    assert tokenizer_hash(careless) != tokenizer_hash(tokenizer)


def test_pairs_know_where_they_come_from(corpus: EncodedCorpus) -> None:
    assert [corpus.where(index) for index in range(3)] == ["a.en:1", "a.en:3", "b.tsv:9"]


def test_too_long_pairs_are_counted(corpus: EncodedCorpus) -> None:
    assert corpus.index["dropped_too_long"] == 2
    assert corpus.index["pairs"] == 3


def test_opening_again_gives_the_same(corpus: EncodedCorpus) -> None:
    for again in (EncodedCorpus.open(corpus.folder), pickle.loads(pickle.dumps(corpus))):
        assert again.source_lengths.tolist() == corpus.source_lengths.tolist()
        assert again.pair(2)[1].tolist() == corpus.pair(2)[1].tolist()
    assert len(pickle.dumps(corpus)) < 1000


def test_more_pairs_than_one_batch(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    pairs = [SentencePair(f"house {i}", f"Haus {i}", "n", i) for i in range(4321)]
    corpus = encode_corpus(iter(pairs), tokenizer, tmp_path / "c", max_tokens=30)
    assert len(corpus) == 4321
    for i in (0, 1999, 2000, 4320):
        assert tokenizer.decode(corpus.pair(i)[1], skip_special_tokens=True) == f"Haus {i}"
        assert corpus.where(i) == f"n:{i}"


def test_what_is_written_does_not_depend_on_the_number_of_processes(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    pairs = [SentencePair(f"house {i}", "Haus " * (i % 40), f"{i % 3}.en", i) for i in range(4321)]
    contents = []
    for processes in (1, 2, 3):
        folder = tmp_path / str(processes)
        encode_corpus(iter(pairs), tokenizer, folder, max_tokens=30, processes=processes)
        contents.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert contents[0] == contents[1] == contents[2]
    assert EncodedCorpus.open(tmp_path / "3").index["dropped_too_long"] > 100


def test_a_killed_process_leaves_nothing(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    pairs = (SentencePair(f"house {i}", "Haus", "n", i) for i in range(4321))
    with pytest.raises(ChildProcessError, match="ended from outside"):
        encode_corpus(pairs, Deadly(), tmp_path / "c", max_tokens=30, processes=2)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_opening_and_batching_hold_lengths_and_no_more(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    """Of 20,000 pairs of 2 x 18 tokens: 8 bytes a pair, where the ids would take 72 and the offsets 16."""
    text = "das Haus " * 8
    pairs = [SentencePair(text, text, "n", i) for i in range(20_000)]
    folder = encode_corpus(pairs, tokenizer, tmp_path / "c", max_tokens=99).folder
    tracemalloc.start()
    corpus = EncodedCorpus.open(folder)
    for start in range(0, len(corpus), 1000):
        collate(corpus, range(start, start + 8), pad_token_id=0)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert corpus.index["source_tokens"] >= 18 * 20_000
    assert held < 9 * 20_000
    assert peak < 13 * 20_000


def test_what_cleaning_said_stands_in_the_index(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    kept, report = clean(iter([*PAIRS, PAIRS[0]]), CleaningSettings())
    corpus = encode_corpus(kept, tokenizer, tmp_path / "c", max_tokens=300, cleaning=report)
    assert corpus.index["cleaning"] == report.to_dict()
    assert corpus.index["cleaning"]["pairs_in"] == 6
    assert corpus.index["cleaning"]["dropped"]["duplicate"] == 1


class WordLengths:
    """A tokenizer of another make, with a large vocabulary and a target side of its own."""

    def __len__(self) -> int:
        return 70_000

    def __call__(self, text: Any = None, text_target: Any = None, **settings: Any) -> dict[str, Any]:
        offset = 0 if text_target is None else 66_000
        texts = text if text_target is None else text_target
        return {"input_ids": [[*(offset + len(word) for word in text.split()), 2] for text in texts]}

    def get_vocab(self) -> dict[str, int]:
        return {"a": 1}


class Deadly(WordLengths):
    """Ends the process that uses it, as the system does when memory runs out."""

    def __call__(self, text: Any = None, text_target: Any = None, **settings: Any) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}


def test_any_tokenizer_serves_and_large_ids_fit(tmp_path: Path) -> None:
    corpus = encode_corpus(PAIRS[:1], WordLengths(), tmp_path / "c", max_tokens=30)  # type: ignore[arg-type]
    assert [side.tolist() for side in corpus.pair(0)] == [[3, 5, 2], [66_003, 66_004, 2]]


def interrupted(error: BaseException) -> Iterator[SentencePair]:
    yield from PAIRS
    raise error


def test_an_interrupted_encoding_leaves_what_was_there(corpus: EncodedCorpus, tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode_corpus(interrupted(KeyboardInterrupt()), tokenizer, corpus.folder, max_tokens=300)
    assert len(EncodedCorpus.open(corpus.folder)) == 3
    assert [path.name for path in corpus.folder.parent.iterdir()] == ["train"]


def test_a_new_encoding_replaces_the_old(corpus: EncodedCorpus, tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(encode_corpus(PAIRS[:1], tokenizer, corpus.folder, max_tokens=300)) == 1
    assert [path.name for path in corpus.folder.parent.iterdir()] == ["train"]


def test_a_full_disk_says_so(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"disk is full.*could not be written.*free some space"):
        encode_corpus(
            interrupted(OSError(errno.ENOSPC, "No space left on device")),
            tokenizer,
            tmp_path / "c",
            max_tokens=9,
        )
    assert not list(tmp_path.iterdir())


def test_nothing_left_is_an_error(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"5 were longer than 1 tokens.*max_sentence_tokens"):
        encode_corpus(PAIRS, tokenizer, tmp_path / "c", max_tokens=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["source", "target_offsets", "lines", "origins"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_file_is_named(corpus: EncodedCorpus, name: str, damage: str) -> None:
    path = corpus.folder / f"{name}.bin"
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=rf"{name}\.bin holds \d+ bytes, but {len(content)} belong there.*delete"):
        EncodedCorpus.open(corpus.folder)


def test_a_missing_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no encoded corpus in .*nowhere"):
        EncodedCorpus.open(tmp_path / "nowhere")


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(("place", "bit"), [(0, 0), (1, 40), (1, 62), (2, 5), (3, 1), (3, 63)])
def test_offsets_that_cannot_be_are_told(corpus: EncodedCorpus, side: str, place: int, bit: int) -> None:
    """Flips that would end in an `IndexError`, or in a length of 32 bits that looks right."""
    path = corpus.folder / f"{side}_offsets.bin"
    offsets = np.fromfile(path, dtype=np.uint64)
    offsets[place] ^= np.uint64(1 << bit)
    offsets.tofile(path)
    with pytest.raises(ValueError, match=rf"{side}_offsets\.bin is damaged: its offsets do not rise from 0 to .*; delete .* and run again"):
        EncodedCorpus.open(corpus.folder)


def test_every_file_has_its_hash(corpus: EncodedCorpus) -> None:
    names = [file.name for file in corpus.folder.iterdir() if file.name != CHECKSUMS]
    assert "target.bin" in names
    assert find_damage(corpus.folder, names) is None
