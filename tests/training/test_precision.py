"""What a recipe's precision means on a machine that lacks it; no machine is asked here, the answers are put in its place."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import Precision, Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import engine, precision
from vaswani_transformer.training.precision import in_float32_instead, settle_precision
from vaswani_transformer.training.python_api import train
from vaswani_transformer.training.rehearsal import describe, rehearse

on_a_cpu = pytest.mark.skipif(torch.accelerator.is_available(), reason="this training would take the accelerator")


def with_bfloat16(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(precision, "has_bfloat16", lambda: there)


@pytest.mark.parametrize(
    ("wanted", "on_cpu", "there", "settled"),
    [
        ("float32", True, False, "float32"),
        ("bfloat16", True, True, "bfloat16"),
        ("bfloat16", True, False, "float32"),
        ("bfloat16", False, False, "bfloat16"),  # another device multiplies, and what the processor can does not matter
        ("float16", False, False, "float16"),
    ],
)
def test_bfloat16_becomes_float32_only_where_a_processor_trains_and_lacks_it(
    wanted: Precision, on_cpu: bool, there: bool, settled: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_bfloat16(monkeypatch, there)
    assert settle_precision(wanted, on_cpu) == settled


@pytest.mark.parametrize(
    ("wanted", "there", "settled"),
    [("bfloat16", True, "bfloat16"), ("bfloat16", False, "float32"), ("float16", False, "float16"), ("float32", False, "float32")],
)
def test_a_gpu_that_emulates_bfloat16_computes_in_float32(
    wanted: Precision, there: bool, settled: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A T4 answers yes where emulation counts, so that the question must leave it out."""
    with_bfloat16(monkeypatch, False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or there)
    assert settle_precision(wanted, on_cpu=False) == settled
    assert in_float32_instead("The training", on_cpu=False).startswith("This GPU has no products in bfloat16")


@on_a_cpu
def test_a_processor_without_bfloat16_trains_as_in_float32_and_says_so(
    make_recipe: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_bfloat16(monkeypatch, False)
    runs = {wanted: RunFolder(tmp_path / wanted) for wanted in ("float32", "bfloat16")}
    for wanted, run in runs.items():
        train(make_recipe(updates=3, precision=wanted), run.path)
        assert (in_float32_instead("The training", on_cpu=True) in capsys.readouterr().out) is (wanted == "bfloat16")
        assert read_json(run.training)["precision"] == "float32"
    ours, theirs = (load_file(run.averaged / "model.safetensors") for run in runs.values())
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@on_a_cpu
def test_a_training_goes_on_where_bfloat16_is_missing(
    make_recipe: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun with it, stopped, resumed without it by the same recipe: `training.json` tells the precision of the end."""
    recipe, run = make_recipe(updates=4, checkpoint_every=2, precision="bfloat16"), RunFolder(tmp_path / "run")
    with_bfloat16(monkeypatch, True)
    with monkeypatch.context() as patch:
        patch.setattr(engine.Training, "is_complete", property(lambda self: self.state.update >= 2))
        train(recipe, run.path)
    assert read_json(run.training)["precision"] == "bfloat16"
    with_bfloat16(monkeypatch, False)
    assert train(recipe, run.path) == run.averaged
    assert read_json(run.training)["precision"] == "float32"
    with_bfloat16(monkeypatch, True)
    assert train(recipe, run.path) == run.averaged, "a finished run that is started again elsewhere computes nothing"
    assert read_json(run.training)["precision"] == "float32"


@on_a_cpu
def test_a_rehearsal_tells_what_it_computed_in(make_recipe: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    with_bfloat16(monkeypatch, False)
    found = rehearse(make_recipe(precision="bfloat16"), updates=2)
    assert found.precision == "float32"
    assert ", float32):" in describe(replace(found, seconds=1.0))
