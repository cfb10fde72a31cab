"""How good a model that marks answers is now: loss, perplexity, exact match and F1, and a few questions with their answers."""

import math
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from ..data.encoding import EncodedCorpus
from ..evaluation.answers import CutQuestions, Scores
from ..recipe import Recipe
from .loss import TranslationLoss
from .update import load_batch
from .validation import Validator


class AnswerValidator(Validator):
    """Scores the model on the whole validation set. One rank does it while the others wait."""

    def __init__(self, recipe: Recipe, tokenizer: PreTrainedTokenizerBase, corpus: EncodedCorpus) -> None:
        """Cut the contexts, whose texts stand beside the ids, as the ids were cut."""
        self.recipe, self.tokenizer, self.corpus = recipe, tokenizer, corpus
        self.asked = CutQuestions(recipe, list(corpus.texts()), tokenizer)

    def _run(self, loss: TranslationLoss) -> dict[str, Any]:
        loss.eval()
        smoothed, plain, scores = self._scored(loss)
        loss.train()
        answers = self.asked.answers(scores)
        labels = int(self.corpus.target_lengths.sum())
        chosen = range(min(self.recipe.validation.samples, len(answers)))
        return {
            "loss": smoothed / labels,
            "nll": plain / labels,
            "perplexity": math.exp(min(plain / labels, 700.0)),
            **{name: result.score for name, result in self.asked.score(answers).items()},
            "samples": list(self.asked.samples(answers, chosen)),
        }

    @torch.inference_mode()
    def _scored(self, loss: TranslationLoss) -> tuple[float, float, list[Scores]]:
        """Both losses, summed over all windows' first and last tokens, and the scores of each window."""
        sums: list[list[float]] = []
        scores: list[Any] = [None] * len(self.corpus)
        for windows in self._batches():
            (found,) = loss.predictions(**load_batch(self.corpus, windows, self.tokenizer.pad_token_id, loss.model.device))
            sums.append(torch.stack(list(loss.of(found))).tolist())
            for window, rows in zip(windows.tolist(), found.hidden.float().cpu().unflatten(0, (-1, 2)), strict=True):
                starts, ends = rows[:, : self.corpus.source_lengths[window]]
                scores[window] = (starts, ends)
        smoothed, plain = (math.fsum(kind) for kind in zip(*sums, strict=True))
        return smoothed, plain, scores
