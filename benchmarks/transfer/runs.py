"""The trainings of a comparison of starts: which there are, each one's recipe, and the queue that trains and scores them."""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.known_runs import hashes_of_texts
from benchmarks.machine import software
from benchmarks.report import Results, Row
from benchmarks.transfer.linear import LINEAR, fits, train_linear
from benchmarks.transfer.shares import Share, take_share, training_pairs
from benchmarks.transfer.starts import FRESH, SCRATCH, Start, initial_folder, require_model
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.evaluation.label_scores import require_scorers
from vaswani_transformer.evaluation.scores import evaluate_run
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import FineTuningSettings, Recipe, TokenizerSettings, TrainingSettings, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.training.averaging import average_checkpoints
from vaswani_transformer.training.python_api import train

RESULT = "result.json"
_OF_ONE_RUN = (ValueError, FileNotFoundError, FloatingPointError, MemoryError)
"""Errors that say something of one run, and leave the others as they are."""

_MAY_BE_SET = ("dropout", "attention_dropout", "activation_dropout", "classifier_dropout", "classifier_pooling")
"""Settings of `model` that a recipe may have beside `init_from`."""

_COSTS = ("updates", "epochs", "source_tokens", "target_tokens", "padded_tokens", "seconds", "flops", "parameters")


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        task: the recipe's name.
        start: `scratch`, `linear`, or a start's name.
        share: of the training examples.
        seed: of the draw and of the training.
        rate: what the recipe's learning rate is multiplied by.
    """

    task: str
    start: str
    share: float
    seed: int
    rate: float = 1.0

    @property
    def folder(self) -> Path:
        """Below that of all runs."""
        rate = "" if self.rate == 1 else f"-rate-{self.rate:g}"
        return Path(self.task) / self.start / f"share-{self.share:g}" / f"seed-{self.seed}{rate}"

    def __str__(self) -> str:
        rate = "" if self.rate == 1 else f", {self.rate:g} of the learning rate"
        return f"{self.task}, {self.start}, {100 * self.share:g} % of the examples, seed {self.seed}{rate}"


@dataclass(frozen=True)
class Plan:
    """What to train.

    Attributes:
        recipes: by name.
        starts: models to begin with, beside `scratch`.
        shares: of the training examples, each above 0 and at most 1.
        seeds: values of `training.seed`, which also draw the shares.
        rates: each start is trained with each, and the validation set chooses.
        first_seed_only: names of recipes that are too long for all seeds; `NAME:SHARE` is one share of a recipe.
        with_linear: also a linear model of words, for the tasks that it fits.
        output: the folder of all runs.
    """

    recipes: Mapping[str, Recipe]
    starts: tuple[Start, ...]
    shares: tuple[float, ...]
    seeds: tuple[int, ...]
    output: Path
    rates: tuple[float, ...] = (1.0,)
    first_seed_only: tuple[str, ...] = ()
    with_linear: bool = False
    _pairs: dict[str, list[SentencePair]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, values in (("--shares", self.shares), ("--seeds", self.seeds), ("--rates", self.rates)):
            if not values or len(set(values)) < len(values):
                raise ValueError(f"`{name}` is {' '.join(map(str, values)) or 'empty'}; name each value once.")
        if not all(0 < share <= 1 for share in self.shares) or min(self.rates) <= 0:
            raise ValueError("Shares must lie above 0 and be at most 1, and rates must lie above 0.")
        known = {*self.recipes, *(f"{name}:{share:g}" for name in self.recipes for share in self.shares)}
        for unknown in set(self.first_seed_only) - known:
            raise ValueError(
                f"`--first-seed-only`: there is no {unknown} among the recipes {', '.join(self.recipes)}; one share of a recipe reads "
                "NAME:SHARE, with one of the --shares."
            )
        for start in self.starts:
            require_model(start)
        for recipe in self.recipes.values():
            require_scorers(recipe.task)
            if recipe.task == "pretraining":
                raise ValueError(f"{recipe.name} pretrains: give what it trained as a start, with --from NAME=FOLDER.")
            if recipe.training.updates is None:
                raise ValueError(f"{recipe.name} trains for a number of epochs; set `training.updates`, which the shares divide.")
            if recipe.init_from is not None and not self.starts:
                raise ValueError(f"{recipe.name} fine-tunes, and has no shape of its own; name a model, with --from NAME=FOLDER.")

    def runs(self) -> list[Run]:
        """All trainings in their order: everything with the first seed, then with the next one."""
        return [
            Run(task, start, share, seed, rate)
            for seed in self.seeds
            for task, recipe in self.recipes.items()
            for share in self.shares
            if seed in self.seeds_of(task, share)
            for start in self.starts_of(recipe)
            for rate in (self.rates[:1] if start == LINEAR else self.rates)
        ]

    def seeds_of(self, task: str, share: float) -> tuple[int, ...]:
        """The seeds of a share of a task: all of them, or the first one alone."""
        return self.seeds[:1] if {task, f"{task}:{share:g}"} & set(self.first_seed_only) else self.seeds

    def starts_of(self, recipe: Recipe) -> list[str]:
        """The names of a recipe's starts.

        Where the vocabulary is exchanged, a fresh start would be a second `scratch`. An encoder alone is no shape for a task that writes
        text.
        """
        linear = [LINEAR] if self.with_linear and fits(recipe) else []
        others = (start.name for start in self.starts if not start.is_fresh or _has_shape_for(start, recipe))
        return [*linear, SCRATCH, *others]

    def share_of(self, run: Run) -> Share:
        """The training examples of a run; raises what `recipe_of` does."""
        recipe = self.recipes[run.task]
        if run.task not in self._pairs:
            self._pairs[run.task] = training_pairs(recipe)
        return take_share(recipe, self._pairs[run.task], run.share, run.seed, self.output / run.task / "shares")

    def recipe_of(self, run: Run) -> Recipe:
        """The recipe of one run.

        Raises:
            FileNotFoundError: a corpus is missing.
            ValueError: a setting cannot be used, or a corpus cannot be read.
        """
        recipe = self.recipes[run.task]
        model = recipe.model
        if recipe.init_from is not None:
            model = {**self.starts[0].sizes(with_decoder=not recipe.has_no_decoder), **model}
        recipe = replace(
            recipe,
            data=self.share_of(run).data,
            training=budget(recipe.training, run),
            model=model,
            init_from=None,
            fine_tuning=FineTuningSettings(),
            tokenizer=replace(recipe.tokenizer, method="train") if recipe.tokenizer.method != "train" else recipe.tokenizer,
        )
        if run.start in (SCRATCH, LINEAR):
            return recipe
        original = self.recipes[run.task]
        start = next(start for start in self.starts if start.name == run.start)
        return replace(
            recipe,
            training=replace(recipe.training, initial_scale=1.0, initial_embedding_scale=1.0),
            model={name: value for name, value in model.items() if name in _MAY_BE_SET},
            init_from=str(initial_folder(start, recipe, (self.output / "starts").absolute())),
            fine_tuning=original.fine_tuning,
            tokenizer=original.tokenizer if recipe.task == "translation" else _kept(recipe.tokenizer),
        )


def _has_shape_for(start: Start, recipe: Recipe) -> bool:
    return recipe.has_no_decoder or (recipe.task != "translation" and start.config.is_encoder_decoder)


def _kept(settings: TokenizerSettings) -> TokenizerSettings:
    return TokenizerSettings(method="keep", bpe_dropout=settings.bpe_dropout)


def budget(settings: TrainingSettings, run: Run) -> TrainingSettings:
    """The recipe's updates times the root of the share, with as many validations, and the same peak of the learning rate.

    With as many updates for 1 % of the examples, each would be seen a hundred times as often, most of that after it is known by heart;
    with as many epochs, the model would stop at a hundredth of the updates, before the warm-up ends. The root is the middle of both, in
    factors. Every start of a share has the same updates. A checkpoint is kept at each validation, so the best one is where learning by
    heart begins to cost.
    """
    factor = sqrt(run.share)
    warmup = max(round(settings.warmup_updates * factor), 1)
    every = max(round(settings.validate_every * factor), 1)
    return replace(
        settings,
        updates=max(round(settings.total_updates * factor), 1),
        warmup_updates=warmup,
        learning_rate_scale=settings.learning_rate_scale * run.rate * sqrt(warmup / settings.warmup_updates),
        log_every=max(round(settings.log_every * factor), 1),
        validate_every=every,
        checkpoint_every=every,
        average_checkpoints=1,
        keep_last_checkpoints=None,
        keep_best_checkpoints=1,
        seed=run.seed,
    )


def plan_of(names: Sequence[str], overrides: Sequence[str], **settings: object) -> Plan:
    """A plan of recipes by name or file.

    Args:
        names: of recipes, or their files.
        overrides: `KEY=VALUE` for all of them, or `RECIPE:KEY=VALUE` for one, by its name or its file's without the ending.
        **settings: the other attributes of `Plan`.

    Raises:
        FileNotFoundError: there is no such recipe.
        ValueError: a setting cannot be used, an override is for a recipe that is not there, or two recipes have one name.
    """
    shorts = [Path(name).stem for name in names]
    if unknown := {name for override in overrides if (name := _recipe_named(override))} - set(shorts):
        raise ValueError(f"`--set` names {', '.join(sorted(unknown))}, which is none of the recipes {', '.join(shorts)}.")
    recipes: dict[str, Recipe] = {}
    for name, short in zip(names, shorts, strict=True):
        own = [override.removeprefix(f"{short}:") for override in overrides if _recipe_named(override) in ("", short)]
        recipe = load_recipe(find_recipe(name), own)
        if recipe.name in recipes:
            raise ValueError(f"Two recipes have the name {recipe.name}; give each its own.")
        recipes[recipe.name] = recipe
    return Plan(recipes, **settings)  # type: ignore[arg-type]


def _recipe_named(override: str) -> str:
    """`sst2` in `sst2:data.root=folder`, and nothing in `data.root=folder`."""
    return override.partition("=")[0].rpartition(":")[0]


def compare_starts(plan: Plan) -> Iterator[Results]:
    """Train and score what is not there yet.

    Yields:
        All results so far, once before the first training and after each one. A run that failed has its sentence under `failed`; the
        others go on, and the same call tries it again.

    Raises:
        InterruptedError: a signal stopped a training; it saved its state first.
        OSError: the disk is full, or may not be written.
    """
    every = plan.runs()
    outcomes = {run: known for run in every if (known := _known(plan, run)) is not None}
    yield _results(plan, every, outcomes)
    for number, run in enumerate(every, start=1):
        if run not in outcomes:
            print(f"Run {number} of {len(every)}: {run}", file=sys.stderr, flush=True)
            outcomes[run] = _known(plan, run) or _outcome(plan, run)  # a second command may have done it meanwhile
            yield _results(plan, every, outcomes)


def _results(plan: Plan, every: Sequence[Run], outcomes: Mapping[Run, Row]) -> Results:
    return {
        "versions": software(("vaswani_transformer",)),
        "shares": list(plan.shares),
        "seeds": list(plan.seeds),
        "rates": list(plan.rates),
        "starts": [start.facts() for start in plan.starts],
        "tasks": {
            name: {
                "task": recipe.task,
                "metric": main_metric(recipe),
                "seeds": {f"{share:g}": len(plan.seeds_of(name, share)) for share in plan.shares},
            }
            for name, recipe in plan.recipes.items()
        },
        "planned": len(every),
        "runs": [{**asdict(run), **outcomes[run]} for run in every if run in outcomes],
    }


def main_metric(recipe: Recipe) -> str:
    """The score of the test set that the picture shows: the one that chooses checkpoints, by its name in `evaluation.json`."""
    if recipe.task == "translation":
        return "sacrebleu"
    chosen = recipe.training.best_checkpoint_metric
    return next(iter(recipe.facts.metrics)) if chosen in (None, "loss") else str(chosen)


def _known(plan: Plan, run: Run) -> Row | None:
    file = plan.output / run.folder / RESULT
    if not file.is_file():
        return None
    known = read_json(file)
    try:
        recipe = plan.recipe_of(run)
        is_same = all(known.get(name) == content for name, content in _identity(plan, run, recipe).items())
    except _OF_ONE_RUN:
        return None  # the training will say what is wrong
    return dict(known["result"]) if is_same else None


def _identity(plan: Plan, run: Run, recipe: Recipe) -> dict[str, Any]:
    """What a result must have been made from to stand for this run; it stays the same when the output folder is moved."""
    return {
        "recipe": recipe.to_yaml().replace(f"{plan.output.absolute()}/", ""),
        "texts": [sorted(hashes.values()) if hashes else None for hashes in hashes_of_texts(recipe)],
        "start_sha256": next((start.sha256 for start in plan.starts if start.name == run.start), None),
    }


def _outcome(plan: Plan, run: Run) -> Row:
    try:
        return _train_and_score(plan, run)
    except _OF_ONE_RUN as error:
        return {"failed": str(error)}


def _train_and_score(plan: Plan, run: Run) -> Row:
    recipe, share, folder = plan.recipe_of(run), plan.share_of(run), RunFolder(plan.output / run.folder)
    identity = _identity(plan, run, recipe)
    if (folder.path / RESULT).is_file():
        raise ValueError(
            f"{folder.path} holds the result of another recipe, of other texts, or of another model to begin with; delete it, or name "
            "another --output."
        )
    facts = {"examples": share.examples, "missing_labels": list(share.missing)}
    if run.start == LINEAR:
        result = facts | train_linear(recipe, training_pairs(recipe), main_metric(recipe))
    else:
        result = facts | _trained(recipe, folder)
    write_json(folder.path / RESULT, {**identity, "result": result})
    return result


def _trained(recipe: Recipe, folder: RunFolder) -> Row:
    if train(recipe, folder.path) is None:
        raise InterruptedError(f"The training in {folder.path} was stopped; the same command goes on with it.")
    facts, cleaning = read_json(folder.training), read_json(folder.cleaning)
    best = facts["best_checkpoint"]
    scored = RunFolder(folder.path / "best")
    write_text(scored.recipe, recipe.to_yaml())
    average_checkpoints([folder.checkpoints / best["name"]], scored.averaged)  # one: a checked copy
    tests = {each["name"]: each for each in evaluate_run(scored, recipe, progress=False)["test_sets"]}
    scores = {name: {metric: found["score"] for metric, found in each["metrics"].items()} for name, each in tests.items()}
    return {
        "kept": cleaning["kept"],
        "vocab_size": cleaning["tokenizer"]["vocab_size"],
        "best_checkpoint": best,
        "validation": -best["loss"] if (metric := recipe.training.best_checkpoint_metric) == "loss" else best[metric],
        "scores": {metric: fmean(each[metric] for each in scores.values()) for metric in next(iter(scores.values()))},
        "signatures": {metric: found["signature"] for metric, found in next(iter(tests.values()))["metrics"].items()},
        "test_sets": scores,
        **{name: facts[name] for name in (*_COSTS, "precision", "hardware", "versions")},
    }


def forget_states(plan: Plan) -> None:
    """Remove what only a training that goes on needs from runs with a result; the best model, its log and its scores stay."""
    for run in plan.runs():
        folder = RunFolder(plan.output / run.folder)
        if (folder.path / RESULT).is_file():
            for path in (folder.state, folder.checkpoints, folder.encoded, folder.averaged, folder.initial):
                shutil.rmtree(path, ignore_errors=True)


def fresh(starts: Sequence[Start], names: Sequence[str]) -> list[Start]:
    """Starts of the same shapes and tokenizers with random weights.

    Raises:
        ValueError: there is no start of such a name.
    """
    by_name = {start.name: start for start in starts}
    for unknown in set(names) - by_name.keys():
        raise ValueError(f"`--fresh`: there is no {unknown!r} among the starts {', '.join(by_name) or '(none)'}.")
    return [Start(FRESH + name, by_name[name].folder, is_fresh=True) for name in names]
