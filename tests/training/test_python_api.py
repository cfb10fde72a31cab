"""One function trains, in a program or a notebook, as often as it is called."""

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import pipeline

import vaswani_transformer
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.packing import has_bfloat16
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training import engine

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def recipe_file(make_recipe: MakeRecipe, tmp_path: Path) -> Path:
    path = tmp_path / "numbers.yaml"
    path.write_text(make_recipe(updates=4).to_yaml(), encoding="utf-8")
    return path


def test_two_trainings_in_one_process(recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second in another precision, which Accelerate would refuse."""
    monkeypatch.chdir(tmp_path)
    first = vaswani_transformer.train(recipe_file)
    assert first == Path("runs/numbers/averaged")
    second = vaswani_transformer.train(str(recipe_file), tmp_path / "second", ["training.precision=bfloat16", "training.updates=2"])
    assert second == tmp_path / "second" / "averaged"
    assert [read_json(folder.parent / "training.json")["precision"] for folder in (first, second)] == [
        "float32",
        "bfloat16" if has_bfloat16() else "float32",
    ]
    assert pipeline("translation", model=str(second))("nine one")[0].keys() == {"translation_text"}


def test_a_training_that_was_stopped_is_resumed_by_the_same_call(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe()
    with monkeypatch.context() as patch:
        patch.setattr(engine.Training, "go_on", lambda training: False)
        assert vaswani_transformer.train(recipe, tmp_path / "run") is None
    assert vaswani_transformer.train(recipe, tmp_path / "run") == tmp_path / "run" / "averaged"


def test_an_error_leaves_the_next_training_free(make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine, "prepare_data", lambda *arguments, **settings: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            vaswani_transformer.train(make_recipe(), tmp_path / "run")
    assert vaswani_transformer.train(make_recipe(updates=2, precision="bfloat16"), tmp_path / "other") is not None


def test_mistakes_are_sentences(make_recipe: MakeRecipe) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no recipe file bultin_tiny, .* did you mean builtin_tiny"):
        vaswani_transformer.train("bultin_tiny")
    with pytest.raises(ValueError, match=r"`overrides` change a recipe's file; for a `Recipe`, use `dataclasses\.replace`"):
        vaswani_transformer.train(make_recipe(), overrides=["training.updates=2"])
