"""Shares of the examples: nested, the same for the same seed, and read back as they were."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.transfer.shares import draw, take_share, training_pairs
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.data.sources.marked import marked_pair
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.tasks import BETWEEN_TEXTS, BETWEEN_WORDS
from vaswani_transformer.training.corpora import read_pairs


def test_smaller_shares_are_parts_of_larger_ones() -> None:
    pairs = [SentencePair(f"text {number}", "label", "file", number) for number in range(1000)]
    whole, tenth, hundredth = (draw(pairs, share, 3) for share in (1.0, 0.1, 0.01))
    assert [len(some) for some in (whole, tenth, hundredth)] == [1000, 100, 10]
    assert whole == pairs and set(hundredth) < set(tenth) and tenth == sorted(tenth, key=lambda pair: pair.line)
    assert draw(pairs, 0.1, 3) == tenth and len(set(draw(pairs, 0.1, 4)) & set(tenth)) < 30
    assert len(draw(pairs[:5], 0.01, 1)) == 1


def test_a_label_that_no_example_has_is_said_and_stays_a_choice(colours: Path, tmp_path: Path) -> None:
    recipe = load_recipe(colours)
    pairs = training_pairs(recipe)
    seed = next(seed for seed in range(100) if all(pair.target != "blue" for pair in draw(pairs, 0.2, seed)))
    share = take_share(recipe, pairs, 0.2, seed, tmp_path / "shares")
    assert share.missing == ("blue",) and share.examples == 12
    assert share.data.labels == {"blue": "blue", "green": "green", "red": "red"}
    assert (share.data.validation, share.data.test) == (recipe.data.validation, recipe.data.test)
    read = list(read_pairs(replace(recipe, data=share.data), share.data.train))
    assert [pair[:2] for pair in read] == [pair[:2] for pair in draw(pairs, 0.2, seed)]
    whole = take_share(recipe, pairs, 1.0, seed, tmp_path / "whole")
    assert whole == (recipe.data, 60, ()) and not (tmp_path / "whole").exists()


@pytest.mark.parametrize(
    ("task", "pairs"),
    [
        ("tagging", [("Tom\tsleeps,\tsaid “é”", "B-person\tO\tO"), ("a\tcat", "O\tO")]),
        ("summarization", [('A long text with "marks"\\.', f"One.{BETWEEN_TEXTS}Two."), ("Another text", "Three.")]),
        ("question_answering", [("It rains. Does it rain?", "yes"), ("Where?", "in Zürich")]),
    ],
)
def test_what_is_written_is_read_back(task: str, pairs: list[tuple[str, str]], tmp_path: Path, write_recipe: Callable[..., Path]) -> None:
    table: dict[str, Any] = {"format": "table", "path": "absent.jsonl"}
    recipe = load_recipe(write_recipe("toy", {"train": [table], "validation": table, "test": {}}, task=task))
    given = [SentencePair(source, target, "file", line) for line, (source, target) in enumerate(pairs, start=1)]
    share = take_share(recipe, given, 0.99, 1, tmp_path / "shares")
    read = list(read_pairs(replace(recipe, data=share.data), share.data.train))
    assert [pair[:2] for pair in read] == [pair[:2] for pair in given]
    if task == "tagging":
        assert BETWEEN_WORDS in read[0].source and share.data.labels == {"B-person": "B-person", "O": "O"}


def test_marked_answers_are_read_back_at_their_places(tmp_path: Path, write_recipe: Callable[..., Path]) -> None:
    table: dict[str, Any] = {"format": "table", "path": "absent.jsonl"}
    data = {"train": [table], "validation": table, "test": {}}
    recipe = load_recipe(write_recipe("toy", data, task="question_answering", answers={"kind": "span", "may_be_none": True}))
    given = [
        marked_pair("Where is “Ann”?", "Ann is in Zürich. She likes Zürich.", [("Zürich", 10), ("Zürich", 28)], "file", 1),
        marked_pair("Who sleeps?", "Nobody is awake.", [], "file", 2),
    ]
    share = take_share(recipe, given, 0.99, 1, tmp_path / "shares")
    assert [pair[:2] for pair in read_pairs(replace(recipe, data=share.data), share.data.train)] == [pair[:2] for pair in given]
