"""Measure how fast one optimisation update is: ours, MarianMTModel in a plain loop and in Seq2SeqTrainer, side by side in one run.

    python -m benchmarks.training --source train.en.gz --target train.de.gz --shapes tiny small base --threads 1 2

Everybody trains on the same corpus, in a process of its own, in rounds by turns; ratios refer to the first contestant. Writes results.json,
table.md and results.png into --output after each setting, and prints the table at the end. On a machine with a GPU it runs there.
"""

import argparse
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.training.contestants import KINDS
from benchmarks.training.measurement import SHAPES, Settings, benchmark_training
from benchmarks.training.report import table, write_report


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure an optimisation update's speed and memory by others'.")
    add = parser.add_argument
    add("--source", required=True, help="sentences, one a line: plain, .gz or .xz")
    add("--target", required=True, help="their translations, line by line")
    add("--shapes", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(SHAPES)}")
    add("--threads", type=int, nargs="+", default=[1])
    add("--contestants", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(KINDS)}")
    add("--repeats", type=int, default=5)
    add("--updates", type=int, help="of a round (default: 4, 2 and 1 for tiny, small and base; 10 on a GPU)")
    add("--batch-tokens", type=int, help="most tokens a side, with padding (default: 4096; 25000 on a GPU)")
    add(
        "--give-back-memory",
        action="store_true",
        help="between rounds, where not all contestants fit into memory",
    )
    add("--output", type=Path, default=Path("runs/training_benchmark"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    settings = Settings.chosen(a)
    results = {}
    for results in benchmark_training(a.source, a.target, settings):
        write_report(results, a.output)
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse, RuntimeError)
