"""`vaswani heads` tells a run from a model, and refuses options that would be ignored."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.inspection import head_report
from vaswani_transformer.inspection.head_report import HeadText
from vaswani_transformer.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").touch()
    return tmp_path / "run"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of the two functions."""
    calls: list[Any] = []
    for name in ("report_heads_of_run", "report_heads"):
        monkeypatch.setattr(head_report, name, lambda *arguments, **settings: calls.append((*arguments, settings)) or {})
    monkeypatch.setattr(head_report, "heads_table", lambda report: "| table |")
    return calls


def test_a_run_is_measured_on_its_own_text(run: Path, asked: list[Any]) -> None:
    told = CliRunner().invoke(app, ["heads", str(run), "--worth", "--sentences", "5"])
    assert told.exit_code == 0, told.stderr
    assert told.stdout == f"| table |\nAll of it is in {run / 'heads.json'}, and drawn in {run / 'heads.png'}.\n"
    assert asked == [(RunFolder(run), {"sentences": 5, "worth": True})]


def test_a_model_is_measured_on_files(tmp_path: Path, asked: list[Any]) -> None:
    for name, lines in (("t.en", "Yes.\nA dog.\nNo.\n"), ("t.sv", "Ja.\nEn hund.\nNej.\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    files = ["--source", str(tmp_path / "t.en"), "--target", str(tmp_path / "t.sv"), "--output", str(tmp_path / "out")]
    told = CliRunner().invoke(app, ["heads", "a/b", *files, "--target-language", "sv", "--sentences", "2"])
    assert told.exit_code == 0, told.stderr
    text = HeadText("t.en", [("Yes.", "Ja."), ("A dog.", "En hund.")], ("en", "sv"))
    assert asked == [("a/b", text, RunFolder(tmp_path / "out"), {"worth": False})]


def test_figures_are_drawn_if_asked_for(run: Path, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = HeadText("validation", [("Yes.", "Ja.")], ("en", "de"))
    monkeypatch.setattr(head_report, "validation_text", lambda run, sentences: text)
    monkeypatch.setattr(head_report, "draw_dependencies", lambda *arguments: asked.append(arguments))
    told = CliRunner().invoke(app, ["heads", str(run), "--figures", str(tmp_path / "figures")])
    assert told.exit_code == 0, told.stderr
    assert told.stdout.endswith(f"The figures are in {tmp_path / 'figures'}.\n")
    assert asked[1:] == [(str(run / "averaged"), text, tmp_path / "figures")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{run}", "--source", "t.en", "--tokenized"], "--source, --tokenized: a run is measured on its validation set; name the model"),
        (["a/b", "--source", "t.en", "--target", "t.de"], "a/b is no run's folder; a model needs --source, --target and --output."),
    ],
)
def test_nothing_is_ignored(words: list[str], sentence: str, run: Path, asked: list[Any]) -> None:
    told = CliRunner().invoke(app, ["heads", *(word.format(run=run) for word in words)])
    assert told.exit_code == 2 and sentence in told.stderr and not asked


def test_what_is_not_there_is_one_line(run: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["heads", str(run)])
    assert told.exit_code == 1
    assert told.stderr == f"error: There is no averaged checkpoint {run / 'averaged'}; finish the training of this run first.\n"
