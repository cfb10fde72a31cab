"""Measure how fast a checkpoint translates, in how much memory and how well: ours, MarianMTModel and CTranslate2 side by side.

    python -m benchmarks.translation runs/NAME/averaged --source FILE --reference FILE --sentences 200
    python -m benchmarks.translation MODEL --set short a.en.gz a.de.gz --set long b.en.gz b.de.gz --batch-sizes 1 32

One process, the same weights and batches for everybody, repeats in turn; ratios refer to the first contestant. Writes results.json,
table.md and results.png into --output after each setting, and prints the table at the end. On a machine with a GPU it runs there.
"""

import argparse
from pathlib import Path
from typing import get_args

from benchmarks.command_line import run
from benchmarks.translation.contestants import KINDS
from benchmarks.translation.measurement import Lengths, ParallelFiles, Settings, benchmark_translation
from benchmarks.translation.report import table, write_report


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a checkpoint's speed, memory and BLEU by others'.")
    add = parser.add_argument
    add("model", help="a folder of ours, such as runs/NAME/averaged, or a repository of the Hub")
    add("--source", help="sentences, one a line: plain, .gz or .xz")
    add("--reference", help="their translations, line by line")
    add("--name", default="test", help="of that test set (default: %(default)s)")
    add("--set", nargs=3, metavar=("NAME", "SOURCE", "REFERENCE"), action="append", default=[])
    add("--sentences", type=int, help="how many of each set to time (default: all; BLEU is of all)")
    add("--batch-sizes", type=int, nargs="+", default=[1, 32])
    add("--beams", type=int, nargs="+", default=[4, 1])
    add("--lengths", nargs="+", choices=get_args(Lengths), default=["own"], help="of what is timed")
    add("--repeats", type=int, default=5)
    add("--threads", type=int, default=1)
    add("--contestants", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(KINDS)}")
    add("--device", choices=["cpu", "cuda"])
    add("--target-language", default="de", help="chooses sacreBLEU's tokeniser (default: %(default)s)")
    add("--no-memory", dest="memory", action="store_false", help="do not load each contestant alone")
    add("--output", type=Path, default=Path("runs/translation_benchmark"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    if (a.source is None) != (a.reference is None) or not (a.source or a.set):
        raise ValueError("Give --source and --reference, or --set NAME SOURCE REFERENCE.")
    single = [[a.name, a.source, a.reference]] if a.source else []
    settings = Settings.chosen(a)
    test_sets = [ParallelFiles(*three) for three in [*single, *a.set]]
    for results in benchmark_translation(a.model, test_sets, settings):
        write_report(results, a.output)
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
