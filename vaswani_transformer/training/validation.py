"""How good the model is now: perplexity, BLEU and a few sample translations."""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from ..data.batching import plan_batches
from ..data.encoding import EncodedCorpus, TokenPairs
from ..evaluation.bleu import MetricResult, score
from ..evaluation.text_scores import score_texts
from ..recipe import Recipe
from ..translation.translate import translate
from .loss import TranslationLoss, mean
from .out_of_memory import fitting
from .update import load_batch


class ValidationText(NamedTuple):
    """The first validation sentences of one target language; `language` is None if the model has only one."""

    language: str | None
    sources: list[str]
    references: list[str]


class Validator:
    """Scores the model on the validation set. One rank does it while the others wait."""

    def __init__(self, recipe: Recipe, tokenizer: PreTrainedTokenizerBase, corpus: EncodedCorpus) -> None:
        """Decode the text from `corpus`: byte-level BPE restores it exactly, so a run folder needs nothing outside itself."""
        self.recipe, self.tokenizer, self.corpus = recipe, tokenizer, corpus
        self.texts: list[ValidationText] = []
        languages = np.zeros(len(corpus)) if corpus.languages is None else corpus.languages
        for place, language in enumerate(corpus.target_languages or [None]):
            pairs = np.flatnonzero(languages == place)[: recipe.validation.sentences].tolist()
            if pairs:
                sides = zip(*map(corpus.pair, pairs), strict=True)
                texts = (tokenizer.batch_decode(list(side), skip_special_tokens=True) for side in sides)
                self.texts.append(ValidationText(language, *texts))

    def run(self, loss: TranslationLoss) -> dict[str, Any]:
        """Loss and perplexity over the whole set, BLEU and chrF over the recipe's first sentences; the model ends in training mode.

        With several target languages, BLEU and chrF are the means over the languages, whose own scores are returned too (`bleu_fr`).
        For a model with parallel heads, the loss is that of what is trained (see `TranslationLoss`), and `right_ahead` has the share of
        right proposals of the tokens 1, 2, ... k ahead, where the reference's tokens before them are known.

        Returns:
            The fields of a validation record in `log.jsonl`.

        Raises:
            MemoryError: a batch does not fit.
        """
        with fitting(
            lambda: (
                f"Validation ran out of memory in batches of {self.recipe.validation.batch_tokens} tokens (the longest sentence has "
                f"{self._longest}); lower `validation.batch_tokens` and run the same command again."
            )
        ):
            return self._run(loss)

    def _run(self, loss: TranslationLoss) -> dict[str, Any]:
        loss.eval()
        smoothed, plain, *right = self._losses(loss)
        shares = {"right_ahead": right} if right else {}
        samples: list[dict[str, str]] = []
        sides_of_a_sample = "source", "reference", "translation" if self.recipe.task == "translation" else "prediction"
        points: dict[str, dict[str, float]] = defaultdict(dict)
        for text in self.texts:
            translations = self._translate(loss, text)
            for name, value in self._points(translations, text).items():
                points[name][f"{name}_{text.language}"] = value
            columns = zip(text.sources, text.references, translations, strict=True)
            samples += [dict(zip(sides_of_a_sample, sides, strict=True)) for sides in islice(columns, self.recipe.validation.samples)]
        loss.train()
        of_each = points["bleu"] | points["chrf"] if self.recipe.target_languages else {}
        return {
            "loss": smoothed,
            "nll": plain,
            "perplexity": math.exp(min(plain, 700.0)),
            **{name: fmean(values.values()) for name, values in points.items()},
            **of_each,
            **shares,
            "samples": samples,
        }

    def _points(self, translations: list[str], text: ValidationText) -> dict[str, float]:
        """The scores of a validation record."""
        if self.recipe.task != "translation":
            found = score_texts(self.recipe.task, translations, [[reference] for reference in text.references], self.recipe.target_language)
            return {name: result.score for name, result in found.items()}
        scores = self._score(translations, text)
        return {"bleu": scores["sacrebleu"].score, "chrf": scores["chrf"].score}

    def _translate(self, loss: TranslationLoss, text: ValidationText) -> list[str]:
        settings = self.recipe.validation
        return translate(
            loss.model,
            self.tokenizer,
            text.sources,
            target_language=text.language,
            batch_tokens=settings.batch_tokens,
            num_beams=settings.num_beams,
            copy_items=None,  # a young model loses nearly every item, and each would be searched for again
        )

    def _score(self, translations: list[str], text: ValidationText) -> dict[str, MetricResult]:
        language = text.language or self.recipe.target_language
        specs = [spec for spec in self.recipe.data.validations if self.recipe.languages_of(spec)[1] == language]
        return score(
            translations,
            text.references,
            target_language=language,
            tokenized=any(spec.tokenized for spec in specs),
            lowercase=self.recipe.validation.lowercase,
        )

    @torch.inference_mode()
    def _losses(self, loss: TranslationLoss) -> list[float]:
        """The loss per target token, without smoothing that of the next token, and, with parallel heads, the shares of `right_ahead`."""
        sums = []
        for pairs in self._batches():
            ahead = list(loss.predictions(**load_batch(self.corpus, pairs, self.tokenizer.pad_token_id, loss.model.device)))
            losses = [loss.of(each) for each in ahead]
            found = [mean(losses[loss.first_trained :]).smoothed, losses[0].plain]
            counts = [] if loss.heads is None else [[int(loss.right(each)), len(each.targets)] for each in ahead]
            sums.append([*torch.stack(found).tolist(), *chain.from_iterable(counts)])
        smoothed, plain, *counted = (math.fsum(kind) for kind in zip(*sums, strict=True))
        tokens = int(self.corpus.target_lengths.sum())
        shares = [right / max(proposed, 1) for right, proposed in zip(counted[::2], counted[1::2], strict=True)]
        return [smoothed / tokens, plain / tokens, *shares]

    @property
    def scored(self) -> TokenPairs:
        """The pairs that are scored."""
        return self.corpus

    def _batches(self) -> Iterator[NDArray[np.int64]]:
        """The pairs in batches of at most `validation.batch_tokens` tokens a side; a pair with a longer side is a batch of its own."""
        budget = self.recipe.validation.batch_tokens
        lengths = self.scored.source_lengths, self.scored.target_lengths
        fits = np.maximum(*lengths) <= budget
        fitting_pairs = np.flatnonzero(fits)
        if len(fitting_pairs):
            sides = (side[fits] for side in lengths)
            for batch in plan_batches(*sides, source_tokens=budget, target_tokens=budget, seed=0, epoch=0):
                yield fitting_pairs[batch]
        yield from np.flatnonzero(~fits)[:, None]

    @property
    def _longest(self) -> int:
        """Tokens of the longest sentence of either side."""
        return int(np.maximum(self.scored.source_lengths, self.scored.target_lengths).max())
