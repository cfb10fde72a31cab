from pathlib import Path

import pytest

from benchmarks.translation.contestants import Entry, enter
from benchmarks.translation.measurement import peak_memory

if not Path("/proc/self/status").is_file():
    pytest.skip("only Linux tells a process' peak", allow_module_level=True)
pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")

BATCHES = [[[5, 6, 7, 2], [8, 2]], [[9, 2]]]


def test_a_process_of_its_own_with_no_more_than_it_needs(checkpoint: Path, tmp_path: Path) -> None:
    entries = enter(["ours", "ctranslate2"], checkpoint, tmp_path, device="cpu", threads=1)
    ours, other = (peak_memory(entry, BATCHES, 4) for entry in entries)
    for measured in (ours, other):
        assert measured["peak_bytes"] is not None and measured["imports_bytes"] is not None
        assert measured["peak_bytes"] > measured["imports_bytes"] > 5 * 2**20
    assert ours["imports_bytes"] > 100 * 2**20 > other["imports_bytes"]  # type: ignore[operator]


def test_what_the_device_holds_is_looked_at_while_it_runs(checkpoint: Path, tmp_path: Path) -> None:
    (entry,) = enter(["ctranslate2"], checkpoint, tmp_path, device="cpu", threads=1)
    use = iter([1000, 1500, 7000])
    measured = peak_memory(entry, BATCHES, 1, device_bytes_used=lambda: next(use, 2000))
    assert measured["device_peak_bytes"] == 6000


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    arguments = {
        "folder": str(tmp_path),
        "device": "cpu",
        "threads": 1,
        "extra_length": 5,
        "length_penalty": 1.0,
    }
    with pytest.raises(RuntimeError, match=r"^it failed: .*model\.bin"):
        peak_memory(Entry("it", "it", "ctranslate2_contestant", arguments), BATCHES, 1)
