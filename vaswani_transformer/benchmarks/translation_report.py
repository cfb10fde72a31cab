"""The results of `benchmark_translation` as JSON, as tables in Markdown and as a picture, all from the one object."""

from collections.abc import Iterator
from pathlib import Path

from .chart import Panel
from .interleaved import Ratio
from .report import UNKNOWN, Results, Row, line, memory_cell, on_what, ratio_cell, write_files

_HEADER = (
    *("batch", "contestant", "sentences/s", "target tokens/s", "times as fast (least-most)", "by CPU time"),
    *("BLEU", "same as ours", "peak memory, MiB (beyond imports)"),
)


def write_report(results: Results, folder: Path) -> None:
    """Write `results.json`, `table.md` and `results.png`, each of them whole or not at all."""
    first = next(iter(results["contestants"].values()))
    write_files(results, table(results), panels(results), f"times as fast as {first}", folder)


def table(results: Results) -> str:
    """Markdown: what was measured how, and a table for each test set and number of beams."""
    quality = {(row["test_set"], row["beams"], row["contestant"]): row for row in results["quality"]}
    parts = [_caption(results)]
    for test_set, beams, rows in _settings(results):
        lines = [f"**{test_set}, {_search(beams)}**", "", line(_HEADER), line(("---",) * 2 + ("---:",) * 7)]
        for row in rows:
            title = results["contestants"][row["contestant"]]
            lines.append(line(_cells(row, title, quality[test_set, beams, row["contestant"]])))
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
        ratio_cell(ratio),
        f"{row['cpu_ratio']['median']:.2f}",
        f"{quality['bleu']:.2f}",
        UNKNOWN if share is None else f"{share:.1%}",
        memory_cell(row.get("memory")),
    )


def _caption(results: Results) -> str:
    """What one must know to read the tables."""
    settings, sizes = results["settings"], results["architecture"]
    first = next(iter(results["contestants"].values()))
    sets = "; ".join(
        f"{s['name']}: {s['sentences']:,} sentences, {s['timed_sentences']:,} of them timed, evenly spaced"
        for s in results["test_sets"]
    )
    signature = results["quality"][0]["signature"]
    return (
        f"{results['model']}: {sizes['encoder_layers']} + {sizes['decoder_layers']} layers, d_model {sizes['d_model']}, "
        f"d_ff {sizes['encoder_ffn_dim']}, {sizes['vocab_size']:,} tokens. {on_what(results)} Each contestant used "
        f"{settings['threads']} of the cores. {sets}.\n\n"
        "Same weights, same sentences, in the same batches sorted by length; tokenising, padding and detokenising are not timed. "
        f"One process; medians of {settings['repeats']} rounds in turn, after one to warm up. Times as fast: against {first} within "
        "each round, by the clock and by CPU time. Ours searches as the checkpoint says; Marian and CTranslate2 have the power of "
        "the length nearest to its penalty, and count their longest translation from the batch's longest source, where ours counts "
        f"from each sentence's own. BLEU is of all sentences, in batches of {settings['quality_batch_size']} ({signature}). Same as "
        "ours: the share of best hypotheses equal to those of ours in float32, as loaded. Memory is that of a process that loads this "
        "contestant alone and translates the timed batches once."
    )
