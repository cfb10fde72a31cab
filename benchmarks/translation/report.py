"""The results of `benchmark_translation` as JSON, as tables in Markdown and as a picture, all from the one object."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.chart import Panel
from benchmarks.interleaved import Ratio
from benchmarks.report import UNKNOWN, Results, Row, grouped, markdown_table, memory_cell, on_what, ratio_cell, write_files

_HEADER = (
    *("batch", "contestant", "sentences/s", "target tokens/s", "times as fast (least-most)", "by CPU time"),
    *("BLEU", "same as ours", "peak memory, MiB (beyond imports)"),
)


def write_report(results: Results, folder: Path) -> None:
    """Write `results.json`, `table.md` and `results.png`, each of them whole or not at all."""
    first = next(iter(results["contestants"].values()))
    write_files(results, table(results), panels(results), f"times as fast as {first}", folder)


def table(results: Results) -> str:
    """Markdown: what was measured how, and a table for each test set, number of beams and kind of lengths."""
    quality = {(row["test_set"], row["beams"], row["contestant"]): row for row in results["quality"]}
    parts = [_caption(results)]
    for title, rows in _settings(results):
        cells = (
            _cells(row, results["contestants"][row["contestant"]], quality[row["test_set"], row["beams"], row["contestant"]])
            for row in rows
        )
        parts.append(f"**{title}**\n\n{markdown_table(_HEADER, cells, left=2)}")
    return "\n\n".join(parts) + "\n"


def panels(results: Results) -> list[Panel]:
    """A panel for each test set, number of beams and kind of lengths, a colour for each batch size."""
    drawn = []
    for title, rows in _settings(results):
        series: dict[str, list[Ratio]] = {}
        for row in rows:
            series.setdefault(f"batch {row['batch_size']}", []).append(Ratio(**row["ratio"]))
        drawn.append(Panel(title, list(results["contestants"].values()), dict(series)))
    return drawn


def _settings(results: Results) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each test set, number of beams and kind of lengths, under their title."""
    for (test_set, beams, lengths), rows in grouped(results["speed"], "test_set", "beams", "lengths"):
        search = "greedy" if beams == 1 else f"beam {beams}"
        yield f"{test_set}, {search}{', as long as the references' if lengths == 'references' else ''}", rows


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
        f"{s['name']}: {s['sentences']:,} sentences, {s['timed_sentences']:,} of them timed, evenly spaced" for s in results["test_sets"]
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
        "from each sentence's own; where a title says so, all translations of a batch get as many tokens as its references have on "
        "average, so that everybody takes the same steps. BLEU is of all sentences, each as long as its search makes it, in batches "
        f"of {settings['quality_batch_size']} ({signature}). Same as "
        "ours: the share of best hypotheses equal to those of ours in float32, as loaded. Memory is that of a process that loads this "
        "contestant alone and translates the timed batches once."
    )
