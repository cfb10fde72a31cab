"""Seconds until everything is done, by the clock and by the processor, where a device works on its own."""

import time

import torch

from benchmarks.interleaved import Timed


class Stopwatch:
    """Goes from when it is made."""

    def __init__(self) -> None:
        _wait_for_device()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> Timed:
        """What has passed since, all work that was given to the accelerator included."""
        _wait_for_device()
        return Timed(time.perf_counter() - self._wall, time.process_time() - self._cpu)


def _wait_for_device() -> None:
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
