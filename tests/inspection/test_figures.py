"""Pictures for papers: every head is there, in one colour scale, with its words, and the same figure is the same file."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.inspection.made_maps import SOURCE, TARGET, made_maps
from vaswani_transformer.inspection.figures import KINDS, Kind, single_map, small_multiples, write_figure


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def names(axes: Axes) -> tuple[list[str], list[str]]:
    """Of rows and columns."""
    return [label.get_text() for label in axes.get_yticklabels()], [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize("kind", get_args(Kind))
def test_all_heads_of_a_layer_in_one_scale(kind: Kind) -> None:
    maps = made_maps(heads=6)
    drawn = panels(small_multiples(maps, kind, layer=-1))
    assert len(drawn) == 6
    for head, axes in enumerate(drawn):
        assert np.array_equal(axes.images[0].get_array(), getattr(maps, kind)[-1, head].float())
        assert axes.get_title(loc="left") == f"Head {head + 1}"
    assert len({axes.images[0].get_clim() for axes in drawn}) == 1
    queries, keys = {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, ["<s>", *TARGET[:-1]]), "cross": (TARGET, SOURCE)}[kind]
    # 6 heads in rows of 4: the first row's rows are named at its left, and columns under the lowest panel of each column
    assert [names(axes) for axes in drawn] == [
        (queries, []), ([], []), ([], keys), ([], keys), (queries, keys), ([], keys)
    ]  # fmt: skip


def test_all_layers_are_rows() -> None:
    maps = made_maps(layers=3, heads=5)
    drawn = panels(small_multiples(maps))
    assert len(drawn) == 15
    assert np.array_equal(drawn[7].images[0].get_array(), maps.cross[1, 2].float())
    assert [axes.get_ylabel() for axes in drawn[::5]] == ["Layer 1", "Layer 2", "Layer 3"]
    assert [axes.get_title() for axes in drawn[:5]] == [f"Head {number}" for number in range(1, 6)]


def test_one_map_tells_its_larger_weights() -> None:
    maps = made_maps(SOURCE[:3], TARGET[:3], layers=2, heads=2)
    for head, expected in ((None, maps.cross[0].mean(0)), (1, maps.cross[0, 1])):
        (axes,) = panels(single_map(maps, layer=0, head=head))
        told = {text.get_position(): text.get_text() for text in axes.texts}
        assert told == {(c, r): f"{expected[r, c]:.0%}" for r in range(3) for c in range(3) if expected[r, c] >= 0.1}
        assert names(axes) == (TARGET[:3], SOURCE[:3])


def test_long_inputs_tell_counts_in_the_place_of_names() -> None:
    maps = made_maps([f"s{i}" for i in range(200)], [f"t{i}" for i in range(230)], layers=1, heads=2)
    figure = small_multiples(maps, layer=0)
    assert names(panels(figure)[0]) == ([], [])
    assert figure.get_suptitle().replace("\n", " ").endswith("Rows: written (230); columns: source (200).")


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_the_same_maps_are_the_same_bytes(ending: str, tmp_path: Path) -> None:
    written = []
    for name in ("first", "second"):
        write_figure(small_multiples(made_maps(), layer=0), tmp_path / f"{name}{ending}")
        written.append((tmp_path / f"{name}{ending}").read_bytes())
    assert written[0] == written[1]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"first{ending}", f"second{ending}"]


def test_text_stays_text_whatever_it_says(tmp_path: Path) -> None:
    hostile = ["</script><x>", "$\\frac{1}{2}$", '"&amp;', "שלום", "a\u2028b", "", "-" * 40, "</s>"]
    write_figure(small_multiples(made_maps(hostile, hostile, heads=1), layer=0), tmp_path / "picture.svg")
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    texts = {"".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"</script><x>", "$\\frac{1}{2}$", '"&amp;', "שלום", "a b", "␣", "-" * 17 + "…", "</s>", "Head 1"} <= texts
    links = [value for element in root.iter() for name, value in element.attrib.items() if name.endswith("href")]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in links)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "crosss"}, "There is no attention 'crosss'; choose 'encoder', 'decoder', 'cross'."),
        ({"layer": 2}, "There is no layer 2: this model has 2, counted from 0."),
        ({"layer": -3}, "There is no layer -3: this model has 2, counted from 0."),
    ],
)
def test_what_is_not_there(arguments: dict[str, object], sentence: str) -> None:
    for draw in (small_multiples, single_map):
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            draw(made_maps(), **arguments)  # type: ignore[arg-type]


def test_a_missing_head() -> None:
    with pytest.raises(ValueError, match=r"^There is no head 4: this model has 4, counted from 0\.$"):
        single_map(made_maps(), head=4)


def test_another_ending_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "old.pdf").write_text("old")
    with pytest.raises(ValueError, match=r"^A picture is written as \.png or \.svg; .*old\.pdf has another ending\.$"):
        write_figure(small_multiples(made_maps()), tmp_path / "old.pdf")
    assert (tmp_path / "old.pdf").read_text() == "old"


def test_characters_that_no_font_has_are_told_once(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    unknown = "\U0010fffd\U0010fffe"  # no character at all
    figure = small_multiples(made_maps([unknown, "a", "</s>"], [unknown, "</s>"]), layer=0)
    write_figure(figure, tmp_path / "picture.svg")
    assert [str(warning.message) for warning in recwarn] == []
    write_figure(figure, tmp_path / "picture.png")
    (warning,) = recwarn
    assert str(warning.message).startswith(f"No font of this machine has {unknown}; the picture shows boxes there: install one, or write")


def test_kinds_have_names() -> None:
    assert tuple(KINDS) == get_args(Kind)
