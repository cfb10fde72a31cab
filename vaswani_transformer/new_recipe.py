"""From a corpus to its first recipes: look at it, hold out what validation and test need, write all of it side by side."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .data.sources import parse_corpus
from .data.sources.corpus import Corpus, SentencePair
from .data.survey import Side, Survey, survey
from .files.atomic_file import write_text
from .files.compression import COMPRESSED
from .proposal import REASONS, Proposal, propose

_MOST_HELD_OUT = 2000
_SHARE_HELD_OUT = 30
_FEWEST_PAIRS = 20
_NO_LANGUAGES = (".txt", ".tsv", ".csv", ".tmx", ".zip")

_LANGUAGES = """\
source_language: {source_code}
target_language: {target_code}
"""

_CORPORA = """\
data:
  licence: {licence} # that of the text; each entry of `train` may name its own, and its `attribution`: the card puts them together
  train:
    - {train}
  # {validation_remark}
  validation: {validation}
  test:
    # {test_remark}
    {name}_test: {test}
"""

_BATCHING = """\
batching: # tokens of an update, over all devices
  source_tokens: {batch_tokens}
  target_tokens: {batch_tokens}{micro_batches}
  mixed_lengths: true # short and long sentences in every update
  max_sentence_tokens: {max_sentence_tokens} # 99.9 % of the sentences have at most {longest} words
"""

_PRECISION = """\
  precision: bfloat16 # weights stay in float32; a processor without bfloat16 computes in float32, too

validation:
  sentences: 200 # BLEU during training is a look; the test set gives the score
"""

_RECIPE = f"""\
# {{source_language}} to {{target_language}}, from {{files}}.
# Change what you like; `vaswani check {{name}}.yaml` tells what a change means.
#
# {{read:,}} pairs were read. {{kept}}
# {{source_language}}: {{source_lengths}}
# {{target_language}}: {{target_lengths}}
name: {{name}}
{_LANGUAGES}
{_CORPORA}
tokenizer:
  vocab_size: {{vocab_size}} # the text has {{different:,}} different words; more entries need more text

model: # {{reason}}
{{model}}

{_BATCHING}
training:
  updates: {{updates}} # {{rounds:.0f}} times an estimated {{tokens:,}} tokens; `epochs:` may stand here instead
  warmup_updates: {{warmup_updates}}
  learning_rate_scale: {{learning_rate_scale}} # the paper's schedule, scaled to a peak of {{peak_rate:.1e}}{{more}}
  validate_every: {{validate_every}}
  checkpoint_every: {{checkpoint_every}}
  average_checkpoints: {{average}} # {{averaged}}
{_PRECISION}"""

_DISTILLED = f"""\
# {{name}} taught by itself: it goes on with its text and with its own translations of that text, which are easier to learn.
# First `vaswani train {{name}}.yaml`, which is both the teacher and where this run starts. On captions, both together
# gained more than as much compute on the text alone.
name: {{name}}_distilled
{_LANGUAGES}init_from: runs/{{name}}/averaged

{_CORPORA}  distillation:
    teacher: runs/{{name}}/averaged
    num_beams: 5
    best: 5
    closest: true # of five translations the one nearest to the reference
    keep_original: true # references and translations together
    dtype: bfloat16 # what the teacher computes in; a processor without bfloat16 takes float32

tokenizer:
  method: keep

model:
  dropout: {{second.dropout}} # there is more to learn than before, and less time

{_BATCHING}
training:
  updates: {{second.updates}}
  warmup_updates: {{second.warmup_updates}}
  learning_rate_scale: {{second.learning_rate_scale}} # the paper's schedule, scaled to a peak of {{second.peak_rate:.1e}}{{more}}
  validate_every: {{second.validate_every}}
  checkpoint_every: {{second.checkpoint_every}}
  average_checkpoints: 1 # behind a cooldown, the last is best
{_PRECISION}"""


@dataclass(frozen=True)
class Files:
    """Where the pairs are, as the user types it: two line-aligned files, or one file with both sides and the names of its columns."""

    source: str
    target: str | None = None
    format: str | None = None
    source_column: str | None = None
    target_column: str | None = None
    split: str | None = None

    def as_tree(self, remedy: str) -> dict[str, Any]:
        """The corpus as it stands in a recipe.

        Args:
            remedy: the options that give what the name of a single file does not tell.

        Raises:
            ValueError: the format cannot be told from the name.
        """
        if self.target is not None and self.format in (None, "lines"):
            return {"format": "lines", "source": self.source, "target": self.target}
        named = {"source_column": self.source_column, "target_column": self.target_column, "split": self.split, "target": self.target}
        tree = {"format": self.format or _format_of(self.source, remedy), "path": self.source}
        return tree | {key: value for key, value in named.items() if value is not None}


class NewRecipe(NamedTuple):
    """What was written and counted."""

    path: Path
    distilled: Path | None
    """The recipe of a second run on the model's own translations, where such a run is known to help."""
    found: Survey


