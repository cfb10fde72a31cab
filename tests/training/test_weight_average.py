"""The moving average by hand, what it does not disturb, and where it ends up."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from vaswani_transformer.files.json_files import read_json, read_json_lines
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.loss import TranslationLoss
from vaswani_transformer.training.preparation import open_prepared_data
from vaswani_transformer.training.validation import Validator
from vaswani_transformer.training.weight_average import WeightAverage


def _averaged(values: list[float], decay: float) -> tuple[nn.Linear, WeightAverage]:
    layer = nn.Linear(1, 1, bias=False).double()
    average = WeightAverage(layer, decay)
    for update, value in enumerate(values, start=1):
        nn.init.constant_(layer.weight, value)
        average.add(update)
    return layer, average


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),  # the weights before the first update have no part in it
        ([1.0, 4.0], 3.0),  # (1/2 * 1 + 4) / (1/2 + 1)
        ([1.0, 2.0, 4.0], 3.0),  # (1/4 * 1 + 1/2 * 2 + 4) / (1/4 + 1/2 + 1)
    ],
)
def test_the_mean_by_hand(values: list[float], expected: float) -> None:
    _, average = _averaged(values, decay=0.5)
    assert average.means["weight"].item() == pytest.approx(expected, rel=1e-15)


def test_many_updates_follow_the_closed_form() -> None:
    values = torch.randn(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, average = _averaged(values.tolist(), decay=0.99)
    factors = 0.99 ** torch.arange(299, -1, -1, dtype=torch.float64)
    assert average.means["weight"].item() == pytest.approx(((factors * values).sum() / factors.sum()).item(), rel=1e-12)


def test_the_modules_own_weights_come_back_even_after_an_error() -> None:
    layer, average = _averaged([0.1, 0.7], decay=0.5)
    own, mean = layer.weight.item(), average.means["weight"].item()
    with pytest.raises(RuntimeError), average.in_place():
        assert layer.weight.item() == mean != own
        raise RuntimeError
    assert (layer.weight.item(), average.means["weight"].item()) == (own, mean)


def test_frozen_parameters_are_not_averaged() -> None:
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    assert list(WeightAverage(layer, 0.9).means) == ["weight"]


def test_it_is_what_is_saved_validated_and_published(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    plain, run = RunFolder(tmp_path / "plain"), RunFolder(tmp_path / "averaging")
    recipe = make_recipe(ema_decay=0.75)
    assert train(make_recipe(), plain) and train(recipe, run)
    # The weights move as they would without it
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (run.state / "update-8" / name).read_bytes() == (plain.state / "update-8" / name).read_bytes()
    means = load_file(run.state / "update-8" / "average.safetensors")
    checkpoint = load_file(run.checkpoint(8) / "model.safetensors")
    assert torch.equal(checkpoint["model.shared.weight"], means["model.shared.weight"])
    assert (run.averaged / "model.safetensors").read_bytes() == (run.checkpoint(8) / "model.safetensors").read_bytes()
    assert read_json(run.training)["averaged_checkpoints"] == ["step-8"]
    validated = [record for record in read_json_lines(run.log) if record["kind"] == "validation"][-1]
    data = open_prepared_data(run)
    published = TranslationLoss(VaswaniForConditionalGeneration.from_pretrained(run.averaged), smoothing=0.1)
    assert Validator(recipe, data.tokenizer, data.validation).run(published)["loss"] == pytest.approx(validated["loss"], rel=1e-6)


def test_resuming_changes_no_bit(
    make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None], tmp_path: Path
) -> None:
    assert_resuming_changes_no_bit(make_recipe(ema_decay=0.75))
    runs = [RunFolder(tmp_path / name) for name in ("undisturbed", "stopped")]
    undisturbed, stopped = ((run.state / "update-8" / "average.safetensors").read_bytes() for run in runs)
    assert undisturbed == stopped


def test_a_damaged_average_is_named(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make_recipe(ema_decay=0.75)
    assert train(recipe, run)
    file = run.state / "update-8" / "average.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"average\.safetensors is damaged.* resumes from .*update-4"):
        train(recipe, run)
