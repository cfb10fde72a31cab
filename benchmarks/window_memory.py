"""The memory of restricted self-attention on a long text, beside that of unrestricted self-attention on a sixteenth of it.

    python -m benchmarks.window_memory --output runs/window_memory

One layer on one sequence, at each width, in processes of their own: 16,384 positions that see 128 neighbours each, and 1,024 positions that
see each other, with their weights stored and by PyTorch's fused kernel. Takes about two minutes. Writes results.json and table.md into
--output and prints the table.
"""

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.command_line import run
from benchmarks.layers.cells import FORWARD, MODES, Cell, Limits, measure
from benchmarks.layers.kinds import KINDS, NEIGHBOURS
from benchmarks.layers.measurement import WIDTHS
from benchmarks.machine import circumstances
from benchmarks.report import UNKNOWN, Results, Row, markdown_table, on_what
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json

SHORT, LONG = 1024, 16_384
LENGTHS = {"eager": SHORT, "attention": SHORT, "restricted": LONG}
"""Positions of each contestant, names of `KINDS`."""

_LIMITS = Limits(repeats=1, seconds=0.01, cell_seconds=120, cell_gib=6)
_MIB = 2**20


def benchmark_window_memory(widths: Sequence[int], processes: int) -> Results:
    """Peaks and processor's seconds of each contestant at each width.

    Args:
        widths: values of d, multiples of 64.
        processes: of each cell; their medians count.

    Raises:
        ValueError: a width is no multiple of 64, or a number is below 1.
        RuntimeError: a process failed.
    """
    if wrong := [width for width in widths if width < 64 or width % 64]:
        raise ValueError(f"`--widths` holds {wrong[0]}; a head is 64 wide, so take multiples of 64.")
    if processes < 1:
        raise ValueError(f"`--processes` is {processes}; it must be 1 or more.")
    rows = [row for width, name in product(widths, LENGTHS) for row in _medians(Cell(name, width, LENGTHS[name], 1), processes)]
    return {**circumstances(torch.device("cpu")), "neighbours": NEIGHBOURS, "processes": processes, "cells": rows}


def _medians(cell: Cell, processes: int) -> list[Row]:
    every = [measure(cell, _LIMITS, exact_memory=True) for _ in range(processes)]
    return [
        {**rows[0], **{name: _median([row[name] for row in rows]) for name in ("cpu_seconds", "peak_bytes")}}
        for rows in zip(*every, strict=True)
    ]


def _median(values: Sequence[Any]) -> float | None:
    """None if one is unknown."""
    return None if None in values else median(values)


def ratios(results: Results, mode: str) -> dict[int, float]:
    """For each width, the peak of the restricted layer over that of the unrestricted one with its weights stored, where both are known."""
    peaks = {(row["d_model"], row["contestant"]): row["peak_bytes"] for row in results["cells"] if row["mode"] == mode}
    widths = dict.fromkeys(width for width, _ in peaks)
    pairs = {width: (peaks[width, "restricted"], peaks[width, "eager"]) for width in widths}
    return {width: long / short for width, (long, short) in pairs.items() if long and short}


def table(results: Results) -> str:
    """Markdown: a row for each mode and width."""
    header = (
        "",
        "d",
        *(f"{KINDS[name].title}, n = {length:,}" for name, length in LENGTHS.items()),
        "restricted by stored",
        "seconds of it",
    )
    return (
        "Peak memory in MiB of one layer on one sequence, beyond what its process held with a short one; heads 64 wide, float32, one "
        f"thread, medians of {results['processes']} processes. Seconds are the processor's. {on_what(results)}\n\n"
        f"{markdown_table(header, (cells for mode in MODES for cells in _rows(results, mode)), left=1)}\n"
    )


def _rows(results: Results, mode: str) -> list[tuple[str, ...]]:
    own = {(row["d_model"], row["contestant"]): row for row in results["cells"] if row["mode"] == mode}
    found, name = ratios(results, mode), "forward" if mode == FORWARD else "forward and backward"
    return [
        (
            name,
            f"{width:,}",
            *(_mebibytes(own[width, contestant]["peak_bytes"]) for contestant in LENGTHS),
            f"{found[width]:.2f}" if width in found else UNKNOWN,
            _seconds(own[width, "restricted"]["cpu_seconds"]),
        )
        for width in dict.fromkeys(width for width, _ in own)
    ]


def _mebibytes(size: float | None) -> str:
    return UNKNOWN if size is None else f"{size / _MIB:,.0f}"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure the memory of restricted self-attention on a long text.")
    parser.add_argument("--widths", type=int, nargs="+", default=list(WIDTHS), metavar="D", help="multiples of 64 (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=3, help="of each cell (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("runs/window_memory"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Measure, and leave results.json and table.md in `a.output`."""
    results = benchmark_window_memory(a.widths, a.processes)
    write_json(a.output / "results.json", results)
    write_text(a.output / "table.md", table(results))
    print(f"{table(results)}\nresults.json and table.md are in {a.output}.")


if __name__ == "__main__":
    run(main, parse, RuntimeError)
