"""Questions about a context with their answers marked in it, on the way from a corpus to the ids.

Such a question is a pair like any other: its source is the question and the context, its target the places of the answers. So files,
cleaning and caches are those of all tasks.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .corpus import SentencePair

BETWEEN_SIDES = "\x1e"
"""What parts a question from its context. A question that holds this mark of its own gets a space for it; a context keeps it."""

NO_ANSWER = "-"
"""The target of a question that its context does not answer."""


class MarkedQuestion(NamedTuple):
    """A question, its context, and where in the context each of the right answers begins and ends; none where there is no answer."""

    question: str
    context: str
    spans: list[tuple[int, int]]

    @property
    def answers(self) -> list[str]:
        """The right answers, the first of which is trained on."""
        return [self.context[start:end] for start, end in self.spans]


def marked_pair(question: Any, context: Any, answers: Iterable[tuple[Any, Any]], origin: str, line: int) -> SentencePair:
    """A question as a pair; `read_marked` reads it back.

    Args:
        question: what is asked.
        context: the text that holds the answers.
        answers: each with the place of its first character in `context`; none where the context does not answer.
        origin: for `SentencePair`, and for messages.
        line: likewise.

    Raises:
        ValueError: question or context is blank or no text, or an answer does not stand where it should.
    """
    where = f"{origin}:{line}"
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{where} has no {name}, or a blank one; add it, or remove the question.")
        _check_characters(text, f"{where} has a {name} that")
    spans = []
    for text, start in answers:
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            raise ValueError(f"{where} has an answer {text!r} at {start!r}; an answer is a text and the place of its first character.")
        if start < 0 or context[start : start + len(text)] != text:
            there = context[max(start, 0) : max(start, 0) + len(text)]
            raise ValueError(
                f"{where} has the answer {text!r} at character {start} of its context, where {there!r} stands; repair `answer_start`, "
                "which counts characters from 0."
            )
        if not text.strip():
            raise ValueError(f"{where} has a blank answer; leave it out, so that the question has none.")
        start += len(text) - len(text.lstrip())
        spans.append((start, start + len(text.strip())))
    target = " ".join(f"{start}-{end}" for start, end in spans) or NO_ANSWER
    return SentencePair(f"{question.replace(BETWEEN_SIDES, ' ').strip()}{BETWEEN_SIDES}{context}", target, origin, line)


def read_marked(pair: SentencePair) -> MarkedQuestion:
    """What `marked_pair` made a pair of.

    Raises:
        ValueError: the pair is another one; the sentence names its file and line.
    """
    question, mark, context = pair.source.partition(BETWEEN_SIDES)
    if not mark:
        raise ValueError(
            f"{pair.origin}:{pair.line} has no place for its answer, which `answers.kind: span` needs; read the corpus by `format: squad`, "
            "`table`, `hub`, `disk` or `babi`, or let the model write its answers (`answers.kind: text`)."
        )
    places = [] if pair.target == NO_ANSWER else [place.split("-") for place in pair.target.split()]
    return MarkedQuestion(question, context, [(int(start), int(end)) for start, end in places])


def listed_answers(value: Any, where: str) -> list[tuple[Any, Any]]:
    """The answers of a question with their places: as SQuAD's files list them, or as the Hub's data sets do, in two lists.

    Raises:
        ValueError: they are neither.
    """
    if isinstance(value, Mapping) and isinstance(value.get("text"), list) and isinstance(value.get("answer_start"), list):
        if len(value["text"]) == len(value["answer_start"]):
            return list(zip(value["text"], value["answer_start"], strict=True))
    elif isinstance(value, list) and all(isinstance(each, Mapping) and {"text", "answer_start"} <= each.keys() for each in value):
        return [(each["text"], each["answer_start"]) for each in value]
    raise ValueError(
        f"{where} has the answers {value!r}; each must have a `text` and an `answer_start`, its first character in the context."
    )


def _check_characters(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} holds half a surrogate pair at character {error.start + 1}, which is not text; repair it.") from error
