"""What the paper says of its formulas, computed: dot products that grow with d_k, softmax's gradients, linear sinusoids, cost of heads.

    python -m benchmarks.formulas --output runs/formulas

Nothing is trained, and it takes seconds. Queries and keys are drawn as footnote 4 of the paper assumes: independent, mean 0, variance 1.
Writes results.json, table.md and results.png into --output.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.command_line import run
from benchmarks.report import Results, Row, markdown_table
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.layers import VaswaniSelfAttention, sinusoids
from vaswani_transformer.report.curves import write_png

KEY_WIDTHS = (4, 16, 64, 256, 512, 1024)
OFFSETS = (1, 2, 5, 10, 100)
HEADS = (1, 8, 32)
_QUERIES, _KEYS = 2000, 64
_POSITIONS, _WIDTH = 1000, 128
_LENGTH = 128
_COLOURS = {"unscaled": "#c44e52", "scaled": "#5b84b1"}


def dot_products(width: int, seed: int) -> Row:
    """Scores of random queries and keys of this width, with and without the division by sqrt(d_k), and what a softmax makes of them.

    `gradient` is the Frobenius norm of the softmax's Jacobian, diag(p) - p p^T, and `largest` the largest weight; medians over the queries.
    """
    generator = torch.Generator().manual_seed(seed)
    queries, keys = (torch.randn(_QUERIES, number, width, generator=generator, dtype=torch.float64) for number in (1, _KEYS))
    scores = (queries * keys).sum(-1)
    row: Row = {"d_k": width, "mean": scores.mean().item(), "variance": scores.var().item()}
    for name, scaled in (("unscaled", scores), ("scaled", scores / width**0.5)):
        weights = scaled.softmax(-1)
        squares = (weights**2).sum(-1)
        jacobian = squares - 2 * (weights**3).sum(-1) + squares**2  # the sum of its squares, written out
        row[name] = {"gradient": jacobian.clamp(min=0).sqrt().median().item(), "largest": weights.amax(-1).median().item()}
    return row


def operations(heads: int) -> int:
    """Floating point operations of the products in a self-attention layer of the base model with so many heads, as PyTorch counts them."""
    config = VaswaniConfig(encoder_attention_heads=heads, decoder_attention_heads=heads)
    config._attn_implementation = "eager"
    layer = VaswaniSelfAttention(config, heads, layer_idx=0, is_causal=False)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, _LENGTH, config.d_model))
    return counter.get_total_flops()


def linear_error(encodings: torch.Tensor, offset: int) -> float:
    """How far the encodings `[n, d]` are from being a linear function of those `offset` positions before.

    Returns:
        The norm of what the best matrix leaves unexplained, as a share of the norm of the encodings.

    Raises:
        ValueError: there are not more positions than dimensions, so that a matrix could explain anything.
    """
    before, after = encodings[:-offset], encodings[offset:]
    if len(before) <= encodings.shape[-1]:
        raise ValueError(f"{len(before)} pairs of positions do not test a matrix of {encodings.shape[-1]} rows; take more positions.")
    matrix = torch.linalg.lstsq(before, after, driver="gelsd").solution
    return (torch.linalg.norm(before @ matrix - after) / torch.linalg.norm(after)).item()


def compute(seed: int) -> Results:
    """All tables; random encodings of the same shape stand beside the sinusoids."""
    generator = torch.Generator().manual_seed(seed)
    encodings = {
        "sinusoids": sinusoids(torch.arange(_POSITIONS), _WIDTH),
        "random": torch.randn(_POSITIONS, _WIDTH, generator=generator, dtype=torch.float64),
    }
    return {
        "seed": seed,
        "queries": _QUERIES,
        "keys": _KEYS,
        "positions": _POSITIONS,
        "d_model": _WIDTH,
        "length": _LENGTH,
        "heads": [{"heads": heads, "flops": operations(heads)} for heads in HEADS],
        "dot_products": [dot_products(width, seed) for width in KEY_WIDTHS],
        "offsets": [{"offset": offset, **{name: linear_error(own, offset) for name, own in encodings.items()}} for offset in OFFSETS],
    }


def table(results: Results) -> str:
    """Markdown: a row for each width of the keys, for each offset and for each number of heads."""
    first = [
        (
            str(row["d_k"]),
            f"{row['variance']:.1f}",
            *(f"{row[name][figure]:.2g}" for figure in ("gradient", "largest") for name in _COLOURS),
        )
        for row in results["dot_products"]
    ]
    second = [(str(row["offset"]), f"{row['sinusoids']:.1e}", f"{row['random']:.2f}") for row in results["offsets"]]
    third = [(str(row["heads"]), f"{row['flops']:,}") for row in results["heads"]]
    header = ("d_k", "variance of q · k", "gradient, unscaled", "scaled", "largest weight, unscaled", "scaled")
    return (
        f"{results['queries']:,} queries, {results['keys']} keys each, components of mean 0 and variance 1. The gradient is the norm of "
        f"the softmax's Jacobian; medians over the queries.\n\n{markdown_table(header, first, left=0)}\n\n"
        f"{results['positions']:,} encodings of {results['d_model']} dimensions: the share of their norm that no matrix makes of those "
        f"some positions before.\n\n{markdown_table(('positions', 'sinusoids', 'random'), second, left=0)}\n\n"
        f"Operations of the products in a self-attention layer of the base model, {results['length']} positions.\n\n"
        f"{markdown_table(('heads', 'FLOPs'), third, left=0)}\n"
    )


def picture(results: Results) -> Figure:
    """The softmax's gradient against d_k."""
    figure = Figure(figsize=(5.6, 3.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    rows: Sequence[Row] = results["dot_products"]
    for name, colour in _COLOURS.items():
        axes.plot([row["d_k"] for row in rows], [row[name]["gradient"] for row in rows], marker="o", color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title("Norm of the softmax's Jacobian", loc="left", fontweight="bold")
    axes.set_xlabel("d_k")
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compute what the paper says of its formulas.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/formulas"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Write results.json, table.md and results.png into `a.output`."""
    results = compute(a.seed)
    write_json(a.output / "results.json", results)
    write_text(a.output / "table.md", table(results))
    write_png(picture(results), a.output / "results.png")
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
