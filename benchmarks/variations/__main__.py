"""Train every row of the paper's Table 3 at the size of a recipe, for one budget each, and compare the directions with the paper's.

    python -m benchmarks.variations multi30k_en_de --set data.root=data/multi30k_tok --output runs/table_3
    python -m benchmarks.variations multi30k_en_de --rows base A_1_heads --updates 50 --seeds 1 --output runs/table_3_short

Each row is trained with each seed in OUTPUT/ROW/seed-N, first all rows with the first seed. As in the paper, the last checkpoint is scored
and no average. The command may be stopped at any time, by any means; the same command goes on where it was, and does not repeat what is
done; runs that other machines have made come from the results.json of --known. Writes results.json, table.md and table.png into --output
after each run; --done-only writes them at once, of what is done so far.
"""

import argparse
import shutil
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.levers import Plan, budget_of, compare_levers
from benchmarks.machine import software
from benchmarks.report import Results
from benchmarks.variations.report import draw, summary, table
from benchmarks.variations.rows import Variation, variations
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.shipped_recipes import find_recipe

AS_IN_TABLE_3 = ("training.average_checkpoints=1",)
"""Section 6.2: the search of section 6.1, but no checkpoint averaging. An override of the command line comes after it."""


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Train the rows of the paper's Table 3 at the size of a recipe, and compare the directions."
    )
    add = parser.add_argument
    add("recipe", help="a recipe's file, or the name of one that comes with the package; its model is the base")
    add("--updates", type=int, default=3000, help="of each run (default: %(default)s)")
    add("--seeds", type=int, nargs="+", default=[1, 2])
    add("--rows", nargs="+", metavar="ROW", help="only these; the base is always among them")
    add("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="a setting of all rows; repeatable")
    add("--keep-states", action="store_true", help="keep what a finished run would need to go on: checkpoints, optimizer, encoded corpus")
    add("--known", type=Path, nargs="+", default=[], metavar="FILE", help="results.json of other queues, whose runs are not made again")
    add("--done-only", action="store_true", help="write what is done so far, and train nothing")
    add("--output", type=Path, default=Path("runs/table_3"))
    return parser.parse_args()


def planned(a: argparse.Namespace) -> tuple[list[Variation], Plan]:
    """The rows of a command line, and the runs that they need.

    Raises:
        FileNotFoundError: there is no such recipe.
        ValueError: there is no such row, or a setting cannot be used.
    """
    overrides = (*AS_IN_TABLE_3, *a.overrides)
    recipe = load_recipe(find_recipe(a.recipe), overrides)
    rows = variations(recipe)
    for unknown in set(a.rows or ()) - {row.name for row in rows}:
        raise ValueError(f"`--rows`: there is no {unknown!r}; choose from {', '.join(row.name for row in rows)}.")
    if a.updates < 1:
        raise ValueError(f"`--updates` is {a.updates}; it must be 1 or more.")
    wanted = {row.name for row in rows} if a.rows is None else {"base", *a.rows}
    for row in reversed(rows):  # a row comes after the one that it stands beside
        if row.name in wanted:
            wanted.add(row.beside)
    rows = [row for row in rows if row.name in wanted]
    budget = budget_of(find_recipe(a.recipe), a.updates, overrides)
    variants = {row.name: row.settings for row in rows}
    return rows, Plan(a.recipe, variants, budget, tuple(a.seeds), a.output, overrides, tuple(a.known), a.done_only)


def main(a: argparse.Namespace) -> None:
    """Train, and leave `results.json`, `table.md` and `table.png` in `a.output`."""
    rows, plan = planned(a)
    results: Results = {}
    for results in compare_levers(plan):
        results = results | {"versions": software(()), "rows": summary(rows, results)}
        write_json(plan.output / "results.json", results)
        write_text(plan.output / "table.md", table(rows, results))
        draw(rows, results, plan.output / "table.png")
        last = results["runs"][-1]
        if not a.keep_states:
            forget_states(RunFolder(plan.output / last["variant"] / f"seed-{last['seed']}"))
    print(f"{table(rows, results)}\nresults.json, table.md and table.png are in {plan.output}.")


def forget_states(run: RunFolder) -> None:
    """Remove what only a training that goes on needs; the model, its log and its scores stay."""
    for folder in (run.state, run.checkpoints, run.encoded):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    run(main, parse, RuntimeError)
