"""From corpora to encoded pairs. Each stage writes its result to the run folder, and is skipped if the result is already there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..data.batching import require_equal_shares
from ..data.bpe import extend_tokenizer, train_tokenizer
from ..data.bpe_dropout import require_merges
from ..data.cache import provide
from ..data.cleaning import CleaningReport
from ..data.encoding import EncodedCorpus, encode_corpus
from ..data.examples import CutTexts, Examples, LabelledTexts, MarkedAnswers, all_labels, examples_of
from ..data.mask_token import ENTRIES_OF_THE_MASK, add_mask_token
from ..data.sources.corpus import SentencePair
from ..data.workers import available_cores
from ..files.atomic_file import write_text
from ..files.atomic_folder import atomic_folder, explained, make_folder, sweep
from ..files.checksums import CHECKSUMS, verify, write_checksums
from ..files.json_files import read_json, write_json
from ..files.locks import lock
from ..languages import target_languages
from ..recipe import Recipe, load_recipe
from ..run_folder import RunFolder
from ..tokenizer_identity import tokenizer_hash
from ..translation.loading import check_start, local_folder
from .corpora import cleaned, content_of, decisive, read_pairs, settle_corpora
from .distillation import distillation_facts, distilled_hashes, distilled_pairs
from .initialisation import write_initial_model

_FREE = (
    "name", "data.root", "data.licence", "data.distillation.teacher", "search", "validation", "training.updates", "training.epochs",
    "training.cooldown_share", "training.log_every", "training.validate_every", "training.checkpoint_every", "training.average_checkpoints",
    "training.keep_last_checkpoints", "training.keep_best_checkpoints", "training.best_checkpoint_metric", "training.patience",
    "training.trackers", "training.gradient_checkpointing", "training.compile",
)  # fmt: skip
"""Settings that may change when a run resumes: they decide how long it trains, what is validated and kept, or how much memory and time it
takes, but not what an update computes. Of a corpus, those of `DESCRIPTIVE` may change, too, and of a teacher its
place: it is known by the hashes of its files. No others may: validation and test corpora, because their pairs were dropped from the
training pairs, and `batching`, because it decides which pairs form an update."""

VALIDATION = "validation"
"""The folder of the encoded validation set."""

_NO_LIMIT = 2**31 - 1
"""Tokens of a sentence. All validation pairs count: `validation.batch_tokens` limits memory and must not decide what is scored."""


class PreparedData(NamedTuple):
    """The data that training reads."""

    tokenizer: PreTrainedTokenizerBase
    train: EncodedCorpus
    validation: EncodedCorpus


@contextmanager
def sole_training(run: RunFolder) -> Iterator[None]:
    """Lock the run folder against a second training while this one runs, as when a job is started twice.

    Raises:
        ValueError: another training is running in it.
    """
    with explained(run.lock):
        make_folder(run.path)
    taken = ValueError(f"Another process is training in {run.path}; wait for it, stop it, or choose another run folder.")
    with lock(run.lock, taken):
        yield


def settle_micro_batches(recipe: Recipe, run: RunFolder, ranks: int | None) -> Recipe:
    """The recipe with `batching.micro_batches`; if it sets none, the number that the run started with, else one for each rank.

    Without `ranks`, which is before any training, the number may stay open.
    """
    if recipe.batching.micro_batches is not None:
        return recipe
    begun = load_recipe(run.recipe, in_run_folder=True).batching.micro_batches if run.recipe.exists() else None
    return replace(recipe, batching=replace(recipe.batching, micro_batches=begun or ranks))


def claim_run_folder(recipe: Recipe, run: RunFolder, ranks: int | None = 1) -> None:
    """Write the resolved recipe into the run folder, unless it holds another run; remove what a crash left in it.

    Args:
        recipe: as the user wrote it.
        run: the folder of a new run, or of one to resume.
        ranks: how many processes train; None if nobody does yet.

    Raises:
        ValueError: the folder's recipe differs in a setting that decides the outcome; the sentence names these settings. Or the processes
            cannot share an update equally.
    """
    settled = settle_micro_batches(recipe, run, ranks)
    text = settled.to_yaml()
    if run.recipe.exists():
        before, now = (
            # Read as a recipe, so that a setting that did not exist when the run started gets its default
            _flat(yaml.safe_load(version))
            for version in (load_recipe(run.recipe, in_run_folder=True).to_yaml(), text)
        )
        if before["batching.micro_batches"] is None:  # only translated so far, so the first training decides
            del before["batching.micro_batches"], now["batching.micro_batches"]
        keys = [key for key in sorted(before.keys() | now.keys()) if not _is_free(key) and before.get(key) != now.get(key)]
        if keys:
            changes = ", ".join(f"`{key}` ({before.get(key)} there, {now.get(key)} now)" for key in keys)
            raise ValueError(
                f"{run.path} holds another run, whose recipe differs in {changes}. That decides what is computed: put it back, choose "
                "another run folder, or delete this one."
            )
    if ranks is not None and settled.batching.micro_batches is not None:
        require_equal_shares(settled.batching.micro_batches, ranks)
    write_text(run.recipe, text)
    sweep(run.path)


def prepare_data(recipe: Recipe, run: RunFolder, progress: bool = False) -> PreparedData:
    """Read, clean, learn the vocabulary and encode, on all cores; results that exist, here or from another run, are only opened.

    One process does it; the others of a training call `open_prepared_data` afterwards. The vocabulary and the encoded corpora come from
    the cache (`data.cache`) if a run with the same files, cleaning, tokenizer and limits has made them.

    Existing results are verified first: one process reads them once and compares them with the hashes written with them.

    Raises:
        ValueError: a corpus is not what the recipe says, or has changed since a training started on it, or prepared data are damaged.
        ChildProcessError: a worker process was killed.
    """
    train, validation = run.encoded / "train", run.encoded / VALIDATION
    hashes = settle_corpora(recipe, run)
    for folder in (run.distilled, run.tokenizer, train, validation, run.initial):
        _verify_if_there(folder)
    if recipe.init_from is not None and not run.initial.exists():
        verify(Path(recipe.init_from))
    facts = read_json(run.cleaning)
    content = _content(recipe, run, hashes)
    if content is None and not train.exists():
        print("A corpus is streamed, so its text is not known beforehand: what is prepared is not shared with other runs", flush=True)
    tokenizer = _provide_tokenizer(recipe, run, content, progress)
    encode = partial(_encode, recipe, content, tokenizer)
    if not train.exists():
        limit = recipe.batching.max_sentence_tokens
        labels = _labels(recipe, run) if recipe.facts.labels else ()
        encode(train, limit, lambda: _clean_training_pairs(recipe, run), labels, progress=progress)
        _say_what_is_cut(examples_of(recipe), EncodedCorpus.open(train))
    if "tokenizer" not in facts:
        encoded = EncodedCorpus.open(train)
        known = {"file_hashes": facts["file_hashes"], "tokenizer": _tokenizer_facts(tokenizer, encoded)}
        if recipe.data.distillation is not None:
            known["distillation"] = distillation_facts(run)
        write_json(run.cleaning, {**_facts(encoded), **known})
    if recipe.init_from is not None and not run.initial.exists():
        print(write_initial_model(recipe, run, tokenizer, len(EncodedCorpus.open(train).labels)))
    if not validation.exists():
        labels = EncodedCorpus.open(train).labels
        _require_known_labels(recipe, labels)
        encode(validation, _NO_LIMIT, lambda: (read_pairs(recipe, recipe.data.validations), None), labels)
    data = open_prepared_data(run)
    if dropped := data.validation.index["dropped_too_long"]:
        limit = data.validation.index["max_tokens"]
        print(f"{dropped} pairs of `data.validation` are left out, because one of their sides has more than {limit} tokens.")
    return data


def _say_what_is_cut(examples: Examples, train: EncodedCorpus) -> None:
    if isinstance(examples, CutTexts) and (long := int((train.source_lengths >= examples.longest).sum())):
        print(
            f"{long:,} of {len(train):,} training texts have {examples.longest} tokens or more and are cut to that; a higher "
            "`batching.max_sentence_tokens` reads more of them."
        )
    if isinstance(examples, MarkedAnswers) and (cut := len(train) - train.index["cleaning"]["kept"]):
        print(f"Long contexts are cut into windows of at most {examples.size} tokens: {len(train):,} windows, {cut:,} more than questions.")


def _verify_if_there(folder: Path) -> None:
    if (folder / CHECKSUMS).exists():
        verify(folder, f"to have it made again, delete {folder} and run the same command")
    elif folder.exists():
        print(f"{folder} is used unverified: it has no {CHECKSUMS}, as an earlier version wrote it or somebody deleted it.")


def open_prepared_data(run: RunFolder) -> PreparedData:
    """The data that `prepare_data` wrote to the run folder; ids stay on the disk, and no corpus is read."""
    return PreparedData(
        AutoTokenizer.from_pretrained(run.tokenizer),
        EncodedCorpus.open(run.encoded / "train"),
        EncodedCorpus.open(run.encoded / VALIDATION),
    )


def _content(recipe: Recipe, run: RunFolder, hashes: dict[str, dict[str, str]]) -> dict[str, Any] | None:
    """All that decides which pairs are trained on; None if some text's hash is not known in advance."""
    content = content_of(recipe, hashes)
    if content is None or recipe.data.distillation is None:
        return content
    return content | {"distilled": distilled_hashes(run), "keep_original": recipe.data.distillation.keep_original}


