"""Learn a vocabulary shortlist from a model's training pairs, measure what it covers, and put it beside the weights."""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ..files.atomic_folder import changed_folder
from ..files.checksums import CHECKSUMS, find_damage, write_checksums
from ..files.json_files import read_json, write_json
from ..recipe import load_recipe
from ..run_folder import RunFolder
from ..shortlist import SHORTLIST_FILE, SHORTLIST_USES, Shortlist
from ..tokenizer_identity import tokenizer_hash
from ..translation.loading import Checkpoint, load_checkpoint
from .encoding import EncodedCorpus, encode_corpus
from .ibm_model import ibm_model_1
from .sources.corpus import SentencePair

BEST = 100
"""Target tokens listed for each source token."""
FREQUENT = 100
"""Target tokens that every translation may hold."""
_LONGEST = 1024
_SETTINGS = "generation_config.json"


class Coverage(NamedTuple):
    """How much of some translations a shortlist would let through."""

    tokens: float
    """The share of their tokens, ends included, that are in their source's list."""
    sentences: float
    """The share of translations all of whose tokens are."""
    size: float
    """How many tokens a source's list has on average."""


def make_shortlist(
    folder: str | Path,
    pairs: Iterable[SentencePair] | None = None,
    languages: tuple[str, str] | None = None,
    *,
    best: int = BEST,
    frequent: int = FREQUENT,
    use: Sequence[str] = (),
    progress: bool = False,
) -> Coverage | None:
    """Learn a shortlist for a model and write it beside the model's weights.

    The model's folder takes its new content at once: a reader, or a crash, finds the old folder or the new one.

    Args:
        folder: a run, whose training pairs are there still, or a model's folder.
        pairs: for a model's folder: sentence pairs like those it was trained on.
        languages: of `pairs`, source and target; several targets stand between spaces.
        best: target tokens listed for each source token.
        frequent: the most frequent target tokens, which every translation may hold.
        use: of `SHORTLIST_USES`, which the model's generation_config.json then asks for.
        progress: show a bar.

    Returns:
        What it covers of a run's validation set; None for a model's folder.

    Raises:
        FileNotFoundError: there is no such folder, no averaged model in the run, or its encoded pairs are gone.
        ValueError: the model is damaged or none of ours, the pairs were encoded by another tokenizer, or none are left.
    """
    if best < 1 or frequent < 1:
        raise ValueError(f"A shortlist lists at least 1 token, and here are best = {best} and frequent = {frequent}; give 1 or more.")
    run = RunFolder(Path(folder))
    place = Path(folder)
    if pairs is None:
        recipe = load_recipe(run.recipe, in_run_folder=True)
        place, languages = run.averaged, (recipe.source_language, " ".join(recipe.translates_into))
        if not place.is_dir():
            raise FileNotFoundError(f"There is no averaged checkpoint {place}; finish the training of this run first.")
    checkpoint = load_checkpoint(place, torch.float32, only_ours=True)
    if pairs is not None:
        whole = (pair for pair in pairs if pair.source.strip() and pair.target.strip())
        if (first := next(whole, None)) is None:
            raise ValueError("There is no sentence pair with text on both sides to learn a shortlist from; check the files.")
        with tempfile.TemporaryDirectory() as scratch:
            corpus = encode_corpus(
                chain([first], whole), checkpoint.tokenizer, Path(scratch) / "pairs", max_tokens=_LONGEST, progress=progress
            )
            found = learn_shortlist(checkpoint, corpus, languages, best=best, frequent=frequent, progress=progress)
        covered = None
    else:
        corpus = _encoded(run, "train", checkpoint.tokenizer)
        found = learn_shortlist(checkpoint, corpus, languages, best=best, frequent=frequent, progress=progress)
        covered = coverage_of_pairs(found, _encoded(run, "validation", checkpoint.tokenizer))
    save_shortlist(place, found, use)
    return covered


