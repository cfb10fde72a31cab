"""The recipes that come with the package, by name."""

import difflib
from pathlib import Path

_PACKAGE = Path(__file__).parent
_FOLDERS = (_PACKAGE / "recipes", _PACKAGE.parent / "scripts" / "recipes")
"""In an installed package; in a checkout of the project."""


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
