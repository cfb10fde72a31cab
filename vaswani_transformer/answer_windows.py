"""Long contexts cut into windows, and the answers that the scores of all windows tell: for training and for the pipeline alike.

A context that does not fit beside its question is cut into windows that overlap (Devlin et al. 2019, section 4.2, and transformers' example
script for question answering). This file travels with checkpoints.

Shapes: S tokens of one window.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .search_settings import LONGEST_OVERLAP, LONGEST_QUESTION

Answer = dict[str, Any]
"""`score`, `start`, `end` and `answer`."""

Place = tuple[int, int] | None
"""Where in the context a token stands, from its first character to the one after its last; `None` outside of it."""


class Window(NamedTuple):
    """A question and a piece of its context, as a model reads them."""

    inputs: dict[str, list[int]]
    """[S] numbers by the names that the model gives them, `input_ids` among them."""
    places: list[Place]
    """[S] where in the context each token stands, alone or with its whole word."""
    none: int
    """The position that stands for no answer, as transformers' example script trains it: the class token, or else the one for the
    beginning, or else the first."""

    def positions_of(self, start: int, end: int) -> tuple[int, int]:
        """The positions of an answer's first and last token, or twice `none` where the window does not hold all of it.

        Args:
            start: the answer's first character in the context.
            end: the one after its last.
        """
        held = [(position, place) for position, place in enumerate(self.places) if place is not None]
        if not held or held[0][1][0] > start or held[-1][1][1] < end:
            return self.none, self.none
        first = next(position for position, place in held if place[1] > start)
        return first, max(position for position, place in held if place[0] < end)

    def with_scores(self, starts: torch.Tensor, ends: torch.Tensor) -> dict[str, Any]:
        """What `probabilities` wants, with the scores [S] of each token as an answer's first and last."""
        columns = {name: torch.tensor([column]) for name, column in self.columns().items()}
        return {**columns, "start_scores": starts[None], "end_scores": ends[None]}

    def columns(self) -> dict[str, list[int]]:
        """For each token, whether it is the context's, whether it stands for no answer, and its place."""
        return {
            "is_context": [int(place is not None) for place in self.places],
            "stands_for_none": [int(position == self.none) for position in range(len(self.places))],
            "first": [place[0] if place else 0 for place in self.places],
            "last": [place[1] if place else 0 for place in self.places],
        }


def cut_into_windows(
    tokenizer: Any,
    question: str,
    context: str,
    size: int,
    overlap: int | None = None,
    longest_question: int = LONGEST_QUESTION,
    *,
    whole_words: bool,
) -> list[Window]:
    """The windows of one question, of which each holds the question and a piece of the context.

    Args:
        tokenizer: a fast one, which knows where in a text each token is.
        question: cut after `longest_question` tokens.
        context: any text.
        size: the most tokens of a window.
        overlap: the tokens of the context that two neighbours share; by default `LONGEST_OVERLAP`, or half of the room.
        longest_question: the most tokens of a question.
        whole_words: give each token the place of its whole word, of which another window may hold the rest.

    Raises:
        ValueError: there is no room for the context beside the question.
    """
    question, length = _shortened(tokenizer, question, longest_question)
    question_first = tokenizer.padding_side == "right"
    encoded = tokenizer(
        *((question, context) if question_first else (context, question)),
        truncation="only_second" if question_first else "only_first",
        max_length=size,
        stride=_overlap(tokenizer, size, length, overlap),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    pieces = range(len(encoded["input_ids"]))
    places = [_places(encoded, piece, int(question_first)) for piece in pieces]
    if whole_words:
        _widen_to_words(places, [encoded.word_ids(piece) for piece in pieces], context)
    return [
        Window(
            inputs={name: encoded[name][piece] for name in tokenizer.model_input_names if name in encoded},
            places=places[piece],
            none=_place_for_none(tokenizer, encoded["input_ids"][piece]),
        )
        for piece in pieces
    ]


def _shortened(tokenizer: Any, question: str, longest: int) -> tuple[str, int]:
    """The question, cut to the whole characters of its first `longest` tokens, and how many tokens it then has."""
    while len(places := tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]) > longest:
        # Bytes of one character share its place, so the first token left out may begin before the last one kept ends
        question = question[: min(places[longest - 1][1], places[longest][0], len(question) - 1)]
    return question, len(places)


def _overlap(tokenizer: Any, size: int, question: int, asked: int | None) -> int:
    """The tokens that two windows of `size` share beside a question of so many tokens."""
    room = size - question - tokenizer.num_special_tokens_to_add(pair=True)
    overlap = min(LONGEST_OVERLAP, room // 2) if asked is None else asked
    if not 0 <= overlap < room:
        raise ValueError(
            f"Windows of {size} tokens that share {overlap} leave no room for the context beside a question of {question} tokens; "
            "lower doc_stride or max_question_len, or raise max_seq_len as far as the model allows."
        )
    return overlap


def _place_for_none(tokenizer: Any, ids: list[int]) -> int:
    special = (tokenizer.cls_token_id, tokenizer.bos_token_id)
    return next((ids.index(token) for token in special if token is not None and token in ids), 0)


def best_answers(windows: Sequence[Mapping[str, Any]], context: str, longest: int, may_be_none: bool) -> list[Answer]:
    """The answers in all windows of one question, best first.

    Args:
        windows: as `Window.with_scores` gives them.
        context: the whole one.
        longest: the most tokens of an answer.
        may_be_none: admit the empty answer, from 0 to 0; it is also the answer where there is no other.
    """
    places, none = probabilities(windows, longest)
    answers = told(places, context)
    if may_be_none or not answers:
        answers.append({"score": none, "start": 0, "end": 0, "answer": ""})
    return sorted(answers, key=lambda answer: answer["score"], reverse=True)


def probabilities(windows: Sequence[Mapping[str, Any]], longest: int) -> tuple[dict[tuple[int, int], float], float]:
    """How likely each piece of the context is the answer, and how likely it is that there is none.

    Within a window, the first and the last token are independent, as in training. The windows share one softmax over all pairs of tokens
    that stand in one window; a piece that two windows hold has the chances of both. The token that stands for no answer counts in the
    window where it is least likely: in the others the answer may just be cut off.

    Args:
        windows: of one example, with `[1, S]` tensors.
        longest: the most tokens of an answer.

    Returns:
        Probabilities by the places of a piece's first character and of the one after its last, and one for none.
    """
    scores = [torch.cat([window["start_scores"], window["end_scores"]]).double() for window in windows]
    nones = torch.stack([pair[:, window["stands_for_none"][0] == 1].sum() for pair, window in zip(scores, windows, strict=True)])
    least = int(nones.argmin())
    weights = []
    for number, (pair, window) in enumerate(zip(scores, windows, strict=True)):
        counts = (window["is_context"] | window["stands_for_none"] if number == least else window["is_context"])[0] == 1
        weights.append(pair.masked_fill(~counts, -torch.inf).logsumexp(1).sum())
    whole = torch.stack(weights).logsumexp(0)
    found: dict[tuple[int, int], float] = defaultdict(float)
    for pair, window in zip(scores, windows, strict=True):
        starts, ends = pair.masked_fill(window["is_context"] == 0, -torch.inf)
        joint = (starts[:, None] + ends[None] - whole).exp().triu().tril(longest - 1)
        firsts, lasts = joint.nonzero().unbind(1)
        spans = zip(window["first"][0, firsts].tolist(), window["last"][0, lasts].tolist(), strict=True)
        for span, chance in zip(spans, joint[firsts, lasts].tolist(), strict=True):
            found[span] += chance
    return found, (nones[least] - whole).exp().item()


def told(places: Mapping[tuple[int, int], float], context: str) -> list[Answer]:
    """Answers without white space around them; the same words, in whatever case, are one answer, at their likeliest place."""
    trimmed: dict[tuple[int, int], float] = defaultdict(float)
    for (start, end), chance in places.items():
        piece = context[start:end]
        if piece.strip():
            start += len(piece) - len(piece.lstrip())
            trimmed[start, start + len(piece.strip())] += chance
    by_words: dict[str, Answer] = {}
    for (start, end), chance in sorted(trimmed.items(), key=lambda item: item[1], reverse=True):
        words = context[start:end]
        answer = by_words.setdefault(words.casefold(), {"score": 0.0, "start": start, "end": end, "answer": words})
        answer["score"] += chance
    return list(by_words.values())


def _places(encoded: Any, window: int, context: int) -> list[Place]:
    spans = zip(encoded["offset_mapping"][window], encoded.sequence_ids(window), strict=True)
    return [(start, end) if part == context else None for (start, end), part in spans]


def _widen_to_words(places: list[list[Place]], words: list[list[int | None]], context: str) -> None:
    """Give each of the context's tokens the place of its word, which another window may hold the rest of."""
    whole: dict[int, tuple[int, int]] = {}
    for place, word_ids in zip(places, words, strict=True):
        for span, word in zip(place, word_ids, strict=True):
            if span is not None and word is not None:
                start, end = whole.get(word, span)
                whole[word] = (min(start, span[0]), max(end, span[1]))
    runs: list[list[int]] = []
    for word in sorted(whole):
        start = whole[word][0]
        if runs and start == whole[runs[-1][-1]][1] and _is_inside_word(context, start):
            runs[-1].append(word)
        else:
            runs.append([word])
    for run in runs:
        whole |= dict.fromkeys(run, (whole[run[0]][0], whole[run[-1]][1]))
    for place, word_ids in zip(places, words, strict=True):
        place[:] = [span if span is None or word is None else whole[word] for span, word in zip(place, word_ids, strict=True)]


def _is_inside_word(context: str, place: int) -> bool:
    """Whether an accent or vowel sign ties the character there to the one before it; byte-level tokenizers cut a word around such marks."""
    before, here = unicodedata.category(context[place - 1]), unicodedata.category(context[place])
    return here.startswith("M") or (before.startswith("M") and here.startswith("L"))


__all__ = ["Answer", "best_answers", "cut_into_windows"]
