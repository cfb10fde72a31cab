"""Updates and searches at one length after the other, each in a process of its own, and what the formulas predict of them."""

import resource
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import circumstances
from benchmarks.own_process import OwnProcess
from benchmarks.report import Results, Row
from benchmarks.stopwatch import Stopwatch
from vaswani_transformer.configuration_vaswani import PRESETS, VaswaniConfig
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.training.memory_cost import longest_that_fits, training_memory, translation_memory
from vaswani_transformer.training.process_memory import keep_freed_memory, process_bytes
from vaswani_transformer.training.time_cost import Trial, at, fit

TRAINING, TRANSLATING = "training", "translating"
WORK = (TRAINING, TRANSLATING)
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
MEASURED, TOO_LARGE, TOO_LONG = "measured", "memory", "time"

GIB = 2**30


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
        self.work = work
        mapped = process_bytes("VmSize")
        if mapped is not None:
            most = mapped + round(plan.gib * GIB) - (process_bytes("VmRSS") or 0)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        if work == TRAINING:
            keep_freed_memory()
        self.trial = Trial(VaswaniConfig.from_preset(preset), beams=plan.beams)
        _forget_peak()


def _forget_peak() -> None:
    """Let Linux count this process's peak of memory from now on: a model that is built has each shared matrix several times at first."""
    file = Path("/proc/self/clear_refs")
    if file.is_file():
        file.write_text("5", encoding="ascii")


def work_once(worker: Worker, length: int) -> dict[str, Any]:
    """Seconds of the second update, since the first one makes Adam's moments, or of one translation; or that memory was short."""
    runs = [worker.trial.update] * 2 if worker.work == TRAINING else [worker.trial.translate]
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
    return {"preset": preset, "work": work, "length": length, **found, **memory}


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
            yield {**results, **predictions(results["rows"], plan)}
            if known[length]["outcome"] != MEASURED or known[length]["cpu_seconds"] > plan.seconds:
                break


def predictions(rows: Sequence[Row], plan: Plan) -> Results:
    """The rows with their predicted memory, predicted times, and where training ends."""
    shown = [{**row, "predicted_bytes": predicted(row["preset"], row["work"], row["length"], plan)} for row in rows]
    return {"rows": shown, "times": predicted_times(rows), "ends": ends(rows, plan.gib)}


def predicted_times(rows: Iterable[Row]) -> list[Row]:
    """Seconds c + a n + b n^2 for each measured length n, fitted to those up to half the longest, where these are three or more."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["outcome"] == MEASURED:
            groups.setdefault((row["preset"], row["work"]), []).append(row)
    found = []
    for (preset, work), own in groups.items():
        longest = max(row["length"] for row in own)
        shorter = [row for row in own if row["length"] <= longest / 2]
        if len(shorter) < 3:
            continue
        fitted = fit([row["length"] for row in shorter], [row["cpu_seconds"] for row in shorter])
        for row in own:
            facts = {"preset": preset, "work": work, "length": row["length"]}
            found.append({**facts, "seconds": at(fitted, row["length"]), "fitted": row in shorter})
    return found


def ends(rows: Sequence[Row], gib: float) -> dict[str, int]:
    """For each preset, the longest pair that would still be trained on in `gib` GiB, the libraries included."""
    libraries = {row["preset"]: row["imports_bytes"] or 0 for row in rows}
    return {preset: longest_that_fits(VaswaniConfig.from_preset(preset), round(gib * GIB) - size) for preset, size in libraries.items()}


def error_of(row: Row) -> float | None:
    """By what share the predicted peak, the libraries included, is above the measured one."""
    if row["outcome"] != MEASURED or row["peak_bytes"] is None:
        return None
    share: float = (row["predicted_bytes"] + row["imports_bytes"]) / row["peak_bytes"] - 1
    return share
