"""The results of `benchmark_training` as JSON, as tables in Markdown and as a picture, all from the one object."""

from pathlib import Path

from benchmarks.chart import Panel
from benchmarks.interleaved import Ratio
from benchmarks.report import UNKNOWN, Results, Row, grouped, markdown_table, memory_cell, on_what, ratio_cell, write_files

_HEADER = (
    *("contestant", "target tokens/s", "times as fast (least-most)", "by CPU time", "of the targets padding"),
    *("of the matrix rate", "peak memory, MiB (beyond imports)"),
)
_LEADS_HEADER = ("shape", "threads", "ours", "against", "times as fast (least-most)", "by CPU time", "goal")
_GIVEN_BACK = "Those that wait have given free memory back, so that every round begins with getting it again. "


def write_report(results: Results, folder: Path) -> None:
    """Write `results.json`, `table.md` and `results.png`, each of them whole or not at all."""
    write_files(results, table(results), panels(results), "times as fast", folder)


def table(results: Results) -> str:
    """Markdown: what was measured how, ours against the others with the goals, and a table for each shape and number of threads."""
    titles = results["contestants"]
    parts = [_caption(results), markdown_table(_LEADS_HEADER, (_lead_cells(row, titles) for row in results["leads"]), left=4)]
    for (shape, threads), rows in grouped(results["speed"], "shape", "threads"):
        cells = (_cells(row, titles[row["contestant"]]) for row in rows)
        parts.append(f"**{_title(results, shape)}; {_threads(threads)}**\n\n{markdown_table(_HEADER, cells, left=1)}")
    return "\n\n".join(parts) + "\n"


def panels(results: Results) -> list[Panel]:
    """A panel for each shape, a colour for each number of threads."""
    series: dict[str, dict[str, list[Ratio]]] = {}
    for (shape, threads), rows in grouped(results["speed"], "shape", "threads"):
        series.setdefault(shape, {})[_threads(threads)] = [Ratio(**row["ratio"]) for row in rows]
    names = list(results["contestants"].values())
    return [Panel(_title(results, shape).rpartition(", ")[0], names, dict(bars)) for shape, bars in series.items()]


def _title(results: Results, shape: str) -> str:
    sizes = results["shapes"][shape]
    return (
        f"{shape.upper()}: {sizes['encoder_layers']}+{sizes['decoder_layers']}, {sizes['d_model']}/{sizes['encoder_ffn_dim']}, "
        f"{sizes['encoder_attention_heads']} heads, {sizes['vocab_size']:,}"
    )


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def _lead_cells(row: Row, titles: dict[str, str]) -> tuple[str, ...]:
    best = ", the fastest loop" if row["as"] == "best-loop" else ""
    return (
        row["shape"],
        str(row["threads"]),
        titles[row["contestant"]],
        titles[row["against"]] + best,
        ratio_cell(row["ratio"]),
        f"{row['cpu_ratio']['median']:.2f}",
        UNKNOWN if row["goal"] is None else f"{row['goal']:.1f}",
    )


def _cells(row: Row, title: str) -> tuple[str, ...]:
    return (
        title,
        f"{row['target_tokens_per_second']:,.0f}",
        ratio_cell(row["ratio"]),
        f"{row['cpu_ratio']['median']:.2f}",
        f"{row['padding_share']:.1%}",
        f"{row['share_of_matrix_rate']:.1%}",
        memory_cell(row["memory"]),
    )


def _caption(results: Results) -> str:
    """What one must know to read the tables."""
    settings, corpus = results["settings"], results["corpus"]
    first = next(iter(results["contestants"].values()))
    rates = "; ".join(
        f"{_threads(int(threads))}: {rates['float32'] / 1e9:,.0f} GFLOP/s float32, {rates['bfloat16'] / 1e9:,.0f} bfloat16"
        for threads, rates in results["matrix_rates"].items()
    )
    return (
        f"One optimisation update, {on_what(results)} {' and '.join(corpus['sha256'])}: {corpus['pairs']:,} pairs.\n\n"
        f"Medians of {settings['repeats']} rounds in turn, after one to warm up; a round is the same updates each time, on batches from "
        "short sentences to long ones, and each contestant works in a process of its own while the others wait. Target tokens are those "
        f"that are not padding. Times as fast: target tokens a second against {first}, within each round, by the clock and by CPU time. "
        f"{_GIVEN_BACK if settings['give_back_memory'] else ''}"
        f"Dropout {settings['dropout']}, label smoothing {settings['label_smoothing']}, weights and Adam in float32; bfloat16 is autocast. "
        "Ours is what `vaswani train` does in an update, reading the batch, the norm of the gradients and the check for finite losses "
        f"included. Ours and the loops take the same batches, of at most {settings['batch_tokens']:,} source and as many target tokens "
        f"with padding; the trainer takes {settings['trainer_sentences']} sentences, drawn at random or grouped by source length, and "
        "has its defaults (fused AdamW, clipping). Of the matrix rate: floating point operations of the model on its batches a second, "
        "on a CPU by its time on each thread, as a share of what products of large matrices reach in the same precision "
        f"({rates}). Memory is the process' peak."
    )
