"""Token ids on disk: written once as a stream, then memory-mapped, so that a corpus larger than memory trains like a small one."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..atomic_folder import atomic_folder
from ..run_folder import read_json, write_json
from .corpus import SentencePair

_INDEX = "index.json"
_PAIRS_PER_BATCH = 2000


class TokenSequences:
    """Sequences of different length in one flat array.

    Args:
        flat: [tokens] ids of all sequences, one after another.
        offsets: [n + 1] where each sequence begins, and the last ends.
    """

    def __init__(self, flat: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self._flat, self._offsets = flat, offsets
        self.lengths: NDArray[np.int32] = np.diff(offsets).astype(np.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self._flat[self._offsets[index] : self._offsets[index + 1]]

    def padded(self, indices: NDArray[np.int64], fill: int) -> NDArray[np.int64]:
        """The sequences `indices` [B] as rows of one array [B, longest], with `fill` behind the shorter ones."""
        lengths = self.lengths[indices]
        column = np.arange(lengths.max(initial=0))
        real = column < lengths[:, None]
        rows = np.full(real.shape, fill, dtype=np.int64)
        rows[real] = self._flat[(self._offsets[indices][:, None] + column)[real]]
        return rows


class EncodedCorpus:
    """A corpus as `encode_corpus` left it in a folder. Opening reads the offsets only; ids are paged in as they are used."""

    def __init__(
        self, folder: Path, index: dict[str, Any], source: TokenSequences, target: TokenSequences
    ) -> None:
        self.folder, self.index = folder, index
        self.source, self.target = source, target
        self._lines = _mapped(folder, "lines", np.int64, len(source))
        self._origins = _mapped(folder, "origins", np.uint16, len(source))

    @classmethod
    def open(cls, folder: str | Path) -> "EncodedCorpus":
        """Map the files of `folder`.

        Raises:
            FileNotFoundError: there is no encoded corpus.
            ValueError: a file is missing, or not of the size that the index promises.
        """
        folder = Path(folder)
        if not (folder / _INDEX).is_file():
            raise FileNotFoundError(
                f"There is no encoded corpus in {folder}; run the training script, which writes it."
            )
        index = read_json(folder / _INDEX)
        sides = []
        for side in ("source", "target"):
            offsets = _mapped(folder, f"{side}_offsets", np.int64, index["pairs"] + 1)
            sides.append(
                TokenSequences(
                    _mapped(folder, side, np.dtype(index["dtype"]), index[f"{side}_tokens"]), offsets
                )
            )
        return cls(folder, index, *sides)

    def __len__(self) -> int:
        return len(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the folder anew, instead of being sent every id."""
        return EncodedCorpus.open, (self.folder,)

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """[n] tokens of each source, `</s>` included."""
        return self.source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """[n] tokens of each target, `</s>` included."""
        return self.target.lengths

    @property
    def tokenizer_hash(self) -> str:
        """Of the tokenizer that wrote these ids; see `tokenizer_hash`."""
        return str(self.index["tokenizer_hash"])

    def pair(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The source and target ids of one pair."""
        return self.source[index], self.target[index]

    def where(self, index: int) -> str:
        """Where the pair was read, such as `train.en.gz:17`."""
        return f"{self.index['origins'][self._origins[index]]}:{self._lines[index]}"


def encode_corpus(
    pairs: Iterable[SentencePair],
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    *,
    max_tokens: int,
    progress: bool = False,
) -> EncodedCorpus:
    """Write the token ids of `pairs` to `folder` and open it. What stood there before is replaced, once all is written.

    Args:
        pairs: read once, never held as a whole.
        tokenizer: any tokenizer whose `tokenizer(text)` and `tokenizer(text_target=text)` end with `</s>`.
        folder: comes to be under this name only when it is complete.
        max_tokens: a pair with a longer side, `</s>` included, is dropped and counted in `index["dropped_too_long"]`.
        progress: show a progress bar.

    Raises:
        ValueError: no pair is left.
        OSError: the disk is full, or cannot be written.
    """
    folder = Path(folder)
    with atomic_folder(folder) as unfinished:
        writer = _Writer(unfinished, len(tokenizer))
        with writer:
            for batch in _in_batches(
                tqdm(pairs, desc="encoding", unit=" pairs", unit_scale=True, disable=not progress)
            ):
                writer.add(batch, *_encode(batch, tokenizer), max_tokens)
        if not writer.index["pairs"]:
            dropped = writer.index["dropped_too_long"]
            raise ValueError(
                f"No sentence pair is left to write to {folder}: {dropped} were longer than {max_tokens} tokens and none was shorter; "
                "check the corpus and batching.max_sentence_tokens."
            )
        write_json(
            unfinished / _INDEX,
            {**writer.index, "max_tokens": max_tokens, "tokenizer_hash": tokenizer_hash(tokenizer)},
        )
    return EncodedCorpus.open(folder)


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """sha256 of everything that decides which ids a text gets.

    Padding and truncation do not belong to it: they are left behind in the backend by the latest call.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    state = json.loads(backend.to_str()) if backend is not None else tokenizer.get_vocab()
    for transient in ("padding", "truncation"):
        state.pop(transient, None)
    state["split_special_tokens"] = getattr(tokenizer, "split_special_tokens", False)
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


class _Writer:
    """The growing files of an unfinished corpus, and the index that describes them."""

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self._folder = folder
        self._dtype = np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)
        self.index: dict[str, Any] = {
            "pairs": 0,
            "dropped_too_long": 0,
            "source_tokens": 0,
            "target_tokens": 0,
            "dtype": self._dtype.name,
            "origins": [],
        }
        self._files: dict[str, BinaryIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "_Writer":
        for name in ("source", "target", "source_offsets", "target_offsets", "lines", "origins"):
            self._files[name] = self._stack.enter_context(open(_path(self._folder, name), "wb"))
        for side in ("source", "target"):
            self._files[f"{side}_offsets"].write(np.zeros(1, dtype=np.int64).tobytes())
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()

    def add(
        self,
        pairs: Sequence[SentencePair],
        sources: list[list[int]],
        targets: list[list[int]],
        max_tokens: int,
    ) -> None:
        kept = [
            i for i in range(len(pairs)) if len(sources[i]) <= max_tokens and len(targets[i]) <= max_tokens
        ]
        for side, sequences in (("source", sources), ("target", targets)):
            self._add_side(side, [sequences[i] for i in kept])
        self._write("lines", [pairs[i].line for i in kept], np.int64)
        self._write("origins", [self._origin(pairs[i].origin) for i in kept], np.uint16)
        self.index["pairs"] += len(kept)
        self.index["dropped_too_long"] += len(pairs) - len(kept)

    def _add_side(self, side: str, sequences: list[list[int]]) -> None:
        offsets = self.index[f"{side}_tokens"] + np.cumsum(
            [len(sequence) for sequence in sequences], dtype=np.int64
        )
        self._write(side, list(itertools.chain.from_iterable(sequences)), self._dtype)
        self._write(f"{side}_offsets", offsets, np.int64)
        self.index[f"{side}_tokens"] = int(offsets[-1]) if len(offsets) else self.index[f"{side}_tokens"]

    def _origin(self, name: str) -> int:
        names = self.index["origins"]
        if name not in names:
            names.append(name)
        return int(names.index(name))

    def _write(self, name: str, values: Any, dtype: Any) -> None:
        self._files[name].write(np.asarray(values, dtype=dtype).tobytes())


def _encode(
    pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase
) -> tuple[list[list[int]], list[list[int]]]:
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if type(tokenizer) is PreTrainedTokenizerFast:
        return _encode_fast(sources, tokenizer), _encode_fast(targets, tokenizer)
    settings = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
    return tokenizer(sources, **settings)["input_ids"], tokenizer(text_target=targets, **settings)[
        "input_ids"
    ]


def _encode_fast(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """What the stock tokenizer's own call returns, in less than half the time; source and target do not differ there."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    # The backend does not keep this setting by itself; without it, text that spells a control token would become one.
    backend.encode_special_tokens = tokenizer.split_special_tokens
    return [encoding.ids for encoding in backend.encode_batch_fast(texts)]


def _in_batches(pairs: Iterable[SentencePair]) -> Iterator[list[SentencePair]]:
    iterator = iter(pairs)
    while batch := list(itertools.islice(iterator, _PAIRS_PER_BATCH)):
        yield batch


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.bin"


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
