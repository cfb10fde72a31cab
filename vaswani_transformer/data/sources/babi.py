"""The tasks of bAbI: stories with questions between their sentences (Weston et al., 2015)."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...tasks import ANSWERED, MARKED
from .corpus import Corpus, SentencePair, existing
from .marked import marked_pair
from .text import file_lines


@dataclass(frozen=True, kw_only=True)
class BabiCorpus(Corpus):
    """One file `path`, plain, `.gz` or `.xz`, of one of the tasks.

    Each question becomes a text, the story as far as it has been told and the question, and its answer. Where answers are marked, the story
    is the context, and the answer stands in the last sentence with it among those that the file says the answer rests on. So tasks whose
    answer is no word of the story, such as yes and no, are for answers that are written. The sentences are used for nothing else.
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
        if languages not in (ANSWERED, MARKED):
            raise ValueError(f"{self.path}: `format: babi` is for `task: question_answering`; choose another format or task.")
        story: dict[str, str] = {}
        for place, line in enumerate(file_lines(existing(root / self.path)), start=1):
            if not line.strip():
                continue
            number, _, rest = line.partition(" ")
            if not number.isdecimal() or not rest.strip():
                raise ValueError(f"{self.path}:{place} does not begin with a number and a sentence, as lines of bAbI do; repair it.")
            if number == "1":
                story = {}
            sentence, *answer = (cell.strip() for cell in rest.split("\t"))
            if not answer:
                story[number] = sentence
            elif answer[0] and languages == MARKED:
                yield _marked(story, sentence, answer[0], answer[1:], (self.path, place))
            elif answer[0]:
                yield SentencePair(" ".join([*story.values(), sentence]), answer[0], self.path, place)
            else:
                raise ValueError(f"{self.path}:{place} has a question without an answer; add it, or remove the line.")


def _marked(story: dict[str, str], question: str, answer: str, rests_on: list[str], where: tuple[str, int]) -> SentencePair:
    """A question with its answer marked in the story, whose sentences have their numbers as keys."""
    origin, line = where
    word = re.compile(rf"\b{re.escape(answer)}\b")
    named = [number for cell in rests_on for number in cell.split()]
    found, start = -1, 0
    for number, sentence in story.items():
        if number in named and (match := word.search(sentence)):
            found = start + match.start()
        start += len(sentence) + 1
    if found < 0:
        raise ValueError(
            f"{origin}:{line} has the answer {answer!r}, which is no word of the sentences that it rests on, so it cannot be marked; leave "
            "this task out, or let the model write its answers (`answers.kind: text`)."
        )
    return marked_pair(question, " ".join(story.values()), [(answer, found)], origin, line)