def _encode(
    recipe: Recipe,
    content: dict[str, Any] | None,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    max_tokens: int,
    read: Callable[[], tuple[Iterator[SentencePair], CleaningReport | None]],
    labels: tuple[str, ...],
    *,
    progress: bool = False,
) -> None:
    limit = min(max_tokens, recipe.model_config().most_positions or max_tokens)
    examples = examples_of(recipe, labels)
    decisive = {"split": folder.name, "tokenizer": tokenizer_hash(tokenizer), "max_tokens": limit, "examples": examples.settings()}
    if isinstance(examples, MarkedAnswers) and limit < examples.size:
        raise ValueError(
            f"The model has positions for {limit} tokens, which a window must not exceed; set `batching.max_sentence_tokens: {limit}`."
        )

    def make() -> None:
        pairs, report = read()
        encode_corpus(
            pairs,
            tokenizer,
            folder,
            max_tokens=limit,
            target_languages=recipe.target_languages,
            cleaning=report,
            processes=available_cores(),
            progress=progress,
            examples=examples,
            keep_texts=recipe.marks_answers and folder.name == VALIDATION,
        )

    provide(folder, "encoded", {**content, **decisive} if content else None, make)


def _labels(recipe: Recipe, run: RunFolder) -> tuple[str, ...]:
    """The names of all labels, in the order of their numbers: the recipe's, or those of the training texts."""
    if recipe.data.labels:
        return tuple(recipe.data.labels.values())
    pairs, _ = _clean_training_pairs(recipe, run)
    return all_labels(pairs)


