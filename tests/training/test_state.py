"""What is saved comes back bit for bit, and what was damaged is recognised."""

from pathlib import Path

import pytest
import torch
from torch import nn

from vaswani_transformer.training.state import Totals, TrainState, Validation, load_state, newest_state, save_state


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
    validations = [Validation(1, {"bleu": 30.25, "loss": 2.5}), Validation(2, {"bleu": 0.1 + 0.2, "loss": 2.25})]
    return TrainState(
        update,
        learning_rate=1e-3,
        total=Totals(0.1 + 0.2, target_tokens=7),
        interval=Totals(flops=1e17),
        seconds=1.5,
        validations=validations,
        checkpoints=[1, 2],
    )


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


def test_no_pickle_and_only_the_newest_two_states(tmp_path: Path) -> None:
    module, adam = _trained()
    for update in (8, 9, 10):  # as text, "9" would come after "10"
        folder = save_state(tmp_path, _state(update), module, adam, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-10", "update-9"]
    assert newest_state(tmp_path) == folder == tmp_path / "update-10"
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]


def test_a_crash_while_saving_leaves_the_state_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("cut_off", [True, False])
def test_a_damaged_file_is_recognised_and_the_state_before_it_offered(tmp_path: Path, name: str, cut_off: bool) -> None:
    module, adam = _trained()
    first = save_state(tmp_path, _state(1), module, adam, {})
    path = save_state(tmp_path, _state(2), module, adam, {}) / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content[:-9] if cut_off else content)
    before, state = module.embedding.weight.clone(), TrainState()
    with pytest.raises(
        ValueError,
        match=rf"{name} is damaged: its SHA-256 .* delete {path.parent} and run the same .* resumes from {first}",
    ):
        load_state(path.parent, state, module, adam)
    assert torch.equal(module.embedding.weight, before) and state == TrainState()


def test_without_a_state_before_it_the_damaged_one_sends_elsewhere(tmp_path: Path) -> None:
    module, adam = _trained()
    path = save_state(tmp_path, _state(), module, adam, {})
    (path / "state.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="put back a good copy, or start again in another run folder"):
        load_state(path, TrainState(), module, adam)


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
