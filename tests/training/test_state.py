"""What is saved comes back bit for bit, and what was damaged is recognised."""

from pathlib import Path

import pytest
import torch
from torch import nn

from vaswani_transformer.training.state import Totals, TrainState, load_state, newest_state, save_state


class _Tied(nn.Module):
    """Two names for one matrix, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("steps", torch.zeros(2))


def _trained(updates: int = 2) -> tuple[_Tied, torch.optim.Adam]:
    torch.manual_seed(0)
    module = _Tied()
    adam = torch.optim.Adam(module.parameters(), lr=0.1, fused=True)
    for _ in range(updates):
        adam.zero_grad()
        module.head(module.embedding(torch.tensor([1, 2]))).square().sum().backward()
        adam.step()
    return module, adam


def _state(update: int = 2) -> TrainState:
    return TrainState(update, Totals(0.1 + 0.2, target_tokens=7), Totals(flops=1e17), 1.5, 30.25, 1)


def test_everything_comes_back(tmp_path: Path) -> None:
    module, adam = _trained()
    module.steps += 3
    saved = save_state(tmp_path, _state(), module, adam, {"scale": 1024.0})
    assert newest_state(tmp_path) == saved
    state, (other, fresh) = TrainState(), _trained(updates=0)
    assert load_state(saved, state, other, fresh) == {"scale": 1024.0}
    assert state == _state()
    assert torch.equal(other.embedding.weight, module.embedding.weight)
    assert other.head.weight is other.embedding.weight
    assert torch.equal(other.steps, module.steps)
    for kind, tensor in adam.state[module.embedding.weight].items():
        assert torch.equal(fresh.state[other.embedding.weight][kind], tensor)


def test_no_pickle_and_only_the_newest_state(tmp_path: Path) -> None:
    module, adam = _trained()
    for update in (9, 10):
        save_state(tmp_path, _state(update), module, adam, {})
    (folder,) = tmp_path.iterdir()
    assert folder.name == "update-10"
    assert sorted(path.name for path in folder.iterdir()) == [
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]


def test_a_crash_while_saving_leaves_the_state_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, adam = _trained()
    first = save_state(tmp_path, _state(1), module, adam, {})

    def crash(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vaswani_transformer.training.state.write_json", crash)
    with pytest.raises(KeyboardInterrupt):
        save_state(tmp_path, _state(2), module, adam, {})
    assert newest_state(tmp_path) == first
    load_state(first, TrainState(), module, adam)


def test_nothing_saved_yet(tmp_path: Path) -> None:
    assert newest_state(tmp_path) is None
    assert newest_state(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_a_flipped_bit_is_recognised(tmp_path: Path, name: str) -> None:
    module, adam = _trained()
    path = save_state(tmp_path, _state(), module, adam, {}) / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} is damaged.*SHA-256.*delete .*update-2 and start"):
        load_state(path.parent, TrainState(), module, adam)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_lost_file_is_named(tmp_path: Path, name: str) -> None:
    module, adam = _trained()
    path = save_state(tmp_path, _state(), module, adam, {}) / name
    path.unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing"):
        load_state(path.parent, TrainState(), module, adam)


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    module, adam = _trained()
    path = save_state(tmp_path, _state(), module, adam, {})
    other = nn.Linear(3, 5)
    with pytest.raises(ValueError, match="does not fit the model of this recipe"):
        load_state(path, TrainState(), other, torch.optim.Adam(other.parameters()))
