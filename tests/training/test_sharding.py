"""When a training is cut over the ranks, and tensors that are not. The training itself: test_distributed.py."""

from types import SimpleNamespace

import pytest
import torch

from vaswani_transformer.training.sharding import gather, is_sharded, part_of, whole


def ranks(number: int, precision: str = "no") -> SimpleNamespace:
    return SimpleNamespace(num_processes=number, mixed_precision=precision)


def test_it_takes_a_launcher_that_asks_and_ranks_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_sharded(ranks(2))
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    assert is_sharded(ranks(2))
    assert not is_sharded(ranks(1))


@pytest.mark.parametrize(
    ("variable", "value", "precision", "sentence"),
    [
        ("FSDP_VERSION", "1", "no", "does not know `fsdp_version: 1`; set it to 2"),
        ("FSDP_OFFLOAD_PARAMS", "true", "no", "does not know `fsdp_offload_params: true`; set it to false"),
        ("FSDP_VERSION", "2", "fp16", "does not know `training.precision: float16`; set bfloat16 or float32"),
    ],
)
def test_what_is_not_supported_is_refused(
    variable: str, value: str, precision: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=sentence):
        is_sharded(ranks(2, precision))


def test_tensors_that_are_not_cut_stay_as_they_are() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    assert whole(tensor) is tensor
    assert part_of(tensor, like=torch.zeros(2, 3)) is tensor
    assert gather({"a": tensor}, keep=False) == {}
    columns = gather({"a": tensor.t()}, keep=True)["a"]
    assert columns.is_contiguous() and columns.equal(tensor.t())
