"""What the reports of all benchmarks share: three files from one object, and the cells of their tables."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.chart import Panel, draw_bars
from benchmarks.interleaved import Measurement, Ratio
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json

Results = dict[str, Any]
Row = dict[str, Any]

UNKNOWN = "-"


def write_files(results: Results, table: str, panels: Sequence[Panel], axis: str, folder: Path) -> None:
    """Write `results.json`, `table.md` and `results.png`, each of them whole or not at all."""
    write_json(folder / "results.json", results)
    write_text(folder / "table.md", table)
    draw_bars(panels, folder / "results.png", axis)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    """A table in Markdown; the first `left` columns hold words, the others numbers."""
    rule = [*["---"] * left, *["---:"] * (len(header) - left)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def speed_row(name: str, own: Measurement, work: Row, ratio: Ratio, cpu_ratio: Ratio) -> Row:
    """What every benchmark says of a contestant's speed: its seconds, the `work` done in them, and its ratios to the first contestant."""
    return {
        "contestant": name,
        "seconds": own.median_seconds,
        "cpu_seconds": own.median_cpu_seconds,
        **work,
        "target_tokens_per_second": work["target_tokens"] / own.median_seconds,
        "ratio": ratio._asdict(),
        "cpu_ratio": cpu_ratio._asdict(),
        "all_seconds": own.seconds,
        "all_cpu_seconds": own.cpu_seconds,
    }


def grouped(rows: Iterable[Row], *keys: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """The rows that have the same values under `keys` together, in the order in which they were measured."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(groups.items())


def ratio_cell(ratio: Row) -> str:
    return f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})"


def memory_cell(memory: Row | None) -> str:
    """Peak memory in MiB, in parentheses what of it is not the imported libraries."""
    if memory is None or memory["peak_bytes"] is None:
        return UNKNOWN
    peak, beyond = memory["peak_bytes"], memory["peak_bytes"] - memory["imports_bytes"]
    cell = f"{peak / 2**20:,.0f} ({beyond / 2**20:,.0f})"
    if "device_peak_bytes" in memory:
        cell += f" + {memory['device_peak_bytes'] / 2**20:,.0f} on the GPU"
    return cell


def on_what(results: Results) -> str:
    """The machine, how busy it was, the versions and the day, in sentences."""
    facts = results["machine"]
    packages = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return (
        f"{facts.get('gpu') or facts['cpu']}, {facts['cores']} cores; "
        f"{' '.join(facts['instructions']) or 'no instruction sets listed'}; load {facts['load_average']} before. {packages}. "
        f"{results['date'][:10]}."
    )
