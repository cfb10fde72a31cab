"""From corpora to encoded pairs. Each stage leaves its result in the run folder and is skipped where the result is already there."""

import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..atomic_folder import atomic_folder
from ..data.bpe import train_tokenizer
from ..data.corpus import CleaningReport, SentencePair, clean, file_hashes, read_pairs
from ..data.encoding import EncodedCorpus, encode_corpus
from ..recipe import CorpusSpec, Recipe
from ..run_folder import RunFolder, read_json, write_json, write_text
from .state import newest_state

_FREE = (
    "name", "data.root", "data.licence", "search", "validation", "training.updates", "training.log_every", "training.validate_every",
    "training.checkpoint_every", "training.average_checkpoints", "training.patience", "training.trackers",
)  # fmt: skip
"""Settings that may change when a run goes on: they do not touch what has been computed so far."""


class PreparedData(NamedTuple):
    """What training reads."""

    tokenizer: PreTrainedTokenizerBase
    train: EncodedCorpus
    validation: EncodedCorpus


def claim_run_folder(recipe: Recipe, run: RunFolder) -> None:
    """Write the resolved recipe into the run folder, unless another run lives there.

    Raises:
        ValueError: the folder's recipe differs in a setting that decides the outcome; the sentence names these settings.
    """
    text = recipe.to_yaml()
    if run.recipe.exists():
        before, now = (
            _flat(yaml.safe_load(version)) for version in (run.recipe.read_text(encoding="utf-8"), text)
        )
        keys = [
            key
            for key in sorted(before.keys() | now.keys())
            if not _is_free(key) and before.get(key) != now.get(key)
        ]
        if keys:
            changes = ", ".join(f"`{key}` ({before.get(key)} there, {now.get(key)} now)" for key in keys)
            raise ValueError(
                f"{run.path} holds another run, whose recipe differs in {changes}; choose another run folder, or delete this one."
            )
    write_text(run.recipe, text)


def prepare_data(recipe: Recipe, run: RunFolder, progress: bool = False) -> PreparedData:
    """Read, clean, learn the vocabulary and encode; what is already there is opened.

    Raises:
        ValueError: a corpus is not what the recipe says, or has changed since a training began on it.
    """
    train, validation = run.encoded / "train", run.encoded / "validation"
    _forget_if_corpora_changed(recipe, run)
    if not run.cleaning.exists():
        write_json(run.cleaning, {"file_hashes": _hashes(recipe)})
    facts = read_json(run.cleaning)
    if not run.tokenizer.exists():
        _train_tokenizer(recipe, run.tokenizer, progress)
    tokenizer = AutoTokenizer.from_pretrained(run.tokenizer)
    if "kept" not in facts:
        kept, report = _clean_training_pairs(recipe)
        limit = _most_tokens(recipe, recipe.batching.max_sentence_tokens)
        encoded = encode_corpus(kept, tokenizer, train, max_tokens=limit, progress=progress)
        write_json(
            run.cleaning,
            {**_facts(report, encoded), **facts, "tokenizer": _tokenizer_facts(tokenizer, encoded)},
        )
    if not validation.exists():
        limit = _most_tokens(recipe, recipe.validation.batch_tokens)
        encode_corpus(_read(recipe, recipe.data.validation), tokenizer, validation, max_tokens=limit)
    return PreparedData(tokenizer, EncodedCorpus.open(train), EncodedCorpus.open(validation))


def _train_tokenizer(recipe: Recipe, folder: Path, progress: bool) -> None:
    pairs, _ = _clean_training_pairs(recipe)
    settings = recipe.tokenizer
    texts = chain.from_iterable((pair.source, pair.target) for pair in pairs)
    tokenizer = train_tokenizer(
        texts, settings.vocab_size, min_frequency=settings.min_frequency, progress=progress
    )
    with atomic_folder(folder) as unfinished:
        tokenizer.save_pretrained(unfinished)


def _clean_training_pairs(recipe: Recipe) -> tuple[Iterator[SentencePair], CleaningReport]:
    """A fresh stream each time: cleaning twice costs less than storing the text in between."""
    held_out = chain.from_iterable(
        _read(recipe, spec) for spec in (recipe.data.validation, *recipe.data.test.values())
    )
    pairs = chain.from_iterable(_read(recipe, spec) for spec in recipe.data.train)
    return clean(pairs, recipe.data.cleaning, held_out)


def _read(recipe: Recipe, spec: CorpusSpec) -> Iterator[SentencePair]:
    return read_pairs(spec, recipe.data.root, recipe.languages)


def _most_tokens(recipe: Recipe, wanted: int) -> int:
    """Sinusoids reach as far as wanted; a learned table of positions does not."""
    config = recipe.model_config()
    return (
        wanted
        if config.position_embedding_type == "sinusoidal"
        else min(wanted, config.max_position_embeddings)
    )


def _facts(report: CleaningReport, encoded: EncodedCorpus) -> dict[str, Any]:
    """The cleaning report, with the pairs that only their tokens showed to be too long."""
    facts = report.to_dict()
    too_long = encoded.index["dropped_too_long"]
    facts["dropped"] = {**facts["dropped"], "too_many_tokens": too_long}
    facts["kept"] -= too_long
    return facts


def _tokenizer_facts(tokenizer: PreTrainedTokenizerBase, encoded: EncodedCorpus) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "sha256": encoded.tokenizer_hash,
        "source_tokens": encoded.index["source_tokens"],
        "target_tokens": encoded.index["target_tokens"],
    }


def _forget_if_corpora_changed(recipe: Recipe, run: RunFolder) -> None:
    """Prepared data is good as long as the files it came from are the same, or gone: then it is all that is left of them."""
    if not run.cleaning.exists():
        return
    before = read_json(run.cleaning)["file_hashes"]
    changed = [
        name
        for split, specs in _corpora(recipe).items()
        for spec in specs
        if _has_its_files(spec, recipe)
        for name, digest in file_hashes(spec, recipe.data.root, recipe.languages).items()
        if before.get(split, {}).get(name) != digest
    ]
    if changed and newest_state(run.state):
        raise ValueError(
            f"{', '.join(changed)} changed since the training in {run.path} began; put back the files as they were, or choose another "
            "run folder."
        )
    if changed:
        run.cleaning.unlink()
        for folder in (run.tokenizer, run.encoded):
            shutil.rmtree(folder, ignore_errors=True)


def _hashes(recipe: Recipe) -> dict[str, dict[str, str]]:
    """SHA-256 of every file, by split: `train`, `validation`, `test.NAME`."""
    return {
        split: {
            name: digest
            for spec in specs
            for name, digest in file_hashes(spec, recipe.data.root, recipe.languages).items()
        }
        for split, specs in _corpora(recipe).items()
    }


def _corpora(recipe: Recipe) -> dict[str, tuple[CorpusSpec, ...]]:
    tests = {f"test.{name}": (spec,) for name, spec in recipe.data.test.items()}
    return {"train": recipe.data.train, "validation": (recipe.data.validation,), **tests}


def _has_its_files(spec: CorpusSpec, recipe: Recipe) -> bool:
    names = [name for name in (spec.source, spec.target, spec.path) if name is not None]
    return spec.format in ("lines", "table") and all(
        (Path(recipe.data.root) / name).is_file() for name in names
    )


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _is_free(key: str) -> bool:
    return any(key == free or key.startswith(f"{free}.") for free in _FREE)
