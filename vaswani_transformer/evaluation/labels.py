"""Measure a model that gives labels on test sets, for `evaluation.json`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.batching import collate, plan_batches
from ..data.encoding import TokenPairs, TokenSequences
from ..data.examples import LabelledTexts, check_lengths, examples_of, with_labels
from ..data.sources.corpus import Corpus
from ..recipe import Recipe
from ..translation.loading import load_labelling
from .bleu import MetricResult
from .label_scores import require_scorers, score_labels
from .outcomes import Outcomes, shares


class LabelScores(NamedTuple):
    """The scores of some texts, how many labels they have, and both sides as text."""

    labels: int
    seconds: float
    texts: list[str]
    references: list[str]
    predictions: list[str]
    metrics: dict[str, MetricResult]
    outcomes: Outcomes


def score_test_sets(recipe: Recipe, folder: Path, test_sets: Mapping[str, Corpus]) -> tuple[PreTrainedModel, dict[str, LabelScores]]:
    """Label and score some corpora with a model on disk.

    Args:
        recipe: the run's; names the task, the columns of a table and how many tokens a batch has.
        folder: of the model.
        test_sets: the corpora by name.

    Returns:
        The model, and the scores of each test set by its name.

    Raises:
        ImportError: a package that scores the task is not installed.
        FileNotFoundError: a file of a test set is missing.
        ValueError: the model is damaged, or a test set cannot be read or has a label that the model does not know.
    """
    require_scorers(recipe.task)
    model, tokenizer, _ = load_labelling(str(folder))
    labels = tuple(model.config.id2label[number] for number in range(model.config.num_labels))
    examples = examples_of(recipe, labels)
    assert isinstance(examples, LabelledTexts)
    return model, {name: _scored(recipe, model, tokenizer, examples, corpus) for name, corpus in test_sets.items()}


def _scored(
    recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, examples: LabelledTexts, corpus: Corpus
) -> LabelScores:
    pairs = list(with_labels(corpus.pairs(recipe.data.root, recipe.columns_of(corpus))))
    started = time.perf_counter()
    sources, targets = examples.ids(pairs, tokenizer)
    check_lengths(pairs, sources, model.config.most_positions)
    found = predict_labels(model, tokenizer, sources, targets, recipe.validation.batch_tokens)
    seconds = round(time.perf_counter() - started, 3)
    count = len(examples.labels)
    references, predictions = ([[examples.labels[n % count] for n in numbers] for numbers in side] for side in (targets, found))
    scores = score_labels(recipe.task, examples.labels, references, predictions)
    return LabelScores(
        labels=sum(map(len, references)),
        seconds=seconds,
        texts=[examples.text(pair) for pair in pairs],
        references=[" ".join(each) for each in references],
        predictions=[" ".join(each) for each in predictions],
        metrics=scores,
        outcomes=shares("accuracy", references, predictions),
    )


@torch.inference_mode()
def predict_labels(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    batch_tokens: int,
) -> list[list[int]]:
    """The numbers of the likeliest labels of each text.

    Args:
        model: with a score for each label of a text, `logits` [B, C], or of a token, [B, S, C].
        tokenizer: gives the id of padding.
        sources: ids of n texts.
        targets: n sequences as `data.examples` has them; of a word, only its place is looked at.
        batch_tokens: most tokens of a batch, padding included; a longer text is a batch of its own.
    """
    corpus = TokenPairs(TokenSequences.of(sources, "int64"), TokenSequences.of(targets, "int64"))
    budget = max(batch_tokens, int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    found: list[list[int]] = [[] for _ in sources]
    model.eval()
    for batch in _batches(corpus, budget):
        inputs = collate(corpus, batch, tokenizer.pad_token_id)
        logits = model(input_ids=inputs["input_ids"].to(model.device), attention_mask=inputs["attention_mask"].to(model.device)).logits
        likeliest = logits.argmax(-1).tolist()
        for row, pair in enumerate(batch.tolist()):
            numbers = likeliest[row]
            is_text = isinstance(numbers, int)
            found[pair] = [numbers] if is_text else [numbers[target // model.config.num_labels] for target in targets[pair]]
    return found


def _batches(corpus: TokenPairs, budget: int) -> Iterator[NDArray[Any]]:
    lengths = corpus.source_lengths, corpus.target_lengths
    yield from plan_batches(*lengths, source_tokens=budget, target_tokens=budget, seed=0, epoch=0)
