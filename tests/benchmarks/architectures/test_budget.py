"""The end at so many target tokens, the width from a number of parameters, and the clock: what the program in eole's environment adds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from benchmarks.architectures import cpu_clock
from benchmarks.architectures.cpu_clock import CpuClock, cpu_seconds
from benchmarks.architectures.eole_program import Budget, closest_width, last_checkpoints, nats, take_mean, take_trained_weights, with_width


def batches() -> Iterator[Any]:
    """Endless batches of 2 sentences with 3 source positions and 5 targets, of which 8 tokens are real, the first of each not counted."""
    while True:
        yield {"src": torch.zeros(2, 3), "tgt": torch.zeros(2, 5), "tgtlen": torch.tensor([5, 3])}, 0


def test_the_budget_ends_between_updates_and_counts_all() -> None:
    calls: list[int] = []
    budget = Budget(batches(), 20, 2, 2, lambda: calls.append(budget.counted["target_tokens"]))
    assert len(list(budget)) == 4  # 6 tokens each: 24 are the first even number of batches with 20 or more
    assert calls == [12, 24]
    assert budget.counted == {
        "sentences": 8, "target_tokens": 24, "source_positions": 24, "target_positions": 32, "pairs": 96,
    }  # fmt: skip


def test_a_budget_goes_on_where_it_was() -> None:
    calls: list[int] = []
    before = {"sentences": 4, "target_tokens": 12, "source_positions": 12, "target_positions": 16, "pairs": 48}
    budget = Budget(batches(), 20, 2, 2, lambda: calls.append(budget.counted["target_tokens"]), before)
    assert len(list(budget)) == 2 and calls == [24] and budget.counted["sentences"] == 8


@pytest.mark.parametrize("wanted", [1_000, 50_000, 2_600_000])
def test_the_width_is_the_closest_of_all_even_ones(wanted: int) -> None:
    def parameters_of(width: int) -> int:
        return 10_000 * width + 35 * width**2

    widths = range(16, 1000, 2)
    assert closest_width(parameters_of, wanted) == min(widths, key=lambda width: abs(parameters_of(width) - wanted))


def test_the_rate_reaches_its_peak_at_the_end_of_the_warm_up() -> None:
    settings = {"model": {"embeddings": {"position_encoding": True}}, "training": {"warmup_steps": 100}}
    own = with_width(settings, 64, 0.002)
    assert own["training"]["learning_rate"] * 64**-0.5 * 100**-0.5 == pytest.approx(0.002)  # eole's `noam` at step 100
    assert own["model"] == {"hidden_size": 64, "embeddings": {"position_encoding": True, "word_vec_size": 64}}
    assert settings["model"] == {"embeddings": {"position_encoding": True}}  # unchanged


class Convolution(torch.nn.Module):
    """As eole's: with moving averages that it uses in evaluation mode."""

    polyak_decay = 0.9995

    def __init__(self) -> None:
        super().__init__()
        for name in ("V", "g", "b"):
            self.register_parameter(name, torch.nn.Parameter(torch.ones(1)))
            self.register_buffer(f"{name}_avg", torch.zeros(1))

    def forward(self) -> torch.Tensor:
        return self.g if self.training else self.g_avg


class Model(torch.nn.Module):
    """The logits of every position are 2 for the token 3 and 0 for three others, times the convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = Convolution()
        self.generator = torch.nn.Identity()

    def forward(self, src: Any, tgt: Any, lengths: Any) -> tuple[torch.Tensor]:
        logits = torch.zeros(*tgt[:, 1:].shape, 4)
        logits[..., 3] = 2.0
        return (logits * self.convolution(),)


def test_nats_are_those_of_the_weights_themselves() -> None:
    model, target = Model(), torch.tensor([[1, 3, 3, 0]])  # the last is padding
    data = [({"src": target, "tgt": target, "srclen": None}, 0)]
    by_hand = torch.log(torch.tensor(3 + torch.e**2)).item() - 2
    assert nats(model, data, padding=0) == (pytest.approx(by_hand), 2)
    assert nats(model, data, padding=0, averaged=True)[0] == pytest.approx(torch.log(torch.tensor(4.0)).item())  # zeros: all alike
    take_trained_weights(model)
    assert nats(model, data, padding=0, averaged=True)[0] == pytest.approx(by_hand)


def test_the_mean_of_the_last_checkpoints_is_taken(tmp_path: Path) -> None:
    for step, value in ((9, 50.0), (98, 1.0), (100, 2.0), (101, 6.0), (102, 99.0)):
        file = tmp_path / f"step_{step}" / "model.00.safetensors"
        file.parent.mkdir()
        save_file({"convolution.V": torch.full((1,), value), "convolution.V_avg": torch.full((1,), value / 10)}, file)
    files = last_checkpoints(tmp_path, 101, 3)  # 102 holds a mean already
    assert [file.parent.name for file in files] == ["step_98", "step_100", "step_101"]
    model = Model()
    take_mean(model, files)
    assert (model.convolution.V.item(), model.convolution.g.item()) == (3.0, 1.0)
    assert model.state_dict()["convolution.V_avg"].item() == pytest.approx(0.3)
    assert [len(last_checkpoints(tmp_path, 9, 3)), len(last_checkpoints(tmp_path, 8, 3))] == [1, 0]


def test_the_clock_adds_up_over_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, now = tmp_path / "run" / "cpu.json", iter([1.0, 4.5, 10.0, 12.0])
    monkeypatch.setattr(cpu_clock.time, "process_time", lambda: next(now))
    assert cpu_seconds(file) == 0
    for wanted in (3.5, 5.5):
        with CpuClock(file):
            pass
        assert json.loads(file.read_text(encoding="utf-8")) == {"cpu_seconds": wanted}
