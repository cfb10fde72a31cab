"""A question and a text in, the answer and its place in the text out: `pipeline("question-answering", model=...)` as in transformers 4.

For every model that scores each token as the first and as the last of an answer (Devlin et al. 2019, section 4.2). This file travels with
checkpoints, so that a folder answers without the package, too (`trust_remote_code=True`).

Shapes: B windows, S positions of each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from transformers.pipelines.base import ChunkPipeline

from .answer_windows import Answer, best_answers, cut_into_windows
from .pipeline_text_to_text import check_text, described, evaluating, given
from .search_settings import LONGEST_ANSWER, LONGEST_QUESTION, LONGEST_WINDOW, check_whole_number

_STORED = ("max_seq_len", "doc_stride", "max_question_len", "max_answer_len", "handle_impossible_answer")
"""The settings that a configuration may store, in its `task_specific_params` for `question-answering`."""


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
        """Takes the arguments of every pipeline, and any setting of a call as the default for all calls.

        What a trained model's configuration stores for the task comes next: how its training cut contexts into windows.
        """
        super().__init__(*args, **kwargs)
        name = type(self.model).__name__
        if "ForQuestionAnswering" not in name:
            raise ValueError(f"{name} marks no answer in a text; load its folder with AutoModelForQuestionAnswering and train that first.")
        if self.tokenizer is None or not self.tokenizer.is_fast:
            raise ValueError(f"To find answers, {name} needs its tokenizer, a fast one, which knows where in a text each token is.")
        stored = (getattr(self.model.config, "task_specific_params", None) or {}).get("question-answering") or {}
        before, _, after = self._sanitize_parameters(**{name: stored[name] for name in _STORED if name in stored})
        for name, params in (("_preprocess_params", before), ("_postprocess_params", after)):
            setattr(self, name, params | getattr(self, name))

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
        max_question_len: int = LONGEST_QUESTION,
        align_to_words: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """The windows of one example: ids, and for each position whether it is the context's and where in the context it stands.

        Tensors are `[1, S]`. `first` and `last` are the places of its first character and of the one after its last.
        """
        example = checked(example, "An input")
        context = example["context"]
        size = max_seq_len or self._longest_window()
        windows = cut_into_windows(
            self.tokenizer, example["question"], context, size, doc_stride, max_question_len, whole_words=align_to_words
        )
        for number, window in enumerate(windows, start=1):
            tensors = {name: torch.tensor([column]) for name, column in (window.inputs | window.columns()).items()}
            yield {**tensors, "context": context, "is_last": number == len(windows)}

    def _longest_window(self) -> int:
        limits = (self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", None), LONGEST_WINDOW)
        return min(limit for limit in limits if limit)

    def _forward(self, window: dict[str, Any]) -> dict[str, Any]:
        """Add the scores `[B, S]` of each position as an answer's first and last token; no dropout, also for a model in training."""
        with evaluating(self.model):
            output = self.model(**{name: window[name] for name in self.tokenizer.model_input_names if name in window})
        return {**window, "start_scores": output.start_logits, "end_scores": output.end_logits}

    def postprocess(
        self, windows: list[dict[str, Any]], top_k: int = 1, handle_impossible_answer: bool = False, max_answer_len: int = LONGEST_ANSWER
    ) -> Answer | list[Answer]:
        """The best answers in all windows of one example."""
        answers = best_answers(windows, windows[0]["context"], max_answer_len, handle_impossible_answer)
        return answers[0] if top_k == 1 else answers[:top_k]


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


__all__ = ["QuestionAnsweringPipeline"]
