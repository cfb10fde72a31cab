"""The table of what models for labels, summaries and answers score."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.task_scores import main, parse, read_run, table
from tests.finished_run import finished_run, run
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.run_folder import RunFolder

__all__ = ["finished_run", "run"]

OTHERS = {"system": "A peer, 2020", "metric": "accuracy", "score": 82.7}


def scored(run: RunFolder, task: str, scores: dict[str, dict[str, float]], **more: Any) -> RunFolder:
    """The run, evaluated as one of another task: the scores of each test set by their names."""
    sets = [
        {"name": name, "pairs": 40, "metrics": {metric: {"score": score} for metric, score in own.items()}, "samples": []} | more
        for name, own in scores.items()
    ]
    write_json(run.evaluation, {**read_json(run.evaluation), "task": task, "test_sets": sets})
    write_json(run.training, {**read_json(run.training), "precision": "float32"})
    return run


def test_a_row_for_each_score_and_the_cost_once(run: RunFolder) -> None:
    own = read_run(scored(run, "tagging", {"posts": {"accuracy": 92.481, "entity_f1": 12.345}}, published=[OTHERS]).path)
    minutes = f"{read_json(run.training)['seconds'] / 60:.0f}"
    cost = f"4,321 | {read_json(run.training)['parameters']:,} | 1,200 | {minutes}"
    assert table({"runs": [own]}).splitlines()[2:4] == [
        f"| toy_en_de | posts | accuracy | 92.48 | 82.70 A peer, 2020 | {cost} |",
        "| toy_en_de | posts | entity F1 | 12.35 | - |  |  |  |  |",
    ]


def test_several_test_sets_have_a_mean_and_a_table_of_their_own(run: RunFolder) -> None:
    sets = {"1_facts": {"exact_match": 95.0}, "2_facts": {"exact_match": 94.9}, "3_facts": {"exact_match": 50.1}}
    own = read_run(scored(run, "question_answering", sets).path)
    shown = table({"runs": [own]})
    assert "| toy_en_de | mean of 3 | exact match | 80.00; 1 solved | - |" in shown
    assert shown.endswith(
        "| toy_en_de | questions | exact match | exact match, error |\n| --- | ---: | ---: | ---: |\n"
        "| 1_facts | 40 | 95.0 | 5.0 |\n| 2_facts | 40 | 94.9 | 5.1 |\n| 3_facts | 40 | 50.1 | 49.9 |\n"
    )


def test_others_stand_beside_a_mean_only_where_they_have_every_test_set(run: RunFolder) -> None:
    own = read_run(scored(run, "question_answering", {"1_facts": {"exact_match": 99.0}, "2_facts": {"exact_match": 30.0}}).path)
    whole = [{"system": "A peer", "metric": "exact_match", "score": score} for score in (100.0, 45.0)]
    part = {"system": "Another", "metric": "exact_match", "score": 97.0}
    own["sets"][0]["published"], own["sets"][1]["published"] = [whole[0], part], [whole[1]]
    shown = table({"runs": [own]})
    assert "| toy_en_de | mean of 2 | exact match | 64.50; 1 solved | 72.50 A peer |" in shown
    assert shown.endswith(
        "| toy_en_de | questions | exact match | exact match, error | others report |\n| --- | ---: | ---: | ---: | ---: |\n"
        "| 1_facts | 40 | 99.0 | 1.0 | exact match 100.0 A peer; exact match 97.0 Another |\n"
        "| 2_facts | 40 | 30.0 | 70.0 | exact match 45.0 A peer |\n"
    )


def test_the_files_hold_what_is_printed(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scored(run, "classification", {"reviews": {"accuracy": 79.08}})
    monkeypatch.setattr(sys, "argv", ["task_scores", str(run.path), "--output", str(tmp_path / "tasks")])
    main(parse())
    written = (tmp_path / "tasks" / "table.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"{written}\n"
    assert table(read_json(tmp_path / "tasks" / "results.json")) == written


def test_what_is_no_such_run_is_told_in_a_sentence(run: RunFolder) -> None:
    with pytest.raises(ValueError, match="is a translator; its scores stand in its card: vaswani card "):
        read_run(run.path)
    scored(run, "classification", {"reviews": {"accuracy": 79.08}})
    evaluation = read_json(run.evaluation)
    write_json(run.evaluation, evaluation | {"weights_sha256": {"model.safetensors": "0" * 64}})
    with pytest.raises(ValueError, match=r"was made with other weights than .*; evaluate the run again"):
        read_run(run.path)
    run.evaluation.unlink()
    with pytest.raises(FileNotFoundError, match=r"There is no .*: evaluate the run first"):
        read_run(run.path)
