"""Dependencies that are planted are found, by hand-made maps."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import MarianMTModel, PreTrainedTokenizerBase

from tests.inspection.made_maps import made_maps
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.inspection.dependencies import Found, content_words, find_dependencies, noun_like, write_dependency_figures
from vaswani_transformer.inspection.line_figures import Lines, draw_lines, draw_panels
from vaswani_transformer.inspection.maps import AttentionMaps

BUILDER = ["the", "old", "builder", "is", "standing", "beside", "a", "red", "truck", "with", "his", "dog", ".", "</s>"]


def even_maps(words: list[str]) -> AttentionMaps:
    """Two layers of three heads that look everywhere alike."""
    maps = made_maps(words, layers=2, heads=3)
    maps.encoder[:] = 1 / len(words)
    return maps


def look(maps: AttentionMaps, layer: int, head: int, query: int, key: int) -> None:
    """Let one word look at one other only."""
    maps.encoder[layer, head, query] = 0
    maps.encoder[layer, head, query, key] = 1


@pytest.fixture
def maps() -> list[AttentionMaps]:
    return [even_maps(words) for words in (BUILDER[:8] + BUILDER[-2:], BUILDER, ["a", "dog", "watching", "her", "cat", "."], BUILDER)]


def figures(maps: list[AttentionMaps]) -> dict[int, Found]:
    return {found.figure: found for found in find_dependencies(maps)}


def test_words_are_told_apart() -> None:
    marked = [word for word, is_content in zip(BUILDER, content_words(BUILDER), strict=True) if is_content]
    assert marked == ["old", "builder", "standing", "red", "truck", "dog"]
    assert [word for word, is_noun in zip(BUILDER, noun_like(BUILDER), strict=True) if is_noun] == ["builder", "truck", "dog"]


def test_the_long_distance_dependency_is_the_planted_one(maps: list[AttentionMaps]) -> None:
    look(maps[1], 1, 2, query=11, key=2)  # dog, builder
    look(maps[3], 0, 1, query=8, key=7)  # truck, red: too near
    look(maps[3], 0, 0, query=8, key=0)  # truck, the: no content word
    found = figures(maps)[3]
    assert (found.sentence, found.layer, found.heads, found.query, found.key) == (1, 1, (2,), 11, 2)
    assert found.facts["weight_on_key"] == 1 and found.facts["distance"] == 9


def test_what_a_head_always_does_is_explained_by_position() -> None:
    """A head that always looks 6 words back beats the planted one in weight, and has no excess."""
    maps = [even_maps([f"word{number}" for number in range(14)]) for _ in range(3)]
    for one in maps:
        for query in range(6, 14):
            look(one, 0, 0, query, query - 6)
    look(maps[2], 1, 1, query=13, key=3)
    maps[2].encoder[1, 1, 13] = torch.full((14,), 0.4 / 14)
    maps[2].encoder[1, 1, 13, 3] += 0.6
    found = figures(maps)[3]
    assert (found.sentence, found.layer, found.heads, found.query, found.key) == (2, 1, (1,), 13, 3)


def test_the_head_of_pronouns_is_the_planted_one(maps: list[AttentionMaps]) -> None:
    look(maps[1], 0, 2, query=10, key=2)  # his, builder
    look(maps[3], 0, 2, query=10, key=8)  # his, truck
    maps[3].encoder[0, 2, 10] = torch.full((14,), 0.5 / 14)
    maps[3].encoder[0, 2, 10, 8] += 0.5
    look(maps[2], 0, 1, query=3, key=1)  # her, dog: once only, so this head is the second of its layer
    look(maps[1], 1, 0, query=10, key=9)  # his, with: no noun
    found = figures(maps)[4]
    assert (found.sentence, found.layer, found.heads, found.query, found.key) == (1, 0, (2, 1), 10, 2)
    assert found.facts["pronouns"] == 3
    assert found.facts["mean_weight_on_nouns_before"] == pytest.approx((1 + (0.5 + 2 * 0.5 / 14) + 1 / 6) / 3)


def test_two_heads_with_different_tasks(maps: list[AttentionMaps]) -> None:
    for one in maps:
        size = len(one.source)
        one.encoder[1, 0], one.encoder[1, 2] = torch.eye(size), torch.eye(size).roll(1, dims=0)
    found = figures(maps)[5]
    assert (found.layer, found.heads, found.facts["mean_total_variation"]) == (1, (0, 2), 1)
    assert found.sentence == 1  # lengths 10, 14, 6, 14


def test_a_text_without_pronouns_has_no_figure_4(maps: list[AttentionMaps]) -> None:
    assert sorted(figures(maps[:1])) == [3, 5]
    with pytest.raises(ValueError, match="known in en, not in 'sw'"):
        find_dependencies(maps, "sw")
    with pytest.raises(ValueError, match="no sentences"):
        find_dependencies([])


def test_the_figures_are_drawn_and_told(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    pairs = [("A woman in a red coat reads her book.", "Yes."), ("Two small dogs run along the beach.", "Yes.")]
    told = write_dependency_figures(model, tokenizer, pairs, tmp_path)
    assert [figure["figure"] for figure in told] == [3, 4, 5]
    written = read_json(tmp_path / "figures.json")
    assert written["sentences"] == 2 and [figure["rule"] for figure in written["figures"]] == [figure["rule"] for figure in told]
    assert (told[1]["query_word"], told[1]["source"]) == ("her", pairs[0][0]) and told[1]["key_word"] == "woman"
    for number in (3, 4, 5):
        with Image.open(tmp_path / f"figure_{number}.png") as picture:
            assert picture.format == "PNG" and min(picture.size) > 150
    assert write_dependency_figures(model, tokenizer, pairs, tmp_path / "again") == told


def test_a_line_for_each_weight() -> None:
    maps = even_maps(["a", "b", "$x$", "</s>"])
    look(maps, 1, 2, query=1, key=3)
    (axes,) = draw_lines(maps, "encoder", 1, [2], query=1).axes
    assert len(axes.lines) == 1
    assert axes.lines[0].get_ydata().tolist() == [1, 3]
    (axes,) = draw_lines(maps, "encoder", 1, [2]).axes
    assert len(axes.lines) == 3 * 4 + 1
    left, right = draw_panels(maps, "cross", 0, [Lines([0]), Lines([0, 1], query=2)]).axes
    assert {text.get_text() for text in right.texts} >= {*maps.source, *maps.target, "head 1", "head 2"}
    assert "head 2" not in {text.get_text() for text in left.texts}
    for layer, heads, query in ((2, [0], None), (0, [3], None), (0, [0], 9)):
        with pytest.raises(ValueError, match=r"There is no (layer|head|query) \d; these maps have \d, counted from 0"):
            draw_lines(maps, "encoder", layer, heads, query)
