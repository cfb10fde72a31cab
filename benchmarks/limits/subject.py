"""The model whose limits are measured, the text it is tested on, and the form of text that it has learned from."""

import html
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import regex
import torch
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.data.sources.text import file_lines
from vaswani_transformer.evaluation.scores import decoding_settings, text_sha256
from vaswani_transformer.files.checksums import file_sha256
from vaswani_transformer.languages import target_languages
from vaswani_transformer.provenance import command_line, versions
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.translation.loading import load_checkpoint, local_folder
from vaswani_transformer.translation.translate import translate

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_PACKAGES = ("vaswani_transformer", "torch", "transformers", "sacrebleu", "sacremoses")


@dataclass(frozen=True)
class Form:
    """What text looks like to a model: split into tokens or as people write it, with capitals or without."""

    tokenized: bool = False
    lowercase: bool = False

    def prepare(self, texts: Iterable[str], language: str) -> list[str]:
        """Bring plain text into this form: Moses' punctuation and tokens (its entities, too), then lower case."""
        found = list(texts)
        if self.tokenized:
            normalise, tokens = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
            found = [tokens.tokenize(normalise.normalize(text), return_str=True) for text in found]
        return [text.lower() for text in found] if self.lowercase else found


@dataclass(frozen=True)
class TestText:
    """Sentences with one reference each."""

    name: str
    sources: Sequence[str]
    references: Sequence[str]
    languages: tuple[str, str]
    form: Form

    def facts(self) -> dict[str, Any]:
        """What tells this text from every other."""
        return {
            "name": self.name,
            "sentences": len(self.sources),
            "source_sha256": text_sha256(self.sources),
            "reference_sha256": text_sha256(self.references),
            "languages": list(self.languages),
            "tokenized": self.form.tokenized,
            "lowercase": self.form.lowercase,
        }


@dataclass(frozen=True)
class Wanted:
    """Which text to test on: of a run, one of its own sets; of any other model, two files.

    Attributes:
        split: `test` for the first test set, `validation` for the first validation set.
        sentences: the first so many only.
        root: where the relative file names of a recipe start; by default where the recipe says.
        source, target: two line-aligned files instead.
        languages: theirs; by default English and German.
        tokenized: they are split into tokens.
    """

    split: str = "test"
    sentences: int | None = None
    root: Path | None = None
    source: str | None = None
    target: str | None = None
    languages: tuple[str, str] | None = None
    tokenized: bool = False

    def check(self) -> None:
        """Raise a `ValueError` where a part of what is wanted would be ignored."""
        if bool(self.source) != bool(self.target):
            raise ValueError("--source and --target belong together: sentences, and their translations line by line.")
        if not self.source and (self.tokenized or self.languages):
            raise ValueError("--tokenized and --languages describe the files of --source and --target; a run's recipe tells its own.")
        if self.sentences is not None and self.sentences < 1:
            raise ValueError(f"--sentences must be 1 or more, not {self.sentences}.")


