"""The scores of `bleu` as a metric object of the `evaluate` library, for people who train with transformers' `Seq2SeqTrainer`.

`evaluate.load("sacrebleu")` downloads code, so it fails offline, and it drops the signature; this one does neither. It is a separate module
because importing `evaluate` takes seconds, which our own training can avoid.
"""

from collections.abc import Callable
from typing import Any

import datasets
import evaluate
import numpy as np
from transformers import EvalPrediction, PreTrainedTokenizerBase

from .bleu import score

_DESCRIPTION = "sacreBLEU, chrF and the BLEU of the paper (compounds split at hyphens), each with its signature."


class TranslationMetric(evaluate.Metric):
    """`TranslationMetric("de").compute(predictions=[...], references=[...])` gives scores and signatures, with one reference a sentence.

    Args:
        target_language: code such as `de`; chooses the tokenisers.
        tokenized: the text is already split into tokens by spaces, so it is scored as it stands.
        lowercase: ignore case.
    """

    def __init__(self, target_language: str, *, tokenized: bool = False, lowercase: bool = False) -> None:
        self.settings: dict[str, Any] = {
            "target_language": target_language,
            "tokenized": tokenized,
            "lowercase": lowercase,
        }
        super().__init__(keep_in_memory=True)

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description="predictions: list of str; references: list of str, one for each prediction",
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        results = score(predictions, references, **self.settings)
        scores = {name: result.score for name, result in results.items()}
        return scores | {f"{name}_signature": result.signature for name, result in results.items()}

    def for_trainer(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[EvalPrediction], dict[str, float]]:
        """A `compute_metrics` for `Seq2SeqTrainer(..., args=Seq2SeqTrainingArguments(predict_with_generate=True))`."""

        def compute_metrics(evaluated: EvalPrediction) -> dict[str, float]:
            sides = [_decode(tokenizer, ids) for ids in (evaluated.predictions, evaluated.label_ids)]
            results = self.compute(predictions=sides[0], references=sides[1])
            return {name: value for name, value in results.items() if isinstance(value, float)}

        return compute_metrics


def _decode(tokenizer: PreTrainedTokenizerBase, ids: Any) -> list[str]:
    """Text of the rows of `ids`, which the trainer has padded with -100."""
    return tokenizer.batch_decode(np.where(np.asarray(ids) < 0, tokenizer.pad_token_id, ids), skip_special_tokens=True)
