from datetime import datetime
from itertools import chain, repeat
from pathlib import Path

import pytest
import torch
import transformers

from benchmarks.interleaved import Timed
from benchmarks.machine import circumstances, instructions, machine, matrix_rate, software


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\nflags\t\t: fpu avx2 avx512_bf16 sse\nbugs : amx_tile\n", ["avx2", "avx512_bf16"]),
        ("Features\t: fp asimddp i8mm\n", ["asimddp", "i8mm"]),
        ("processor : 0\n", []),
    ],
)
def test_the_instruction_sets_that_matter(text: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert instructions(tmp_path / "cpuinfo") == expected
    assert instructions(tmp_path / "absent") == []


def test_machine_and_software() -> None:
    facts = machine(torch.device("cpu"))
    assert facts["cpu"] and facts["cores"] >= 1 and facts["threads"] == torch.get_num_threads()
    assert "gpu" not in facts
    versions = software(["sacrebleu", "no-such-package"])
    assert versions["transformers"] == transformers.__version__
    assert "sacrebleu" in versions and "no-such-package" not in versions


def test_circumstances() -> None:
    noted = circumstances(torch.device("cpu"), ["sacrebleu"])
    assert noted.keys() == {"command", "date", "machine", "versions"}
    assert datetime.fromisoformat(noted["date"]).tzinfo is not None
    assert "sacrebleu" in noted["versions"] and noted["machine"]["cores"] >= 1


def test_the_matrix_rate_is_that_of_the_fastest_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of 8 x 8 takes a second of CPU time at best, half a second of each thread; the first series only warms up."""
    taken = chain([0.2, 4.0, 1.0], repeat(2.0))

    class Watch:
        def read(self) -> Timed:
            return Timed(9.0, next(taken))

    package = "benchmarks.machine"
    monkeypatch.setattr(f"{package}._MATRIX_SIZE", {"cpu": 8})
    monkeypatch.setattr(f"{package}.Stopwatch", Watch)
    before = torch.get_num_threads()
    assert matrix_rate(torch.device("cpu"), torch.bfloat16, 2) == 2 * 8**3 / 0.5
    assert torch.get_num_threads() == before
