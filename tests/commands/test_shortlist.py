"""`vaswani shortlist` tells a run from a model, and says what the list covers and how it is used."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.data import shortlisting
from vaswani_transformer.data.shortlisting import Coverage


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def make(folder: Path, pairs: Any, languages: Any, **settings: Any) -> Coverage | None:
        calls.append((folder, None if pairs is None else [(p.source, p.target) for p in pairs], languages, settings))
        return Coverage(0.975, 0.8, 1234.5) if pairs is None else None

    monkeypatch.setattr(shortlisting, "make_shortlist", make)
    return calls


def test_a_run_needs_nothing_else(tmp_path: Path, asked: list[Any]) -> None:
    (tmp_path / "recipe.yaml").touch()
    told = CliRunner().invoke(app, ["shortlist", str(tmp_path), "--best", "20"])
    assert told.exit_code == 0, told.stderr
    assert "1,234 tokens on average and 97.50% of the reference's; 80.0% of the references can be reached whole." in told.stdout
    assert f"{tmp_path / 'averaged' / 'shortlist.safetensors'} is ready, and a search uses it with shortlist=True." in told.stdout
    assert asked == [(tmp_path, None, None, {"best": 20, "frequent": 100, "use": [], "progress": True})]


def test_a_model_needs_pairs_and_languages(tmp_path: Path, asked: list[Any]) -> None:
    for name, lines in (("t.en", "Yes.\nNo.\n"), ("t.sv", "Ja.\nNej.\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    files = ["--source", str(tmp_path / "t.en"), "--target", str(tmp_path / "t.sv")]
    told = CliRunner().invoke(app, ["shortlist", str(tmp_path), *files, "--source-language", "en", "--target-language", "sv", "--use"])
    assert told.exit_code == 0, told.stderr
    assert told.stdout == f"{tmp_path / 'shortlist.safetensors'} is ready, and every search uses it.\n"
    assert asked == [(tmp_path, [("Yes.", "Ja."), ("No.", "Nej.")], ("en", "sv"),
                      {"best": 100, "frequent": 100, "use": ["shortlist"], "progress": True})]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "use", "sentence"),
    [
        (["--use-for-drafts"], ["draft_shortlist"], "and a search uses it with shortlist=True; drafts by parallel heads use it."),
        (["--use", "--use-for-drafts"], ["shortlist", "draft_shortlist"], "and every search uses it; drafts by parallel heads use it."),
    ],
)
def test_drafts_may_use_it_alone(tmp_path: Path, asked: list[Any], words: list[str], use: list[str], sentence: str) -> None:
    (tmp_path / "recipe.yaml").touch()
    told = CliRunner().invoke(app, ["shortlist", str(tmp_path), *words])
    assert told.exit_code == 0, told.stderr
    assert told.stdout.endswith(f"is ready, {sentence}\n")
    assert asked[0][-1]["use"] == use


@pytest.mark.parametrize(
    ("is_run", "words", "sentence"), [(False, [], "is no run's folder; a model needs --source"), (True, ["--source", "x"], "has its own")]
)
def test_nothing_is_ignored(tmp_path: Path, asked: list[Any], is_run: bool, words: list[str], sentence: str) -> None:
    if is_run:
        (tmp_path / "recipe.yaml").touch()
    told = CliRunner().invoke(app, ["shortlist", str(tmp_path), *words])
    assert told.exit_code == 2
    assert sentence in told.stderr
    assert asked == []
