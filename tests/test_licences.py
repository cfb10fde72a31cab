"""A model's licence is put together from what its parts state, by rules that can be read off."""

from dataclasses import replace
from typing import Any

import pytest

from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.licences import CONDITIONS, Licences, Part, conditions_of, licences_of
from vaswani_transformer.recipe import DataSettings, parse_recipe


def of(*licences: str) -> Licences:
    return Licences(tuple(Part(f"part{number}", licence) for number, licence in enumerate(licences, start=1)))


@pytest.mark.parametrize(
    ("licences", "metadata"),
    [
        (("cc-by-4.0",), {"license": "cc-by-4.0"}),
        (("cc-by-4.0", "cc-by-4.0"), {"license": "cc-by-4.0"}),
        (("unknown", "none stated; research use"), {"license": "unknown"}),
        (("cc-by-4.0", "cc-by-2.0", "cc-by-4.0"), {"license": "other", "license_name": "cc-by-4.0-and-cc-by-2.0"}),
        (("cc-by-4.0", "unknown"), {"license": "other", "license_name": "not-stated-for-all-parts"}),
        (("CC BY (by mail)",), {"license": "other", "license_name": "cc-by-by-mail"}),
    ],
)
def test_the_hubs_entries_follow_from_the_parts(licences: tuple[str, ...], metadata: dict[str, Any]) -> None:
    assert of(*licences).metadata() == metadata


@pytest.mark.parametrize(
    ("licence", "conditions"),
    [
        ("cc0-1.0", ()),
        ("cc-by-3.0", ("attribution",)),
        ("cc-by-sa-4.0", ("attribution", "share_alike")),
        ("cc-by-nc-4.0", ("attribution", "non_commercial")),
        ("cc-by-nc-sa-2.5", ("attribution", "non_commercial", "share_alike")),
        ("cc-by-nc-nd-4.0", ("attribution", "non_commercial", "no_derivatives")),
        ("mit", ("attribution",)),
        ("cc-by-9.0", None),
        ("a licence of our own", None),
    ],
)
def test_the_table_names_the_conditions_or_says_that_it_does_not_know(licence: str, conditions: tuple[str, ...] | None) -> None:
    assert conditions_of(licence) == conditions
    assert set(conditions or ()) <= set(CONDITIONS)


def test_a_condition_of_one_part_is_one_of_the_whole_and_names_that_part() -> None:
    found = of("cc-by-4.0", "cc-by-nc-sa-4.0", "cc0-1.0", "none stated; research use", "house licence")
    assert found.conditions == {
        "name the authors": ["part1", "part2"],
        "pass adaptations on under the same licence": ["part2"],
        "no commercial use": ["part2"],
    }
    assert ([part.title for part in found.unstated], found.unlisted, found.single) == (["part4"], ["house licence"], None)
    *parts, together = found.lines()
    assert parts[3] == "part4: none stated; research use"
    assert "no commercial use (part2)" in together
    assert together.endswith("conditions not known here (house licence); no licence stated (part4)")
    assert of("cc0-1.0").lines() == ["part1: cc0-1.0", "together: no condition"]


def test_the_recipes_licence_is_that_of_each_part_that_names_none() -> None:
    own = LinesCorpus(source="a", target="b", licence="cc-by-2.0", attribution="Somebody")
    other = LinesCorpus(source="c", target="d")
    found = licences_of([own, other], "mit")
    assert found.parts == (Part("a", "cc-by-2.0", "Somebody"), Part("c", "mit"))
    data = DataSettings(train=(own, other), validation=other, test={})
    assert [part.licence for part in data.licences.parts] == ["cc-by-2.0", "unknown"]
    assert replace(data, licence="mit").licences == found


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"train": [{"remark": "hard"}]}, r"`data`: `train\[0\]\.remark` is for a score"),
        ({"test": {"x": {"licence": "mit"}}}, r"`data`: `test\.x` names a licence, but only training text is in the weights"),
        ({"validation": {"attribution": "me"}}, r"`data`: `validation` names a licence"),
        ({"train": [{"license": "mit"}]}, r"did you mean `licence`"),
    ],
)
def test_descriptions_in_the_wrong_place_are_refused(data: dict[str, Any], sentence: str) -> None:
    lines = {"format": "lines", "source": "a", "target": "b"}
    tree: dict[str, Any] = {"train": [lines], "validation": lines, "test": {"x": lines}}
    for split, given in data.items():
        if split == "train":
            tree[split] = [lines | given[0]]
        else:
            tree[split] = {"x": lines | given["x"]} if split == "test" else lines | given
    recipe = {"name": "x", "source_language": "en", "target_language": "de", "data": tree, "tokenizer": {"vocab_size": 300}}
    with pytest.raises(ValueError, match=sentence):
        parse_recipe(recipe | {"training": {"updates": 1}})
