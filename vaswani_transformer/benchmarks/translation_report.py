"""The results of `benchmark_translation` as JSON, as tables in Markdown and as a picture, all from the one object."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..run_folder import write_json, write_text
from .chart import Panel, draw_bars
from .interleaved import Ratio

Results = dict[str, Any]
Row = dict[str, Any]

_HEADER = (
    *("batch", "contestant", "sentences/s", "target tokens/s", "times as fast (least-most)", "by CPU time"),
    *("BLEU", "same as ours", "peak memory, MiB (beyond imports)"),
)
_UNKNOWN = "-"


def write_report(results: Results, folder: Path) -> None:
    """Write `results.json`, `table.md` and `results.png`, each of them whole or not at all."""
    write_json(folder / "results.json", results)
    write_text(folder / "table.md", table(results))
    first = next(iter(results["contestants"].values()))
    draw_bars(panels(results), folder / "results.png", f"times as fast as {first}")


def table(results: Results) -> str:
    """Markdown: what was measured how, and a table for each test set and number of beams."""
    quality = {(row["test_set"], row["beams"], row["contestant"]): row for row in results["quality"]}
    parts = [_caption(results)]
    for test_set, beams, rows in _settings(results):
        lines = [f"**{test_set}, {_search(beams)}**", "", _line(_HEADER), _line(("---",) * 2 + ("---:",) * 7)]
        for row in rows:
            title = results["contestants"][row["contestant"]]
            lines.append(_line(_cells(row, title, quality[test_set, beams, row["contestant"]])))
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def panels(results: Results) -> list[Panel]:
    """A panel for each test set and number of beams, a colour for each batch size."""
    drawn = []
    for test_set, beams, rows in _settings(results):
        series: dict[str, list[Ratio]] = {}
        for row in rows:
            series.setdefault(f"batch {row['batch_size']}", []).append(Ratio(**row["ratio"]))
        drawn.append(
            Panel(f"{test_set}, {_search(beams)}", list(results["contestants"].values()), dict(series))
        )
    return drawn


def _settings(results: Results) -> Iterator[tuple[str, int, list[Row]]]:
    """Each test set and number of beams with its rows, in the order in which they were measured."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in results["speed"]:
        groups.setdefault((row["test_set"], row["beams"]), []).append(row)
    yield from ((*setting, rows) for setting, rows in groups.items())


def _search(beams: int) -> str:
    return "greedy" if beams == 1 else f"beam {beams}"


def _cells(row: Row, title: str, quality: Row) -> tuple[str, ...]:
    ratio, share = row["ratio"], quality.get("share_as_ours")
    return (
        str(row["batch_size"]),
        title,
        f"{row['sentences_per_second']:,.1f}",
        f"{row['target_tokens_per_second']:,.0f}",
        f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})",
        f"{row['cpu_ratio']['median']:.2f}",
        f"{quality['bleu']:.2f}",
        _UNKNOWN if share is None else f"{share:.1%}",
        _memory(row.get("memory")),
    )


def _memory(memory: Row | None) -> str:
    if memory is None or memory["peak_bytes"] is None:
        return _UNKNOWN
    peak, beyond = memory["peak_bytes"], memory["peak_bytes"] - memory["imports_bytes"]
    cell = f"{peak / 2**20:,.0f} ({beyond / 2**20:,.0f})"
    if "device_peak_bytes" in memory:
        cell += f" + {memory['device_peak_bytes'] / 2**20:,.0f} on the GPU"
    return cell


def _caption(results: Results) -> str:
    """What one must know to read the tables."""
    facts, settings, sizes = results["machine"], results["settings"], results["architecture"]
    place = facts.get("gpu") or facts["cpu"]
    first = next(iter(results["contestants"].values()))
    sets = "; ".join(
        f"{s['name']}: {s['sentences']:,} sentences, {s['timed_sentences']:,} of them timed, evenly spaced"
        for s in results["test_sets"]
    )
    packages = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    signature = results["quality"][0]["signature"]
    return (
        f"{results['model']}: {sizes['encoder_layers']} + {sizes['decoder_layers']} layers, d_model {sizes['d_model']}, "
        f"d_ff {sizes['encoder_ffn_dim']}, {sizes['vocab_size']:,} tokens. {place}, {facts['cores']} cores, of which each contestant "
        f"used {settings['threads']}; {' '.join(facts['instructions']) or 'no instruction sets listed'}; load "
        f"{facts['load_average']} before. {packages}. {results['date'][:10]}. {sets}.\n\n"
        "Same weights, same sentences, in the same batches sorted by length; tokenising, padding and detokenising are not timed. "
        f"One process; medians of {settings['repeats']} rounds in turn, after one to warm up. Times as fast: against {first} within "
        "each round, by the clock and by CPU time. Ours searches as the checkpoint says; Marian and CTranslate2 have the power of "
        "the length nearest to its penalty, and count their longest translation from the batch's longest source, where ours counts "
        f"from each sentence's own. BLEU is of all sentences, in batches of {settings['quality_batch_size']} ({signature}). Same as "
        "ours: the share of best hypotheses equal to those of ours in float32, as loaded. Memory is that of a process that loads this "
        "contestant alone and translates the timed batches once."
    )


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
