import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.interleaved import Timed
from benchmarks.training import measurement as training
from benchmarks.training.contestants import KINDS, Kind, train_round
from benchmarks.training.measurement import SHAPES, Settings, Shape, benchmark_training
from benchmarks.training.report import write_report
from benchmarks.training.work import Work
from vaswani_transformer.packing import has_bfloat16
from vaswani_transformer.recipe import Recipe

ROOT = Path(__file__).parents[3]
NAMES = ("marian", "marian-eager", "trainer-grouped", "ours", "ours-bf16")
SECONDS = {"marian": 6.0, "marian-eager": 5.0, "trainer-grouped": 4.0, "ours": 3.0, "ours-bf16": 2.0}


class Stub:
    """In place of a process: takes its seconds, on two threads half of them, and one more in every round."""

    def __init__(self, title: str, build: Kind, work: Work) -> None:
        (self.name,) = (name for name in NAMES if KINDS[name] == build)
        assert title == build.title
        self.rounds = 0

    def __enter__(self) -> "Stub":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def ask(self, function: object, threads: int, gives_back: bool) -> Timed:
        assert function is train_round and not gives_back
        self.rounds += 1
        return Timed(SECONDS[self.name] / threads + self.rounds, SECONDS[self.name])

    def memory(self) -> dict[str, int | None]:
        return {"peak_bytes": self.rounds, "imports_bytes": 0}


