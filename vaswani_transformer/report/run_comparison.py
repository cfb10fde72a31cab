"""Several runs side by side at equal numbers of target tokens, such as fine-tuning against training from scratch."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..files.json_files import read_json_lines
from ..run_folder import RunFolder
from .curves import draw_comparison, write_png
from .markdown import text


class Point(NamedTuple):
    """The scores of one validation."""

    update: int
    target_tokens: int
    """Target tokens seen in training by then."""
    bleu: float
    chrf: float


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
            if "bleu" not in record:
                raise ValueError(f"{run.log} has no BLEU: the runs of translators are compared; look at another task with vaswani report.")
            found[record["update"]] = Point(record["update"], tokens, record["bleu"], record["chrf"])
    if not found:
        raise ValueError(f"{run.log} holds no validation yet; train longer or lower `training.validate_every`.")
    return [found[update] for update in sorted(found)]


def compare_runs(groups: Mapping[str, Sequence[RunFolder]], picture: Path | None = None) -> str:
    """A table in Markdown, one row for each group and validation, and the same as curves.

    Args:
        groups: by name, runs that differ only in their seed; scores are means over the runs that were validated at that update.
        picture: a PNG file to write.
    """
    lines = ["| runs | updates | target tokens | BLEU | chrF | seeds |", "|---|---:|---:|---:|---:|---:|"]
    curves: dict[str, list[tuple[int, float]]] = {}
    for name, runs in groups.items():
        by_update: dict[int, list[Point]] = {}
        for point in (point for run in runs for point in validations(run)):
            by_update.setdefault(point.update, []).append(point)
        for update, points in sorted(by_update.items()):
            tokens = round(statistics.mean(point.target_tokens for point in points))
            bleu, chrf = (_mean([getattr(point, score) for point in points]) for score in ("bleu", "chrf"))
            lines.append(f"| {text(name)} | {update:,} | {tokens:,} | {bleu} | {chrf} | {len(points)} |")
            curves.setdefault(name, []).append((tokens, statistics.mean(point.bleu for point in points)))
    if picture is not None:
        write_png(draw_comparison(curves), picture)
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    """The mean, with the standard deviation over seeds if there are several."""
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean
