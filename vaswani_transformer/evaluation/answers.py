"""The answers that a model marks in the contexts of some questions, by the windows and the rules of the pipeline."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from ..answer_windows import Window, best_answers
from ..data.batching import collate, plan_batches
from ..data.encoding import TokenPairs, TokenSequences
from ..data.examples import MarkedAnswers, examples_of
from ..data.sources.corpus import Corpus, SentencePair
from ..data.sources.marked import MarkedQuestion, read_marked
from ..files.checksums import verify
from ..recipe import Recipe
from .answer_scores import outcomes_of_answers, score_answers
from .bleu import MetricResult
from .outcomes import Outcomes

Scores = tuple[Tensor, Tensor]
"""Of each token [S] of a window as an answer's first and last."""


class CutQuestions:
    """Questions and the windows of their contexts.

    Attributes:
        questions: as their corpus marks them.
        windows: those of each question, one question after another.
    """

    def __init__(self, recipe: Recipe, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> None:
        examples = examples_of(recipe)
        assert isinstance(examples, MarkedAnswers)
        self.recipe = recipe
        self.questions: list[MarkedQuestion] = [read_marked(pair) for pair in pairs]
        by_question = [examples.windows(pair, tokenizer, whole_words=True) for pair in pairs]
        self.windows: list[Window] = [window for windows in by_question for window in windows]
        self._counts = [len(windows) for windows in by_question]

    def answers(self, scores: Sequence[Scores]) -> list[str]:
        """The best answer to each question.

        Args:
            scores: of each window, on the CPU.
        """
        settings = self.recipe.answers
        pairs = zip(self.windows, scores, strict=True)
        found = []
        for question, count in zip(self.questions, self._counts, strict=True):
            windows = [window.with_scores(*of_window) for window, of_window in (next(pairs) for _ in range(count))]
            found.append(str(best_answers(windows, question.context, settings.longest, settings.may_be_none)[0]["answer"]))
        return found

    def score(self, answers: Sequence[str]) -> dict[str, MetricResult]:
        """F1 and exact match of `answers`."""
        return score_answers(answers, [question.answers for question in self.questions])

    def outcomes(self, answers: Sequence[str]) -> Outcomes:
        """What each of `answers` gives to the scores."""
        return outcomes_of_answers(answers, [question.answers for question in self.questions])

    def samples(self, answers: Sequence[str], chosen: Sequence[int]) -> Iterator[dict[str, str]]:
        """Some questions with their answers, for logs and cards."""
        for number in chosen:
            question = self.questions[number]
            yield {
                "source": f"{question.context} {question.question}",
                "question": question.question,
                "context": question.context,
                "reference": " / ".join(dict.fromkeys(question.answers)),
                "prediction": answers[number],
            }


class AnswerScores(NamedTuple):
    """The scores of some questions, and what was answered."""

    asked: CutQuestions
    pairs: list[SentencePair]
    answers: list[str]
    seconds: float
    metrics: dict[str, MetricResult]


def answer_test_set(recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, corpus: Corpus) -> AnswerScores:
    """Answer and score the questions of a corpus.

    Args:
        recipe: the run's; names the columns of a table, how contexts are cut, and how many tokens a batch has.
        model: scores each token as an answer's first and last.
        tokenizer: a fast one.
        corpus: with marked answers.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the corpus cannot be read, or has no marked answers.
    """
    pairs = list(corpus.pairs(recipe.data.root, recipe.columns_of(corpus)))
    started = time.perf_counter()
    asked = CutQuestions(recipe, pairs, tokenizer)
    answers = asked.answers(score_windows(model, tokenizer, asked.windows, recipe.validation.batch_tokens))
    return AnswerScores(asked, pairs, answers, round(time.perf_counter() - started, 3), asked.score(answers))


def load_reader(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model on disk that marks answers, on this process' device, and its tokenizer.

    Raises:
        ValueError: a file is damaged.
    """
    verify(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    model.to(torch.accelerator.current_accelerator() or torch.device("cpu"))
    return model.eval(), AutoTokenizer.from_pretrained(folder)


@torch.inference_mode()
def score_windows(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, windows: Sequence[Window], batch_tokens: int) -> list[Scores]:
    """The scores of all tokens of each window, on the CPU.

    Args:
        model: scores each token as an answer's first and last.
        tokenizer: gives the id of padding.
        windows: at least one.
        batch_tokens: most tokens of a batch, padding included; a longer window is a batch of its own.
    """
    ids = TokenSequences.of([window.inputs["input_ids"] for window in windows], "int64")
    corpus = TokenPairs(ids, ids)
    budget = max(batch_tokens, int(corpus.source_lengths.max()))
    found: list[Any] = [None] * len(windows)
    lengths = corpus.source_lengths, corpus.target_lengths
    for batch in plan_batches(*lengths, source_tokens=budget, target_tokens=budget, seed=0, epoch=0):
        inputs = collate(corpus, batch, tokenizer.pad_token_id)
        output = model(**{name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")})
        rows = zip(batch.tolist(), output.start_logits.float().cpu(), output.end_logits.float().cpu(), strict=True)
        for number, starts, ends in rows:
            size = len(windows[number].places)
            found[number] = (starts[:size], ends[:size])
    return found
