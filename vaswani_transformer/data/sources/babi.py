"""The tasks of bAbI: stories with questions between their sentences (Weston et al., 2015)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...tasks import ANSWERED
from .corpus import Corpus, SentencePair, existing
from .text import file_lines


@dataclass(frozen=True, kw_only=True)
class BabiCorpus(Corpus):
    """One file `path`, plain, `.gz` or `.xz`, of one of the tasks.

    Each question becomes a text, the story as far as it has been told and the question, and its answer. The sentences that an answer rests
    on, which the file names, are not used.
    """

    format: Literal["babi"] = "babi"
    path: str

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        return f"bAbI's stories and questions {code(self.path)}"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        if languages != ANSWERED:
            raise ValueError(f"{self.path}: `format: babi` is for `task: question_answering`; choose another format or task.")
        story: list[str] = []
        for place, line in enumerate(file_lines(existing(root / self.path)), start=1):
            if not line.strip():
                continue
            number, _, rest = line.partition(" ")
            if not number.isdecimal() or not rest.strip():
                raise ValueError(f"{self.path}:{place} does not begin with a number and a sentence, as lines of bAbI do; repair it.")
            if number == "1":
                story = []
            sentence, *answer = (cell.strip() for cell in rest.split("\t"))
            if not answer:
                story.append(sentence)
            elif answer[0]:
                yield SentencePair(" ".join([*story, sentence]), answer[0], self.path, place)
            else:
                raise ValueError(f"{self.path}:{place} has a question without an answer; add it, or remove the line.")
