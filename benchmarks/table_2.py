"""Table 2 of the paper as it reports it, and its training costs counted twice: the paper's way, and as this package counts them.

    python -m benchmarks.table_2 --output runs/table_2

The paper multiplies the time of a training, its GPUs and what such a GPU sustains. This package counts the products of matrices. Writes
results.json, table.md and results.png; nothing is trained, and it takes seconds.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.command_line import run
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.report.curves import write_png
from vaswani_transformer.training.cost import training_flops

REPORTED = Path(__file__).with_suffix(".json")
"""What the paper says."""

_DIRECTIONS = ("en-de", "en-fr")
_OURS = "#c44e52"
_SAME_HEIGHT = 0.3
"""In BLEU."""


def costs(reported: Results, length: int) -> list[Row]:
    """The floating point operations of both trainings, in every way.

    `by_time` and `by_updates` are the paper's way, with the hours and with the seconds of an update that it gives; `counted` is ours, with
    sentences of `length` tokens without padding. `share` is the part of the GPUs' sustained rate that the counted operations took.

    Raises:
        ValueError: `length` is below 1.
    """
    if length < 1:
        raise ValueError(f"`length` is {length}; sentences have 1 token or more.")
    rate = reported["gpus"] * reported["tflops"][reported["gpu"]] * 1e12
    tokens, rows = reported["tokens_a_side"], []
    for preset, facts in reported["trainings"].items():
        config = VaswaniConfig.from_preset(preset, vocab_size=facts["vocab_size"])
        update = training_flops(config, 1, length, length, length) * tokens / length
        by_time = facts["hours"] * 3600 * rate
        rows.append(
            {
                "model": preset,
                "reported": facts["flops"],
                "by_time": by_time,
                "by_updates": facts["updates"] * facts["seconds_an_update"] * rate,
                "counted": facts["updates"] * update,
                "counted_of_a_token": update / tokens,
                "share": facts["updates"] * update / by_time,
            }
        )
    return rows


def results_of(length: int) -> Results:
    """The paper's table and the costs of its models."""
    reported = read_json(REPORTED)
    return {**reported, "length": length, "costs": costs(reported, length)}


def table(results: Results) -> str:
    """Markdown: Table 2 as the paper prints it, then the cost of its own models in every way."""
    header = ("reported", "BLEU en-de", "BLEU en-fr", "FLOPs en-de", "FLOPs en-fr")
    rows = [
        (
            system["name"],
            *(_cell(system["bleu"][direction], "g") for direction in _DIRECTIONS),
            *(_cell(_flops(system, direction), ".1e") for direction in _DIRECTIONS),
        )
        for system in results["systems"]
    ]
    second = ("model", "reported", "hours", "updates", "counted", "of a token", "share of the GPUs' rate")
    costs_of = [
        (
            row["model"],
            *(f"{row[name]:.2e}" for name in ("reported", "by_time", "by_updates", "counted", "counted_of_a_token")),
            f"{row['share']:.0%}",
        )
        for row in results["costs"]
    ]
    rate, gpus = results["tflops"][results["gpu"]], f"{results['gpus']} {results['gpu']}"
    return (
        f"{results['source']}. {results['test_set']}.\n\n{markdown_table(header, rows, left=1)}\n\n"
        f"Training FLOPs. Hours: the time of the training on {gpus} of {rate} TFLOPS each, which is the paper's way. Updates: the same by "
        f"the paper's seconds an update. Counted: products of matrices of all updates on {results['tokens_a_side']:,} source and as many "
        f"target tokens, in sentences of {results['length']} tokens without padding. Of a token: a source and a target token together.\n\n"
        f"{markdown_table(second, costs_of, left=1)}\n"
    )


def _flops(system: Row, direction: str) -> float | None:
    """The paper gives one number for both directions to its own models."""
    flops: dict[str, float | None] = system["flops"]
    return flops.get(direction, flops.get("both"))


def _cell(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def picture(results: Results) -> Figure:
    """Reported BLEU against reported training FLOPs, a panel for each direction."""
    figure = Figure(figsize=(10, 3.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    every: Sequence[Axes] = list(figure.subplots(1, 2))
    for axes, direction in zip(every, _DIRECTIONS, strict=True):
        points = [(system["name"], _flops(system, direction), system["bleu"][direction]) for system in results["systems"]]
        _label(axes, [(name, flops, bleu) for name, flops, bleu in points if flops is not None and bleu is not None])
        axes.set_xscale("log")
        axes.margins(x=0.6, y=0.12)
        axes.set_title(f"{direction}, as reported", loc="left", fontweight="bold")
        axes.set_xlabel("training FLOPs")
        axes.set_ylabel("BLEU, newstest2014")
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _label(axes: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Draw the points, each with its name on the right, or on the left where another point follows close at the same height."""
    for name, flops, bleu in points:
        colour = _OURS if name.startswith("Transformer") else "0.4"
        has_neighbour = any(flops < other < 4 * flops and abs(bleu - height) < _SAME_HEIGHT for _, other, height in points)
        shift, side = (-6, "right") if has_neighbour else (6, "left")
        axes.plot([flops], [bleu], "o", color=colour, markersize=5)
        place: Any = {"xytext": (shift, 0), "textcoords": "offset points", "ha": side, "va": "center"}
        axes.annotate(name, (flops, bleu), **place, fontsize="x-small", color=colour)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Table 2 as the paper reports it, and its training costs counted in two ways.")
    parser.add_argument("--length", type=int, default=30, help="tokens of a sentence; attention's share depends on it")
    parser.add_argument("--output", type=Path, default=Path("runs/table_2"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Write results.json, table.md and results.png into `a.output`."""
    results = results_of(a.length)
    write_json(a.output / "results.json", results)
    write_text(a.output / "table.md", table(results))
    write_png(picture(results), a.output / "results.png")
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
