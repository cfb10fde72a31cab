"""Measure Table 1 of the paper: layers of attention, of recurrence and of convolution, by their width d and the length n.

    python -m benchmarks.layers --output runs/layers

Each cell, a layer at one width and length, runs in a process of its own under limits of time and memory; a row ends where one is reached.
The same command goes on where it was stopped, and adds further widths, lengths or threads to what is there; with higher limits, it tries
again what the lower ones ended. --quick measures a corner of it in a minute. Writes results.json and table.md into --output after each row,
then results.png, and prints the table at the end.
"""

import argparse
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.layers.kinds import KINDS
from benchmarks.layers.measurement import LENGTHS, WIDTHS, Settings, benchmark_layers
from benchmarks.layers.report import table, write_picture, write_tables

_QUICK_WIDTHS, _QUICK_LENGTHS = (64, 128, 256), (32, 64, 128, 256, 512, 1024)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure what layers of attention, recurrence and convolution cost.")
    add = parser.add_argument
    add("--contestants", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(KINDS)} (default: all)")
    add("--widths", type=int, nargs="+", metavar="D", help=f"multiples of 64 (default: {' '.join(map(str, WIDTHS))})")
    add("--lengths", type=int, nargs="+", metavar="N", help=f"(default: {' '.join(map(str, LENGTHS))})")
    add("--threads", type=int, nargs="+", default=list(Settings.threads))
    add("--quick", action="store_true", help="small widths and short lengths by default")
    add("--repeats", type=int, default=Settings.repeats, help="timed runs of a cell, at most")
    add("--seconds", type=float, default=Settings.seconds, help="no further run begins after so many")
    add("--cell-seconds", type=float, default=Settings.cell_seconds, help="of each thread, after which a cell is given up")
    add("--cell-gib", type=float, default=Settings.cell_gib, help="memory that a cell may take")
    add("--output", type=Path, default=Path("runs/layers"))
    a = parser.parse_args()
    a.widths = a.widths or list(_QUICK_WIDTHS if a.quick else WIDTHS)
    a.lengths = a.lengths or list(_QUICK_LENGTHS if a.quick else LENGTHS)
    return a


def main(a: argparse.Namespace) -> None:
    """Measure, and leave the report in `a.output`."""
    results = {}
    for results in benchmark_layers(Settings.chosen(a), a.output / "results.json"):
        write_tables(results, a.output)
    write_picture(results, a.output)
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse, RuntimeError)
