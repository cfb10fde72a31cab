"""The command line: which starts it names, and what it leaves."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.transfer import __main__ as command
from vaswani_transformer.files.json_files import read_json


def arguments(recipe: Path, **changes: Any) -> Namespace:
    settings: dict[str, Any] = {
        "recipes": [str(recipe)], "starts": [f"masking={recipe.parent / 'masking'}"], "fresh": [], "shares": [1.0], "seeds": [1],
        "rates": [1.0], "first_seed_only": [], "linear": False, "overrides": ["training.updates=2"], "keep_states": False,
        "output": recipe.parent / "out",
    }  # fmt: skip
    return Namespace(**{**settings, **changes})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"starts": ["masking"]}, "must read NAME=FOLDER"),
        ({"starts": ["scratch=folder"]}, "stands for another start"),
        ({"first_seed_only": ["aeslc"]}, "there is no aeslc among the recipes colours"),
        ({"first_seed_only": ["colours:0.5"]}, "there is no colours:0.5 among the recipes colours; one share of a recipe reads NAME:SHARE"),
        ({"fresh": ["other"]}, r"there is no 'other' among the starts masking"),
    ],
)
def test_nonsense_is_refused(colours: Path, models: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        command.planned(arguments(colours, **changes))


def test_what_the_command_leaves(colours: Path, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(arguments(colours, fresh=["masking"], shares=[0.5]))
    output = colours.parent / "out"
    results = read_json(output / "results.json")
    assert len(results["runs"]) == results["planned"] == 3
    assert [row["share"] for row in results["rows"]] == [0.5, 0.5]
    assert set(results["rows"][0]["starts"]) == {"scratch", "masking", "fresh_masking"}
    assert all(run["flops"] > 0 and run["seconds"] > 0 and run["target_tokens"] > 0 for run in results["runs"])
    assert (output / "table.md").read_text(encoding="utf-8") in capsys.readouterr().out
    assert (output / "table.png").is_file()
    moved = output.rename(colours.parent / "moved")
    command.main(arguments(colours, fresh=["masking"], shares=[0.5], output=moved))
    assert "Run 1 of 3" not in capsys.readouterr().err and read_json(moved / "results.json") == results
    (colours.parent / "train.txt").unlink()
    with pytest.raises(RuntimeError, match=r"3 of 3 runs failed; the end of table\.md says why"):
        command.main(arguments(colours, fresh=["masking"], shares=[0.5], overrides=["training.updates=3"]))