class Subject:
    """One model at work. Translations are remembered, because noise leaves many sentences as they were."""

    def __init__(self, place: str, wanted: Wanted) -> None:
        """Load it, and the text it is tested on.

        Args:
            place: a run's folder, a model's, or a repository of the Hub.
            wanted: the text.

        Raises:
            FileNotFoundError: there is no such model or text, or a run has no averaged checkpoint.
            ValueError: the model is damaged, or the text cannot be read; a model that is no run has no files to be tested on.
        """
        self.name, self.wanted = place, wanted
        wanted.check()
        run = RunFolder(Path(place))
        self.run = run if run.recipe.is_file() else None
        if self.run and not run.averaged.is_dir():
            raise FileNotFoundError(f"There is no averaged checkpoint {run.averaged}; finish the training of this run first.")
        if not self.run and not (wanted.source and wanted.target):
            raise ValueError(f"{place} is no run's folder, so there is no test set of its own; give --source and --target.")
        self.folder = run.averaged if self.run else local_folder(place)
        self.model, self.tokenizer = load_checkpoint(self.folder)
        self.model.to(torch.accelerator.current_accelerator() or torch.device("cpu"))
        self.text = self._text()
        self._known: dict[str, str] = {}

    @cached_property
    def recipe(self) -> Recipe:
        """The run's.

        Raises:
            ValueError: it is no run.
        """
        if self.run is None:
            raise ValueError(f"{self.name} is no run's folder, so nobody knows what it was trained on; name the folder of the run.")
        return load_recipe(self.run.recipe, in_run_folder=True)

    @property
    def languages(self) -> tuple[str, str]:
        return self.text.languages

    @property
    def target_language(self) -> str | None:
        """What the model must be told; None where it knows one language only."""
        return self.languages[1] if target_languages(self.tokenizer) else None

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """The translations of `sentences` by the model's own search, in order; what one gives does not depend on the others."""
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        tokens = self.recipe.validation.batch_tokens if self.run else 4096
        found = translate(self.model, self.tokenizer, new, target_language=self.target_language, batch_tokens=tokens, progress=True)
        self._known.update(zip(new, found, strict=True))
        return [self._known[sentence] for sentence in sentences]

    @cached_property
    def training_words(self) -> tuple[frozenset[str], frozenset[str]]:
        """The words of the training sources and of their translations; see `words_of`.

        Raises:
            ValueError: it is no run, or its training text cannot be read.
            FileNotFoundError: a file of the training text is no longer there.
        """
        sides: tuple[set[str], set[str]] = (set(), set())
        for corpus in self.recipe.data.train:
            for pair in corpus.pairs(self._root, self.recipe.languages_of(corpus)):
                sides[0].update(words_of(pair.source))
                sides[1].update(words_of(pair.target))
        return frozenset(sides[0]), frozenset(sides[1])

    def facts(self) -> dict[str, Any]:
        """What every result says of its model, its text and its circumstances."""
        return {
            "model": self.name,
            "weights_sha256": {file.name: file_sha256(file) for file in sorted(self.folder.glob("*.safetensors"))},
            "text": self.text.facts(),
            "search": decoding_settings(self.model, {}),
            "command": _command(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(*_PACKAGES),
        }

    @property
    def _root(self) -> Path:
        return self.wanted.root or Path(self.recipe.data.root)

    def _text(self) -> TestText:
        wanted = self.wanted
        if wanted.source and wanted.target:
            corpus: Any = LinesCorpus(source=wanted.source, target=wanted.target, tokenized=wanted.tokenized)
            name, languages, root = Path(wanted.source).name, wanted.languages or ("en", "de"), Path()
        else:
            sets = self.recipe.data.test if wanted.split == "test" else {"validation": self.recipe.data.validations[0]}
            if not sets:
                raise ValueError(f"The recipe of {self.name} names no test set; ask for --split validation.")
            name, corpus = next(iter(sets.items()))
            languages, root = self.recipe.languages_of(corpus), self._root
        pairs = list(corpus.pairs(root, languages))[: wanted.sentences]
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        lowercase = all(text == text.lower() for text in (*sources, *references))
        return TestText(name, sources, references, languages, Form(corpus.tokenized, lowercase))


def _command() -> str:
    """The command line as one can type it again; of a module, `command_line` would know its file only."""
    started_as_module = Path(sys.argv[0]).parts[-3:] == ("benchmarks", "limits", "__main__.py")
    return shlex.join(["python", "-m", "benchmarks.limits", *sys.argv[1:]]) if started_as_module else command_line()


def words_of(text: str) -> set[str]:
    """The words of a text without regard to case, be it split into tokens or not: what stands between all that is no letter or digit."""
    return set(_WORD.findall(html.unescape(text).lower()))


def read_table(file: Path, columns: int) -> list[list[str]]:
    """The cells of a file with tabs, plain, `.gz` or `.xz`.

    Raises:
        FileNotFoundError: it is not there.
        ValueError: a line has another number of cells; the sentence names it.
    """
    rows = [line.split("\t") for line in file_lines(existing(file))]
    for number, row in enumerate(rows, start=1):
        if len(row) != columns:
            raise ValueError(f"{file}:{number} has {len(row)} columns between tabs where {columns} are expected; fetch the file again.")
    return rows


def existing(file: Path) -> Path:
    """`file`, or the compressed one in its place.

    Raises:
        FileNotFoundError: there is neither.
    """
    for candidate in (file, file.with_name(f"{file.name}.gz"), file.with_name(f"{file.name}.xz")):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"There is no file {file}, nor one that ends in .gz or .xz; give the folder or file that holds it.")
