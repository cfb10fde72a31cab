"""Train a translator: python scripts/train.py RECIPE [--set training.updates=100 ...] [--run-folder runs/NAME]

On several devices: accelerate launch scripts/train.py RECIPE. The same command goes on with a training that was stopped.
"""

import argparse
import sys
from pathlib import Path

from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.engine import train

_INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, help="YAML file, such as scripts/recipes/builtin_tiny.yaml")
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a setting; repeatable",
    )
    parser.add_argument("--run-folder", type=Path, help="where everything is written; runs/NAME-OF-THE-RECIPE by default")
    arguments = parser.parse_args()
    try:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        run = RunFolder(arguments.run_folder or Path("runs") / recipe.name)
        return 0 if train(recipe, run) else _INTERRUPTED
    except (OSError, ValueError, FloatingPointError, MemoryError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from what has been saved.", file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