def _require_known_labels(recipe: Recipe, labels: tuple[str, ...]) -> None:
    """Raise the `ValueError` of a test text whose labels the model cannot give; else only the evaluation would find it."""
    examples = examples_of(recipe, labels)
    if isinstance(examples, LabelledTexts):
        for pair in read_pairs(recipe, recipe.data.test.values()):
            examples.numbers(pair)


def _provide_tokenizer(recipe: Recipe, run: RunFolder, content: dict[str, Any] | None, progress: bool) -> PreTrainedTokenizerBase:
    """The run's tokenizer; if it must be made again, it must equal the one that wrote the ids."""
    is_there = run.tokenizer.exists()
    if not is_there:
        if recipe.init_from is not None:  # also where the vocabulary is new: a wrong folder is told before preparing
            check_start(local_folder(recipe.init_from), with_decoder=not recipe.has_no_decoder)
            recipe.model_config()  # and layers that it does not have
        is_new = recipe.tokenizer.method == "train"
        # BPE-dropout cuts words by the vocabulary, and does not decide it
        decisive = {key: value for key, value in asdict(recipe.tokenizer).items() if key != "bpe_dropout"}
        settings = {**content, "tokenizer": decisive} if content and is_new else None
        provide(run.tokenizer, "tokenizer", settings, lambda: _train_tokenizer(recipe, run, progress))
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(run.tokenizer)
    if recipe.tokenizer.bpe_dropout:
        require_merges(tokenizer)
    train = run.encoded / "train"
    if not is_there and train.exists() and EncodedCorpus.open(train).tokenizer_hash != tokenizer_hash(tokenizer):
        raise ValueError(
            f"{run.tokenizer} was made again and is not the tokenizer that wrote the ids in {train}; put back the one that was there, or "
            "choose another run folder."
        )
    return tokenizer


