"""`vaswani label`; what a labeller does is in tests/translation/test_label.py."""

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase
from typer.testing import CliRunner

from tests.translation.test_label import LABELS, save
from vaswani_transformer import VaswaniForSequenceClassification
from vaswani_transformer.__main__ import app


def test_a_stream_is_labelled_and_a_line_without_a_label_is_named(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    folder = save(tmp_path, VaswaniForSequenceClassification, tokenizer)
    told = CliRunner().invoke(app, ["label", str(folder), "--max-source-tokens", "50"], input=f"a dog\n{' '.join('a' * 60)}\n\n")
    assert told.exit_code == 3
    first, *rest = told.stdout.split("\n")
    assert first in LABELS.values() and rest == ["", "", ""]
    assert "standard input:2: 61 tokens are more than the 50 of max_source_tokens" in told.stderr
    assert "1 of 3 lines of standard input could not be labelled." in told.stderr
    assert "Labelling" in told.stderr


@pytest.mark.parametrize("option", ["--column", "--field"])
def test_a_column_of_plain_text_is_refused(option: str) -> None:
    told = CliRunner().invoke(app, ["label", "model", option, "2"], env={"COLUMNS": "200"})
    assert told.exit_code == 2
    assert "--column names a part of a line, and a line of --format text has none" in told.stderr
