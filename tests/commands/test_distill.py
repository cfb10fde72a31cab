"""`vaswani distill` is `vaswani train` with the keys of the recipe that its options name."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.recipe import DistillationSettings, Recipe, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.training import engine

Started = list[tuple[str, Recipe, RunFolder]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """What was asked for; everything is complete at once."""
    asked: Started = []

    def train(recipe: Recipe, run: RunFolder) -> bool:
        asked.append(("train", recipe, run))
        return True

    monkeypatch.setattr(engine, "train", train)
    monkeypatch.setattr(engine, "translate_sources", lambda recipe, run: asked.append(("translate", recipe, run)))
    return asked


def asked_for(words: list[str], started: Started) -> tuple[str, Recipe, RunFolder]:
    told = CliRunner().invoke(app, ["distill", "builtin_tiny", *words])
    assert told.exit_code == 0, told.stderr
    return started[-1]


def test_the_options_are_keys_of_the_recipe(started: Started) -> None:
    words = ["--teacher", "runs/t: 1/averaged", "--best", "5", "--closest", "--keep-original", "--num-beams", "6", "--dtype", "int8"]
    stage, recipe, run = asked_for([*words, "--set", "training.updates=7"], started)
    assert (stage, recipe.training.updates, run.path) == ("train", 7, Path("runs/builtin_tiny"))
    assert recipe.data.distillation == DistillationSettings("runs/t: 1/averaged", 6, 5, True, True, "int8")


def test_what_is_not_said_is_the_recipes(started: Started, tmp_path: Path) -> None:
    recipe = load_recipe(find_recipe("builtin_tiny"))
    settings = DistillationSettings("other", best=3, closest=True, keep_original=True)
    file = tmp_path / "student.yaml"
    file.write_text(replace(recipe, data=replace(recipe.data, distillation=settings)).to_yaml(), encoding="utf-8")
    told = CliRunner().invoke(app, ["distill", str(file), "--teacher", "mine"])
    assert told.exit_code == 0, told.stderr
    assert started[-1][1].data.distillation == replace(settings, teacher="mine")


def test_the_recipe_of_a_run_without_a_teacher_may_get_one(started: Started, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(load_recipe(find_recipe("builtin_tiny")).to_yaml(), encoding="utf-8")  # it says `distillation: null`
    assert CliRunner().invoke(app, ["distill", str(file), "--teacher", "mine"]).exit_code == 0
    assert started[-1][1].data.distillation == DistillationSettings("mine")


def test_the_training_may_come_later(started: Started, tmp_path: Path) -> None:
    stage, recipe, run = asked_for(["--teacher", "mine", "--only-translate", "--run-folder", str(tmp_path)], started)
    assert stage == "translate" and recipe.data.distillation == DistillationSettings("mine") and run.path == tmp_path


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ([], 2, "Missing option '--teacher'"),
        (["--teacher", "mine", "--closest"], 1, "`closest` chooses among several candidates"),
        (["--teacher", "mine", "--best", "3", "--num-beams", "2"], 1, "the 3 best candidates need as many beams"),
    ],
)
def test_a_mistake_is_told_before_anything_starts(words: list[str], status: int, sentence: str, started: Started) -> None:
    told = CliRunner().invoke(app, ["distill", "builtin_tiny", *words])
    assert told.exit_code == status and not started
    assert sentence in told.stderr and told.stderr.count("\n") == 1
