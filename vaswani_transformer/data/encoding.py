"""Token ids on disk: written once as a stream, then memory-mapped, so that a corpus larger than memory trains like a small one."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from ..files.atomic_folder import atomic_folder
from ..files.checksums import write_checksums
from ..files.json_files import read_json, write_json
from ..tokenizer_identity import tokenizer_hash
from .cleaning import CleaningReport
from .examples import Examples, LabelledTexts, TextPairs
from .sources.corpus import SentencePair
from .sources.text import file_lines
from .workers import in_chunks, map_in_order

_INDEX = "index.json"
_TEXTS = "texts.jsonl"
_COUNTED_AT_ONCE = 2**22


class TokenSequences:
    """Sequences of different length in one flat array. Memory holds only 4 bytes a sequence, its length; ids stay in `flat`.

    Args:
        flat: [tokens] ids of all sequences, one after another.
        offsets: [n + 1] where each sequence begins, and the last ends.
    """

    def __init__(self, flat: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self.flat, self.offsets = flat, offsets
        self.lengths: NDArray[np.int32] = np.empty(len(offsets) - 1, dtype=np.int32)
        np.subtract(offsets[1:], offsets[:-1], out=self.lengths, casting="same_kind")

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], dtype: Any) -> "TokenSequences":
        """The same ids in one array."""
        offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(sequences), dtype, count=int(offsets[-1])), offsets)

    @classmethod
    def joined(cls, parts: Sequence["TokenSequences"]) -> "TokenSequences":
        """The sequences of all parts, one part after another."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.flat for part in parts]), _offsets(lengths))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def take(self, indices: NDArray[Any]) -> "TokenSequences":
        """A copy of the sequences `indices` [B], in this order."""
        lengths = self.lengths[indices]
        return TokenSequences(self.flat[ragged_ranges(self.offsets[indices], lengths)], _offsets(lengths))

    def replaced(self, which: NDArray[np.bool_], others: "TokenSequences") -> "TokenSequences":
        """A copy in which the sequences `which` [n] are those of `others` with the same numbers."""
        numbers = np.arange(len(self))
        return TokenSequences.joined([self, others]).take(np.where(which, len(self) + numbers, numbers))

    def halves(self) -> tuple["TokenSequences", "TokenSequences"]:
        """The first and the last half of the sequences, an even number."""
        middle = len(self) // 2
        cut = self.offsets[middle]
        first = TokenSequences(self.flat[:cut], self.offsets[: middle + 1])
        return first, TokenSequences(self.flat[cut:], self.offsets[middle:] - cut)

    def counts(self, entries: int) -> NDArray[np.int64]:
        """How often each of the ids below `entries` occurs, [entries]."""
        found = np.zeros(entries, dtype=np.int64)
        for start in range(0, len(self.flat), _COUNTED_AT_ONCE):
            found += np.bincount(self.flat[start : start + _COUNTED_AT_ONCE], minlength=entries)
        return found

    def padded(self, indices: NDArray[np.int64], fill: int) -> NDArray[np.int64]:
        """The sequences `indices` [B] as rows of one array [B, longest], with `fill` behind the shorter ones."""
        lengths = self.lengths[indices]
        column = np.arange(lengths.max(initial=0))
        real = column < lengths[:, None]
        rows = np.full(real.shape, fill, dtype=np.int64)
        rows[real] = self.flat[(self.offsets[indices][:, None] + column)[real]]
        return rows


