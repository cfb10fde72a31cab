"""WinoMT's lines, its measures by hand, and which German word is judged."""

from pathlib import Path

import pytest

from benchmarks.limits.gender import Judged, Sentence, judge, read_winomt, score_genders
from vaswani_transformer.inspection.alignment import WordAlignment

LINES = [
    "female\t1\tThe nurse saw the clerk because she was there.\tnurse",
    "male\t4\tThe nurse saw the clerk, because he was there.\tclerk",
    "neutral\t1\tThe guest asked whether they can pay.\tguest",
]


@pytest.fixture
def winomt(tmp_path: Path) -> Path:
    for name, lines in (("en", LINES), ("en_pro", LINES[:1]), ("en_anti", LINES[1:2])):
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_lines_are_read_with_their_list(winomt: Path) -> None:
    found = read_winomt(winomt)
    assert [(one.gender, one.place, one.person, one.stereotype) for one in found] == [
        ("female", 1, "nurse", "pro"), ("male", 4, "clerk", "anti"), ("neutral", 1, "guest", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("female\t1\tThe nurse.", r"en.txt:4 has 3 columns .* where 4 are expected"),
        ("woman\t1\tThe nurse.\tnurse", r"en.txt:4 is not gender, place"),
        ("female\t2\tThe nurse.\tnurse", r"en.txt:4 is not gender, place"),
    ],
)
def test_a_broken_line_is_named(winomt: Path, line: str, message: str) -> None:
    with open(winomt / "en.txt", "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(ValueError, match=message):
        read_winomt(winomt)


def test_the_linked_noun_is_judged_before_a_determiner() -> None:
    sentence = Sentence("male", 4, "The nurse saw the clerk, because he was there.", "clerk", None)
    source = ("the", "nurse", "saw", "the", "clerk", ",", "because", "he", "was", "there", ".")
    target = ("die", "schwester", "sah", "den", "verkäufer", ",", "weil", "er", "da", "war", ".")
    assert judge(sentence, "...", WordAlignment(source, target, ((1, 1), (4, 4)))).gender == "male"
    by_both = judge(sentence, "...", WordAlignment(source, target, ((1, 1), (4, 0), (4, 4))))
    assert (by_both.gender, by_both.word) == ("male", "die verkäufer")
    assert judge(sentence, "...", WordAlignment(source, target, ((4, 0),))).gender == "female"  # die schwester
    assert judge(sentence, "...", WordAlignment(source, target, ((4, 5), (1, 1)))).gender is None
    assert judge(sentence, "", None).gender is None


def test_the_second_of_two_equal_nouns_is_found() -> None:
    sentence = Sentence("female", 4, "The clerk saw the clerk because she was there.", "clerk", None)
    links = WordAlignment(("the", "clerk", "saw", "the", "clerk"), ("der", "mann", "sah", "die", "frau"), ((1, 1), (4, 4)))
    assert judge(sentence, "...", links).gender == "female"


def test_measures_by_hand() -> None:
    """Two men and three women; of the men both are right, of the women one is right, one a man, one not judged."""
    rows = [
        ("male", "male", "pro"),
        ("male", "male", "anti"),
        ("female", "female", "pro"),
        ("female", "male", "anti"),
        ("female", None, "anti"),
    ]
    judged = [Judged(Sentence(gold, 1, "", "", stereotype), "", found, "") for gold, found, stereotype in rows]
    scores = score_genders(judged)
    assert scores["all"] == {"sentences": 5, "not_judged": pytest.approx(0.2), "accuracy": 0.6, "accuracy_of_judged": 0.75}
    assert scores["genders"]["female"]["accuracy"] == pytest.approx(1 / 3) and scores["genders"]["neutral"] is None
    assert scores["f1"] == {"male": pytest.approx(2 * (2 / 3) / (2 / 3 + 1)), "female": pytest.approx(2 * (1 / 3) / (1 + 1 / 3))}
    assert scores["f1_difference"] == pytest.approx(0.8 - 0.5)
    assert scores["stereotype_difference"] == pytest.approx(1 - 1 / 3)
    assert {"gender": "female", "translated": "not judged", "sentences": 1} in scores["confusion"]
    alone = score_genders(judged[:1])
    assert alone["f1"]["female"] is alone["f1_difference"] is alone["stereotype_difference"] is None
