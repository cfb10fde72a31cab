"""The parser: nothing in a file is ignored, and every mistake has its sentence."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from vaswani_transformer.strict_yaml import apply_override, parse, parse_override, read_mapping, read_yaml


@dataclass(frozen=True)
class Circle:
    radius: float
    shape: Literal["circle"] = "circle"
    dashed: bool = False


@dataclass(frozen=True)
class Square:
    side: int
    shape: Literal["square"] = "square"
    corners: str | None = None


@dataclass(frozen=True)
class Colours:
    line: str = "black"


@dataclass(frozen=True)
class Picture:
    shapes: tuple[Circle | Square, ...]
    main: Circle | Square | tuple[Circle | Square, ...] | None = None
    named: dict[str, Circle | Square] | None = None
    colours: Colours = Colours()


def drawn(*shapes: dict[str, Any], **others: Any) -> Picture:
    return parse(Picture, {"shapes": list(shapes), **others}, {"diameter": "`radius`, half of it"})


def test_a_union_is_told_apart_by_its_literal() -> None:
    picture = drawn({"shape": "circle", "radius": 1}, {"shape": "square", "side": 2}, main=[{"shape": "square", "side": 3}])
    assert picture.shapes == (Circle(1.0), Square(2))
    assert picture.main == (Square(3),)
    assert drawn(main={"shape": "circle", "radius": 2.5}).main == Circle(2.5)
    assert drawn(main=None).main is None


def test_a_key_of_another_member_may_stand_there_if_it_sets_nothing() -> None:
    assert drawn({"shape": "square", "side": 2, "radius": None, "dashed": False}).shapes == (Square(2),)


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({"shape": "square", "side": 2, "radius": 1}, r"`shapes\[0\]\.radius` does not belong to shape 'square', whose keys are side"),
        ({"shape": "square", "side": 2, "dashed": True}, r"`shapes\[0\]\.dashed` does not belong"),
        ({"shape": "square"}, r"`shapes\[0\]`: shape 'square' needs `side`; add it"),
        ({"shape": "square", "side": None}, r"`shapes\[0\]`: shape 'square' needs `side`; add it"),
        ({"shape": "cirle", "radius": 1}, r"`shapes\[0\]\.shape` cannot be 'cirle'; did you mean `circle`\?"),
        ({"radius": 1}, r"`shapes\[0\]\.shape` is missing; valid are: circle, square"),
        ({"shape": "square", "side": 2, "sid": 3}, r"Unknown key `shapes\[0\]\.sid`; did you mean `side`\?"),
        ({"shape": "circle", "diameter": 3}, r"needs `radius`"),
        ({"shape": "circle", "radius": 1, "diameter": 3}, r"Unknown key `shapes\[0\]\.diameter`; here it is `radius`, half of it"),
        ("round", r"`shapes\[0\]` must be a mapping, not 'round'"),
    ],
)  # fmt: skip
def test_a_wrong_member_is_named(tree: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        drawn(tree)


def test_a_key_in_the_wrong_section_is_sent_to_its_own() -> None:
    with pytest.raises(ValueError, match=r"Unknown key `line`; did you mean `colours\.line`\?"):
        drawn(line="red")


def test_a_place_is_named_once_though_several_members_of_a_union_have_it() -> None:
    with pytest.raises(ValueError, match=r"Unknown key `shape`; did you mean `main\.shape`\?"):
        drawn(shape="circle")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "the key `a` stands in line 1 and again in line 3; keep one of them"),
        ("x:\n  a: 1\n  b: {c: 1, c: 2}\n", "the key `c` stands in line 3 and again in line 3"),
        ("a: [1", r"expected ',' or '\]'.*\(line 1, column 6\)"),
        ("a: =", "could not determine a constructor.*line 1, column 4"),
        ("a: \x07", "special characters are not allowed"),
    ],
)
def test_what_is_no_yaml_is_told_in_one_line(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)


def test_the_same_key_in_two_mappings_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "fine.yaml"
    path.write_text("a: &base {x: 1}\nb: {<<: *base, y: 2}\nc: [{x: 3}, {x: 4}]\n")
    assert read_mapping(path) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 3}, {"x": 4}]}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (False, '`colours.line` must be text, but YAML reads the words "no", "off" and their like as a truth value; quote it'),
        (True, '"yes", "on"'),
        (2024, '`colours.line` must be text, not 2024; quote it: "2024"'),
        (None, "`colours.line` must be of type str, not None"),
    ],
)
def test_text_that_yaml_takes_for_something_else_is_to_be_quoted(value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        drawn(colours={"line": value})


def test_keys_of_a_mapping_are_text() -> None:
    with pytest.raises(ValueError, match="`a key of named` must be text, but YAML reads"):
        drawn(named={False: {"shape": "square", "side": 1}})


def test_overrides() -> None:
    tree: dict[str, Any] = {"a": {"b": 1}}
    for override in ("a.b=2", "c.d=[1, x]", "e=", "f=a=b", "g=None", "h=null", "i='None'"):
        apply_override(tree, override)
    assert tree == {"a": {"b": 2}, "c": {"d": [1, "x"]}, "e": None, "f": "a=b", "g": None, "h": None, "i": "None"}


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("num_beams", "An override reads key=value, such as num_beams=4; got 'num_beams'"),
        ("=4", "An override reads key=value"),
        ("a.=4", "An override reads key=value"),
        ("bad_words_ids=[[1", r"The value of the override 'bad_words_ids=\[\[1' is not valid YAML \(.*\); put it in quotes"),
        ("a={b: 1, b: 2}", "the key `b` stands"),
        ("a==", "is not valid YAML"),
    ],
)
def test_a_bad_override_is_one_sentence(override: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        parse_override(override, "num_beams=4")
    assert "\n" not in str(caught.value)
