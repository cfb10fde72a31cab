"""A linear model of words and pairs of words: what a task needs no Transformer for."""

import time
from collections.abc import Sequence
from importlib.metadata import version
from statistics import fmean
from typing import Any

from benchmarks.report import Row
from vaswani_transformer.data.examples import labels_in
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.evaluation.bleu import MetricResult
from vaswani_transformer.evaluation.label_scores import score_labels
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.corpora import read_pairs

LINEAR = "linear"
_STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Inverse strengths of the regularisation, scikit-learn's C; the validation set chooses."""

_WORDS_AND_MARKS = r"\w+|[^\w\s]"


def fits(recipe: Recipe) -> bool:
    """Whether a recipe's texts have one label each."""
    return recipe.task == "classification"


def train_linear(recipe: Recipe, pairs: Sequence[SentencePair], metric: str) -> Row:
    """Fit a logistic regression to the TF-IDF of words and pairs of words, by scikit-learn, and score it.

    Args:
        recipe: of the task; names the validation and test sets.
        pairs: texts with their labels, to fit.
        metric: of the validation set, that chooses the regularisation.

    Returns:
        What `benchmarks.transfer` keeps of a run; without FLOPs, since nothing counts them here.

    Raises:
        FileNotFoundError: a corpus is missing.
        ValueError: a corpus cannot be read, or all of `pairs` have one label.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    started = time.perf_counter()
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORDS_AND_MARKS)
    features, labels = words.fit_transform([pair.source for pair in pairs]), [labels_in(pair)[0] for pair in pairs]

    def scores(model: Any, texts: Sequence[SentencePair]) -> dict[str, MetricResult]:
        predictions = [[label] for label in model.predict(words.transform([pair.source for pair in texts]))]
        return score_labels(recipe.task, model.classes_, [labels_in(pair) for pair in texts], predictions)

    held_out = list(read_pairs(recipe, recipe.data.validations))
    models = [LogisticRegression(C=strength, max_iter=2000).fit(features, labels) for strength in _STRENGTHS]
    validation = [scores(model, held_out)[metric].score for model in models]
    best = validation.index(max(validation))
    found = {name: scores(models[best], list(read_pairs(recipe, (corpus,)))) for name, corpus in recipe.data.test.items()}
    tests = {name: {key: each.score for key, each in own.items()} for name, own in found.items()}
    return {
        "kept": len(pairs),
        "chosen": {"C": _STRENGTHS[best]},
        "validation": validation[best],
        "scores": {key: fmean(each[key] for each in tests.values()) for key in next(iter(tests.values()))},
        "signatures": {key: each.signature for key, each in next(iter(found.values())).items()},
        "test_sets": tests,
        "parameters": int(models[best].coef_.size + models[best].intercept_.size),
        "seconds": time.perf_counter() - started,
        "versions": {"scikit-learn": version("scikit-learn")},
    }
