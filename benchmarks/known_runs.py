"""Runs that another machine has made: known by recipe and texts, so that a queue of trainings can be shared and taken up anywhere."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Row
from vaswani_transformer.data.sources.corpus import DESCRIPTIVE
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import Recipe

FINGERPRINT = "recipe_sha256"
"""The key of a run's fingerprint in `results.json`."""


def fingerprint(recipe: Recipe) -> str:
    """SHA-256 of all settings that differ from their defaults, and of all files of the data.

    The name of the recipe, the place of its data and what only describes them, such as a licence, do not count. Nor do settings that a
    later version adds, while they have their defaults. A corpus without files of its own, or without all of them, counts by its settings.
    """
    said = _said(recipe)
    said.pop("name")
    said["data"].pop("root", None)
    said["files"] = hashes_of_texts(recipe)
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def hashes_of_texts(recipe: Recipe) -> list[dict[str, str] | None]:
    """SHA-256 of the files of each corpus, by name; None for a corpus without files of its own, or without all of them."""
    root = recipe.data.root
    corpora = [corpus for split in recipe.data.by_split.values() for corpus in split]
    return [corpus.hashes(root, recipe.columns_of(corpus)) if corpus.has_its_files(root) else None for corpus in corpora]


def known_runs(files: Iterable[Path]) -> dict[str, Row]:
    """The runs in some files `results.json`, by their fingerprints.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is no JSON, or its runs have no fingerprints.
    """
    known: dict[str, Row] = {}
    for file in files:
        found = read_json(file)
        runs = found.get("runs") if isinstance(found, dict) else None
        if not runs or not all(FINGERPRINT in run for run in runs):
            raise ValueError(f"{file} has no runs with a {FINGERPRINT!r}; name the results.json of a queue of trainings.")
        known |= {run[FINGERPRINT]: run for run in runs}
    return known


def require_runs(runs: Sequence[Row], output: Path) -> None:
    """Raise a `ValueError` if a queue that trains nothing has found no run."""
    if not runs:
        raise ValueError(f"No run of this plan is done, neither in {output} nor in a file of `--known`; leave out `--done-only`.")


def _said(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        counting = [own for own in dataclasses.fields(value) if own.name not in DESCRIPTIVE and getattr(value, own.name) != _default(own)]
        return {"": type(value).__name__} | {own.name: _said(getattr(value, own.name)) for own in counting}
    if isinstance(value, list | tuple):
        return [_said(each) for each in value]
    if isinstance(value, dict):
        return {name: _said(each) for name, each in value.items()}
    return value


def _default(own: dataclasses.Field) -> Any:
    return own.default if own.default_factory is dataclasses.MISSING else own.default_factory()
