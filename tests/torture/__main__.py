"""Kill, starve and damage trainings, and see that each goes on to the bits of one that nothing disturbed.

    python -m tests.torture                     (60 kills and 4 of every other fault; some minutes)
    python -m tests.torture my_recipe.yaml --kills 200 --others 10 --seed 2

kill -9 at lines of code and at instants, SIGTERM, SIGINT, a full disk, a read-only one, out of memory, NaN, damaged states and checkpoints,
two at once. The superuser's disks are real small ones; others' files are limited instead. Exit status: 0 if all were survived, 1 otherwise.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

# Before torch is imported: children are forked, and only a process with one thread can be
os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

import vaswani_transformer.training.engine  # noqa: F401 (so that no child has to import it)
from tests.torture.training import TortureSettings, tiny_recipe, torture
from vaswani_transformer.recipe import load_recipe


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("recipe", nargs="?", type=Path, help="(default: a tiny one on the built-in corpus)")
    add("--kills", type=int, default=60, help="processes to kill -9 (default: %(default)s)")
    add("--others", type=int, default=4, help="how often each other fault is done (default: %(default)s)")
    add("--seed", type=int, default=1)
    add("--grace", type=float, default=10.0, help="seconds to leave after a signal (default: %(default)s)")
    add("--folder", type=Path, help="where the trainings take place (default: a temporary one)")
    a = parser.parse_args()
    recipe = load_recipe(a.recipe) if a.recipe else tiny_recipe()
    settings = TortureSettings(a.kills, a.others, a.seed, a.grace)
    folder = a.folder or Path(tempfile.mkdtemp(prefix="torture-"))
    return 0 if torture(recipe, folder, settings) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"error: {error}")