def learn_shortlist(
    checkpoint: Checkpoint,
    corpus: EncodedCorpus,
    languages: tuple[str, str] | None,
    *,
    best: int = BEST,
    frequent: int = FREQUENT,
    progress: bool = False,
) -> Shortlist:
    """A shortlist for `checkpoint`: by IBM model 1, the likeliest target tokens of each source token, and the most frequent of all.

    Where source and target share a vocabulary, a source token's list begins with the token itself, so that names and numbers can be copied.
    """
    config: Any = checkpoint.model.config
    lexicon = ibm_model_1(corpus.source, corpus.target, config.decoder_entries, progress=progress)
    listed = lexicon.best(config.vocab_size, best)
    if config.target_vocab_size is None:
        itself = np.arange(config.vocab_size, dtype=np.int32)[:, None]
        itself[list(_control_ids(checkpoint.tokenizer))] = -1
        listed = np.concatenate((itself, listed), axis=1)
    counts = corpus.target.counts(config.decoder_entries)
    most = np.argsort(-counts, kind="stable")[:frequent]
    facts = {
        "tokenizer": tokenizer_hash(checkpoint.tokenizer),
        "sentence_pairs": str(len(corpus)),
        "method": f"IBM model 1, best {best}, frequent {frequent}",
    }
    if languages is not None:
        facts |= {"source_language": languages[0], "target_language": languages[1]}
    return Shortlist(torch.from_numpy(listed), torch.from_numpy(most[counts[most] > 0]), config.decoder_entries, facts)


def coverage(shortlist: Shortlist, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Coverage:
    """What `shortlist` lets through of the translations `targets` of `sources`, token ids both."""
    sizes, shares, whole = [], [], 0
    for source, target in zip(sources, targets, strict=True):
        choice = shortlist.choose(torch.tensor([list(source)]))
        allowed = set(choice.columns[~choice.forbidden[0]].tolist())
        inside = [token in allowed for token in target]
        sizes.append(len(allowed))
        shares.extend(inside)
        whole += all(inside)
    return Coverage(float(np.mean(shares)), whole / len(sizes), float(np.mean(sizes)))


def coverage_of_pairs(shortlist: Shortlist, corpus: EncodedCorpus) -> Coverage:
    """`coverage` of the references of an encoded corpus."""
    return coverage(shortlist, *([side[i].tolist() for i in range(len(corpus))] for side in (corpus.source, corpus.target)))


def save_shortlist(folder: Path, shortlist: Shortlist, use: Sequence[str] = ()) -> None:
    """Write `shortlist` into the model's folder, which changes at once or not at all; `use`: see `make_shortlist`."""
    with changed_folder(folder) as unfinished:
        (unfinished / SHORTLIST_FILE).write_bytes(shortlist.to_bytes())
        _use_shortlist(unfinished, use)
        if (folder / CHECKSUMS).is_file():
            write_checksums(unfinished)


def keep_shortlist(before: Path, folder: Path) -> None:
    """Give `folder` the shortlist of `before`, an earlier model of the same tokenizer, and its use by every search, if that has them.

    Raises:
        ValueError: the file is damaged.
    """
    if not (before / SHORTLIST_FILE).is_file():
        return
    if (before / CHECKSUMS).is_file() and (damage := find_damage(before, [SHORTLIST_FILE])):
        raise ValueError(f"{damage}; delete {before / SHORTLIST_FILE}, run the same command again, and make the shortlist anew.")
    shutil.copyfile(before / SHORTLIST_FILE, folder / SHORTLIST_FILE)
    settings = read_json(before / _SETTINGS)
    _use_shortlist(folder, [name for name in SHORTLIST_USES if settings.get(name)])


def _use_shortlist(folder: Path, settings: Sequence[str]) -> None:
    if settings:
        file = folder / _SETTINGS
        # Under this mark, transformers would drop the settings that are not its own
        write_json(file, {**read_json(file), "_from_model_config": False, **dict.fromkeys(settings, True)})


def _control_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Ids of the tokens that text cannot spell."""
    return {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}


def _encoded(run: RunFolder, split: str, tokenizer: PreTrainedTokenizerBase) -> EncodedCorpus:
    """The pairs of a run as its training encoded them."""
    folder = run.encoded / split
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} is gone, which holds the pairs that the shortlist is learned from; run the same `vaswani train` again, "
            f"which encodes them, or name the model itself, {run.averaged}, with --source, --target, --source-language and "
            "--target-language."
        )
    corpus = EncodedCorpus.open(folder)
    if corpus.tokenizer_hash != tokenizer_hash(tokenizer):
        raise ValueError(f"{folder} was encoded by another tokenizer than that of {run.averaged}; they are not of one run.")
    return corpus
