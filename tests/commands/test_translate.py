"""The options of `vaswani translate`; what it does with files is in tests/translation/test_translate_command.py."""

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.commands.translate import translate
from vaswani_transformer.translation import loading
from vaswani_transformer.translation.loading import ENGINES


def test_the_engines_are_those_there_are() -> None:
    assert get_args(get_type_hints(translate)["engine"]) == ENGINES


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("num_beams", "An override reads key=value, such as length_penalty=1.0; got 'num_beams'"),
        ("bad_words_ids=[[1", "The value of the override 'bad_words_ids=[[1' is not valid YAML"),
    ],
)
def test_a_broken_setting_is_told_before_a_model_is_loaded(entry: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: Any) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(loading, "load_engine", load)
    told = CliRunner().invoke(app, ["translate", "model", "--set", entry])
    assert told.exit_code == 1
    assert told.stderr.startswith(f"error: {sentence}") and told.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--column", "--field"])
def test_a_column_of_plain_text_is_refused(option: str) -> None:
    told = CliRunner().invoke(app, ["translate", "model", option, "2"], env={"COLUMNS": "200"})
    assert told.exit_code == 2
    assert "--column names a part of a line, and a line of --format text has none" in told.stderr


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["translate", str(tmp_path / "nothing")], input="")
    assert told.exit_code == 1
    assert told.stderr.startswith("error: ") and str(tmp_path / "nothing") in told.stderr and told.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["translate", "label"])
def test_a_missing_input_is_said_before_a_model_is_loaded(command: str, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, [command, str(tmp_path / "no_model"), "--input", str(tmp_path / "nothing")])
    assert told.exit_code == 1
    assert told.stderr == f"error: There is no file {tmp_path / 'nothing'} to read; check its name.\n"
