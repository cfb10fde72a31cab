"""Validation scores the text that came in, and leaves the model as it was."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from vaswani_transformer.data.batching import collate
from vaswani_transformer.recipe import Recipe, ValidationSettings
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.loss import TranslationLoss
from vaswani_transformer.training.preparation import prepare_data
from vaswani_transformer.training.validation import Validator


def test_scores_and_samples(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = replace(make_recipe(), validation=ValidationSettings(sentences=3, samples=2))
    data = prepare_data(recipe, run)
    loss = TranslationLoss(build_model(recipe, len(data.tokenizer), torch.device("cpu")), 0.1)
    validator = Validator(recipe, data.tokenizer, data.validation)
    assert validator.texts[0].sources == ["nine one zero", "nine two seven", "nine four four"]
    assert validator.texts[0].references == ["neun eins null", "neun zwei sieben", "neun vier vier"]
    record = validator.run(loss)
    assert [sample["reference"] for sample in record["samples"]] == validator.texts[0].references[:2]
    assert record["perplexity"] == pytest.approx(math.exp(record["nll"]))
    assert loss.training and loss.model.training
    batch = collate(data.validation, range(4), 0)
    with torch.no_grad():
        logits = loss.model.eval()(**batch).logits
    for key, smoothing in (("nll", 0.0), ("loss", 0.1)):  # over all four pairs, not the first three
        expected = functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=smoothing)
        assert record[key] == pytest.approx(expected.item(), rel=1e-5)


def test_a_perfect_model_scores_100(make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = make_recipe()
    data = prepare_data(recipe, run)
    loss = TranslationLoss(build_model(recipe, len(data.tokenizer), torch.device("cpu")), 0.1)
    validator = Validator(recipe, data.tokenizer, data.validation)
    monkeypatch.setattr(
        "vaswani_transformer.training.validation.translate",
        lambda *arguments, **settings: validator.texts[0].references,
    )
    record = validator.run(loss)
    assert record["chrf"] == pytest.approx(100)


def test_pairs_longer_than_a_batch_count_and_go_alone(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    """Scores do not depend on how much fits into memory."""
    records = []
    for batch_tokens in (4096, 15, 1):
        recipe = replace(make_recipe(), validation=ValidationSettings(batch_tokens=batch_tokens))
        data = prepare_data(recipe, run)
        loss = TranslationLoss(build_model(recipe, len(data.tokenizer), torch.device("cpu")), 0.1)
        validator = Validator(recipe, data.tokenizer, data.validation)
        batches = [batch.tolist() for batch in validator._batches()]
        assert sorted(pair for batch in batches for pair in batch) == [0, 1, 2, 3]
        records.append((len(batches), validator.run(loss)))
    (most, record), (some, fewer), (each, least) = records
    assert most == 1 < some <= each == 4
    for other in (fewer, least):
        assert other["nll"] == pytest.approx(record["nll"], rel=1e-6)
        assert other["samples"] == record["samples"]
