"""The recipes that come with the package are found by name, and a file wins."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.shipped_recipes import find_recipe, shipped_recipes

FOLDER = Path(__file__).parents[2] / "scripts" / "recipes"


def test_every_recipe_is_listed_with_what_it_is_for() -> None:
    lines = CliRunner().invoke(app, ["recipes"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(path.stem for path in FOLDER.glob("*.yaml"))
    assert all(line.partition("  ")[2].strip() for line in lines)
    assert all(line.endswith(".") for line in lines), "a sentence is cut where the first line of the recipe ends"


def test_a_recipe_is_shown_as_it_stands(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["recipes", "show", "builtin_tiny"]).stdout
    assert shown == (FOLDER / "builtin_tiny.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(shown, encoding="utf-8")
    root = "data.root=."  # which otherwise starts at the file
    assert load_recipe(tmp_path / "mine.yaml", [root]) == load_recipe(find_recipe("builtin_tiny"), [root])


def test_a_file_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_recipe("builtin_tiny") == shipped_recipes()["builtin_tiny"]
    Path("builtin_tiny").write_text("name: mine\n", encoding="utf-8")
    assert find_recipe("builtin_tiny") == Path("builtin_tiny")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("builtin_tini", "did you mean builtin_tiny? `vaswani recipes` lists them"),
        ("scripts/recipes/big_wmt14_en_dee.yaml", "did you mean big_wmt14_en_de? `vaswani recipes` lists them"),
        ("zzz", "`vaswani recipes` lists them"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, hint: str) -> None:
    told = CliRunner().invoke(app, ["recipes", "show", name])
    assert told.exit_code == 1
    assert told.stderr == f"error: There is no recipe file {name}, and no recipe of that name comes with the package; {hint}.\n"
