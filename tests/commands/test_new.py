"""The options of `vaswani new`; what it writes is in tests/test_new_recipe.py."""

import pytest
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--source-column", "x"], "--source-column"),
        (["--target-column", "y", "--split", "train"], "--target-column, --split"),
        (["--split", "train", "--format", "lines"], "--split"),
    ],
)
def test_what_two_files_have_no_use_for_is_refused(words: list[str], named: str) -> None:
    told = CliRunner().invoke(app, ["new", "my", "--source", "a.en", "--target", "a.sv", *words], env={"COLUMNS": "200"})
    assert told.exit_code == 2
    assert f"{named}: line-aligned files have no columns or splits; leave out --target, or these." in told.stderr
