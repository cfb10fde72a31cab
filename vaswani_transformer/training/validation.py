"""How good the model is right now: perplexity, BLEU and a few translations to look at."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from ..data.batching import plan_batches
from ..data.encoding import EncodedCorpus
from ..evaluation.bleu import score
from ..recipe import Recipe
from ..translation.translate import translate
from .loss import TranslationLoss
from .update import load_batch


class Validator:
    """Scores the model on the validation set. One rank does it while the others wait."""

    def __init__(self, recipe: Recipe, tokenizer: PreTrainedTokenizerBase, corpus: EncodedCorpus) -> None:
        """The text is decoded from `corpus`: byte-level BPE gives back what it was given, and a run folder needs nothing outside itself."""
        self.recipe, self.tokenizer, self.corpus = recipe, tokenizer, corpus
        count = min(len(corpus), recipe.validation.sentences or len(corpus))
        sides = zip(*(corpus.pair(i) for i in range(count)), strict=True)
        self.sources, self.references = (
            tokenizer.batch_decode(list(side), skip_special_tokens=True) for side in sides
        )

    def run(self, loss: TranslationLoss) -> dict[str, Any]:
        """Loss and perplexity over the whole set, BLEU and chrF over the recipe's first sentences; the model ends in training mode.

        Returns:
            The fields of a validation record in `log.jsonl`.
        """
        loss.eval()
        smoothed, plain = self._losses(loss)
        settings = self.recipe.validation
        translations = translate(
            loss.model,
            self.tokenizer,
            self.sources,
            batch_tokens=settings.batch_tokens,
            num_beams=settings.num_beams,
        )
        scores = score(
            translations,
            self.references,
            target_language=self.recipe.target_language,
            tokenized=self.recipe.data.validation.tokenized,
            lowercase=settings.lowercase,
        )
        loss.train()
        return {
            "loss": smoothed,
            "nll": plain,
            "perplexity": math.exp(min(plain, 700.0)),
            "bleu": scores["sacrebleu"].score,
            "chrf": scores["chrf"].score,
            "samples": list(self._samples(translations)),
        }

    @torch.inference_mode()
    def _losses(self, loss: TranslationLoss) -> tuple[float, float]:
        """Smoothed and plain loss per target token."""
        lengths = self.corpus.source_lengths, self.corpus.target_lengths
        batch_tokens = max(self.recipe.validation.batch_tokens, *(int(side.max()) for side in lengths))
        plan = plan_batches(*lengths, source_tokens=batch_tokens, target_tokens=batch_tokens, seed=0, epoch=0)
        sums = [
            torch.stack(
                loss(**load_batch(self.corpus, pairs, self.tokenizer.pad_token_id, loss.model.device))
            ).tolist()
            for pairs in plan
        ]
        tokens = int(lengths[1].sum())
        smoothed, plain = (math.fsum(kind) / tokens for kind in zip(*sums, strict=True))
        return smoothed, plain

    def _samples(self, translations: list[str]) -> Iterator[dict[str, str]]:
        wanted = min(self.recipe.validation.samples, len(translations))
        for i in range(wanted):
            yield {"source": self.sources[i], "reference": self.references[i], "translation": translations[i]}
