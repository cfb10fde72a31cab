"""Draw where a translator looks in the source as it writes each word of its translation: the cross-attention of one decoder layer.

    python docs/attention_picture.py runs/builtin_tiny/averaged "The small boy thinks that I should buy two cakes."

Writes docs/_static/attention.png, the picture of the project's page. Weights are means over the heads; pieces of a word are joined.
"""

import argparse
from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_transformer import attention_maps
from vaswani_transformer.report.curves import write_png

END = "(end)"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder with a model of ours")
    parser.add_argument("sentence", help="what to translate")
    parser.add_argument("--layer", type=int, default=-1, help="of the decoder, from 0 (default: the last)")
    parser.add_argument("--output", type=Path, default=Path("docs/_static/attention.png"))
    return parser.parse_args()


def cross_attention(model_name: str, sentence: str, layer: int) -> tuple[list[str], list[str], Tensor]:
    """Words of the translation, words of the source, and the weights `[translation, source]`, whose rows sum to 1."""
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForSeq2SeqLM.from_pretrained(model_name)
    maps = attention_maps(model, tokenizer, sentence, level="word")
    written, read = ([END if word == tokenizer.eos_token else word for word in words] for words in (maps.target, maps.source))
    return written, read, maps.cross[layer].mean(0)


def draw(written: list[str], read: list[str], weights: Tensor) -> Figure:
    """The source from left to right, the translation from top to bottom."""
    figure = Figure(figsize=(8, 6), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, column in torch.nonzero(weights >= 0.1).tolist():
        shade = "white" if weights[row, column] > 0.55 else "#333333"
        axes.text(column, row, f"{weights[row, column]:.0%}", ha="center", va="center", color=shade, fontsize=11)
    axes.set_xticks(range(len(read)), read, rotation=35, ha="left", rotation_mode="anchor", fontsize=13)
    axes.set_yticks(range(len(written)), written, fontsize=13)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks([place + 0.5 for place in range(len(read) - 1)], minor=True)
    axes.set_yticks([place + 0.5 for place in range(len(written) - 1)], minor=True)
    axes.grid(which="minor", color="#eeeeee")
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_color("#cccccc")
    return figure


if __name__ == "__main__":
    arguments = parse()
    write_png(draw(*cross_attention(arguments.model, arguments.sentence, arguments.layer)), arguments.output)
    print(f"The picture is in {arguments.output}.")
