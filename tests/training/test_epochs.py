"""A training that is told in epochs is the training of as many updates."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.engine import train


def in_epochs(recipe: Recipe, epochs: float) -> Recipe:
    return replace(recipe, training=replace(recipe.training, updates=None, epochs=epochs))


def test_epochs_are_turned_into_updates(make_recipe: Callable[..., Recipe], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, counted = RunFolder(tmp_path / "told"), RunFolder(tmp_path / "counted")
    assert train(in_epochs(make_recipe(), 1.5), told)
    output = capsys.readouterr()
    facts = read_json(told.training)
    updates = facts["updates"]
    assert facts["epochs"] >= 1.5 and facts["planned_updates"] == updates
    assert f"1.5 epochs are {updates} updates" in output.out + output.err
    assert train(make_recipe(updates=updates), counted)
    weights = [(run.averaged / "model.safetensors").read_bytes() for run in (told, counted)]
    assert weights[0] == weights[1]
    recipe = load_recipe(told.recipe, in_run_folder=True)
    assert (recipe.training.epochs, recipe.training.updates) == (1.5, None)
    with pytest.raises(ValueError, match=r"How many updates 1\.5 epochs are is known once"):
        _ = recipe.training.total_updates


def test_resuming_in_epochs_changes_no_bit(
    make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None], tmp_path: Path
) -> None:
    probe = RunFolder(tmp_path / "probe")
    train(make_recipe(updates=8), probe)
    epochs = read_json(probe.training)["epochs"]
    assert_resuming_changes_no_bit(in_epochs(make_recipe(), epochs - 0.001))