@pytest.fixture(scope="module")
def results(parallel_files: tuple[str, str], little: Shape) -> dict[str, Any]:
    """Of three rounds, the first of which only warms up, on one thread and then on two."""
    settings = Settings(("tiny",), threads=(1, 2), contestants=NAMES, repeats=2, batch_tokens=512)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHAPES, "tiny", little)
        patch.setattr(training, "OwnProcess", Stub)
        patch.setattr(training, "emulates_bfloat16", lambda on_cpu: False)
        patch.setattr(training, "matrix_rate", lambda device, dtype, threads: dtype.itemsize * threads * 1e9)
        so_far = [(len(found["speed"]), found) for found in benchmark_training(*parallel_files, settings)]
    assert [rows for rows, _ in so_far] == [5, 10]
    return so_far[-1][1]


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a device for bfloat16")
def test_who_would_emulate_bfloat16_is_left_out_and_refused_by_name(
    parallel_files: tuple[str, str], little: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []

    class Entering(Stub):
        def __init__(self, title: str, build: Kind, work: Work) -> None:
            entered.append(next(name for name in KINDS if KINDS[name] == build))
            raise InterruptedError

    monkeypatch.setitem(SHAPES, "tiny", little)
    monkeypatch.setattr(training, "OwnProcess", Entering)
    monkeypatch.setattr(training, "ON_CPU", ("ours-bf16", "ours"))
    monkeypatch.setattr(training, "emulates_bfloat16", lambda on_cpu: on_cpu)
    with pytest.raises(InterruptedError):
        next(benchmark_training(*parallel_files, Settings(("tiny",), batch_tokens=512)))
    assert entered == ["ours"]
    with pytest.raises(ValueError, match="no products in bfloat16; leave out ours-bf16 and marian-bf16"):
        next(benchmark_training(*parallel_files, Settings(("tiny",), contestants=("ours-bf16", "ours", "marian-bf16"))))


def test_everybody_is_measured_in_every_setting(results: dict[str, Any]) -> None:
    measured = [(row["shape"], row["threads"], row["contestant"]) for row in results["speed"]]
    assert measured == [("tiny", threads, name) for threads in (1, 2) for name in NAMES]
    for row in results["speed"]:
        seconds, threads = SECONDS[row["contestant"]], row["threads"]
        rounds = (2, 3) if threads == 1 else (5, 6)
        assert row["all_seconds"] == tuple(seconds / threads + number for number in rounds)
        assert row["memory"]["peak_bytes"] == rounds[1]  # the first process serves both settings
        rate = row["target_tokens"] / (seconds / threads + sum(rounds) / 2)
        assert row["target_tokens_per_second"] == pytest.approx(rate)
        peak = threads * (2e9 if row["contestant"] == "ours-bf16" else 4e9)
        assert row["share_of_matrix_rate"] == pytest.approx(row["flops"] / (seconds / threads) / peak)
        assert 0 <= row["padding_share"] < 1 and row["updates"] == 1
        assert (row["pairs"] == 128) == (row["contestant"] == "trainer-grouped")


def test_ratios_are_of_tokens_a_second(results: dict[str, Any]) -> None:
    """Rounds 2 and 3 are of 8 and 9 s for the first, 6 and 7 for the trainer, 4 and 5 for the fastest of ours."""
    rows = {row["contestant"]: row for row in results["speed"] if row["threads"] == 1}
    loop, grouped = (rows[name]["target_tokens"] for name in ("marian", "trainer-grouped"))
    assert loop == rows["ours"]["target_tokens"] != grouped
    assert rows["ours-bf16"]["ratio"] == pytest.approx({"median": (8 / 4 + 9 / 5) / 2, "low": 9 / 5, "high": 8 / 4})
    assert rows["ours-bf16"]["cpu_ratio"]["median"] == pytest.approx(6 / 2)
    assert rows["trainer-grouped"]["ratio"]["low"] == pytest.approx(9 / 7 * grouped / loop)
    leads = {row["as"]: row for row in results["leads"] if row["threads"] == 1}
    assert {lead["contestant"] for lead in leads.values()} == {"ours-bf16"}
    assert {name: (lead["against"], lead["goal"]) for name, lead in leads.items()} == {
        "marian": ("marian", 2.5), "best-loop": ("marian-eager", 1.5), "trainer-grouped": ("trainer-grouped", None),
    }  # fmt: skip
    assert leads["marian"]["ratio"] == pytest.approx(rows["ours-bf16"]["ratio"])
    assert leads["best-loop"]["ratio"]["high"] == pytest.approx(7 / 4)
    assert leads["trainer-grouped"]["ratio"]["high"] == pytest.approx(6 / 4 * loop / grouped)


def test_what_was_measured_on_what(results: dict[str, Any], parallel_files: tuple[str, str], tmp_path: Path) -> None:
    assert results["shapes"]["tiny"]["d_model"] == 16
    assert results["corpus"]["pairs"] == 1500 and list(results["corpus"]["sha256"]) == [
        "train.en",
        "train.de",
    ]
    assert results["settings"]["batch_tokens"] == 512
    assert str(Path(parallel_files[0]).parent) not in json.dumps({k: v for k, v in results.items() if k != "command"})
    write_report(results, tmp_path)
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["leads"][0]["as"] == "marian"


@pytest.mark.parametrize(
    ("name", "layers", "width", "inner", "heads", "entries"),
    [("tiny", 4, 128, 256, 4, 10_000), ("small", 6, 256, 1024, 4, 10_000), ("base", 6, 512, 2048, 8, 37_000),
     ("big", 6, 1024, 4096, 16, 37_000)],
)  # fmt: skip
def test_the_shapes(name: str, layers: int, width: int, inner: int, heads: int, entries: int) -> None:
    shape: Shape = SHAPES[name]
    recipe: Recipe = Settings().recipe(shape, "a", "b", 4096)
    config = recipe.model_config(vocab_size=shape.vocab_size)
    assert (config.encoder_layers, config.decoder_layers, config.d_model) == (layers, layers, width)
    assert config.encoder_ffn_dim == config.decoder_ffn_dim == inner
    assert config.encoder_attention_heads == config.decoder_attention_heads == heads
    assert (config.vocab_size, config.dropout) == (entries, 0.1)
    assert recipe.training.label_smoothing == 0.1 and recipe.batching.micro_batches == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shapes": ("huge",)}, "`shapes`: there is no 'huge'; choose from tiny, small, base, big"),
        ({"contestants": ("me",)}, "`contestants`: there is no 'me'"),
        ({"repeats": 0}, "must be 1 or more"),
        ({"threads": ()}, "must be 1 or more"),
        ({"updates": -1}, "must be 1 or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**given)


def test_a_gpu_gets_larger_shapes_and_batches(monkeypatch: pytest.MonkeyPatch, parallel_files: tuple[str, str]) -> None:
    planned: list[Any] = []

    def stop(batching: str, recipe: Recipe, *rest: Any) -> None:
        planned.append((recipe.batching.target_tokens, recipe.model_config().d_model, rest[-1]))
        raise StopIteration

    monkeypatch.setattr(training, "current_device", lambda: torch.device("meta"))
    monkeypatch.setattr(training, "plan_work", stop)
    with pytest.raises((StopIteration, RuntimeError)):
        next(benchmark_training(*parallel_files, Settings()))
    assert planned == [(25_000, 512, 10)]


def run(*arguments: object) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.training", "--shapes", "tiny", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_the_command(parallel_files: tuple[str, str], tmp_path: Path) -> None:
    """With real contestants, each in a process of its own."""
    source, target = parallel_files
    out = tmp_path / "out"
    ours = "ours-bf16" if has_bfloat16() else "ours"
    done = run(
        "--source", source, "--target", target, "--contestants", "marian", ours, "--repeats", 1, "--updates", 1,
        "--batch-tokens", 512, "--give-back-memory", "--output", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (out / "table.md").read_text(encoding="utf-8") in done.stdout
    assert "have given free memory back" in done.stdout
    rows = json.loads((out / "results.json").read_text(encoding="utf-8"))["speed"]
    assert [row["contestant"] for row in rows] == ["marian", ours]
    assert all(row["memory"]["peak_bytes"] > row["memory"]["imports_bytes"] > 0 for row in rows)


def test_the_command_refuses_in_one_line() -> None:
    refused = run("--source", "absent.en", "--target", "absent.de")
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "absent.en" in last
