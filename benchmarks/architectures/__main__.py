"""Compare the Transformer with a recurrent and a convolutional translator of eole: same pieces, parameters and target tokens.

    python -m benchmarks.architectures multi30k_en_de --updates 3000 --peaks 0.002 0.004 --seeds 1 2 3 --output runs/architectures
    python -m benchmarks.architectures multi30k_en_de --updates 20 --peaks 0.001 --seeds 1 --eole-python ENV/bin/python

Each system is trained with each peak of the learning rate and the first seed, and with one beyond as long as the best is an outermost one;
the other seeds are trained with the best. Each is the mean of its last checkpoints. The recipe's first test set is translated at the end,
and nothing is chosen by it. eole is installed into an environment of its own, once. The command may be stopped at any time, by any means;
the same command goes on where it was: ours bit by bit, eole from its last checkpoint. Runs that other machines have made come from the
results.json of --known. Writes results.json, table.md and table.png into --output after each run; --done-only writes them at once, of what
is done so far.
"""

import argparse
from pathlib import Path

from huggingface_hub import cached_assets_path

from benchmarks.architectures.eole_environment import provide_environment
from benchmarks.architectures.report import draw, table
from benchmarks.architectures.runs import Plan, compare_systems
from benchmarks.architectures.systems import TITLES, Name
from benchmarks.command_line import run
from benchmarks.machine import software
from benchmarks.report import Results
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare the Transformer with a recurrent and a convolutional translator of eole.")
    add = parser.add_argument
    add("recipe", help="a recipe's file, or the name of one that comes with the package")
    add("--updates", type=int, default=3000, help="of our own runs; their target tokens are the budget of all (default: %(default)s)")
    add("--peaks", type=float, nargs="+", default=[0.001, 0.002, 0.004], metavar="RATE", help="learning rates to begin with")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--systems", nargs="+", choices=list(TITLES), default=list(TITLES))
    add("--rnn-layers", type=int, default=2, help="of encoder and decoder each (default: %(default)s)")
    add("--cnn-layers", type=int, default=4, help="of encoder and decoder each (default: %(default)s)")
    add("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="a setting of the recipe; repeatable")
    add("--eole-python", type=Path, metavar="PYTHON", help="of an environment that has eole, in place of one that is made")
    add("--known", type=Path, nargs="+", default=[], metavar="FILE", help="results.json of other commands, whose runs are not made again")
    add("--done-only", action="store_true", help="write the table of what is done, and train nothing")
    add("--output", type=Path, default=Path("runs/architectures"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Compare, and leave `results.json`, `table.md` and `table.png` in `a.output`."""
    place = Path(cached_assets_path("vaswani_transformer", "environments", "eole"))
    python = a.eole_python or (place if a.done_only else provide_environment(place))
    layers: tuple[tuple[Name, int], ...] = (("rnn", a.rnn_layers), ("cnn", a.cnn_layers))
    results: Results = {}
    plan = Plan(
        a.recipe,
        a.updates,
        tuple(a.peaks),
        tuple(a.seeds),
        a.output.resolve(),
        python.absolute(),
        systems=tuple(a.systems),
        layers=layers,
        overrides=tuple(a.overrides),
        known=tuple(a.known),
        done_only=a.done_only,
    )
    for results in compare_systems(plan):
        write_json(a.output / "results.json", results | {"versions": software(())})
        write_text(a.output / "table.md", table(results))
        draw(results, a.output / "table.png")
    print(f"{table(results)}\nresults.json, table.md and table.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse, RuntimeError)
