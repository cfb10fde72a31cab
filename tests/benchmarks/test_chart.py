from pathlib import Path

import pytest
from PIL import Image

from benchmarks.chart import Panel, draw_bars
from benchmarks.interleaved import Ratio

SERIES = {"batch 1": [Ratio(1, 1, 1), Ratio(3, 2, 5)], "batch 32": [Ratio(1, 1, 1), Ratio(2, 2, 2)]}
PANEL = Panel("beam 4", ["reference", "ours"], SERIES)


def size(panels: list[Panel], picture: Path) -> tuple[int, int]:
    draw_bars(panels, picture, "times as fast as the reference")
    with Image.open(picture) as image:
        return image.size


def test_panels_stand_two_by_two(tmp_path: Path) -> None:
    one, two, three = (size([PANEL] * count, tmp_path / f"{count}.png") for count in (1, 2, 3))
    assert two == (2 * one[0], one[1]) and three == (2 * one[0], 2 * one[1])


def test_the_same_numbers_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("first", "second"):
        size([PANEL], tmp_path / f"{name}.png")
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_is_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_bars([], tmp_path / "empty.png", "")
    assert not list(tmp_path.iterdir())
