"""The recipes that come with the package: list them, show one."""

from pathlib import Path
from typing import Annotated

import typer

from ..shipped_recipes import find_recipe, shipped_recipes

app = typer.Typer()


def complete_recipe(incomplete: str) -> list[str]:
    """Names for the shell's completion."""
    return [name for name in shipped_recipes() if name.startswith(incomplete)]


Recipe = Annotated[str, typer.Argument(metavar="NAME-OR-FILE", help="A recipe's name or its YAML file.", autocompletion=complete_recipe)]
"""An argument of several verbs. A file wins over a name."""


@app.callback(invoke_without_command=True)
def recipes(context: typer.Context) -> None:
    """List the recipes that come with the package, or show one.

    \b
    vaswani recipes
    vaswani recipes show builtin_tiny > my_recipe.yaml
    """
    if context.invoked_subcommand is None:
        shipped = shipped_recipes()
        width = max(map(len, shipped), default=0)
        for name, path in shipped.items():
            print(f"{name:<{width}}  {_first_comment(path)}")


@app.command()
def show(name: Recipe) -> None:
    """Print a recipe's file, comments included: a start for your own."""
    print(find_recipe(name).read_text(encoding="utf-8"), end="")


def _first_comment(path: Path) -> str:
    """What a recipe is for: its first line, which is a comment."""
    with open(path, encoding="utf-8") as lines:
        return next(lines).lstrip("# ").rstrip()
