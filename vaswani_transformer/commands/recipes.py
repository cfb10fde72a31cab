"""The recipes that come with the package: list them, show one, find one by its name."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "recipes", _PACKAGE.parent / "scripts" / "recipes")
"""In an installed package; in a checkout of the project."""

app = typer.Typer()


def shipped_recipes() -> dict[str, Path]:
    """The files of the recipes that come with the package, by name."""
    return {path.stem: path for folder in _FOLDERS for path in sorted(folder.glob("*.yaml"))}


def find_recipe(name: str) -> Path:
    """The file `name` or, where there is none, the recipe of that name that comes with the package.

    Raises:
        FileNotFoundError: there is neither.
    """
    if Path(name).is_file():
        return Path(name)
    shipped = shipped_recipes()
    if name not in shipped:
        nearest = difflib.get_close_matches(Path(name).stem, shipped, n=1)
        hint = f"did you mean {nearest[0]}? `vaswani recipes` lists them" if nearest else "`vaswani recipes` lists them"
        raise FileNotFoundError(f"There is no recipe file {name}, and no recipe of that name comes with the package; {hint}.")
    return shipped[name]


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
