"""What all formats of a corpus share: a stream of sentence pairs, the hashes that tell whether it changed, and its name in a card.

Everything is a stream: a corpus is never held in memory as a whole.
"""

import hashlib
import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...files.checksums import file_sha256
from ...strict_yaml import require_at_least
from ...tasks import BETWEEN_WORDS

_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}([_-][A-Za-z0-9]{2,8})*")
"""The shape of a code of BCP 47, with "_" for "-" where people write it so."""


DESCRIPTIVE = ("licence", "attribution", "remark")
"""Fields of a corpus that only say what it is, and change nothing that is computed."""


class SentencePair(NamedTuple):
    """A sentence and its translation, and where they were read.

    `origin` is the file, as the recipe names it (of two line-aligned ones the source's), or the data set. `line` counts from 1: lines in
    text files, the header included, so that an editor finds it; rows or translation units elsewhere. `language` is the target's, where
    there are several.
    """

    source: str
    target: str
    origin: str
    line: int
    language: str | None = None


class DatasetName(NamedTuple):
    """How the Hub's index of results names a corpus; None for what there is no name for."""

    repository: str | None = None
    configuration: str | None = None
    split: str | None = None


@dataclass(frozen=True, kw_only=True)
class Corpus(ABC):
    """Sentence pairs of one format.

    `limit` reads the first pairs only. `tokenized` says that the text is already split into tokens by spaces, so that BLEU is computed on
    it as it stands. `target_language` is the recipe's where it is absent; a recipe whose training corpora name theirs makes one model of
    several target languages.

    `licence` is that of the text, as its source states it, and `attribution` the line that names its authors; the model's card derives the
    model's licence from those of the training corpora. `remark` is a sentence for the reader of a score: what this text is to this model.
    """

    format: str
    limit: int | None = None
    tokenized: bool = False
    target_language: str | None = None
    licence: str | None = None
    attribution: str | None = None
    remark: str | None = None

    def __post_init__(self) -> None:
        require_at_least(self, 1, "limit")
        require_language_code(self, "target_language")

    @property
    @abstractmethod
    def title(self) -> str:
        """What messages and `cleaning.json` call the corpus."""

    @abstractmethod
    def _content(self, code: Callable[[object], str]) -> str:
        """As `describe`, such as "table `train.tsv`"."""

    @abstractmethod
    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        """All pairs, whatever `limit` says."""

    def files(self, root: Path) -> dict[str, Path]:
        """Its files, under the names that the recipe gives them; none where it does not consist of files of its own."""
        return {}

    @property
    def is_streamed(self) -> bool:
        """Whether reading means downloading; such a corpus is not read only to hash it."""
        return False

    @property
    def dataset_name(self) -> DatasetName:
        return DatasetName()

    def pairs(self, root: str | Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        """Stream the pairs, untouched except for line ends and a byte order mark.

        Args:
            root: where relative file names start.
            languages: source and target code: the columns of a table or data set that names no others, the direction of the built-in
                corpus, the sides to take from a file that holds several languages.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: the content is not what the recipe says: files of different length, broken UTF-8, a damaged archive, a missing
                column, no pair at all. The sentence names file, line and remedy.
        """
        pairs = itertools.islice(self._pairs(Path(root), languages), self.limit)
        first = next(pairs, None)
        if first is None:
            raise ValueError(f"The corpus {self.title} holds no sentence pairs; check the recipe and the file.")
        yield first
        yield from pairs

    def hashes(self, root: str | Path, languages: tuple[str, str]) -> dict[str, str]:
        """SHA-256 of the bytes of each file; of the text, as in `CleaningReport`, where there are no files; none of a streamed corpus.

        Raises:
            FileNotFoundError: a file is missing.
        """
        if files := self.files(Path(root)):
            return {name: file_sha256(existing(path)) for name, path in files.items()}
        if self.is_streamed:
            return {}
        digest = hashlib.sha256()
        for pair in self.pairs(root, languages):
            update_digest(digest, pair)
        return {":".join(filter(None, (self.title.replace(" ", ":"), self.target_language))): digest.hexdigest()}

    def has_its_files(self, root: str | Path) -> bool:
        """Whether it consists of files, and all of them are there."""
        files = self.files(Path(root))
        return bool(files) and all(path.is_file() for path in files.values())

    def describe(self, code: Callable[[object], str]) -> str:
        """What it is, as a line of Markdown; `code` makes a code span of a name, which may be anything."""
        notes = [f"the first {self.limit:,} pairs"] if self.limit else []
        notes += ["already split into tokens"] if self.tokenized else []
        notes += [f"into {code(self.target_language)}"] if self.target_language else []
        return ", ".join([self._content(code), *notes])


def require_language_code(settings: Any, name: str) -> None:
    """Refuse a field of `settings` that does not look like a language's code; None passes.

    Raises:
        ValueError: the sentence suggests a code where the field is a language's English name.
    """
    code = getattr(settings, name)
    if code is not None and not _LANGUAGE_CODE.fullmatch(code):
        from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE  # slow to import, and only this error needs it

        meant = TO_LANGUAGE_CODE.get(code.lower())
        hint = f"did you mean {meant}?" if meant else "such as fr, sw or pt-BR."
        raise ValueError(f"`{name}` must be a language's code, not {code!r}; {hint}")


def existing(path: Path) -> Path:
    """`path`, if it is a file.

    Raises:
        FileNotFoundError: it is none; the sentence says in which folder it was looked for.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}; check its name and `data.root` in the recipe (looked for in {path.parent.absolute()})."
        )
    return path


def words_apart(text: str) -> str:
    """The words of a text, or their labels, as tabs part them, or else white space, in the form that a tagged text has."""
    return text if BETWEEN_WORDS in text else BETWEEN_WORDS.join(text.split())


def update_digest(digest: Any, pair: SentencePair) -> None:
    """Add the text of a pair to a hash: source, line feed, target, line feed."""
    digest.update(f"{pair.source}\n{pair.target}\n".encode())
