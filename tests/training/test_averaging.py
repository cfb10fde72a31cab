"""Means worked out by hand, and refusals that name what does not match."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from vaswani_transformer.data.shortlisting import save_shortlist
from vaswani_transformer.files.checksums import find_damage, write_checksums
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.shortlist import SHORTLIST_FILE, SHORTLIST_USES, Shortlist
from vaswani_transformer.training.averaging import average_checkpoints


def _checkpoint(path: Path, config: dict[str, Any] | None = None, **tensors: torch.Tensor) -> Path:
    path.mkdir()
    save_file(tensors, path / "model.safetensors")
    write_json(path / "config.json", {**(config or {}), "transformers_version": path.name})
    write_checksums(path)
    return path


def test_the_mean_by_hand(tmp_path: Path) -> None:
    folders = [
        _checkpoint(tmp_path / "step-1", a=torch.tensor([1.0, 2.0]), b=torch.tensor([[4.0]])),
        _checkpoint(tmp_path / "step-2", a=torch.tensor([2.0, 4.0]), b=torch.tensor([[5.0]])),
        _checkpoint(tmp_path / "step-3", a=torch.tensor([6.0, 0.0]), b=torch.tensor([[0.0]])),
    ]
    average_checkpoints(folders, tmp_path / "averaged")
    averaged = load_file(tmp_path / "averaged" / "model.safetensors")
    assert {name: tensor.tolist() for name, tensor in averaged.items()} == {"a": [3.0, 2.0], "b": [[3.0]]}
    assert read_json(tmp_path / "averaged" / "config.json") == {"transformers_version": "step-3"}
    assert find_damage(tmp_path / "averaged", ["model.safetensors", "config.json"]) is None


def test_a_shortlist_stays_when_training_goes_on(tmp_path: Path) -> None:
    checkpoint, averaged = _checkpoint(tmp_path / "step-1", a=torch.tensor([1.0])), tmp_path / "averaged"
    write_json(checkpoint / "generation_config.json", {"num_beams": 4})
    write_checksums(checkpoint)
    average_checkpoints([checkpoint], averaged)
    shortlist = Shortlist(torch.tensor([[1]]), torch.tensor([1]), 2)
    for use in ([], ["draft_shortlist"], ["shortlist", "draft_shortlist"]):
        save_shortlist(averaged, shortlist, use)
        average_checkpoints([checkpoint], averaged)
        assert (averaged / SHORTLIST_FILE).read_bytes() == shortlist.to_bytes()
        settings = read_json(averaged / "generation_config.json")
        assert settings["num_beams"] == 4 and [name for name in SHORTLIST_USES if settings.get(name)] == use
        assert find_damage(averaged, [SHORTLIST_FILE]) is None
    (averaged / SHORTLIST_FILE).write_bytes(b"other")
    with pytest.raises(ValueError, match="make the shortlist anew"):
        average_checkpoints([checkpoint], averaged)


def test_sums_do_not_round_in_float32(tmp_path: Path) -> None:
    # 2^24 + 1 is no float32: adding up in float32 would lose both ones
    folders = [_checkpoint(tmp_path / f"step-{i}", a=torch.tensor([value])) for i, value in enumerate((2.0**24, 1.0, 1.0))]
    average_checkpoints(folders, tmp_path / "averaged")
    expected = torch.tensor((2**24 + 2) / 3, dtype=torch.float64).float()
    assert load_file(tmp_path / "averaged" / "model.safetensors")["a"].item() == expected.item()


def test_other_shapes_and_names_are_refused(tmp_path: Path) -> None:
    first = _checkpoint(tmp_path / "step-1", a=torch.zeros(2))
    wide = _checkpoint(tmp_path / "step-2", a=torch.zeros(3))
    extra = _checkpoint(tmp_path / "step-3", a=torch.zeros(2), b=torch.zeros(1))
    with pytest.raises(ValueError, match=r"step-2 cannot be averaged with .*step-1: `a` is of shape \[3\]"):
        average_checkpoints([first, wide], tmp_path / "averaged")
    with pytest.raises(ValueError, match=r"`b` is of shape \[1\] in the one and missing in the other"):
        average_checkpoints([first, extra], tmp_path / "averaged")
    assert not (tmp_path / "averaged").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("activation_function", "gelu"),
        ("scale_embedding", False),
        ("encoder_attention_heads", 4),
        ("layer_norm_eps", 1e-5),
        ("sinusoidal_layout", "concatenated"),
        ("decoder_start_token_id", 2),
    ],
)
def test_weights_of_the_same_shape_that_mean_another_thing_are_refused(tmp_path: Path, key: str, value: object) -> None:
    common = {"head_dim": 64}  # or other heads would be of another width
    first = _checkpoint(tmp_path / "step-1", common, a=torch.zeros(2))
    other = _checkpoint(tmp_path / "step-2", {**common, key: value}, a=torch.zeros(2))
    with pytest.raises(ValueError, match=rf"step-2 cannot be averaged with .*step-1: `{key}` is {value!r} in the one and "):
        average_checkpoints([first, other], tmp_path / "averaged")
    assert not (tmp_path / "averaged").exists()


def test_what_does_not_change_the_function_may_differ(tmp_path: Path) -> None:
    """As where a run is resumed with a newer version, which names a setting that the older one did not know."""
    older = _checkpoint(tmp_path / "step-1", {"dropout": 0.1}, a=torch.zeros(2))
    newer = _checkpoint(tmp_path / "step-2", {"dropout": 0.2, "position_offset": 0}, a=torch.ones(2))
    average_checkpoints([older, newer], tmp_path / "averaged")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    folders = [_checkpoint(tmp_path / f"step-{i}", a=torch.zeros(2)) for i in (1, 2)]
    content = bytearray((folders[0] / name).read_bytes())
    content[-1] ^= 1  # the weight is another one, and nothing else would tell
    (folders[0] / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"step-1.{name} is damaged.*delete .*step-1 and run the same"):
        average_checkpoints(folders, tmp_path / "averaged")
    assert not (tmp_path / "averaged").exists()


def test_nothing_to_average(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoints to average"):
        average_checkpoints([], tmp_path / "averaged")
    (tmp_path / "step-1").mkdir()
    with pytest.raises(FileNotFoundError, match=r"step-1.model\.safetensors is missing"):
        average_checkpoints([tmp_path / "step-1"], tmp_path / "averaged")
