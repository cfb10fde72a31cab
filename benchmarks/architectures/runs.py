"""Train each system with each learning rate, choose the best by its validation loss, and repeat that with the other seeds."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import get_args

from transformers import PreTrainedTokenizerBase

from benchmarks.architectures.cpu_clock import CpuClock, cpu_seconds, write_json
from benchmarks.architectures.eole_environment import run_in
from benchmarks.architectures.eole_program import CLOCK, RESULT
from benchmarks.architectures.systems import Name, Pieces, eole_flops, eole_search, eole_settings
from benchmarks.known_runs import FINGERPRINT, fingerprint, known_runs, require_runs
from benchmarks.levers import done, result_of
from benchmarks.report import Results, Row
from vaswani_transformer.data.encoding import EncodedCorpus
from vaswani_transformer.data.sources.corpus import Corpus
from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, read_json_lines
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.training.preparation import PreparedData, prepare_data
from vaswani_transformer.training.python_api import train
from vaswani_transformer.translation.loading import load_checkpoint
from vaswani_transformer.translation.translate import translate

_CLASSES_OF_LENGTH = 4
_TRANSLATIONS = "translations.txt"
_VALIDATIONS = 10
_CHECKPOINTS_PER_VALIDATION = 4
_AVERAGED_CHECKPOINTS = 5
_MOST_RATES_BEYOND = 4
_WHAT_EOLE_HAS = {
    "tokenizer.bpe_dropout": 0.0,
    "training.cooldown_share": 0.0,
    "training.weight_decay": 0.0,
    "training.word_dropout": 0.0,
    "training.r_drop": 0.0,
    "training.both_directions_epochs": 0,
    "training.ema_decay": "null",
    "training.precision": "float32",
}
"""What a recipe may have beyond the paper, taken away, and one precision for all. A setting of the command line comes after it.

