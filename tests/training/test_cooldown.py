"""The learning rate falls to zero at the end, and a run can be made longer until it begins to."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vaswani_transformer.files.json_files import read_json_lines
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.optimization import cooldown, learning_rate


@pytest.mark.parametrize(("update", "expected"), [(1, 1.0), (7, 1.0), (8, 0.75), (9, 0.5), (10, 0.25)])
def test_the_last_three_of_ten_updates_by_hand(update: int, expected: float) -> None:
    assert cooldown(update, updates=10, share=0.3) == expected


def test_the_papers_schedule_has_no_cooldown() -> None:
    assert {cooldown(update, updates=10, share=0.0) for update in range(1, 20)} == {1.0}


def test_training_multiplies_equation_3(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = make_recipe(updates=8, log_every=1, cooldown_share=0.5)
    run = RunFolder(tmp_path / "run")
    train(recipe, run)
    rates = [record["learning_rate"] for record in read_json_lines(run.log) if record["kind"] == "train"]
    settings = recipe.training
    papers = [
        learning_rate(update, recipe.model["d_model"], settings.warmup_updates, settings.learning_rate_scale) for update in range(1, 9)
    ]
    assert rates[:4] == papers[:4]
    assert [ours / equation_3 for ours, equation_3 in zip(rates, papers, strict=True)][4:] == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_resuming_inside_the_cooldown_changes_no_bit(
    make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]
) -> None:
    assert_resuming_changes_no_bit(make_recipe(updates=8, cooldown_share=0.9))


def test_a_run_is_made_longer_before_its_cooldown_and_not_after(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    whole, grown = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "grown")
    train(make_recipe(updates=8, cooldown_share=0.5), whole)
    train(make_recipe(updates=4), grown)
    assert train(make_recipe(updates=8, cooldown_share=0.5), grown)
    weights = [(run.averaged / "model.safetensors").read_bytes() for run in (whole, grown)]
    assert weights[0] == weights[1]
    with pytest.raises(ValueError, match=r"Update 8 of .* was done with a learning rate of .*, and this recipe gives it .*; set"):
        train(make_recipe(updates=12, cooldown_share=0.5), grown)
    assert train(make_recipe(updates=8, cooldown_share=0.5), grown)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_lies_between_0_and_1(make_recipe: Callable[..., Recipe], share: float) -> None:
    settings = make_recipe().training
    with pytest.raises(ValueError, match="`cooldown_share` is a share of all updates, from 0 to 1, not"):
        replace(settings, cooldown_share=share)
