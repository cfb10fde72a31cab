"""Time and memory of training and translating against length, to where they stop, beside what the formulas predict.

    python -m benchmarks.length --presets tiny base --output runs/length

Each length is a process of its own: one pair, as long on both sides, of random tokens. Training is updates as `vaswani train` does them, in
float32; translating is a beam search that ends at that length. The same command goes on where it was stopped. Writes results.json
and table.md into --output after each length, and results.png at the end.
"""

import argparse
import resource
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.machine import circumstances
from benchmarks.own_process import OwnProcess
from benchmarks.report import UNKNOWN, Results, Row, markdown_table, on_what
from benchmarks.stopwatch import Stopwatch
from vaswani_transformer.configuration_vaswani import PRESETS, VaswaniConfig
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.report.curves import write_png
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.training.building import build_model
from vaswani_transformer.training.loss import TranslationLoss, target_positions
from vaswani_transformer.training.memory_cost import longest_that_fits, training_memory, translation_memory
from vaswani_transformer.training.optimization import build_adam, set_learning_rate
from vaswani_transformer.training.process_memory import keep_freed_memory, process_bytes

TRAINING, TRANSLATING = "training", "translating"
WORK = (TRAINING, TRANSLATING)
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
MEASURED, TOO_LARGE, TOO_LONG = "measured", "memory", "time"

_GIB = 2**30
_COLOURS = {"tiny": "#55a868", "base": "#4c72b0", "big": "#c44e52"}


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes:
        presets: of the configuration.
        lengths: tokens of the source, and of the target.
        work: of `WORK`.
        threads: of PyTorch.
        beams: hypotheses of a translation.
        gib: memory that one process may take.
        seconds: where one update or translation took more, by the processor's clock, no longer one follows.
    """

    presets: tuple[str, ...] = ("tiny", "base")
    lengths: tuple[int, ...] = LENGTHS
    work: tuple[str, ...] = WORK
    threads: int = 1
    beams: int = 4
    gib: float = 24.0
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for name, known in (("presets", PRESETS), ("work", WORK)):
            for unknown in (value for value in getattr(self, name) if value not in known):
                raise ValueError(f"`{name}`: there is no {unknown!r}; choose from {', '.join(known)}.")
        if min((*self.lengths, self.threads, self.beams)) < 1 or min(self.gib, self.seconds) <= 0:
            raise ValueError("Lengths, threads, beams, GiB and seconds must be more than 0.")


class Worker:
    """A model in a process of its own."""

    def __init__(self, preset: str, work: str, plan: Plan) -> None:
        torch.set_num_threads(plan.threads)
        self.beams, self.work = plan.beams, work
        mapped = process_bytes("VmSize")
        if mapped is not None:
            most = mapped + round(plan.gib * _GIB) - (process_bytes("VmRSS") or 0)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        if work == TRAINING:
            keep_freed_memory()
        recipe = replace(load_recipe(find_recipe("builtin_tiny")), model={"preset": preset})
        self.model = build_model(recipe, VaswaniConfig.from_preset(preset).vocab_size, torch.device("cpu"))
        self.loss = TranslationLoss(self.model, recipe.training.label_smoothing)
        self.adam = build_adam(self.loss, recipe.training)
        set_learning_rate(self.adam, 1e-6)

    def update(self, length: int) -> None:
        """One update on one pair."""
        source, labels = (torch.randint(10, 1000, (1, length)) for _ in range(2))
        self.loss(source, torch.ones_like(source), labels, target_positions(labels)).smoothed.div(length).backward()
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def translate(self, length: int) -> None:
        """One search, which makes as many tokens as the source has."""
        source = torch.randint(10, 1000, (1, length))
        self.model.eval().set_attn_implementation("sdpa")
        limits = {"min_new_tokens": length, "max_new_tokens": length}
        with torch.inference_mode():
            self.model.generate(source, attention_mask=torch.ones_like(source), num_beams=self.beams, **limits)


def work_once(worker: Worker, length: int) -> dict[str, Any]:
    """Seconds of the second update, since the first one makes Adam's moments, or of one translation; or that memory was short."""
    runs = [worker.update] * 2 if worker.work == TRAINING else [worker.translate]
    taken = None
    try:
        for run in runs:
            watch = Stopwatch()
            run(length)
            taken = watch.read()
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        return {"outcome": TOO_LARGE}
    assert taken is not None
    return {"outcome": MEASURED, **taken._asdict()}


