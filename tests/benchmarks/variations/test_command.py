"""The command: which runs it plans, what it leaves, and what it removes."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.levers import Plan
from benchmarks.variations import __main__ as command
from vaswani_transformer.files.json_files import read_json


def arguments(output: Path, **changes: Any) -> Namespace:
    settings = {
        "recipe": "multi30k_en_de",
        "updates": 30,
        "seeds": [1, 2],
        "rows": None,
        "overrides": [],
        "keep_states": False,
        "done_only": False,
    }
    return Namespace(**{**settings, "known": [], "output": output, **changes})


def test_a_row_brings_the_rows_beside_it_and_every_run_has_the_updates_asked_for(tmp_path: Path) -> None:
    rows, plan = command.planned(arguments(tmp_path, rows=["additive_1_head"]))
    assert [row.name for row in rows] == ["base", "A_1_heads", "unscaled_1_head", "additive_1_head"]
    own = plan.recipe_of("additive_1_head", 2)
    assert (own.training.updates, own.training.seed, own.training.average_checkpoints) == (30, 2, 1)
    assert (own.model["attention_score"], own.model["head_dim"]) == ("additive", 128)
    _, plan = command.planned(arguments(tmp_path, overrides=["training.r_drop=2.5", "training.average_checkpoints=3"]))
    assert plan.recipe_of("E_learned_positions", 1).training.updates == 30  # R-Drop is no reason for half of them
    assert plan.recipe_of("base", 1).training.average_checkpoints == 3


def test_nonsense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no 'F'; choose from base, A_1_heads"):
        command.planned(arguments(tmp_path, rows=["F"]))
    with pytest.raises(ValueError, match="`--updates` is 0"):
        command.planned(arguments(tmp_path, updates=0))


@pytest.mark.parametrize("keeps", [False, True])
def test_what_a_finished_run_leaves(
    keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trained(plan: Plan) -> Iterator[dict[str, Any]]:
        shared = {"recipe": "small", "overrides": [], "seeds": [1], "variants": dict(plan.variants), "runs": []}
        for name in plan.variants:
            for folder in ("state", "checkpoints/step-30", "averaged"):
                (plan.output / name / "seed-1" / folder).mkdir(parents=True)
            figures = {"nll": 1.0, "bleu": 2.0, "chrf": 3.0, "parameters": 4, "updates": 30}
            shared["runs"].append({"variant": name, "seed": 1, **figures})
            yield shared

    monkeypatch.setattr(command, "compare_levers", trained)
    command.main(arguments(tmp_path, rows=["A_1_heads"], keep_states=keeps))
    assert (tmp_path / "table.md").read_text(encoding="utf-8") in capsys.readouterr().out
    assert [row["name"] for row in read_json(tmp_path / "results.json")["rows"]] == ["base", "A_1_heads"]
    assert (tmp_path / "table.png").is_file()
    left = {path.name for path in (tmp_path / "base" / "seed-1").iterdir()}
    assert left == ({"state", "checkpoints", "averaged"} if keeps else {"averaged"})