The start stays the recipe's, as eole's is its own: the paper names none.
"""


@dataclass(frozen=True)
class Plan:
    """What to train.

    Attributes:
        recipe: a file, or the name of one that comes with the package.
        updates: of our own runs; the target tokens that they read are the budget of all others.
        peaks: learning rates at the end of the warm-up, one of which each system chooses with the first seed. Where that is the least or
            the largest one, half or twice of it is tried, too, until the best lies between two others.
        layers: of eole's encoder and decoder, by system.
        python: of an environment that has eole.
        known: files `results.json` of other commands, whose runs are not made again.
        done_only: leave out what is not done, in place of training it.
    """

    recipe: str
    updates: int
    peaks: tuple[float, ...]
    seeds: tuple[int, ...]
    output: Path
    python: Path
    systems: tuple[Name, ...] = get_args(Name)
    layers: tuple[tuple[Name, int], ...] = (("rnn", 2), ("cnn", 4))
    overrides: tuple[str, ...] = ()
    known: tuple[Path, ...] = ()
    done_only: bool = False

    def __post_init__(self) -> None:
        if self.updates < 1 or not self.seeds or not self.peaks or min(self.peaks) <= 0:
            raise ValueError("There must be an update, a seed and a learning rate above 0.")
        if len(set(self.seeds)) < len(self.seeds) or len(set(self.peaks)) < len(self.peaks):
            raise ValueError("Name each seed and each learning rate once.")

    def recipe_of(self, peak: float, seed: int) -> Recipe:
        """Ours with this learning rate, without what eole lacks; the mean of the last checkpoints counts (section 6.1), as for eole."""
        file = find_recipe(self.recipe)
        chosen = [*(f"{name}={value}" for name, value in _WHAT_EOLE_HAS.items()), *self.overrides]
        base = load_recipe(file, chosen)
        warmup = base.training.warmup_updates
        scale = peak * math.sqrt(base.model_config().d_model * warmup)
        every = max(self.updates // (_VALIDATIONS * _CHECKPOINTS_PER_VALIDATION), 1)
        own = {
            "training.updates": self.updates,
            "training.seed": seed,
            "training.learning_rate_scale": scale,
            "training.average_checkpoints": _AVERAGED_CHECKPOINTS,
            "training.checkpoint_every": every,
            "training.validate_every": every * _CHECKPOINTS_PER_VALIDATION,
            "training.max_gradient_norm": "null" if base.training.max_gradient_norm is None else base.training.max_gradient_norm,
            "validation.sentences": 1,
            "validation.samples": 0,
        }
        return load_recipe(file, [*chosen, *(f"{name}={value}" for name, value in own.items())])

    def folder(self, system: Name, peak: float, seed: int) -> Path:
        return self.output / system / f"peak-{peak:g}" / f"seed-{seed}"


def compare_systems(plan: Plan) -> Iterator[Results]:
    """Train and score what is not there yet.

    Yields:
        All results so far, after each run.

    Raises:
        FileNotFoundError: a recipe, a corpus, eole's python or a file of known results is missing.
        InterruptedError: a signal stopped a training; it saved its state first.
        RuntimeError: eole failed.
        ValueError: a setting cannot be used, a file of known results has no runs, or none is done.
    """
    runner = _Runner(plan)
    results: Results = {
        "recipe": plan.recipe,
        "overrides": list(plan.overrides),
        "updates": plan.updates,
        "peaks": list(plan.peaks),
        "seeds": list(plan.seeds),
        "test_set": runner.test_name,
        "edges": runner.edges,
        "runs": [],
    }
    for system in plan.systems:
        for peak in rates_to_try(results["runs"], system, plan.peaks):
            if (row := runner.run(system, peak, plan.seeds[0])) is None:
                break
            results["runs"].append(row)
            yield results
        else:
            for seed in plan.seeds[1:]:
                if (row := runner.run(system, best_peak(results["runs"], system), seed)) is not None:
                    results["runs"].append(row)
                    yield results
    require_runs(results["runs"], plan.output)


def rates_to_try(runs: Sequence[Row], system: str, peaks: Sequence[float]) -> Iterator[float]:
    """The learning rates of `peaks`, then one beyond the best of all as long as that is an outermost one, four at most; reads `runs`."""
    yield from peaks
    tried = sorted(peaks)
    for _ in range(_MOST_RATES_BEYOND):
        best = best_peak(runs, system)
        if best not in (tried[0], tried[-1]):
            return
        beyond = 2 * best if best == tried[-1] else best / 2
        tried = sorted([*tried, beyond])
        yield beyond


def best_peak(runs: Sequence[Row], system: str) -> float:
    """The learning rate with which `system` has the least validation loss; one that diverged (no number) is never the best."""
    own = [run for run in runs if run["system"] == system]
    return float(min(own, key=lambda run: run["nll"] if math.isfinite(run["nll"]) else math.inf)["peak"])


class _Runner:
    """What all runs share: the test set, and the pieces of our tokenizer as files."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._recipe = plan.recipe_of(plan.peaks[0], plan.seeds[0])
        data = self._recipe.data
        self.test_name, corpus = next(iter(data.test.items())) if data.test else ("validation", data.validations[0])
        self._corpus: Corpus = corpus
        pairs = list(corpus.pairs(data.root, self._recipe.languages_of(corpus)))
        self._sources, self._references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        self.edges = length_edges([len(source.split()) for source in self._sources])
        self._known = known_runs(plan.known)
        self._pieces: Pieces | None = None

    def run(self, system: Name, peak: float, seed: int) -> Row | None:
        """A run's row of the results; none if it is not done and nothing is to be trained."""
        own = self._identity(system, peak, seed)
        if (known := self._known.get(own)) is not None:
            return known
        folder = self._plan.folder(system, peak, seed)
        if self._plan.done_only and not self._is_done(system, peak, seed, folder):
            return None
        found = self._ours(peak, seed, folder) if system == "transformer" else self._eoles(system, peak, seed, folder)
        translations = (folder / _TRANSLATIONS).read_text(encoding="utf-8").splitlines()
        return {"system": system, "peak": peak, "seed": seed, FINGERPRINT: own, **found, **self._scores(translations)}

    def _identity(self, system: Name, peak: float, seed: int) -> str:
        """What a run is made from: eole's settings follow from our recipe, the system and its layers."""
        said = fingerprint(self._plan.recipe_of(peak, seed)), system, dict(self._plan.layers).get(system)
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def _is_done(self, system: Name, peak: float, seed: int, folder: Path) -> bool:
        if system == "transformer":
            return (folder / _TRANSLATIONS).is_file() and done(self._plan.recipe_of(peak, seed), RunFolder(folder)) is not None
        return (folder / RESULT).is_file()

    def _ours(self, peak: float, seed: int, folder: Path) -> Row:
        recipe, run = self._plan.recipe_of(peak, seed), RunFolder(folder)
        if not (folder / _TRANSLATIONS).is_file():
            with CpuClock(folder.with_name(f"{folder.name}.{CLOCK}")):
                if train(recipe, folder) is None:
                    raise InterruptedError(f"The training in {folder} was stopped; the same command goes on with it.")
            model, tokenizer = load_checkpoint(run.averaged)
            write_text(folder / _TRANSLATIONS, "".join(f"{line}\n" for line in translate(model, tokenizer, self._sources)))
        found, course = result_of(recipe, run), list(read_json_lines(run.log))
        curve = {
            each["update"]: {"target_tokens": found["target_tokens"] * each["update"] / found["updates"], "nll": each["nll"]}
            for each in course
            if each["kind"] == "validation"
        }
        named = {name: found[name] for name in ("parameters", "updates", "target_tokens", "flops", "nll")}
        width = {"width": recipe.model_config().d_model, "layers": recipe.model_config().encoder_layers}
        return {
            **named,
            **width,
            "curve": [curve[update] for update in sorted(curve)],
            **self._cpu(folder.with_name(f"{folder.name}.{CLOCK}")),
        }

    def _eoles(self, system: Name, peak: float, seed: int, folder: Path) -> Row:
        first = self._first_run()
        pieces = self._pieces or self._write_pieces()
        layers = dict(self._plan.layers)[system]
        job = {
            "folder": str(folder),
            "peak": peak,
            "target_tokens": first["target_tokens"],
            "parameters": first["parameters"],
            "validations": _VALIDATIONS,
            "checkpoints_per_validation": _CHECKPOINTS_PER_VALIDATION,
            "averaged_checkpoints": self._recipe.training.average_checkpoints,
            "settings": eole_settings(system, self._recipe, pieces, seed, layers),
            "sources": str(self._first.parent / "test.source"),
            "translations": str(folder / "pieces.txt"),
            "search": eole_search(self._recipe),
        }
        if not (folder / RESULT).is_file():
            write_json(folder / "job.json", job)
            run_in(self._plan.python, "benchmarks.architectures.eole_program", [str(folder / "job.json")], folder / "eole.log")
        elif read_json(folder / "job.json") != job:
            raise ValueError(f"{folder} holds a run with other settings; name another --output, or delete it.")
        tokenizer = self._prepared.tokenizer
        lines = (folder / "pieces.txt").read_text(encoding="utf-8").splitlines()
        write_text(folder / _TRANSLATIONS, "".join(f"{tokenizer.convert_tokens_to_string(line.split())}\n" for line in lines))
        result = read_json(folder / RESULT)
        named = {name: result[name] for name in ("parameters", "updates", "nll", "nll_as_it_comes", "width", "curve", "validation_tokens")}
        tokens = {"target_tokens": result["counted"]["target_tokens"], "layers": layers}
        return {**named, **tokens, "flops": eole_flops(system, layers, result), **self._cpu(folder / CLOCK)}

    @property
    def _first(self) -> Path:
        """The folder of our first run, whose tokenizer, encoded corpus, size and budget all others take."""
        return self._plan.folder("transformer", self._plan.peaks[0], self._plan.seeds[0])

    def _first_run(self) -> Row:
        """The size and the budget."""
        training = RunFolder(self._first).training
        known = self._known.get(self._identity("transformer", self._plan.peaks[0], self._plan.seeds[0]))
        if known is None and not training.is_file():
            raise ValueError(
                "The size and the budget are those of our own first run; name `transformer` among the systems, before the others."
            )
        return known or dict(read_json(training))

    @cached_property
    def _prepared(self) -> PreparedData:
        """The data of our first run; made now if another machine has trained it."""
        return prepare_data(self._recipe, RunFolder(self._first))

    def _write_pieces(self) -> Pieces:
        data, folder = self._prepared, self._first.parent
        names = {}
        for split, corpus in (("train", data.train), ("validation", data.validation)):
            names[split] = (str(folder / f"{split}.source"), str(folder / f"{split}.target"))
            for file, lines in zip(names[split], pieces_of(corpus, data.tokenizer), strict=True):
                write_text(Path(file), "".join(f"{line}\n" for line in lines))
        write_text(folder / "test.source", "".join(f"{' '.join(data.tokenizer.tokenize(text))}\n" for text in self._sources))
        special = set(data.tokenizer.all_special_tokens)
        entries = [piece for piece in data.tokenizer.convert_ids_to_tokens(range(len(data.tokenizer))) if piece not in special]
        write_text(folder / "vocabulary.txt", "".join(f"{piece}\t1\n" for piece in entries))
        files = str(folder / "vocabulary.txt"), len(data.train), len(entries)
        self._pieces = Pieces(names["train"], names["validation"], *files)
        return self._pieces

    def _scores(self, translations: Sequence[str]) -> Row:
        language = self._recipe.languages_of(self._corpus)[1]
        scored = partial(score, target_language=language, tokenized=self._corpus.tokenized)
        whole, classes = scored(translations, self._references), []
        for shortest, longest in self.edges:
            own = [place for place, source in enumerate(self._sources) if shortest <= len(source.split()) <= longest]
            found = scored(*([side[place] for place in own] for side in (translations, self._references)))
            classes.append({"sentences": len(own), "bleu": found["sacrebleu"].score})
        return {"bleu": whole["sacrebleu"].score, "chrf": whole["chrf"].score, "by_length": classes}

    def _cpu(self, file: Path) -> Row:
        return {"cpu_seconds": cpu_seconds(file)}


def pieces_of(corpus: EncodedCorpus, tokenizer: PreTrainedTokenizerBase) -> tuple[list[str], list[str]]:
    """All sources and all targets as their pieces between spaces, without control tokens."""
    special = set(tokenizer.all_special_ids)
    sides: tuple[list[str], list[str]] = ([], [])
    for pair in map(corpus.pair, range(len(corpus))):
        for lines, ids in zip(sides, pair, strict=True):
            lines.append(" ".join(tokenizer.convert_ids_to_tokens([int(each) for each in ids if int(each) not in special])))
    return sides


def length_edges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Shortest and longest sentence of up to four classes with about as many sentences each."""
    ordered = sorted(lengths)
    ends = sorted({ordered[len(ordered) * part // _CLASSES_OF_LENGTH - 1] for part in range(1, _CLASSES_OF_LENGTH + 1)})
    return [(before + 1, end) for before, end in zip((ordered[0] - 1, *ends[:-1]), ends, strict=True)]
