"""On what and with what a benchmark ran."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.stopwatch import Stopwatch
from vaswani_transformer.provenance import command_line, hardware, instructions, versions

_MATRIX_SIZE = {"cpu": 1024}
_ACCELERATOR_MATRIX_SIZE = 8192
_PRODUCTS = {"cpu": 1}
_ACCELERATOR_PRODUCTS = 20
"""Timed at once. On a CPU a single one: the shorter a series, the less it is disturbed."""

_SERIES = 30


def circumstances(device: torch.device, packages: Iterable[str] = ()) -> dict[str, Any]:
    """What every benchmark notes beside its figures: command, date, machine and versions."""
    return {
        "command": command_line(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(device),
        "versions": software(packages),
    }


def matrix_rate(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    """Floating point operations a second of products of large square matrices: what a training could reach at most.

    The fastest of some series, and on a CPU by the time of its threads, so that what else the machine does counts little.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    size = _MATRIX_SIZE.get(device.type, _ACCELERATOR_MATRIX_SIZE)
    products = _PRODUCTS.get(device.type, _ACCELERATOR_PRODUCTS)
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(_SERIES + 1):
        watch = Stopwatch()
        for _ in range(products):
            left @ right
        timed = watch.read()
        seconds.append(timed.cpu_seconds / threads if device.type == "cpu" else timed.seconds)
    torch.set_num_threads(before)
    return products * 2 * size**3 / min(seconds[1:])


def machine(device: torch.device) -> dict[str, Any]:
    """Names and numbers of the machine, and how busy it was as this was called."""
    return {
        **hardware(device, processes=1),
        "cores": os.cpu_count(),
        "instructions": instructions(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def software(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python, of what the package stands on, and of those of `packages` that are installed."""
    basis = ("torch", "transformers", "tokenizers", "accelerate")
    return versions(*basis, *(name for name in packages if find_spec(name) is not None))
