"""A training text with several kinds of noise, of the same lines."""

from pathlib import Path

import pytest

from benchmarks import command_line, noised_text
from vaswani_transformer.data.sources.text import file_lines

TEXT = [f"The small dog number {row} sees twenty sleeping cats , really ." for row in range(40)]


def test_the_share_is_divided_among_the_kinds() -> None:
    found = noised_text.noised_text(TEXT, ["case", "swap"], 0.1, seed=3)
    assert (found.words, found.changed_words, len(found.sentences)) == (400, 40, 40)
    words = [
        (old, new)
        for clean, noised in zip(TEXT, found.sentences, strict=True)
        for old, new in zip(clean.split(), noised.split(), strict=True)
    ]
    louder = [new for old, new in words if old != new and new.isupper()]
    assert len(louder) == 20
    assert (
        found
        == noised_text.noised_text(TEXT, ["case", "swap"], 0.1, seed=3)
        != noised_text.noised_text(TEXT, ["case", "swap"], 0.1, seed=4)
    )


def test_the_command_writes_as_many_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clean, noised = tmp_path / "train.en", tmp_path / "noised" / "train.en.gz"
    clean.write_text("".join(f"{line}\n" for line in TEXT))
    arguments = ["noised_text", str(clean), "--kinds", "swap", "--share", "5", "--output", str(noised)]
    monkeypatch.setattr("sys.argv", arguments)
    command_line.run(noised_text.main, noised_text.parse)
    lines = list(file_lines(noised))
    assert sum(old != new for old, new in zip(TEXT, lines, strict=True)) > 10
    assert sum(old != new for old, new in zip(" ".join(TEXT).split(), " ".join(lines).split(), strict=True)) == 20
    assert capsys.readouterr().out == f"20 of 400 words are changed (5.0%); 40 lines in {noised}.\n"
