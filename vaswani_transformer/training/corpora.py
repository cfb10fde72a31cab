"""The corpora of a recipe: their pairs, and the hashes by which a run notices that they changed."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..data.cleaning import CleaningReport, clean
from ..data.examples import with_labels
from ..data.sources.corpus import DESCRIPTIVE, Corpus, SentencePair
from ..data.workers import available_cores
from ..files.atomic_folder import discard
from ..files.json_files import read_json, write_json
from ..recipe import Recipe
from ..run_folder import RunFolder
from .state import newest_state


def read_pairs(recipe: Recipe, specs: Iterable[Corpus], root: Path | None = None) -> Iterator[SentencePair]:
    """The pairs of some corpora of a recipe, one corpus after another.

    Args:
        recipe: names the languages.
        specs: the corpora.
        root: where their relative file names start; by default the recipe's `data.root`.
    """
    for spec in specs:
        pairs = spec.pairs(recipe.data.root if root is None else root, recipe.columns_of(spec))
        if recipe.target_languages:
            language = recipe.languages_of(spec)[1]
            pairs = (pair._replace(language=language) for pair in pairs)
        yield from with_labels(pairs) if recipe.facts.labels else pairs


def held_out_pairs(recipe: Recipe) -> Iterator[SentencePair]:
    """The pairs of the validation and test sets."""
    return read_pairs(recipe, (*recipe.data.validations, *recipe.data.test.values()))


def cleaned(recipe: Recipe, pairs: Iterator[SentencePair]) -> tuple[Iterator[SentencePair], CleaningReport]:
    """`pairs` as the recipe cleans them; what compares the lengths of two sides, or the sides themselves, is for translation alone."""
    settings = recipe.data.cleaning
    if recipe.task != "translation":
        settings = replace(settings, max_length_ratio=math.inf, drop_identical_sides=False)
    return clean(pairs, settings, held_out_pairs(recipe), available_cores())


def settle_corpora(recipe: Recipe, run: RunFolder) -> dict[str, dict[str, str]]:
    """The hashes of all corpora, which a run notes once. What was made of corpora that changed since is discarded.

    Returns:
        SHA-256 of every file, by split: `train`, `validation`, `test.NAME`.

    Raises:
        ValueError: a corpus changed after a training started on it.
    """
    _forget_if_corpora_changed(recipe, run)
    if not run.cleaning.exists():
        write_json(run.cleaning, {"file_hashes": _hashes(recipe)})
    hashes: dict[str, dict[str, str]] = read_json(run.cleaning)["file_hashes"]
    return hashes


def content_of(recipe: Recipe, hashes: dict[str, dict[str, str]]) -> dict[str, Any] | None:
    """All that decides which pairs there are and which are kept; None if some text's hash is not known in advance."""
    splits = recipe.data.by_split
    if any(spec.is_streamed for specs in splits.values() for spec in specs):
        return None
    corpora = {split: [decisive(asdict(spec)) for spec in specs] for split, specs in splits.items()}
    cleaning = asdict(recipe.data.cleaning)
    content = {"corpora": corpora, "hashes": hashes, "languages": recipe.languages, "cleaning": cleaning}
    if recipe.task == "translation":
        return content
    of_task = {**content, "task": recipe.task, "labels": recipe.data.labels}
    return {**of_task, "answers": asdict(recipe.answers)} if recipe.marks_answers else of_task


def _forget_if_corpora_changed(recipe: Recipe, run: RunFolder) -> None:
    """Discard prepared data if its files changed. If the files are gone, keep it: it is all that is left of them."""
    if not run.cleaning.exists():
        return
    before = read_json(run.cleaning)["file_hashes"]
    changed = [
        name
        for split, specs in recipe.data.by_split.items()
        for spec in specs
        if spec.has_its_files(recipe.data.root)
        for name, digest in spec.hashes(recipe.data.root, recipe.columns_of(spec)).items()
        if before.get(split, {}).get(name) != digest
    ]
    if changed and newest_state(run.state):
        raise ValueError(
            f"{', '.join(changed)} changed since the training in {run.path} began; put back the files as they were, or choose another "
            "run folder."
        )
    if changed:
        for folder in (run.distilling, run.distilled, run.tokenizer, run.encoded, run.initial):
            discard(folder)
        run.cleaning.unlink()  # last: while it exists, the change is still found, even after a kill


def _hashes(recipe: Recipe) -> dict[str, dict[str, str]]:
    """SHA-256 of every file, by split: `train`, `validation`, `test.NAME`."""
    return {
        split: {name: digest for spec in specs for name, digest in spec.hashes(recipe.data.root, recipe.columns_of(spec)).items()}
        for split, specs in recipe.data.by_split.items()
    }


def decisive(corpus: dict[str, Any]) -> dict[str, Any]:
    """The settings of a corpus without those that only describe it."""
    return {key: value for key, value in corpus.items() if key not in DESCRIPTIVE}
