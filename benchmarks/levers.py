"""Train variants of one recipe for equal compute and compare them on its validation set: what a setting is worth, and how sure that is.

    python -m benchmarks.levers multi30k_en_de --variants levers.yaml --target-tokens 8192000 --seeds 1 2 --output runs/levers

levers.yaml names each variant with the settings that it changes; all others are compared with the first:

    plain: []
    r_drop: [training.r_drop=2.5]
    small_vocabulary: [tokenizer.vocab_size=4000, model.dropout=0.4]

Each variant is trained with each seed in a folder of its own, OUTPUT/VARIANT/seed-N, and its averaged model is scored on the whole
validation set with the recipe's search. Test sets are never looked at. The same command goes on where it was stopped. Writes results.json
and table.md into --output after each run.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

from benchmarks import command_line
from benchmarks.known_runs import FINGERPRINT, fingerprint, known_runs, require_runs
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.strict_yaml import read_mapping
from vaswani_transformer.training.loss import TranslationLoss
from vaswani_transformer.training.preparation import open_prepared_data
from vaswani_transformer.training.python_api import train
from vaswani_transformer.training.validation import Validator
from vaswani_transformer.translation.loading import load_checkpoint

Variants = Mapping[str, Sequence[str]]
"""The overrides of each variant, by its name."""

RESULT = "lever.json"
_INTERVALS = ("validate_every", "checkpoint_every")
_OF_THE_TRAINING = ("updates", "target_tokens", "flops", "parameters", "precision")
_HEADER = (
    *("variant", "settings", "BLEU", "of each seed", "by the first", "nats a token", "of each seed", "nats a sentence"),
    *("updates", "target tokens", "FLOPs", "computed in"),
)


@dataclass(frozen=True)
class Plan:
    """What to train.

    Attributes:
        recipe: a file, or the name of one that comes with the package.
        overrides: settings that all variants change.
        target_tokens: of a run, as `batching.target_tokens` counts them over its updates; a variant that computes each twice sees half.
        seeds: values of `training.seed`.
        output: the folder of all runs.
        known: files `results.json` of other queues; what stands there is not trained again.
        done_only: whether to leave out what is not done, and train nothing.
    """

    recipe: str
    variants: Variants
    target_tokens: int
    seeds: tuple[int, ...]
    output: Path
    overrides: tuple[str, ...] = ()
    known: tuple[Path, ...] = ()
    done_only: bool = False

    def __post_init__(self) -> None:
        if self.target_tokens < 1 or not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError("The budget must be 1 target token or more, and there must be a seed; name each seed once.")
        if not self.variants:
            raise ValueError("There is no variant; name one with the settings that it changes, as in plain: [].")
        for name, overrides in self.variants.items():
            if not re.fullmatch(r"\w[\w.-]*", str(name)):
                raise ValueError(f"The variant {name!r} gives its folder a name; use letters, digits, hyphens, dots and underscores only.")
            if not isinstance(overrides, list | tuple) or not all(isinstance(each, str) for each in overrides):
                raise ValueError(f"The variant {name} must be a list of settings such as [training.r_drop=2.5], not {overrides!r}.")

    def recipe_of(self, variant: str, seed: int) -> Recipe:
        """The recipe of one run: as many updates as the budget pays for, with as many checkpoints and validations as the recipe has.

        A variant may set `training.updates` and these intervals itself.

        Raises:
            FileNotFoundError: there is no such recipe.
            ValueError: a setting is wrong, or the recipe counts in epochs.
        """
        file, own = find_recipe(self.recipe), self.variants[variant]
        whole = load_recipe(file, [*self.overrides, *own])
        if whole.training.updates is None:
            raise ValueError(f"{file} trains for a number of epochs, and the budget decides how long; set `training.updates` in its place.")
        passes = 2 if whole.training.r_drop else 1
        updates = max(round(self.target_tokens / (whole.batching.target_tokens * passes)), 1)
        if any(override.startswith("training.updates=") for override in own):
            updates = whole.training.updates
        recipes_own = load_recipe(file, self.overrides).training.total_updates
        intervals = [f"training.{name}={max(round(getattr(whole.training, name) * updates / recipes_own), 1)}" for name in _INTERVALS]
        return load_recipe(file, [*self.overrides, *intervals, *own, f"training.updates={updates}", f"training.seed={seed}"])


def budget_of(recipe: Path, updates: int, overrides: Sequence[str] = ()) -> int:
    """The target tokens of a `Plan` that gives a recipe with these overrides so many updates."""
    whole = load_recipe(recipe, overrides)
    return updates * whole.batching.target_tokens * (2 if whole.training.r_drop else 1)


def compare_levers(plan: Plan) -> Iterator[Results]:
    """Train and score what is not there yet, a seed of all variants after the other.

    Yields:
        All results so far, after each run.

    Raises:
        FileNotFoundError: a recipe, a corpus or a file of known results is missing.
        InterruptedError: a signal stopped a training; it saved its state first.
        ValueError: a setting cannot be used, a run's folder holds another recipe, or a file of known results no runs; or none is done.
    """
    recipes = {(seed, name): plan.recipe_of(name, seed) for seed in plan.seeds for name in plan.variants}  # finds mistakes before hours
    known = known_runs(plan.known)
    results: Results = {
        "recipe": plan.recipe,
        "overrides": list(plan.overrides),
        "target_tokens": plan.target_tokens,
        "seeds": list(plan.seeds),
        "variants": {name: list(overrides) for name, overrides in plan.variants.items()},
        "runs": [],
    }
    for (seed, name), recipe in recipes.items():
        own, run = fingerprint(recipe), RunFolder(plan.output / name / f"seed-{seed}")
        result = known.get(own) or (done(recipe, run) if plan.done_only else result_of(recipe, run))
        if result is None:
            continue
        results["runs"].append({**result, "variant": name, "seed": seed, FINGERPRINT: own})
        yield results
    require_runs(results["runs"], plan.output)


def result_of(recipe: Recipe, run: RunFolder) -> Row:
    """Train and score, unless it has been done with the same recipe; raises what `compare_levers` does."""
    if (known := done(recipe, run)) is not None:
        return known
    if train(recipe, run.path) is None:
        raise InterruptedError(f"The training in {run.path} was stopped; the same command goes on with it.")
    result = _scores(recipe, run) | {key: read_json(run.training)[key] for key in _OF_THE_TRAINING}
    write_json(run.path / RESULT, {FINGERPRINT: fingerprint(recipe), "result": result})
    return result


def done(recipe: Recipe, run: RunFolder) -> Row | None:
    """The result of a run that has been trained and scored with this recipe on the same text."""
    file = run.path / RESULT
    if file.is_file() and (known := read_json(file)).get(FINGERPRINT) == fingerprint(recipe):
        return dict(known["result"])
    return None


def _scores(recipe: Recipe, run: RunFolder) -> Row:
    """Of the averaged model on the whole validation set. The loss is without smoothing, so that runs with other smoothing compare."""
    data = open_prepared_data(run)
    settings = replace(recipe.validation, sentences=None, num_beams=recipe.search.num_beams, samples=0)
    model, _ = load_checkpoint(run.averaged)
    with torch.inference_mode():
        found = Validator(replace(recipe, validation=settings), data.tokenizer, data.validation).run(TranslationLoss(model, 0.0))
    tokens, sentences = int(data.validation.target_lengths.sum()), len(data.validation)
    return {"bleu": found["bleu"], "chrf": found["chrf"], "nll": found["nll"], "nll_of_a_sentence": found["nll"] * tokens / sentences}


def table(results: Results) -> str:
    """Markdown: how it was measured, and a row for each variant that has a run."""
    runs: dict[str, list[Row]] = {}
    for run in results["runs"]:
        runs.setdefault(run["variant"], []).append(run)
    first = next(iter(runs.values()), [])
    rows = (_cells(name, results["variants"][name], own, first) for name, own in runs.items())
    shared = f" with {', '.join(results['overrides'])}" if results["overrides"] else ""
    return (
        f"{results['recipe']}{shared}: each run as many updates as {results['target_tokens']:,} target tokens pay for, padding included. "
        f"Mean over the seeds {', '.join(map(str, results['seeds']))}, as far as done, and each seed. BLEU of the averaged model on the "
        "whole validation set with the recipe's search; nats of its references without smoothing. Nats a token compare within one "
        f"vocabulary only.\n\n{markdown_table(_HEADER, rows, left=2)}\n"
    )


def _cells(name: str, settings: Sequence[str], own: Sequence[Row], first: Sequence[Row]) -> tuple[str, ...]:
    reference = {run["seed"]: run["bleu"] for run in first}
    differences = [run["bleu"] - reference[run["seed"]] for run in own if run["seed"] in reference]
    return (
        name,
        ", ".join(f"`{setting}`" for setting in settings) or UNKNOWN,
        f"{fmean(run['bleu'] for run in own):.2f}",
        ", ".join(f"{run['bleu']:.2f}" for run in own),
        f"{fmean(differences):+.2f}" if differences and own is not first else UNKNOWN,
        f"{fmean(run['nll'] for run in own):.3f}",
        ", ".join(f"{run['nll']:.3f}" for run in own),
        f"{fmean(run['nll_of_a_sentence'] for run in own):.2f}",
        f"{own[0]['updates']:,}",
        f"{fmean(run['target_tokens'] for run in own):,.0f}",
        f"{fmean(run['flops'] for run in own):.3g}",
        " and ".join(sorted({run["precision"] for run in own})),
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train variants of a recipe for equal compute, and compare them on its validation set.")
    add = parser.add_argument
    add("recipe", help="a recipe's file, or the name of one that comes with the package")
    add("--variants", type=Path, required=True, metavar="FILE", help="YAML: each variant's name, and the list of settings it changes")
    add("--target-tokens", type=int, required=True, help="of a run, padding included: updates times `batching.target_tokens`")
    add("--seeds", type=int, nargs="+", default=[1, 2])
    add("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="a setting of all variants; repeatable")
    add("--known", type=Path, nargs="+", default=[], metavar="FILE", help="results.json of other queues, whose runs are not made again")
    add("--done-only", action="store_true", help="write what is done so far, and train nothing")
    add("--output", type=Path, default=Path("runs/levers"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Compare, and leave results.json and table.md in `a.output`."""
    plan = Plan(
        a.recipe, read_mapping(a.variants), a.target_tokens, tuple(a.seeds), a.output, tuple(a.overrides), tuple(a.known), a.done_only
    )
    results: Results = {}
    for results in compare_levers(plan):
        write_json(plan.output / "results.json", results)
        write_text(plan.output / "table.md", table(results))
    print(f"{table(results)}\nresults.json and table.md are in {plan.output}.")


if __name__ == "__main__":
    command_line.run(main, parse, RuntimeError)
