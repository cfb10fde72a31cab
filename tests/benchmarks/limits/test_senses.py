"""MuCoW's files, and what counts as a right or a wrong word."""

from pathlib import Path

import pytest

from benchmarks.limits.senses import Item, Stems, read_mucow, score_senses, verdict

BALL = Item("ted", "ball", ("ball", "bälle"), ("tanzball", "fest"), "She kicks the ball.")


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("Sie schießt den Ball.", "right"),
        ("Sie schießt die Bälle", "right"),
        ("sie geht zum tanzball .", "wrong"),
        ("Nach dem Fest holt sie den Ball.", "wrong"),  # one of each: as the suite's own script has it
        ("Sie geht auf Feste.", "wrong"),  # by the stem alone
        ("Sie schießt.", "neither"),
        ("Der Fußballer", "neither"),
        ("", "neither"),
    ],
)
def test_words_are_looked_for_as_they_are_then_by_their_stems(translation: str, expected: str) -> None:
    assert verdict(BALL, translation, Stems("de")) == expected


def test_scores_by_hand() -> None:
    scores = score_senses(["right", "right", "right", "wrong", "neither"])
    assert (scores["precision"], scores["coverage"], scores["recall"]) == (0.75, 0.8, 0.6)
    assert score_senses(["neither"])["precision"] is None


def test_files_are_read_and_broken_ones_refused(tmp_path: Path) -> None:
    (tmp_path / "en-de.key.txt").write_text("1\tted\tBall\tball kugel\ttanzball\n")
    (tmp_path / "en-de.text.txt").write_text("The ball.\n")
    assert read_mucow(tmp_path, ("en", "de")) == [Item("ted", "ball", ("ball", "kugel"), ("tanzball",), "The ball.")]
    with pytest.raises(FileNotFoundError, match=r"en-fr\.key\.txt"):
        read_mucow(tmp_path, ("en", "fr"))
    (tmp_path / "en-de.text.txt").write_text("The ball.\nAnother.\n")
    with pytest.raises(ValueError, match=r"key\.txt has 1 lines and .*text\.txt 2"):
        read_mucow(tmp_path, ("en", "de"))
    with pytest.raises(ValueError, match="no stemmer for 'xx' here, only for de"):
        Stems("xx")
