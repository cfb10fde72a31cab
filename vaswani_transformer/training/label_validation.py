"""How good a model that gives labels is now: loss, perplexity, the scores of the task and a few texts with their labels."""

import math
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from ..data.encoding import EncodedCorpus
from ..evaluation.label_scores import metrics_of, score_labels
from ..recipe import Recipe
from .loss import TranslationLoss
from .update import load_batch
from .validation import Validator


class LabelValidator(Validator):
    """Scores the model on the whole validation set. One rank does it while the others wait."""

    def __init__(self, recipe: Recipe, tokenizer: PreTrainedTokenizerBase, corpus: EncodedCorpus) -> None:
        """Refuse, with a `ValueError`, to rank checkpoints by a score that these labels do not get."""
        self.recipe, self.tokenizer, self.corpus = recipe, tokenizer, corpus
        metric, known = recipe.training.best_checkpoint_metric, metrics_of(recipe.task, corpus.labels)
        if metric not in ("loss", *known):
            raise ValueError(
                f"`training.best_checkpoint_metric: {metric}` is for labels such as `B-person` and `O`; these are "
                f"{', '.join(corpus.labels[:5])}, so set it to {' or '.join(known)}."
            )
        self.references = [self._names(corpus.target[pair]) for pair in range(len(corpus))]

    def _run(self, loss: TranslationLoss) -> dict[str, Any]:
        loss.eval()
        smoothed, plain, predictions = self._predicted(loss)
        loss.train()
        scores = score_labels(self.recipe.task, self.corpus.labels, self.references, predictions)
        labels = int(self.corpus.target_lengths.sum())
        return {
            "loss": smoothed / labels,
            "nll": plain / labels,
            "perplexity": math.exp(min(plain / labels, 700.0)),
            **{name: result.score for name, result in scores.items()},
            "samples": self._samples(predictions),
        }

    @torch.inference_mode()
    def _predicted(self, loss: TranslationLoss) -> tuple[float, float, list[list[str]]]:
        """Both losses, summed over all labels, and the labels of each text."""
        sums: list[list[float]] = []
        predictions: list[list[str]] = [[] for _ in range(len(self.corpus))]
        for pairs in self._batches():
            (found,) = loss.predictions(**load_batch(self.corpus, pairs, self.tokenizer.pad_token_id, loss.model.device))
            sums.append(torch.stack(list(loss.of(found))).tolist())
            ends = np.cumsum(self.corpus.target_lengths[pairs])
            for pair, numbers in zip(pairs.tolist(), np.split(loss.likeliest(found).cpu().numpy(), ends[:-1]), strict=True):
                predictions[pair] = self._names(numbers)
        smoothed, plain = (math.fsum(kind) for kind in zip(*sums, strict=True))
        return smoothed, plain, predictions

    def _names(self, numbers: NDArray[Any]) -> list[str]:
        """The names of labels; of a word, its place is part of the number."""
        return [self.corpus.labels[number] for number in (numbers % len(self.corpus.labels)).tolist()]

    def _samples(self, predictions: list[list[str]]) -> list[dict[str, str]]:
        columns = zip(self.corpus.source, self.references, predictions, strict=True)
        return [
            {
                "source": self.tokenizer.decode(ids.tolist(), skip_special_tokens=True),
                "reference": " ".join(right),
                "prediction": " ".join(found),
            }
            for ids, right, found in islice(columns, self.recipe.validation.samples)
        ]