def write_new_recipe(
    name: str,
    train: Files,
    languages: tuple[str | None, str | None] = (None, None),
    validation: Files | None = None,
    test: Files | None = None,
    folder: Path = Path(),
    licence: str = "unknown",
) -> NewRecipe:
    """Look at a corpus and write `NAME.yaml`, and where they are not given the files of a validation and a test set.

    For a small corpus, `NAME_distilled.yaml` goes on from the model of the first.

    Args:
        name: of the recipe and its files.
        train: the training pairs.
        languages: codes of source and target; by default the endings of two line-aligned files.
        validation: pairs to look at during training; by default some of the training pairs.
        test: pairs for the score; likewise.
        folder: where the recipe goes, and where relative names of files start.
        licence: of the training text, such as "cc-by-4.0".

    Raises:
        FileExistsError: a file of that name is there already.
        FileNotFoundError: a file is missing.
        ValueError: the corpus cannot be read, is too small, or its languages or format are not known.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"{name!r} is no name for a recipe; take letters, digits, '-', '_' and '.', without a folder.")
    tree = train.as_tree("--target, the file of the other, or --format")
    source, target = (given or _language_of(file) for given, file in zip(languages, (train.source, train.target), strict=True))
    pair = source, target
    others = (("validation", validation, "--dev-target"), ("test", test, "--test-target"))
    given = {part: files.as_tree(f"{option}, the file of the other") for part, files, option in others if files is not None}
    missing = [part for part in ("validation", "test") if part not in given]
    endings = pair if source != target else (f"source.{source}", f"target.{target}")  # as of plain and complicated English
    written = {part: tuple(f"{name}.{part}.{ending}" for ending in endings) for part in missing}
    path, distilled = folder / f"{name}.yaml", folder / f"{name}_distilled.yaml"
    _refuse_to_replace(path, *(folder / file for files in written.values() for file in files))
    corpus, known = parse_corpus(tree), [parse_corpus(tree) for tree in given.values()]
    held_out = [sentence for other in known for sentence in other.pairs(folder, pair)]
    each = _held_out_pairs(corpus, folder, pair) if missing else 0
    found = survey(corpus.pairs(folder, pair), held_out, each * len(missing))
    if found.pairs < _FEWEST_PAIRS:
        raise ValueError(
            f"Cleaning leaves {found.pairs} pairs of {corpus.title} to train on ({_reasons(found)}), which is too few; check the files."
        )
    settings = propose(found)
    if settings.second is not None:
        _refuse_to_replace(distilled)
    for number, (part, files) in enumerate(written.items()):
        _write_pairs(folder, files, found.held_out[number * each : (number + 1) * each])
        given[part] = {"format": "lines", "source": files[0], "target": files[1]}
    values = _values(name, pair, tree, given, missing, found, settings, licence)
    write_text(path, _RECIPE.format(**values, more=_more(settings.size.more)))
    if (second := settings.second) is None:
        return NewRecipe(path, None, found)
    kept = {key: value for key, value in settings.size.more.items() if key != "initial_scale"} | {"cooldown_share": second.cooldown_share}
    write_text(distilled, _DISTILLED.format(**values, second=second, more=_more(kept)))
    return NewRecipe(path, distilled, found)


def _refuse_to_replace(*files: Path) -> None:
    for file in files:
        if file.exists():
            raise FileExistsError(f"{file} is there already; choose another name, or remove it.")


def _held_out_pairs(corpus: Corpus, folder: Path, languages: tuple[str, str]) -> int:
    return max(min(sum(1 for _ in corpus.pairs(folder, languages)) // _SHARE_HELD_OUT, _MOST_HELD_OUT), 1)


def _format_of(name: str, remedy: str) -> str:
    plain = Path(name).with_suffix("") if Path(name).suffix in COMPRESSED else Path(name)
    by_ending = {".tmx": "tmx", ".zip": "moses", **dict.fromkeys((".tsv", ".csv", ".jsonl", ".parquet"), "table")}
    if plain.suffix in by_ending:
        return by_ending[plain.suffix]
    if plain.is_dir():
        return "disk"
    raise ValueError(f"The ending of {name} tells no format that holds both languages; give {remedy}.")


def _language_of(name: str | None) -> str:
    """The ending of a file such as `train.en.gz`."""
    endings = [ending for ending in Path(name or "").suffixes if ending not in COMPRESSED]
    if not endings or endings[-1] in _NO_LANGUAGES or not re.fullmatch(r"\.[a-z]{2,3}([_-]\w+)?", endings[-1]):
        raise ValueError("The names of the files do not end in their languages' codes; give --source-language and --target-language.")
    return endings[-1][1:]


def _write_pairs(folder: Path, files: tuple[str, ...], pairs: Sequence[SentencePair]) -> None:
    for side, file in enumerate(files):
        write_text(folder / file, "".join(" ".join(str(pair[side]).split("\n")) + "\n" for pair in pairs))


def _more(settings: Mapping[str, float | str]) -> str:
    """Lines of `training`, each with its reason."""
    return "".join(f"\n  {key}: {value} # {REASONS[key]}" for key, value in settings.items())


def _values(
    name: str,
    languages: tuple[str, str],
    train: dict[str, Any],
    others: dict[str, dict[str, Any]],
    chosen: Sequence[str],
    found: Survey,
    settings: Proposal,
    licence: str,
) -> dict[str, Any]:
    """What the recipes say. Whatever a comment says was counted."""
    size, sides = settings.size, (found.source, found.target)
    tokenized = {"tokenized": True} if all(side.is_tokenized for side in sides) else {}
    note = "chosen from the training pairs by a hash of the source; cleaning keeps these sources out of training"
    remarks = {f"{part}_remark": note if part in chosen else "as given" for part in ("validation", "test")}
    corpora = {part: _flow({**tree, **tokenized}) for part, tree in {"train": train, **others}.items()}
    written = {
        "model": "\n".join(f"  {key}: {value}" for key, value in size.model.items()),
        "micro_batches": f"\n  micro_batches: {size.micro_batches} # each of sentences of about one length; more need less memory",
        "averaged": f"the last {size.averaged_share:.1%} of the training" if size.average > 1 else "behind a cooldown, the last is best",
    }
    return dict(
        name=name,
        files=_named(train),
        read=found.cleaning.pairs_in,
        kept=_kept(found, chosen),
        source_language=languages[0],
        target_language=languages[1],
        source_code=_flow(languages[0]),
        target_code=_flow(languages[1]),
        licence=_flow(licence),
        source_lengths=_lengths(found.source),
        target_lengths=_lengths(found.target),
        different=len(found.source.words | found.target.words),
        longest=max(side.quantile(0.999) for side in sides),
        rounds=settings.rounds,
        **corpora,
        **remarks,
        **{key: value for key, value in (size._asdict() | vars(settings)).items() if key not in ("size", "more")} | written,
    )


def _kept(found: Survey, chosen: Sequence[str]) -> str:
    held_out = f", of which {len(found.held_out):,} are held out for {' and '.join(chosen)}" if chosen else ""
    return f"Cleaning keeps {found.cleaning.kept:,}{held_out}, and drops {_reasons(found)}."


def _reasons(found: Survey) -> str:
    dropped = {reason: number for reason, number in found.cleaning.dropped.items() if number}
    return ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in dropped.items()) or "none"


def _lengths(side: Side) -> str:
    return (
        f"{side.total_words:,} words, in a sentence {side.quantile(0.5)} in the middle, {side.quantile(0.99)} at the 99th of 100 and "
        f"{side.quantile(1)} at most; letters mostly {side.script}"
    )


def _named(tree: dict[str, Any]) -> str:
    return " and ".join(str(tree[key]) for key in ("source", "target", "path") if key in tree)


def _flow(value: Any) -> str:
    """A value as YAML on one line, quoted where it has to be."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000).removesuffix("\n...\n").strip()
