"""A rehearsal tells what the training then does, and leaves nothing behind."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import DistillationSettings, Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import rehearsal
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.rehearsal import Rehearsal, describe, rehearse


def test_a_rehearsal_finds_what_the_training_does(make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path) -> None:
    recipe = make_recipe({"max_sentence_tokens": 12}, updates=8)
    before = sorted(corpus.iterdir())
    found = rehearse(recipe, updates=3)
    assert sorted(corpus.iterdir()) == before
    assert train(recipe, run)
    facts, cleaning = read_json(run.training), read_json(run.cleaning)
    assert found.cleaning == cleaning
    assert (found.updates, found.parameters) == (8, facts["parameters"])
    assert found.updates_an_epoch == next(n for n in range(1, 99) if n * facts["epochs"] / 8 >= 1 - 1e-6)
    assert found.source_lengths.sum() == cleaning["tokenizer"]["source_tokens"]
    assert 0 < found.seconds < 60 and found.memory > 2**20
    page = describe(found)
    assert f"train        {corpus}/train.en, {corpus}/train.de" in page
    assert f"Of 60 training pairs {cleaning['kept']} are trained on" in page
    assert "a side has more tokens than batching.max_sentence_tokens" in page
    assert f"8 updates, {found.updates_an_epoch} an epoch" in page


@pytest.mark.parametrize(
    ("chosen", "pairs"),
    [({}, 1), ({"best": 2}, 2), ({"best": 2, "keep_original": True}, 3), ({"best": 2, "closest": True, "keep_original": True}, 2)],
)
def test_a_teachers_pairs_make_an_epoch_longer(
    make_recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any], pairs: int
) -> None:
    """Three epochs of the pairs that a teacher makes of each source are as many more of the original ones."""
    monkeypatch.setattr(rehearsal, "time_teacher", lambda recipe, sources: 2.0)

    def rehearsed(with_teacher: bool, **length: Any) -> Rehearsal:
        recipe = make_recipe(**length)
        settings = DistillationSettings("teacher", **chosen) if with_teacher else None
        return rehearse(replace(recipe, data=replace(recipe.data, distillation=settings)), updates=1)

    taught, plain = rehearsed(True, updates=None, epochs=3), rehearsed(False, updates=None, epochs=3 * pairs)
    assert taught.updates == plain.updates
    epoch = rehearsed(False, updates=None, epochs=pairs).updates
    assert taught.updates_an_epoch == epoch
    assert (found := rehearsed(True, updates=8)).updates == 8 and found.updates_an_epoch == epoch
    page = describe(taught)
    assert (f"It trains on {pairs} pairs of each source, about {pairs * 60} in all;\n  this is an estimate" in page) == (pairs > 1)


def test_lengths_and_times_are_those_of_the_numbers(make_recipe: Callable[..., Recipe]) -> None:
    found = rehearse(make_recipe(), updates=2)
    lengths = np.arange(1, 101, dtype=np.int32)
    known = replace(
        found, source_lengths=lengths, target_lengths=lengths, updates=10_000, updates_an_epoch=400, seconds=1.5, memory=3 * 2**20
    )
    page = describe(known)
    assert "source         51       91      100      100" in page
    assert "10,000 updates, 400 an epoch: 25.0 epochs" in page
    assert "1.50 s an update, 4 h 10 min in all" in page
    assert "3 MiB of memory" in page
