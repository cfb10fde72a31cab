"""One cell of the measurement: a type of layer, a width and a length, in a process of its own with limits of its own.

A process is forked from one that has imported everything and computed nothing, so that it begins in milliseconds, and its peak of memory
is its own.
"""

import gc
import os
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGKILL
from statistics import median
from typing import Any

import torch
from torch import nn

from benchmarks.interleaved import Timed
from benchmarks.layers.kinds import HEAD_DIM, KINDS
from benchmarks.report import Row
from benchmarks.stopwatch import Stopwatch
from vaswani_transformer.training.out_of_memory import fitting
from vaswani_transformer.training.process_memory import keep_freed_memory, map_large_tensors, process_bytes

FORWARD, TRAINING = "forward", "training"
MODES = (FORWARD, TRAINING)
"""Without and with the backward pass."""

MEASURED, TOO_LONG, TOO_LARGE = "measured", "time", "memory"

_SMALL = 32
"""Positions of the first runs, which load code and make threads before anything is noted."""

_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Cell:
    """What is measured.

    Attributes:
        contestant: a name from `KINDS`.
        d_model: d.
        length: n.
        threads: of PyTorch.
    """

    contestant: str
    d_model: int
    length: int
    threads: int


@dataclass(frozen=True)
class Limits:
    """How much a cell may take.

    Attributes:
        repeats: runs that are timed, at most; the first one always is.
        seconds: after so many of them, no further run begins.
        cell_seconds: of all work of the cell, by the processor's clock of each thread.
        cell_gib: memory beyond that of an empty process.
        warm_ups: runs before those that are timed. The system clears the pages of the first ones, which may take as long as their work. The
            memory is that of the first one alone, since what a run leaves in the heap depends on how many there were.
    """

    repeats: int
    seconds: float
    cell_seconds: float
    cell_gib: float
    warm_ups: int = 2


def measure(cell: Cell, limits: Limits, exact_memory: bool = False) -> list[Row]:
    """A row for each mode, in a process of its own: `seconds`, `cpu_seconds` (medians), `peak_bytes` and `outcome`.

    `outcome` is `"measured"`, or `"time"` or `"memory"` where that limit ended the cell; then the figures are None.

    A training keeps what is freed in its heap, which is faster; there the places of tensors decide a part of the peak, about a fifth from
    run to run. With `exact_memory` each tensor of 256 KiB or more is mapped for itself instead: the peak is what is needed, and the times
    are longer.

    Raises:
        RuntimeError: the process ended in another way.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, cell, limits, exact_memory))
    process.start()
    theirs.close()
    rows: list[Row] = []
    ended = MEASURED
    try:
        while len(rows) < len(MODES) and ended == MEASURED:
            if ours.poll(_SECONDS_BETWEEN_LOOKS):
                ended, figures = ours.recv()
                rows += [{**asdict(cell), "mode": MODES[len(rows)], "outcome": MEASURED, **figures}] if ended == MEASURED else []
            elif processor_seconds(process.pid) > limits.cell_seconds * cell.threads:
                ended = TOO_LONG
                process.kill()
    except EOFError:
        process.join()
        if process.exitcode != -SIGKILL:  # as the system ends a process where memory is short
            raise RuntimeError(f"{KINDS[cell.contestant].title} failed: its process ended with {process.exitcode}.") from None
        ended = TOO_LARGE
    process.join()
    return [*rows, *(missing(cell, mode, ended) for mode in MODES[len(rows) :])]


def processor_seconds(process: int | None) -> float:
    """What a process has used of the processor; 0 on a system without /proc, or when it has ended.

    `RLIMIT_CPU` would do, but while it is set, Linux counts the processor's time of a process in ticks of milliseconds only.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def missing(cell: Cell, mode: str, outcome: str) -> Row:
    """A row without figures."""
    return {**asdict(cell), "mode": mode, "outcome": outcome, "seconds": None, "cpu_seconds": None, "runs": 0, "peak_bytes": None}


def _work(connection: Connection, cell: Cell, limits: Limits, exact_memory: bool) -> None:
    """Send an outcome and figures for each mode."""
    if exact_memory:
        map_large_tensors()
    else:
        keep_freed_memory()
    gc.freeze()  # or a collection inside a timed run goes through all that the server imported, and copies its pages
    torch.set_num_threads(cell.threads)
    torch.manual_seed(1)
    for mode in MODES:  # a narrow layer, because the heap keeps what gradients of its weights took
        _run(KINDS[cell.contestant].build(HEAD_DIM, 1), torch.randn(1, _SMALL, HEAD_DIM), mode)()
    layer = KINDS[cell.contestant].build(cell.d_model, 1)
    empty = process_bytes("VmRSS") or 0
    _limit(limits)
    try:
        with fitting(lambda: "The cell does not fit"):
            states = torch.randn(1, cell.length, cell.d_model)
            for mode in MODES:
                run = _run(layer, states, mode)
                run()
                peak = process_bytes("VmHWM")
                for _ in range(limits.warm_ups - 1):
                    run()
                figures = _timed(run, limits)
                connection.send((MEASURED, {**figures, "peak_bytes": None if peak is None else peak - empty}))
    except MemoryError:
        connection.send((TOO_LARGE, {}))


def _limit(limits: Limits) -> None:
    """Let the system refuse this process memory beyond its share."""
    mapped = process_bytes("VmSize")
    if mapped is not None:
        most = mapped + int(limits.cell_gib * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _run(layer: nn.Module, states: torch.Tensor, mode: str) -> Callable[[], None]:
    return partial(_forward if mode == FORWARD else _train, layer, states)


def _forward(layer: nn.Module, states: torch.Tensor) -> None:
    with torch.inference_mode():
        layer(states)


def _train(layer: nn.Module, states: torch.Tensor) -> None:
    """Forward, and backward to the weights and to the input, as inside a stack."""
    found = layer(states.detach().requires_grad_())
    found.backward(torch.ones_like(found))
    layer.zero_grad(set_to_none=True)


def _timed(run: Callable[[], None], limits: Limits) -> dict[str, Any]:
    """Medians of as many runs as begin in time."""
    times: list[Timed] = []
    whole = Stopwatch()
    while len(times) < limits.repeats and (not times or whole.read().cpu_seconds < limits.seconds):
        watch = Stopwatch()
        run()
        times.append(watch.read())
    return {
        "seconds": median(time.seconds for time in times),
        "cpu_seconds": median(time.cpu_seconds for time in times),
        "runs": len(times),
    }