class TokenPairs:
    """Token ids of sentence pairs.

    Args:
        source: n sequences.
        target: n sequences.
    """

    def __init__(self, source: TokenSequences, target: TokenSequences) -> None:
        self.source, self.target = source, target

    def __len__(self) -> int:
        return len(self.source)

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """[n] tokens of each source, `</s>` included."""
        return self.source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """[n] tokens of each target, `</s>` included."""
        return self.target.lengths

    def pair(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The source and target ids of one pair."""
        return self.source[index], self.target[index]


class EncodedCorpus(TokenPairs):
    """A corpus as `encode_corpus` wrote it to a folder. Opening reads the offsets only; ids are paged in as they are used.

    Attributes:
        target_languages: each pair has one of these; empty for a single target language.
        languages: [n] the index of each pair's language among them; None for a single target language.
        labels: the names of all labels, in the order of their numbers; empty where the targets are texts.
    """

    def __init__(self, folder: Path, index: dict[str, Any], source: TokenSequences, target: TokenSequences) -> None:
        super().__init__(source, target)
        self.folder, self.index = folder, index
        self._lines = _mapped(folder, "lines", np.int64, len(source))
        self._origins = _mapped(folder, "origins", np.uint16, len(source))
        self.target_languages: list[str] = index.get("target_languages", [])
        self.labels: tuple[str, ...] = tuple(index.get("labels", ()))
        self.languages = _mapped(folder, "languages", np.uint16, len(source)) if self.target_languages else None

    @classmethod
    def open(cls, folder: str | Path) -> "EncodedCorpus":
        """Map the files of `folder`.

        Raises:
            FileNotFoundError: there is no encoded corpus.
            ValueError: a file is missing, is not of the size that the index gives, or has impossible offsets. Whether the ids are those
                that were written, `files.checksums.verify` checks.
        """
        folder = Path(folder)
        if not (folder / _INDEX).is_file():
            raise FileNotFoundError(f"There is no encoded corpus in {folder}; run `vaswani train`, which writes it.")
        index = read_json(folder / _INDEX)
        sides = []
        for side in ("source", "target"):
            offsets = _mapped(folder, f"{side}_offsets", np.int64, index["pairs"] + 1)
            _check_offsets(folder, side, offsets, index[f"{side}_tokens"])
            sides.append(TokenSequences(_mapped(folder, side, np.dtype(index["dtype"]), index[f"{side}_tokens"]), offsets))
        return cls(folder, index, *sides)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the folder's name only: another process opens the folder itself, so that no ids are sent."""
        return EncodedCorpus.open, (self.folder,)

    @property
    def tokenizer_hash(self) -> str:
        """Hash of the tokenizer that wrote these ids; see `tokenizer_hash`."""
        return str(self.index["tokenizer_hash"])

    def texts(self) -> Iterator[SentencePair]:
        """The pairs that the examples were made of, for a corpus that was written with `keep_texts`, with their lines in its file."""
        for number, line in enumerate(file_lines(self.folder / _TEXTS), start=1):
            source, target = json.loads(line)
            yield SentencePair(source, target, str(self.folder / _TEXTS), number)

    def where(self, index: int) -> str:
        """File and line of the pair, such as `train.en.gz:17`."""
        return f"{self.index['origins'][self._origins[index]]}:{self._lines[index]}"


def ragged_ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """The numbers start, start + 1, ... of each range, one range after another: [sum of lengths] for [n] and [n]."""
    ends = np.cumsum(lengths, dtype=np.int64)
    shifts = starts - ends + lengths
    return np.repeat(shifts, lengths) + np.arange(ends[-1] if len(ends) else 0)


def encode_corpus(
    pairs: Iterable[SentencePair],
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    *,
    max_tokens: int,
    target_languages: Sequence[str] = (),
    cleaning: CleaningReport | None = None,
    processes: int = 1,
    progress: bool = False,
    examples: Examples | None = None,
    keep_texts: bool = False,
) -> EncodedCorpus:
    """Write the token ids of `pairs` to `folder`, with the hashes of all files, and open it. An existing folder is replaced at the end.

    Args:
        pairs: read once, never held as a whole.
        tokenizer: any tokenizer whose `tokenizer(text)` and `tokenizer(text_target=text)` end with `</s>`.
        folder: appears under this name only when it is complete.
        max_tokens: a pair with a longer side, `</s>` included, is dropped and counted in `index["dropped_too_long"]`.
        target_languages: all of them, if there are several. Each source begins with the token of its pair's; `tokenizer` must know it.
        cleaning: stored in the index as it is after the last pair has been read.
        processes: number of processes that encode; the files do not depend on it.
        progress: show a progress bar.
        examples: how a pair becomes ids; by default both of its sides are texts.
        keep_texts: also write both sides of each pair, for a task whose texts cannot be told from the ids; see `EncodedCorpus.texts`.

    Raises:
        ValueError: no pair is left, or one is no example of the task.
        OSError: the disk is full or not writable.
    """
    folder, examples = Path(folder), examples or TextPairs()
    labels = {"labels": list(examples.labels)} if isinstance(examples, LabelledTexts) else {}
    with atomic_folder(folder) as unfinished:
        writer = _Writer(unfinished, examples.entries(len(tokenizer)), target_languages, keep_texts)
        with writer:
            bar = tqdm(pairs, desc="encoding", unit=" pairs", unit_scale=True, disable=not progress)
            encode = partial(_encode, examples=examples, tokenizer=tokenizer, max_tokens=max_tokens, dtype=writer.dtype)
            for batch, encoded in map_in_order(encode, in_chunks(bar), processes):
                writer.add(batch, encoded)
        if not writer.index["pairs"]:
            dropped = writer.index["dropped_too_long"]
            raise ValueError(
                f"No sentence pair is left to write to {folder}: {dropped} were longer than {max_tokens} tokens and none was shorter; "
                "check the corpus and batching.max_sentence_tokens."
            )
        write_json(
            unfinished / _INDEX,
            {
                **writer.index,
                **labels,
                "max_tokens": max_tokens,
                "tokenizer_hash": tokenizer_hash(tokenizer),
                "cleaning": cleaning and cleaning.to_dict(),
            },
        )
        write_checksums(unfinished)
    return EncodedCorpus.open(folder)


class _EncodedPairs(NamedTuple):
    """The examples of some pairs without those that are too long: the pair of each that is left, how many are not, and the concatenated ids
    and the lengths of both sides."""

    kept: list[int]
    too_long: int
    source: NDArray[Any]
    source_lengths: NDArray[np.int64]
    target: NDArray[Any]
    target_lengths: NDArray[np.int64]


class _Writer:
    """The growing files of an unfinished corpus, and the index that describes them."""

    def __init__(self, folder: Path, entries: int, target_languages: Sequence[str], texts: bool = False) -> None:
        self._folder, self._texts = folder, texts
        self._languages = {language: place for place, language in enumerate(target_languages)}
        self.dtype = np.dtype(np.uint16 if entries <= 2**16 else np.uint32)
        self.index: dict[str, Any] = {
            "pairs": 0,
            "dropped_too_long": 0,
            "source_tokens": 0,
            "target_tokens": 0,
            "dtype": self.dtype.name,
            "origins": [],
            "target_languages": list(target_languages),
        }
        self._files: dict[str, BinaryIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "_Writer":
        names = ["source", "target", "source_offsets", "target_offsets", "lines", "origins"]
        for name in [*names, "languages"] if self._languages else names:
            self._files[name] = self._stack.enter_context(open(_path(self._folder, name), "wb"))
        if self._texts:
            self._files["texts"] = self._stack.enter_context(open(self._folder / _TEXTS, "wb"))
        for side in ("source", "target"):
            self._files[f"{side}_offsets"].write(np.zeros(1, dtype=np.int64).tobytes())
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()

    def add(self, pairs: Sequence[SentencePair], encoded: _EncodedPairs) -> None:
        self._add_side("source", encoded.source, encoded.source_lengths)
        self._add_side("target", encoded.target, encoded.target_lengths)
        self._write("lines", [pairs[i].line for i in encoded.kept], np.int64)
        self._write("origins", [self._origin(pairs[i].origin) for i in encoded.kept], np.uint16)
        if self._languages:
            self._write("languages", [self._languages[str(pairs[i].language)] for i in encoded.kept], np.uint16)
        self.index["pairs"] += len(encoded.kept)
        self.index["dropped_too_long"] += encoded.too_long
        for number in dict.fromkeys(encoded.kept) if self._texts else ():
            self._files["texts"].write(json.dumps([pairs[number].source, pairs[number].target]).encode() + b"\n")

    def _add_side(self, side: str, ids: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self._write(side, ids, self.dtype)
        self._write(f"{side}_offsets", self.index[f"{side}_tokens"] + np.cumsum(lengths), np.int64)
        self.index[f"{side}_tokens"] += len(ids)

    def _origin(self, name: str) -> int:
        names = self.index["origins"]
        if name not in names:
            names.append(name)
        return int(names.index(name))

    def _write(self, name: str, values: Any, dtype: Any) -> None:
        self._files[name].write(np.asarray(values, dtype=dtype).tobytes())


def _encode(
    pairs: Sequence[SentencePair],
    examples: Examples,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    dtype: np.dtype[Any],
) -> _EncodedPairs:
    sources, targets, numbers = examples.numbered(pairs, tokenizer)
    kept = [i for i in range(len(sources)) if len(sources[i]) <= max_tokens and len(targets[i]) <= max_tokens]
    too_long = len(sources) - len(kept)
    return _EncodedPairs([numbers[i] for i in kept], too_long, *_flat(sources, kept, dtype), *_flat(targets, kept, dtype))


def _flat(sequences: list[list[int]], kept: list[int], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    lengths = np.array([len(sequences[i]) for i in kept], dtype=np.int64)
    ids = chain.from_iterable(sequences[i] for i in kept)
    return np.fromiter(ids, dtype, count=int(lengths.sum())), lengths


def _offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), lengths]), dtype=np.int64)


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.bin"


def _check_offsets(folder: Path, side: str, offsets: NDArray[np.int64], tokens: int) -> None:
    """Offsets must rise from 0 to the number of tokens; otherwise a length or a place in the ids would be impossible."""
    if offsets[0] != 0 or offsets[-1] != tokens or np.any(offsets[1:] < offsets[:-1]):
        path = _path(folder, f"{side}_offsets")
        raise ValueError(f"{path} is damaged: its offsets do not rise from 0 to {tokens}; delete {folder} and run again.")


def _mapped(folder: Path, name: str, dtype: Any, size: int) -> NDArray[Any]:
    path, dtype = _path(folder, name), np.dtype(dtype)
    found = path.stat().st_size if path.is_file() else 0
    if found != size * dtype.itemsize:
        raise ValueError(
            f"{path} holds {found} bytes, but {size * dtype.itemsize} belong there: it was cut off or changed; "
            f"delete {folder} and run again."
        )
    # A plain array over the mapping: slicing np.memmap itself costs several times as much.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(size,)))
