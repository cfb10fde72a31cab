"""Train each task from scratch and from other models, with all of its training examples and with few, and compare.

    python -m benchmarks.transfer sst2 trec ewt_upos wnut17 aeslc scitldr lafand_en_sw \\
        --from masking=runs/pretrain_masking/averaged denoising=runs/pretrain_denoising/averaged translator=runs/docs_en_de/averaged \\
        --fresh masking --shares 1 0.1 0.01 --seeds 1 2 3 --first-seed-only aeslc --set trec:data.root=data/trec --output runs/transfer

Each run is in OUTPUT/TASK/START/share-S/seed-N, and everything with the first seed comes first. The command may be stopped at any time, by
any means; the same command goes on where it was, does not repeat what is done, and tries again what failed. Writes results.json, table.md
and table.png into --output after each run.
"""

import argparse
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.report import Results
from benchmarks.transfer.linear import LINEAR
from benchmarks.transfer.report import draw, summary, table
from benchmarks.transfer.runs import Plan, compare_starts, forget_states, fresh, plan_of
from benchmarks.transfer.starts import FRESH, SCRATCH, Start
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train tasks from scratch and from other models, with all examples and with few.")
    add = parser.add_argument
    add("recipes", nargs="+", metavar="RECIPE", help="a recipe's file, or the name of one that comes with the package")
    add("--from", dest="starts", nargs="+", default=[], metavar="NAME=FOLDER", help="models to begin with, beside `scratch`")
    add("--fresh", nargs="+", default=[], metavar="NAME", help="also the shape and tokenizer of these models with random weights")
    add("--linear", action="store_true", help="also a logistic regression of words and pairs of words, where a text has one label")
    add("--shares", type=float, nargs="+", default=[1.0, 0.1, 0.01], help="of the training examples (default: 1 0.1 0.01)")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3], help="each draws the shares anew, too (default: 1 2 3)")
    add("--first-seed-only", nargs="+", default=[], metavar="RECIPE[:SHARE]", help="what is too long for all seeds")
    add("--rates", type=float, nargs="+", default=[1.0], help="times the learning rate; the validation set chooses (default: 1)")
    add("--set", dest="overrides", action="append", default=[], metavar="[RECIPE:]KEY=VALUE", help="a setting of one or all; repeatable")
    add("--keep-states", action="store_true", help="keep what a finished run would need to go on: checkpoints, optimizer, encoded corpus")
    add("--output", type=Path, default=Path("runs/transfer"))
    return parser.parse_args()


def planned(a: argparse.Namespace) -> Plan:
    """The runs of a command line.

    Raises:
        FileNotFoundError: there is no such recipe or model.
        ValueError: a start has no name or folder, or a setting cannot be used.
    """
    starts: list[Start] = []
    for text in a.starts:
        name, _, folder = text.partition("=")
        if not (name.isidentifier() and folder):
            raise ValueError(f"`--from {text}` must read NAME=FOLDER, with a name of letters, digits and underscores.")
        if name in (SCRATCH, LINEAR) or name.startswith(FRESH) or name in {start.name for start in starts}:
            raise ValueError(f"`--from {text}`: the name {name} stands for another start; choose another one.")
        starts.append(Start(name, Path(folder)))
    return plan_of(
        a.recipes,
        a.overrides,
        starts=(*starts, *fresh(starts, a.fresh)),
        shares=tuple(a.shares),
        seeds=tuple(a.seeds),
        rates=tuple(a.rates),
        first_seed_only=tuple(a.first_seed_only),
        with_linear=a.linear,
        output=a.output,
    )


def main(a: argparse.Namespace) -> None:
    """Train, and leave `results.json`, `table.md` and `table.png` in `a.output`.

    Raises:
        RuntimeError: runs failed; all others are done.
    """
    plan = planned(a)
    results: Results = {}
    for results in compare_starts(plan):
        write_json(plan.output / "results.json", {**results, "rows": summary(results)})
        write_text(plan.output / "table.md", table(results))
        draw(results, plan.output / "table.png")
        if not a.keep_states:
            forget_states(plan)
    print(f"{table(results)}\nresults.json, table.md and table.png are in {plan.output}.")
    if failed := sum("failed" in each for each in results["runs"]):
        raise RuntimeError(
            f"{failed} of {results['planned']} runs failed; the end of table.md says why. The same command tries them again."
        )


if __name__ == "__main__":
    run(main, parse, RuntimeError)