def _train_tokenizer(recipe: Recipe, run: RunFolder, progress: bool) -> None:
    with atomic_folder(run.tokenizer) as unfinished:
        tokenizer = _tokenizer_of(recipe, run, progress)
        _check_target_languages(recipe, tokenizer)
        tokenizer.save_pretrained(unfinished)
        write_checksums(unfinished)


def _tokenizer_of(recipe: Recipe, run: RunFolder, progress: bool) -> PreTrainedTokenizerBase:
    """A tokenizer learnt from the training pairs, that of the model to start from, or the latter with more entries."""
    settings = recipe.tokenizer
    origin = None if settings.method == "train" else AutoTokenizer.from_pretrained(recipe.init_from)
    needs_mask = recipe.task == "pretraining"
    if settings.method == "keep" or settings.vocab_size is None:
        if settings.vocab_size is not None:
            print(f"`tokenizer.vocab_size: {settings.vocab_size}` is without effect, because `method: keep` keeps all entries as they are.")
        return add_mask_token(origin) if needs_mask else origin
    pairs, _ = _clean_training_pairs(recipe, run)
    texts = chain.from_iterable(map(examples_of(recipe).texts, pairs))
    learn = train_tokenizer if origin is None else partial(extend_tokenizer, origin)
    masks = ENTRIES_OF_THE_MASK if needs_mask and getattr(origin, "mask_token", None) is None else 0
    learned = learn(
        texts,
        settings.vocab_size - masks,
        min_frequency=settings.min_frequency,
        target_languages=recipe.target_languages,
        progress=progress,
    )
    return add_mask_token(learned) if masks else learned


def _check_target_languages(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> None:
    known = target_languages(tokenizer)
    if missing := [language for language in recipe.target_languages if language not in known]:
        raise ValueError(
            f"The tokenizer of {recipe.init_from} has no token for the target language {', '.join(missing)}; set `tokenizer.method` to "
            "`extend` or `train`."
        )
    if known and not recipe.target_languages:
        raise ValueError(
            f"{recipe.init_from} chooses among several target languages ({', '.join(known)}); name `target_language` in each of "
            "`data.train`, or set `tokenizer.method: train`."
        )


def _clean_training_pairs(recipe: Recipe, run: RunFolder) -> tuple[Iterator[SentencePair], CleaningReport]:
    """A new stream at each call: cleaning twice costs less than storing the text in between."""
    read = distilled_pairs(recipe, run) if recipe.data.distillation else read_pairs(recipe, recipe.data.train)
    pairs, report = cleaned(recipe, read)
    return _unless_all_are_dropped(pairs, report, run), report


def _unless_all_are_dropped(pairs: Iterator[SentencePair], report: CleaningReport, run: RunFolder) -> Iterator[SentencePair]:
    yield from pairs
    if not report.kept:
        write_json(run.cleaning, {**report.to_dict(), "file_hashes": read_json(run.cleaning)["file_hashes"]})
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in report.dropped.items() if number)
        raise ValueError(
            f"Cleaning dropped all {report.pairs_in:,} training pairs ({reasons}; also in {run.cleaning}); check the corpora, or change "
            "`data.cleaning`."
        )


def _facts(encoded: EncodedCorpus) -> dict[str, Any]:
    """The cleaning report, with the pairs that turned out too long only once tokenised."""
    facts = encoded.index["cleaning"]
    too_long = encoded.index["dropped_too_long"]
    dropped = {**facts["dropped"], "too_many_tokens": too_long}
    return {**facts, "dropped": dropped, "kept": facts["kept"] - too_long}


def _tokenizer_facts(tokenizer: PreTrainedTokenizerBase, encoded: EncodedCorpus) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "sha256": encoded.tokenizer_hash,
        "source_tokens": encoded.index["source_tokens"],
        "target_tokens": encoded.index["target_tokens"],
    }


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under dotted keys; of a corpus, those that decide what is computed."""
    flat: dict[str, Any] = {}
    for key, value in (decisive(tree) if "format" in tree else tree).items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            corpora = isinstance(value, list) and all(isinstance(item, dict) for item in value)
            flat[f"{prefix}{key}"] = [decisive(item) for item in value] if corpora else value
    return flat


def _is_free(key: str) -> bool:
    return any(key == free or key.startswith(f"{free}.") for free in _FREE)
