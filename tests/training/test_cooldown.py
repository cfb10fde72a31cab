"""The learning rate falls to zero at the end, with less dropout on request, and a run can be made longer until it begins to."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vaswani_transformer.files.json_files import read_json, read_json_lines
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


def test_a_scale_of_a_half_is_half_of_every_rate(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    """All updates cool down, so a scaled run computes what one of the scaled rates does, bit for bit."""
    weights = []
    for scale in (0.5, 1.0):
        rates = {name: rate / scale for name, rate in (("dropout", 0.1), ("attention_dropout", 0.125), ("activation_dropout", 0.0625))}
        recipe = make_recipe(updates=6, cooldown_share=1.0, cooldown_dropout_scale=scale, word_dropout=0.125 / scale)
        run = RunFolder(tmp_path / f"scale_{scale}")
        train(replace(recipe, model=recipe.model | rates), run)
        weights.append((run.averaged / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_dropout_is_scaled_in_the_cooldown_alone(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    losses = []
    for scale in (1.0, 0.0):
        recipe = make_recipe(updates=8, log_every=1, cooldown_share=0.5, cooldown_dropout_scale=scale)
        run = RunFolder(tmp_path / f"scale_{scale}")
        train(replace(recipe, model=recipe.model | {"dropout": 0.3}), run)
        losses.append([record["loss"] for record in read_json_lines(run.log) if record["kind"] == "train"])
        assert read_json(run.averaged / "config.json")["dropout"] == 0.3
    assert losses[0][:4] == losses[1][:4]
    assert all(without < dropped for dropped, without in zip(losses[0][4:], losses[1][4:], strict=True))


def test_resuming_with_scaled_dropout_changes_no_bit(
    make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]
) -> None:
    recipe = make_recipe(updates=8, cooldown_share=0.5, cooldown_dropout_scale=0.5, word_dropout=0.1)
    assert_resuming_changes_no_bit(replace(recipe, model=recipe.model | {"dropout": 0.3}))


def test_dropout_is_chosen_before_the_cooldown_and_not_after(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    settings = {"cooldown_share": 0.5, "cooldown_dropout_scale": 0.5}
    train(make_recipe(updates=4), run)
    assert train(make_recipe(updates=8, **settings), run)
    with pytest.raises(ValueError, match=r"Update 8 of .* with rates of dropout times 0.5, and this recipe gives it 0.25 times; set"):
        train(make_recipe(updates=8, **{**settings, "cooldown_dropout_scale": 0.25}), run)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cooldown_dropout_scale": 1.5}, "`cooldown_dropout_scale` lowers rates of dropout, so it lies between 0 and 1, not 1.5"),
        ({"cooldown_share": 0.0}, "`cooldown_dropout_scale` is for the updates of a cooldown, and there are none"),
        ({"cooldown_dropout_scale": 0.0, "r_drop": 2.5}, "`r_drop` compares two passes with different dropout, and .* leaves none"),
    ],
)
def test_a_scale_needs_a_cooldown_and_leaves_r_drop_something(
    make_recipe: Callable[..., Recipe], settings: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(make_recipe().training, **{"cooldown_share": 0.5, "cooldown_dropout_scale": 0.5, **settings})


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_lies_between_0_and_1(make_recipe: Callable[..., Recipe], share: float) -> None:
    settings = make_recipe().training
    with pytest.raises(ValueError, match="`cooldown_share` is a share of all updates, from 0 to 1, not"):
        replace(settings, cooldown_share=share)
