"""Questions about paragraphs, in the form of SQuAD's files (Rajpurkar et al., 2016 and 2018)."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...tasks import MARKED
from .corpus import Corpus, SentencePair, existing
from .marked import listed_answers, marked_pair
from .text import file_lines


@dataclass(frozen=True, kw_only=True)
class SquadCorpus(Corpus):
    """One JSON file `path`, plain, `.gz` or `.xz`, such as SQuAD's own, XQuAD's or MLQA's.

    It holds articles, each with paragraphs, each with a context and its questions. An answer is a text and the place of its first character
    in the context. A question without an answer, as in SQuAD 2.0, has an empty list of them. Messages name a question by its number.
    """

    format: Literal["squad"] = "squad"
    path: str

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        return f"questions about paragraphs {code(self.path)}"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        if languages != MARKED:
            raise ValueError(f"{self.path}: `format: squad` is for `task: question_answering` with `answers: {{kind: span}}`.")
        number = 0
        for context, questions in _paragraphs(existing(root / self.path), self.path):
            for asked in questions:
                number += 1
                where = f"{self.path}:{number}"
                if not isinstance(asked, Mapping):
                    raise ValueError(f"{where} is no question, but {asked!r}; repair the file.")
                answers = [] if asked.get("is_impossible") else listed_answers(asked.get("answers"), where)
                yield marked_pair(asked.get("question"), context, answers, self.path, number)


def _paragraphs(path: Path, name: str) -> Iterator[tuple[Any, list[Any]]]:
    """The contexts of a file, each with its questions."""
    try:
        tree = json.loads("\n".join(file_lines(path)))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON ({error}); it is probably incomplete: fetch it again.") from error
    try:
        yield from ((paragraph["context"], list(paragraph["qas"])) for article in tree["data"] for paragraph in article["paragraphs"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{name} is not in SQuAD's form, `data` with `paragraphs` with `context` and `qas`; read JSON lines by `format: table`."
        ) from error