def measure(preset: str, work: str, length: int, plan: Plan) -> Row:
    """A row: seconds and peak memory beside the prediction, in a process of its own.

    Raises:
        RuntimeError: the process failed in another way than for want of memory.
    """
    with OwnProcess(f"{work} {preset} at {length}", Worker, preset, work, plan) as process:
        found = process.ask(work_once, length)
        memory = process.memory()
    return {"preset": preset, "work": work, "length": length, **found, **memory, "predicted_bytes": predicted(preset, work, length, plan)}


def predicted(preset: str, work: str, length: int, plan: Plan) -> int:
    """Bytes beyond the libraries', by the formula."""
    config = VaswaniConfig.from_preset(preset)
    if work == TRAINING:
        return training_memory(config, 1, length, length).total
    return translation_memory(config, 1, length, length, plan.beams).total


def benchmark_length(plan: Plan, file: Path) -> Iterator[Results]:
    """Measure what `file` does not hold yet, each preset and work up to where it stops.

    Yields:
        All results so far, after each length.

    Raises:
        ValueError: `file` holds another plan's results.
        RuntimeError: a process failed.
    """
    settings = {name: value for name, value in asdict(plan).items() if name in ("threads", "beams", "gib", "seconds")}
    results: Results = {**circumstances(torch.device("cpu")), "plan": settings, "rows": []}
    if file.is_file():
        before = read_json(file)
        if before["plan"] != settings or before["machine"]["cpu"] != results["machine"]["cpu"]:
            raise ValueError(f"{file} holds other settings' results, or another machine's; choose another --output.")
        results = {**before, "command": results["command"]}
    for preset, work in product(plan.presets, plan.work):
        known = {row["length"]: row for row in results["rows"] if (row["preset"], row["work"]) == (preset, work)}
        for length in sorted(plan.lengths):
            if length not in known:
                known[length] = measure(preset, work, length, plan)
                results["rows"].append(known[length])
            yield {**results, "times": predicted_times(results["rows"]), "ends": ends(results["rows"], plan.gib)}
            if known[length]["outcome"] != MEASURED or known[length]["cpu_seconds"] > plan.seconds:
                break


