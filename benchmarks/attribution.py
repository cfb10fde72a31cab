"""How faithful attributions are: which of them find the source words that a word truly stands for, on the corpus whose links are known.

    python -m benchmarks.attribution runs/builtin_tiny/averaged

Each method attributes the reference translations of the built-in corpus' test set. Each written subword is then linked to the source
subword with the largest weight, whatever its sign, and the links are scored against the true ones, as `benchmarks.alignment` does with
attention. Beside the methods stand `align`, which chooses a layer of attention, and a diagonal that knows nothing. Writes results.json and
table.md into --output and prints the table.
"""

import argparse
from pathlib import Path
from typing import get_args

import torch
from tqdm import tqdm

from benchmarks.alignment import Gold, diagonal, scored_row, truth
from benchmarks.command_line import run
from benchmarks.report import Results, markdown_table
from vaswani_transformer.data.builtin.corpus import builtin_alignments
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.inspection.alignment import WordAlignment, alignment_error_rate, alignment_of, control_labels
from vaswani_transformer.inspection.attribution import Attribution, Method, attribute
from vaswani_transformer.inspection.maps import AttentionMaps, attention_maps
from vaswani_transformer.translation.loading import load_checkpoint, local_folder


def benchmark_attribution(model: str, sentences: int, output: Path, source: str = "en", steps: int = 50) -> Results:
    """Score every method; write `results.json` and `table.md` into `output`.

    Args:
        model: a folder, such as `runs/NAME/averaged`, or a repository of the Hub.
        sentences: how many of the built-in test set.
        source: the language that the model reads, `en` or `de`.
        steps: of integrated gradients.

    Raises:
        FileNotFoundError: there is no such model.
        ImportError: inseq is not installed.
        ValueError: the model is damaged, or no sentence is asked for.
    """
    pairs = [Gold.of(pair, source) for pair in builtin_alignments("test", sentences)]
    if not pairs:
        raise ValueError("Give at least one sentence to attribute.")
    checkpoint = load_checkpoint(local_folder(model))
    control = control_labels(checkpoint.tokenizer)

    def linked(pair: Gold, method: Method) -> WordAlignment:
        found = attribute(checkpoint.model, checkpoint.tokenizer, pair.source, pair.target, method=method, steps=steps)
        return alignment_of(as_maps(found), control, layer=0, shifted=False).between(pair.source_words, pair.target_words)

    def chosen(pair: Gold) -> WordAlignment:
        maps = attention_maps(checkpoint.model, checkpoint.tokenizer, pair.source, pair.target)
        return alignment_of(maps, control).between(pair.source_words, pair.target_words)

    rows = []
    for method in get_args(Method):
        found = [linked(pair, method) for pair in tqdm(pairs, desc=method, disable=None)]
        rows.append(scored_row(f"`{method}`", alignment_error_rate(found, *truth(pairs))))
    rows.append(scored_row("`align`: attention of a chosen layer", alignment_error_rate([chosen(pair) for pair in pairs], *truth(pairs))))
    rows.append(scored_row("diagonal: no model", alignment_error_rate([diagonal(pair) for pair in pairs], *truth(pairs))))
    results: Results = {"model": model, "sentences": len(pairs), "source": source, "steps": steps, "methods": rows}
    write_json(output / "results.json", results)
    write_text(output / "table.md", table(results))
    return results


def as_maps(found: Attribution) -> AttentionMaps:
    """The sizes of the weights as one layer's attention of one head, for what reads attention."""
    none = torch.zeros(0, 0, 0, 0)
    return AttentionMaps(
        source=found.source,
        target=found.target,
        read=found.read,
        encoder=none,
        decoder=none,
        cross=found.weights.abs()[None, None],
        log_probabilities=found.log_probabilities,
        source_text=found.source_text,
        target_text=found.target_text,
        source_words=found.source_words,
        target_words=found.target_words,
        read_words=found.read_words,
    )


def table(results: Results) -> str:
    """The methods in Markdown, best first."""
    rows = sorted(results["methods"], key=lambda row: row["aer"])
    cells = ((row["name"], *(f"{100 * row[key]:.1f}" for key in ("aer", "precision", "recall"))) for row in rows)
    return markdown_table(("method", "AER", "precision", "recall"), cells, left=1) + "\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure which attributions find the true word alignments of the built-in corpus.")
    add = parser.add_argument
    add("model", help="a folder of ours, such as runs/NAME/averaged, or a repository of the Hub")
    add("--sentences", type=int, default=100, help="of the built-in test set (default: %(default)s)")
    add("--source-language", choices=["en", "de"], default="en", help="which the model reads (default: %(default)s)")
    add("--steps", type=int, default=50, help="of integrated gradients (default: %(default)s)")
    add("--output", type=Path, default=Path("runs/attribution_benchmark"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    results = benchmark_attribution(a.model, a.sentences, a.output, a.source_language, a.steps)
    print(f"{table(results)}\nresults.json and table.md are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
