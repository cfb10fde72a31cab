"""Several runs side by side at equal numbers of target tokens, such as fine-tuning against training from scratch."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..evaluation.outcomes import Outcomes, chance_of_difference
from ..files.json_files import read_json_lines
from ..run_folder import RunFolder
from ..tasks import score_titles
from .curves import draw_comparison, write_png
from .markdown import text


class Point(NamedTuple):
    """The scores of one validation."""

    update: int
    target_tokens: int
    """Target tokens, or labels, seen in training by then."""
    scores: dict[str, float]
    """By their names in the log."""


def validations(run: RunFolder) -> list[Point]:
    """The validations of a run, in order.

    Raises:
        FileNotFoundError: the folder has no training log.
        ValueError: the log holds no validation.
    """
    if not run.log.is_file():
        raise FileNotFoundError(f"{run.path} holds no training log; compare run folders that `vaswani train` wrote.")
    tokens, found = 0, {}
    for record in read_json_lines(run.log, growing=True):
        if record["kind"] == "train":
            tokens = record["target_tokens"]
        elif record["kind"] == "validation":
            scores = {name: record[name] for name in score_titles() if name in record}
            # An earlier version did not write them here; then they are those of the last update that was logged
            found[record["update"]] = Point(record["update"], record.get("target_tokens", tokens), scores)
    if not found:
        raise ValueError(f"{run.log} holds no validation yet; train longer or lower `training.validate_every`.")
    return [found[update] for update in sorted(found)]


def compare_runs(groups: Mapping[str, Sequence[RunFolder]], picture: Path | None = None) -> str:
    """A table in Markdown, one row for each group and validation, and the first score of the task as curves.

    Where the runs have been evaluated on the same test sets, and their scores have a part for each text, a second table says by how much
    each other group differs from the first one, and how likely that is by chance (see `chance_of_difference`). It leaves out, with a
    sentence, test sets in which the runs had other numbers of tokens to find.

    Args:
        groups: by name, runs that differ only in their seed; scores are means over the runs that were validated at that update.
        picture: a PNG file to write.

    Raises:
        FileNotFoundError, ValueError: as `validations`; or the runs have other tasks, and so other scores; or `picture` has another ending.
    """
    if picture is not None and picture.suffix.lower() != ".png":
        raise ValueError(f"A picture of curves is written as .png; {picture} has another ending.")
    points = {name: [point for run in runs for point in validations(run)] for name, runs in groups.items()}
    titles = _common_titles(points)
    first, *_ = titles
    lines = [
        f"| runs | updates | target tokens | {' | '.join(titles.values())} | seeds |",
        f"|---|---:|---:|{'---:|' * len(titles)}---:|",
    ]
    curves: dict[str, list[tuple[int, float]]] = {}
    for name, found in points.items():
        by_update: dict[int, list[Point]] = {}
        for point in found:
            by_update.setdefault(point.update, []).append(point)
        for update, same in sorted(by_update.items()):
            tokens = round(statistics.mean(point.target_tokens for point in same))
            means = " | ".join(_mean([point.scores[score] for point in same]) for score in titles)
            lines.append(f"| {text(name)} | {update:,} | {tokens:,} | {means} | {len(same)} |")
            curves.setdefault(name, []).append((tokens, statistics.mean(point.scores[first] for point in same)))
    if picture is not None:
        write_png(draw_comparison(curves, titles[first]), picture)
    return "\n".join(lines + _differences(groups, titles))


def _differences(groups: Mapping[str, Sequence[RunFolder]], titles: Mapping[str, str]) -> list[str]:
    """The table of the test sets that all runs share, and what it leaves out. Of several seeds, each text has their mean."""
    (first, runs), *others = groups.items()
    found = {name: [_outcomes(run) for run in (*runs, *more)] for name, more in others}
    rows, left_out = [], []
    for name, outcomes in found.items():
        shared = set.intersection(*(set(each) for each in outcomes))
        for key in (key for key in outcomes[0] if key in shared):
            if any(each[key].weights != outcomes[0][key].weights for each in outcomes):  # the noise of a pretraining decides these
                why = "they had other numbers of tokens to find there"
                left_out += ["", f"{text(name)} and {text(first)} are not compared on {text(key[0])}: {why}."]
                continue
            weight = sum(outcomes[0][key].weights)
            for score in (score for score in titles if score in outcomes[0][key].points):
                points = [each[key].points[score] for each in outcomes]
                here, there = (np.mean(side, axis=0) for side in (points[: len(runs)], points[len(runs) :]))
                scores = f"{100 * here.sum() / weight:.2f} | {100 * there.sum() / weight:.2f} | {100 * (there - here).sum() / weight:+.2f}"
                rows.append(f"| {text(key[0])} | {text(name)} | {titles[score]} | {scores} | {chance_of_difference(there, here):.4f} |")
    titled = ["", f"| test set | runs | score | {text(first)} | these | difference | p |", "|---|---|---|---:|---:|---:|---:|", *rows]
    return [*(titled if rows else []), *left_out]


def _outcomes(run: RunFolder) -> dict[tuple[str, str], Outcomes]:
    """What each text gives to the scores, by the test set's name and the hash of its references."""
    lines = read_json_lines(run.outcomes) if run.outcomes.is_file() else []
    return {(line["test_set"], line["reference_sha256"]): Outcomes(line["weights"], line["points"]) for line in lines}


def _common_titles(points: Mapping[str, Sequence[Point]]) -> dict[str, str]:
    """The scores that all validations have, by their names in the log, and what people call them."""
    known = score_titles()
    kinds = {tuple(point.scores): name for name, found in points.items() for point in found}
    (wanted, first), *others = kinds.items()
    if others:
        odd, name = others[0]
        here, there = (", ".join(known[score] for score in scores) for scores in (wanted, odd))
        raise ValueError(f"The runs of {first!r} are scored by {here}, and those of {name!r} by {there}; compare runs of one task.")
    return {score: known[score] for score in wanted}


def _mean(values: Sequence[float]) -> str:
    """The mean, with the standard deviation over seeds if there are several."""
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean
