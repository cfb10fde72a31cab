"""What models for labels, summaries and answers score, beside what others report, and what they cost: a table of evaluated runs.

    python -m benchmarks.task_scores runs/sst2 runs/trec --output runs/tasks

Everything is read from the runs' own files. `vaswani evaluate RUN --published 'SET; SYSTEM; METRIC; SCORE'` adds the scores of others.
A run with several test sets, such as bAbI's twenty tasks, has the mean over them, how many it solves, and a table of its own.
`--known` takes the results.json of an earlier table, whose runs stand before these. Writes
results.json and table.md into --output, and prints the table.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.command_line import run
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.report.model_card import training_and_scores
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.strict_yaml import read_mapping
from vaswani_transformer.tasks import score_titles

SOLVED = 95.0
"""A test set counts as solved from this score on, in points: an error of at most 5 %, as Weston et al. (2015) count bAbI's tasks."""

_HEADER = ("recipe", "test set", "score", "ours", "others report", "training examples", "parameters", "updates", "minutes")
_COST = ("seconds", "updates", "parameters", "flops", "hardware", "precision", "versions")


def read_run(folder: Path) -> Row:
    """Scores and cost of one run.

    Raises:
        FileNotFoundError: it was not trained to its end, or not evaluated.
        ValueError: it translates, or the weights that were evaluated are others.
    """
    files = RunFolder(folder)
    training, evaluation = training_and_scores(files)
    if "task" not in evaluation:
        raise ValueError(f"{folder} is a translator; its scores stand in its card: vaswani card {folder}")
    return {
        "name": read_mapping(files.recipe)["name"],
        "task": evaluation["task"],
        "examples": read_json(files.cleaning)["kept"],
        "cost": {name: training[name] for name in _COST},
        "sets": [
            {
                "name": tested["name"],
                "examples": tested["pairs"],
                "scores": {metric: result["score"] for metric, result in tested["metrics"].items()},
                "published": tested.get("published", []),
            }
            for tested in evaluation["test_sets"]
        ],
        "date": evaluation["date"],
    }


def table(results: Results) -> str:
    """Markdown: a row for each score, what was counted, and a table for each run of several test sets."""
    runs = results["runs"]
    parts = [markdown_table(_HEADER, [cells for own in runs for cells in _rows(own)], left=3), _remarks(runs)]
    parts += [part for own in runs if len(own["sets"]) > 1 for part in _each_set(own)]
    return "\n\n".join(parts) + "\n"


def _rows(own: Row) -> list[list[str]]:
    """One for each score; the cost stands in the first."""
    cost, sets = own["cost"], own["sets"]
    spent = [f"{own['examples']:,}", f"{cost['parameters']:,}", f"{cost['updates']:,}", f"{cost['seconds'] / 60:.0f}"]
    first = sets[0]
    name = first["name"] if len(sets) == 1 else f"mean of {len(sets)}"
    rows = []
    for metric in first["scores"]:
        score = fmean(tested["scores"][metric] for tested in sets)
        solved = "" if len(sets) == 1 else f"; {sum(tested['scores'][metric] >= SOLVED for tested in sets)} solved"
        others = [f"{score:.2f} {system}" for system, score in _others(sets, metric)]
        rows.append([own["name"], name, score_titles()[metric], f"{score:.2f}{solved}", "; ".join(others) or UNKNOWN, *spent])
        spent = [""] * len(spent)
    return rows


def _others(sets: Sequence[Row], metric: str) -> list[tuple[str, float]]:
    """The systems of which a score is published for every test set, and its mean."""
    found: dict[str, list[float]] = {}
    for other in (other for tested in sets for other in tested["published"] if other["metric"] == metric):
        found.setdefault(other["system"], []).append(other["score"])
    return [(system, fmean(scores)) for system, scores in found.items() if len(scores) == len(sets)]


def _remarks(runs: Sequence[Row]) -> str:
    hardware = sorted({f"{own['cost']['hardware'].get('gpu') or own['cost']['hardware']['cpu']}" for own in runs})
    precisions = sorted({own["cost"]["precision"] for own in runs})
    versions = runs[0]["cost"]["versions"]
    days = sorted({own["date"][:10] for own in runs})
    packages = ", ".join(f"{name} {number}" for name, number in versions.items())
    return (
        f"Each model is one training with one seed. The minutes are those of the training, on {', '.join(hardware)}, "
        f"in {' and '.join(precisions)}. {packages}. {' to '.join(dict.fromkeys((days[0], days[-1])))}."
    )


def _each_set(own: Row) -> list[str]:
    """The score of every test set of a run, its error, and others' scores where there are any."""
    metrics = list(own["sets"][0]["scores"])
    header = [own["name"], "questions" if own["task"] == "question_answering" else "examples"]
    header += [f"{score_titles()[metric]}{ending}" for metric in metrics for ending in ("", ", error")]
    rows = [
        [tested["name"], f"{tested['examples']:,}"]
        + [f"{value:.1f}" for metric in metrics for value in (tested["scores"][metric], 100 - tested["scores"][metric])]
        for tested in own["sets"]
    ]
    if any(tested["published"] for tested in own["sets"]):
        header.append("others report")
        for row, tested in zip(rows, own["sets"], strict=True):
            named = [f"{score_titles()[one['metric']]} {one['score']:.1f} {one['system']}" for one in tested["published"]]
            row.append("; ".join(named) or UNKNOWN)
    return [markdown_table(header, rows, left=1)]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Put the scores and the cost of evaluated runs into one table.")
    add = parser.add_argument
    add("runs", type=Path, nargs="+", metavar="RUN", help="the folder of an evaluated run; no translator")
    add("--known", type=Path, metavar="FILE", help="results.json of an earlier table; a run of the same recipe replaces its own there")
    add("--output", type=Path, default=Path("runs/tasks"), metavar="FOLDER", help="(default: %(default)s)")
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Write the files and print the table."""
    runs = {own["name"]: own for own in (read_json(a.known)["runs"] if a.known else [])} | {
        own["name"]: own for own in map(read_run, a.runs)
    }
    results: Results = {"runs": list(runs.values())}
    text = table(results)
    write_json(a.output / "results.json", results)
    write_text(a.output / "table.md", text)
    print(text)


if __name__ == "__main__":
    run(main, parse)
