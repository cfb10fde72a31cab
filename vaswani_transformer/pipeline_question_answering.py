"""A question and a text in, the answer and its place in the text out: `pipeline("question-answering", model=...)` as in transformers 4.

For every model that scores each token as the first and as the last of an answer (Devlin et al. 2019, section 4.2). This file travels with
checkpoints, so that a folder answers without the package, too (`trust_remote_code=True`).

Shapes: S positions of one window.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from transformers.pipelines.base import ChunkPipeline

from .pipeline_text_to_text import check_text, described, evaluating, given
from .search_settings import check_whole_number

LONGEST_WINDOW = 384
LONGEST_OVERLAP = 128
"""Tokens of a window, question included, and of what two neighbours share, unless the caller says otherwise; transformers 4's."""

Answer = dict[str, Any]
"""`score`, `start`, `end` and `answer`."""


class QuestionAnsweringPipeline(ChunkPipeline):
    """Finds answers in texts.

    ```python
    reader = pipeline("question-answering", model="path/or/repository")
    reader(question="Where?", context="In Zürich.")  # {"score": 0.9, "start": 3, "end": 9, "answer": "Zürich"}
    ```

    `answer` is always `context[start:end]`, to the character. A context that is too long is cut into windows that overlap, and the scores
    are probabilities over all of them together, so that a window without an answer does not compete with one that has it.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of every pipeline, and any setting of a call as the default for all calls."""
        super().__init__(*args, **kwargs)
        name = type(self.model).__name__
        if "ForQuestionAnswering" not in name:
            raise ValueError(f"{name} marks no answer in a text; load its folder with AutoModelForQuestionAnswering and train that first.")
        if self.tokenizer is None or not self.tokenizer.is_fast:
            raise ValueError(f"To find answers, {name} needs its tokenizer, a fast one, which knows where in a text each token is.")

    def __call__(
        self, *inputs: Any, question: str | list[str] | None = None, context: str | list[str] | None = None, **settings: Any
    ) -> Any:
        """Answer a question about a context, or each question of a collection.

        Args:
            inputs: a dictionary with `question` and `context`; a list of them; or a generator or torch data set of them, which is read as
                its answers are asked for. Or a question and its context, as the two arguments below.
            question: a question, or a list of them.
            context: the text that holds the answer, one for all questions or a list with one for each.
            settings: `top_k`, how many answers to give (1); `handle_impossible_answer`, whether there may be none (False);
                `max_answer_len`, the most tokens of an answer (15); `align_to_words`, whether answers are whole words (True);
                `max_seq_len`, the tokens of a window, question included (384, or what the model takes); `doc_stride`, the tokens that
                two windows share (128, or half of the room); `max_question_len`, the tokens after which a question is cut (64);
                `batch_size`.

        Returns:
            For one question, a dictionary of `score`, `start`, `end` and `answer`, or with `top_k` above 1 a list of at most so many, best
            first. For a collection, a list of these; for a generator or data set, an iterator over them. The same words in several places
            are one answer: its score is the sum of theirs, and its place the likeliest. No answer is an empty one from 0 to 0; its score is
            that of the token that stands for it, as transformers' example script for question answering trains it: the class token, or
            else the one for the beginning, or else the first.

        Raises:
            TypeError: an input is no question with its context.
            ValueError: a question or context is blank or has half a surrogate pair; their numbers differ; a setting is impossible, or
                leaves no room for the context.
            RuntimeError: an old version of the library tokenizers loses a part of the context.
        """
        if len(inputs) == 2 and question is None and context is None:
            question, context = inputs
        elif len(inputs) + (question is not None or context is not None) != 1:
            raise TypeError(f"{len(inputs)} inputs beside question= and context=; pass one dictionary or collection, or both of these.")
        examples = inputs[0] if len(inputs) == 1 else paired(question, context)
        if isinstance(examples, Mapping):
            return super().__call__(checked(examples, "The input"), **settings)
        if isinstance(examples, str | bytes) or not isinstance(examples, Iterable | torch.utils.data.Dataset):
            raise TypeError(f"The input is {described(examples)}; pass question= and context=, or dictionaries with both.")
        if isinstance(examples, torch.utils.data.Dataset):
            return super().__call__(examples, **settings)
        if not isinstance(examples, Sized):
            return super().__call__((example for example in examples), **settings)
        all_checked = [checked(example, f"Item {position} of the input") for position, example in enumerate(examples)]
        return super().__call__(all_checked, **settings) if all_checked else []

    def _sanitize_parameters(
        self,
        top_k: int | None = None,
        handle_impossible_answer: bool | None = None,
        max_answer_len: int | None = None,
        align_to_words: bool | None = None,
        max_seq_len: int | None = None,
        doc_stride: int | None = None,
        max_question_len: int | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sort the caller's settings by the step that needs them."""
        after: dict[str, Any] = {"top_k": top_k, "max_answer_len": max_answer_len}
        before: dict[str, Any] = {"max_seq_len": max_seq_len, "max_question_len": max_question_len}
        for name, value in (after | before).items():
            check_whole_number(name, value, least=1)
        check_whole_number("doc_stride", doc_stride, least=0)
        before |= {"doc_stride": doc_stride, "align_to_words": align_to_words}
        return given(before), {}, given({**after, "handle_impossible_answer": handle_impossible_answer})

    def preprocess(
        self,
        example: Any,
        max_seq_len: int | None = None,
        doc_stride: int | None = None,
        max_question_len: int = 64,
        align_to_words: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """The windows of one example: ids, and for each position whether it is the context's and where in the context it stands.

        Tensors are `[1, S]`. `first` and `last` are the places of its first character and of the one after its last.
        """
        example = checked(example, "An input")
        context = example["context"]
        question, length = self._shortened(example["question"], max_question_len)
        size = max_seq_len or self._longest_window()
        stride = self._overlap(size, length, doc_stride)
        question_first = self.tokenizer.padding_side == "right"
        encoded = self.tokenizer(
            *((question, context) if question_first else (context, question)),
            truncation="only_second" if question_first else "only_first",
            max_length=size,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        places = [_places(encoded, window, int(question_first)) for window in range(len(encoded["input_ids"]))]
        self._check_reach(places, context)
        if align_to_words:
            _widen_to_words(places, [encoded.word_ids(window) for window in range(len(places))], context)
        for window, place in enumerate(places):
            ids = encoded["input_ids"][window]
            of_model = {name: encoded[name][window] for name in self.tokenizer.model_input_names if name in encoded}
            columns = {
                **of_model,
                "is_context": [int(span is not None) for span in place],
                "stands_for_none": [int(position == self._place_for_none(ids)) for position in range(len(ids))],
                "first": [span[0] if span else 0 for span in place],
                "last": [span[1] if span else 0 for span in place],
            }
            tensors = {name: torch.tensor([column]) for name, column in columns.items()}
            yield {**tensors, "context": context, "is_last": window == len(places) - 1}

    def _shortened(self, question: str, longest: int) -> tuple[str, int]:
        """The question, cut after `longest` tokens, and how many it has."""
        ends = [end for _, end in self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]]
        return (question, len(ends)) if len(ends) <= longest else (question[: ends[longest - 1]], longest)

    def _longest_window(self) -> int:
        limits = (self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", None), LONGEST_WINDOW)
        return min(limit for limit in limits if limit)

    def _overlap(self, size: int, question: int, asked: int | None) -> int:
        """The tokens that two windows of `size` share beside a question of so many tokens."""
        room = size - question - self.tokenizer.num_special_tokens_to_add(pair=True)
        overlap = min(LONGEST_OVERLAP, room // 2) if asked is None else asked
        if not 0 <= overlap < room:
            raise ValueError(
                f"Windows of {size} tokens that share {overlap} leave no room for the context beside a question of {question} tokens; "
                "lower doc_stride or max_question_len, or raise max_seq_len as far as the model allows."
            )
        return overlap

    def _check_reach(self, places: list[list[tuple[int, int] | None]], context: str) -> None:
        """Raise a `RuntimeError` where the windows do not reach the end of the context, as with tokenizers 0.23.1."""
        whole = self.tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        reached = max((span[1] for place in places for span in place if span), default=0)
        if whole and reached < whole[-1][1]:
            raise RuntimeError(
                f"The library tokenizers cut a context of {len(context)} characters into windows and lost what follows character "
                f"{reached}; update it: pip install --upgrade tokenizers"
            )

    def _place_for_none(self, ids: list[int]) -> int:
        """The position that stands for no answer, as transformers' example script for question answering trains it."""
        special = (self.tokenizer.cls_token_id, self.tokenizer.bos_token_id)
        return next((ids.index(token) for token in special if token is not None and token in ids), 0)

    def _forward(self, window: dict[str, Any]) -> dict[str, Any]:
        """Add the scores `[B, S]` of each position as an answer's first and last token; no dropout, also for a model in training."""
        with evaluating(self.model):
            output = self.model(**{name: window[name] for name in self.tokenizer.model_input_names if name in window})
        return {**window, "start_scores": output.start_logits, "end_scores": output.end_logits}

    def postprocess(
        self, windows: list[dict[str, Any]], top_k: int = 1, handle_impossible_answer: bool = False, max_answer_len: int = 15
    ) -> Answer | list[Answer]:
        """The best answers in all windows of one example."""
        places, none = probabilities(windows, max_answer_len)
        answers = told(places, windows[0]["context"])
        if handle_impossible_answer or not answers:
            answers.append({"score": none, "start": 0, "end": 0, "answer": ""})
        answers.sort(key=lambda answer: answer["score"], reverse=True)
        return answers[0] if top_k == 1 else answers[:top_k]


def probabilities(windows: list[dict[str, Any]], longest: int) -> tuple[dict[tuple[int, int], float], float]:
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


def paired(question: Any, context: Any) -> Any:
    """One dictionary for two strings, and a list of them where one is a list; `checked` looks into them later."""
    if not isinstance(question, list | tuple) and not isinstance(context, list | tuple):
        return {"question": question, "context": context}
    number = len(context if isinstance(question, str) else question) if question is not None else 0
    questions, contexts = ([text] * number if isinstance(text, str) else text for text in (question, context))
    if questions is None or contexts is None or len(questions) != len(contexts):
        counted = [0 if texts is None else len(texts) for texts in (questions, contexts)]
        raise ValueError(f"There are {counted[0]} questions and {counted[1]} contexts; pass one context for all, or one for each question.")
    return [{"question": one, "context": other} for one, other in zip(questions, contexts, strict=True)]


def checked(example: Any, what: str) -> dict[str, str]:
    """The question and the context of an example.

    Raises:
        TypeError: it has no question or no context, or one of them is no string.
        ValueError: one of them is blank, or has half a surrogate pair.
    """
    found = {}
    for part in ("question", "context"):
        if not isinstance(example, Mapping) or example.get(part) is None:
            raise TypeError(f"{what} has no {part}: {described(example)}; pass a dictionary with `question` and `context`.")
        text = example[part]
        check_text(text, f"{what}'s {part}")
        if not text.strip():
            raise ValueError(f"{what} has a blank {part}; there is nothing to {'answer' if part == 'question' else 'find an answer in'}.")
        found[part] = text
    return found


def _places(encoded: Any, window: int, context: int) -> list[tuple[int, int] | None]:
    """Where in the context each token of a window stands, from its first character to the one after its last; `None` outside of it."""
    spans = zip(encoded["offset_mapping"][window], encoded.sequence_ids(window), strict=True)
    return [(start, end) if part == context else None for (start, end), part in spans]


def _widen_to_words(places: list[list[tuple[int, int] | None]], words: list[list[int | None]], context: str) -> None:
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


__all__ = ["QuestionAnsweringPipeline"]
