"""How well a model undoes noise now: loss, perplexity and the share of right tokens, each where those before it are known."""

import math
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ..data.encoding import EncodedCorpus, TokenPairs
from ..data.noise import NoisedCorpus
from ..evaluation.noise_scores import text_with_masks
from ..recipe import Recipe
from .loss import TranslationLoss
from .update import load_batch
from .validation import Validator


class NoiseValidator(Validator):
    """Scores the model on the validation set, with the same noise at every validation."""

    def __init__(self, recipe: Recipe, tokenizer: PreTrainedTokenizerBase, corpus: EncodedCorpus) -> None:
        """Draw the noise, with the recipe's seed and as in the first epoch."""
        self.recipe, self.tokenizer = recipe, tokenizer
        self.noised = NoisedCorpus(corpus, tokenizer, recipe.noise, recipe.training.seed).pairs(np.arange(len(corpus)), 0)

    @property
    def scored(self) -> TokenPairs:
        """The noised texts."""
        return self.noised

    @torch.inference_mode()
    def _run(self, loss: TranslationLoss) -> dict[str, Any]:
        loss.eval()
        sums: list[list[float]] = []
        for pairs in self._batches():
            found = next(iter(loss.predictions(**load_batch(self.noised, pairs, self.tokenizer.pad_token_id, loss.model.device))))
            sums.append([*torch.stack(list(loss.of(found))).tolist(), int(loss.right(found))])
        samples = self._samples(loss)
        loss.train()
        smoothed, plain, right = (math.fsum(kind) for kind in zip(*sums, strict=True))
        tokens = int(self.noised.target_lengths.sum())
        return {
            "loss": smoothed / tokens,
            "nll": plain / tokens,
            "perplexity": math.exp(min(plain / tokens, 700.0)),
            "accuracy": 100 * right / tokens,
            "samples": samples,
        }

    def _samples(self, loss: TranslationLoss) -> list[dict[str, str]]:
        samples = []
        for pair in range(min(self.recipe.validation.samples, len(self.noised))):
            batch = load_batch(self.noised, np.array([pair]), self.tokenizer.pad_token_id, loss.model.device)
            found = next(iter(loss.predictions(**batch)))
            sides = {"source": self.noised.source[pair], "reference": found.targets.cpu(), "prediction": loss.likeliest(found).cpu()}
            samples.append({name: text_with_masks(np.asarray(ids).tolist(), self.tokenizer) for name, ids in sides.items()})
        return samples
