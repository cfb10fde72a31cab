"""`vaswani train` finds the recipe, applies the overrides, and its status says how the training ended."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import engine

Started = list[tuple[Recipe, RunFolder]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """What the trainings were asked for; they are complete at once."""
    asked: Started = []

    def train(recipe: Recipe, run: RunFolder) -> bool:
        asked.append((recipe, run))
        return True

    monkeypatch.setattr(engine, "train", train)
    return asked


def test_a_recipe_is_trained_by_its_name(started: Started) -> None:
    told = CliRunner().invoke(app, ["train", "builtin_tiny", "--set", "training.updates=7", "--set", "name=seven"])
    assert told.exit_code == 0, told.stderr
    (recipe, run) = started[0]
    assert (recipe.training.updates, run.path) == (7, Path("runs/seven"))


def test_the_run_folder_may_be_elsewhere(started: Started, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["train", "builtin_tiny", "--run-folder", str(tmp_path / "here")]).exit_code == 0
    assert started[0][1].path == tmp_path / "here"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["builtin_tiny", "--set", "training.update=3"], "did you mean `updates`?"),
        (["builtin_tiny", "--set", "training.updates"], "An override reads key=value"),
        (["nothing.yaml"], "There is no recipe file nothing.yaml"),
    ],
)
def test_a_mistake_is_told_before_anything_starts(words: list[str], sentence: str, started: Started) -> None:
    told = CliRunner().invoke(app, ["train", *words])
    assert told.exit_code == 1 and not started
    assert told.stderr.startswith("error: ") and sentence in told.stderr and told.stderr.count("\n") == 1


def raise_interrupt(*arguments: Any) -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (lambda *arguments: False, ""),
        (raise_interrupt, "Stopped; the same command resumes from what has been saved.\n"),
    ],
)
def test_a_stopped_training_ends_with_130(train: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "train", train)
    told = CliRunner().invoke(app, ["train", "builtin_tiny"])
    assert (told.exit_code, told.stderr) == (130, said)


class InterruptedAtItsEnd:
    """Ctrl-C comes while Python destroys it; what a destructor raises is lost."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def interrupt_in_a_destructor(*arguments: Any) -> bool:
    InterruptedAtItsEnd()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.01)
    return True


def test_an_interrupt_is_not_lost_in_a_destructor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "train", interrupt_in_a_destructor)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background begins with SIGINT ignored
    hook = sys.unraisablehook
    try:
        told = CliRunner().invoke(app, ["train", "builtin_tiny"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert (told.exit_code, told.stderr) == (130, "Stopped; the same command resumes from what has been saved.\n")
    assert sys.unraisablehook is hook


@pytest.mark.parametrize("error", [FloatingPointError("The loss is not finite."), MemoryError("Update 3 ran out of memory.")])
def test_what_ends_a_training_is_one_line(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> bool:
        raise error

    monkeypatch.setattr(engine, "train", fail)
    told = CliRunner().invoke(app, ["train", "builtin_tiny"])
    assert (told.exit_code, told.stderr) == (1, f"error: {error}\n")
