import time

import pytest
import torch

from benchmarks.stopwatch import Stopwatch


def test_what_has_passed_since() -> None:
    started = time.perf_counter()
    watch = Stopwatch()
    time.sleep(0.05)
    read = watch.read()
    assert 0.05 <= read.seconds <= time.perf_counter() - started
    assert 0 <= read.cpu_seconds < read.seconds + 0.05


def test_the_device_is_waited_for_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waited.append(time.sleep(0.02) or 1))
    watch = Stopwatch()
    assert len(waited) == 1
    assert watch.read().seconds >= 0.02 and len(waited) == 2