def predicted_times(rows: Iterable[Row]) -> list[Row]:
    """Seconds a n + b n^2 for each measured length n, with a and b fitted to those up to half the longest, where these are two or more."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["outcome"] == MEASURED:
            groups.setdefault((row["preset"], row["work"]), []).append(row)
    found = []
    for (preset, work), own in groups.items():
        longest = max(row["length"] for row in own)
        shorter = [row for row in own if row["length"] <= longest / 2]
        if len(shorter) < 2:
            continue
        linear, square = fit([row["length"] for row in shorter], [row["cpu_seconds"] for row in shorter])
        for row in own:
            seconds = linear * row["length"] + square * row["length"] ** 2
            facts = {"preset": preset, "work": work, "length": row["length"]}
            found.append({**facts, "seconds": seconds, "fitted": row in shorter})
    return found


def fit(lengths: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """The coefficients of n and n^2, neither below 0, with the least squares of relative errors."""
    n, t = np.array(lengths, dtype=float), np.array(seconds)
    both = np.stack([n / t, n**2 / t], axis=1)
    linear, square = np.linalg.lstsq(both, np.ones_like(t), rcond=None)[0]
    if square < 0:
        return float(both[:, 0].sum() / (both[:, 0] ** 2).sum()), 0.0
    if linear < 0:
        return 0.0, float(both[:, 1].sum() / (both[:, 1] ** 2).sum())
    return float(linear), float(square)


def ends(rows: Sequence[Row], gib: float) -> dict[str, int]:
    """For each preset, the longest pair that would still be trained on in `gib` GiB, the libraries included."""
    libraries = {row["preset"]: row["imports_bytes"] or 0 for row in rows}
    return {preset: longest_that_fits(VaswaniConfig.from_preset(preset), round(gib * _GIB) - size) for preset, size in libraries.items()}


def error_of(row: Row) -> float | None:
    """By what share the predicted peak, the libraries included, is above the measured one."""
    if row["outcome"] != MEASURED or row["peak_bytes"] is None:
        return None
    share: float = (row["predicted_bytes"] + row["imports_bytes"]) / row["peak_bytes"] - 1
    return share


def table(results: Results) -> str:
    """Markdown: a row for each length, and where training ends."""
    times = {(row["preset"], row["work"], row["length"]): row for row in results["times"]}
    rows = (_cells(row, times) for row in results["rows"])
    header = ("model", "work", "tokens a side", "seconds", "predicted", "peak GiB", "predicted", "off by")
    plan = results["plan"]
    last = "\n".join(f"- {preset}: {length:,} tokens a side" for preset, length in results["ends"].items())
    return (
        f"One pair of random tokens, float32, {plan['threads']} thread(s), {plan['beams']} beams. {on_what(results)} Seconds of the "
        "processor for one update or one translation; predicted as a n + b n^2, fitted to the lengths in italics. Peak memory of a process "
        f"of its own, libraries included.\n\n{markdown_table(header, rows, left=2)}\n\n"
        f"By the formula, the longest pair that {plan['gib']:g} GiB train on:\n\n{last}\n"
    )


def _cells(row: Row, times: Mapping[tuple[str, str, int], Row]) -> tuple[str, ...]:
    time, error = times.get((row["preset"], row["work"], row["length"])), error_of(row)
    guess = UNKNOWN if time is None else f"*{time['seconds']:.3g}*" if time["fitted"] else f"{time['seconds']:.3g}"
    return (
        row["preset"],
        row["work"],
        f"{row['length']:,}",
        f"{row['cpu_seconds']:.3g}" if row["outcome"] == MEASURED else f"out of {row['outcome']}",
        guess,
        UNKNOWN if row["peak_bytes"] is None else f"{row['peak_bytes'] / _GIB:.2f}",
        f"{(row['predicted_bytes'] + (row['imports_bytes'] or 0)) / _GIB:.2f}",
        UNKNOWN if error is None else f"{error:+.0%}",
    )


def picture(results: Results) -> Figure:
    """Time and memory against length, a row for each work: points measured, lines predicted."""
    work = [name for name in WORK if any(row["work"] == name for row in results["rows"])]
    figure = Figure(figsize=(9.6, 3.4 * len(work)), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(len(work), 2, squeeze=False)
    for pair, name in zip(every, work, strict=True):
        rows = [row for row in results["rows"] if row["work"] == name and row["outcome"] == MEASURED]
        for preset in dict.fromkeys(row["preset"] for row in rows):
            own = [row for row in rows if row["preset"] == preset]
            times = [row for row in results["times"] if (row["preset"], row["work"]) == (preset, name)]
            _curve(pair[0], preset, [(r["length"], r["cpu_seconds"]) for r in own], [(r["length"], r["seconds"]) for r in times])
            known = [row for row in own if row["peak_bytes"] is not None]
            peaks = [(row["length"], row["peak_bytes"] / _GIB) for row in known]
            _curve(pair[1], preset, peaks, [(row["length"], (row["predicted_bytes"] + row["imports_bytes"]) / _GIB) for row in known])
        for axes, unit in zip(pair, ("seconds", "peak GiB"), strict=True):
            axes.set_title(f"{name}: {unit}", loc="left", fontweight="bold")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xlabel("tokens a side (points: measured; lines: predicted)")
            axes.grid(color="0.92")
            axes.spines[["top", "right"]].set_visible(False)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(frameon=False)
    return figure


def _curve(axes: Axes, preset: str, points: Sequence[tuple[int, float]], line: Sequence[tuple[int, float]]) -> None:
    colour = _COLOURS[preset]
    if line:
        axes.plot(*zip(*sorted(line), strict=True), color=colour, linewidth=1.3)
    if points:
        axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=4, label=preset)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure time and memory against length, beside what the formulas predict.")
    add, standard = parser.add_argument, Plan()
    add("--presets", nargs="+", default=list(standard.presets), metavar="NAME", help=f"of {', '.join(PRESETS)}")
    add("--lengths", type=int, nargs="+", default=list(standard.lengths), metavar="N")
    add("--work", nargs="+", default=list(WORK), metavar="WORK", help=f"of {', '.join(WORK)}")
    add("--threads", type=int, default=standard.threads)
    add("--beams", type=int, default=standard.beams)
    add("--gib", type=float, default=standard.gib, help="memory of one process, at most")
    add("--seconds", type=float, default=standard.seconds, help="no longer text follows one that took more")
    add("--output", type=Path, default=Path("runs/length"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Measure, and leave results.json, table.md and results.png in `a.output`."""
    plan = Plan(tuple(a.presets), tuple(a.lengths), tuple(a.work), a.threads, a.beams, a.gib, a.seconds)
    results: Results = {}
    for results in benchmark_length(plan, a.output / "results.json"):
        write_json(a.output / "results.json", results)
        write_text(a.output / "table.md", table(results))
    write_png(picture(results), a.output / "results.png")
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    try:
        main(parse())
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"error: {error}")
