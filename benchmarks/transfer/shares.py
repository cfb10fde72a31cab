"""A share of a recipe's training examples: drawn by a seed, and a part of every larger share of the same seed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from vaswani_transformer.data.examples import all_labels, labels_in
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.data.sources.marked import read_marked
from vaswani_transformer.data.sources.rows import QUESTION
from vaswani_transformer.data.sources.table import TableCorpus
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.recipe import DataSettings, Recipe
from vaswani_transformer.training.corpora import cleaned, read_pairs

_COLUMNS = ("source", "target")


class Share(NamedTuple):
    """Some of the training examples.

    `missing` are the labels that none of them has. `data` takes the place of the recipe's, and names all labels of the whole training set
    in their order, so that models of all shares choose among the same.
    """

    data: DataSettings
    examples: int
    missing: tuple[str, ...] = ()


def training_pairs(recipe: Recipe) -> list[SentencePair]:
    """What cleaning leaves of the training corpora.

    Raises:
        FileNotFoundError: a corpus is missing.
        ValueError: a corpus cannot be read, or the recipe translates into several languages.
    """
    if recipe.target_languages:
        raise ValueError(f"{recipe.name} translates into several languages, of which no share can be drawn; take a recipe of one.")
    return list(cleaned(recipe, read_pairs(recipe, recipe.data.train))[0])


def draw(pairs: Sequence[SentencePair], share: float, seed: int) -> list[SentencePair]:
    """So many of `pairs`, at least one, in their order: the first ones of an order that only the seed decides."""
    order = list(range(len(pairs)))
    Random(seed).shuffle(order)
    return [pairs[place] for place in sorted(order[: max(round(share * len(pairs)), 1)])]


def take_share(recipe: Recipe, pairs: Sequence[SentencePair], share: float, seed: int, folder: Path) -> Share:
    """Write a share of the training examples to a table in `folder`; the whole stays where it is.

    Args:
        recipe: of the task.
        pairs: its `training_pairs`.
        share: above 0, at most 1.
        seed: of the draw.
        folder: for the table.
    """
    if share == 1:
        return Share(recipe.data, len(pairs))
    drawn = draw(pairs, share, seed)
    file = (folder / f"share-{share:g}-seed-{seed}.jsonl").absolute()
    row = _marked_row if recipe.marks_answers else _row
    write_text(file, "".join(f"{json.dumps(row(pair))}\n" for pair in drawn))
    table = TableCorpus(path=str(file), source_column=_COLUMNS[0], target_column=_COLUMNS[1])
    if not recipe.facts.labels:
        return Share(replace(recipe.data, train=(table,)), len(drawn))
    names = recipe.data.labels or {label: label for label in all_labels(pairs)}
    there = {label for pair in drawn for label in labels_in(pair)}
    missing = tuple(name for label, name in names.items() if label not in there)
    return Share(replace(recipe.data, train=(table,), labels=names), len(drawn), missing)


def _row(pair: SentencePair) -> dict[str, Any]:
    return dict(zip(_COLUMNS, pair[:2], strict=True))


def _marked_row(pair: SentencePair) -> dict[str, Any]:
    """A question with its context, and its answers with their places."""
    question, context, spans = read_marked(pair)
    answers = [{"text": context[start:end], "answer_start": start} for start, end in spans]
    return {QUESTION: question, _COLUMNS[0]: context, _COLUMNS[1]: answers}
