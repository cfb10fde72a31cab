"""How well attention aligns words: alignment error rates of every decoder layer and head, on the corpus whose true alignments are known.

    python -m benchmarks.alignment runs/builtin_tiny/averaged
    python -m benchmarks.alignment MODEL --sentences 200 --eflomal eflomal-align --output runs/alignment

The model translates between English and German. The sentences are the built-in corpus' test set with its reference translations. Beside the
heads stand a diagonal that knows nothing and, where it is installed (pip install eflomal), the statistical aligner eflomal, which learns
from the built-in training set. Writes results.json, table.md and alignment.png into --output and prints the table.
"""

import argparse
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from benchmarks.command_line import run
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.data.builtin.corpus import builtin_alignments
from vaswani_transformer.data.builtin.marks import AlignedPair
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.inspection.alignment import (
    Level,
    Links,
    alignment_error_rate,
    alignment_of,
    choose_layer,
    control_labels,
    read_pharaoh,
)
from vaswani_transformer.inspection.maps import AttentionMaps, attention_maps
from vaswani_transformer.report.curves import write_png
from vaswani_transformer.translation.loading import load_checkpoint, local_folder

_STEPS = {False: "the step that writes", True: "the step that reads"}


def benchmark_alignment(model: str, sentences: int, output: Path, source: str = "en", eflomal: str | None = None) -> Results:
    """Score every layer and head, and the rules that choose one; write `results.json`, `table.md` and `alignment.png` into `output`.

    Args:
        model: a folder, such as `runs/NAME/averaged`, or a repository of the Hub.
        sentences: how many of the built-in test set.
        source: the language that the model reads, `en` or `de`.
        eflomal: its program, or None for no comparison with it.

    Raises:
        FileNotFoundError: there is no such model or program.
        ValueError: the model is damaged, or no sentence is asked for.
    """
    pairs = [Gold.of(pair, source) for pair in builtin_alignments("test", sentences)]
    if not pairs:
        raise ValueError("Give at least one sentence to align.")
    if eflomal and shutil.which(eflomal) is None:
        raise FileNotFoundError(f"There is no program {eflomal}; `pip install eflomal` brings eflomal-align.")
    checkpoint = load_checkpoint(local_folder(model))
    maps = [attention_maps(checkpoint.model, checkpoint.tokenizer, pair.source, pair.target) for pair in pairs]
    scored = Scored(pairs, maps, control_labels(checkpoint.tokenizer))
    results: Results = {"model": model, "sentences": len(pairs), "source": source, "heads": scored.heads(), "rules": scored.rules()}
    results["rules"] += [scored_row("diagonal: no model", alignment_error_rate([diagonal(pair) for pair in pairs], *truth(pairs)))]
    if eflomal:
        results["rules"] += _eflomal_rows(eflomal, pairs, source)
    write_json(output / "results.json", results)
    write_text(output / "table.md", table(results))
    draw(results, output / "alignment.png")
    return results


class Gold:
    """A sentence pair in the model's direction, with its true links."""

    def __init__(self, source: Sequence[str], target: Sequence[str], texts: tuple[str, str], sure: Links, possible: Links) -> None:
        self.source_words, self.target_words = tuple(source), tuple(target)
        self.source, self.target = texts
        self.sure, self.possible = sure, possible

    @classmethod
    def of(cls, pair: AlignedPair, source: str) -> "Gold":
        if source == "en":
            return cls(pair.english_words, pair.german_words, (pair.english, pair.german), pair.sure, pair.possible)
        sure, possible = ([(german, english) for english, german in links] for links in (pair.sure, pair.possible))
        return cls(pair.german_words, pair.english_words, (pair.german, pair.english), sure, possible)


def truth(pairs: Iterable[Gold]) -> tuple[list[Links], list[Links]]:
    """The sure links of all pairs, and the possible ones."""
    return [pair.sure for pair in pairs], [pair.possible for pair in pairs]


class Scored:
    """The maps of all sentences, and what they score."""

    def __init__(self, pairs: list[Gold], maps: list[AttentionMaps], control: frozenset[str]) -> None:
        self.pairs, self.maps, self.control = pairs, maps, control
        self.layers, self.head_count = maps[0].cross.shape[:2]

    def rate(self, name: str, **options: Any) -> Row:
        """One line of results; `options` are those of `alignment_of`."""
        found = [
            alignment_of(one, self.control, **options).between(pair.source_words, pair.target_words)
            for one, pair in zip(self.maps, self.pairs, strict=True)
        ]
        return scored_row(name, alignment_error_rate(found, *truth(self.pairs)), **options)

    def heads(self) -> list[Row]:
        """Every layer with each head and the mean of them (`head` None), each step and convention; with the agreement of the layer."""
        rows = []
        for layer in range(self.layers):
            for head in (*range(self.head_count), None):
                for shifted in (False, True):
                    choice = choose_layer(self.maps, self.control, layer=layer, head=head, shifted=shifted)
                    for level in get_args(Level):
                        row = self.rate("head", layer=layer, head=head, shifted=shifted, level=level)
                        rows.append(row | {"agreement": choice.agreement})
        return rows

    def rules(self) -> list[Row]:
        """What chooses a layer without true alignments."""
        layer, shifted, _ = choose_layer(self.maps, self.control)
        penultimate = max(0, self.layers - 2)
        rows = []
        for level in get_args(Level):
            rows += [
                self.rate("`align`: chosen text by text", level=level),
                self.rate("`choose_layer` on all sentences", level=level, layer=layer, shifted=shifted),
                self.rate("penultimate layer (Garg et al. 2019)", level=level, layer=penultimate, shifted=False),
                self.rate("penultimate layer, shifted", level=level, layer=penultimate, shifted=True),
            ]
        return rows


def scored_row(name: str, rate: Any, **options: Any) -> Row:
    """One line of results."""
    return {"name": name, **options, **rate._asdict()}


def diagonal(pair: Gold) -> Links:
    """Each target word with the source word at the same place, in proportion."""
    sources, targets = len(pair.source_words), len(pair.target_words)
    return [(round(place * (sources - 1) / max(1, targets - 1)), place) for place in range(targets)]


def _eflomal_rows(program: str, pairs: list[Gold], source: str) -> list[Row]:
    """The statistical aligner, which sees the words of the training set and of these sentences; each direction, and what both find."""
    known = [Gold.of(pair, source) for pair in builtin_alignments("train")]
    with TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("source", "target", "forward", "reverse")]
        for file, side in zip(files, ("source_words", "target_words"), strict=False):
            file.write_text("".join(" ".join(getattr(pair, side)).lower() + "\n" for pair in (*known, *pairs)), encoding="utf-8")
        options = [part for name, file in zip("stfr", files, strict=True) for part in (f"-{name}", str(file))]
        try:
            subprocess.run([program, *options], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            raise ValueError(f"{program} failed: {error.stderr.strip().splitlines()[-1]}") from error
        forward, reverse = ([set(read_pharaoh(line)) for line in file.read_text().splitlines()[-len(pairs) :]] for file in files[2:])
    both = [one & other for one, other in zip(forward, reverse, strict=True)]
    names = ("eflomal, forward", "eflomal, reverse", "eflomal, links of both directions")
    return [
        scored_row(name, alignment_error_rate(found, *truth(pairs))) for name, found in zip(names, (forward, reverse, both), strict=True)
    ]


def table(results: Results) -> str:
    """Two tables in Markdown: the rules with what they are compared with, and every layer and head."""
    rules = (
        (row["name"], row.get("level", UNKNOWN), *(f"{100 * row[key]:.1f}" for key in ("aer", "precision", "recall")))
        for row in results["rules"]
    )
    header = ("layer", "head", "agreement", "AER", "precision", "recall", "AER by words")
    steps = (
        f"Every layer and head, by {step}:\n\n" + markdown_table(header, _head_cells(results["heads"], shifted), left=0)
        for shifted, step in _STEPS.items()
    )
    first = markdown_table(("links by", "level", "AER", "precision", "recall"), rules, left=2)
    return "\n\n".join((first, *steps)) + "\n"


def _head_cells(rows: Sequence[Row], shifted: bool) -> Iterator[tuple[str, ...]]:
    own = [row for row in rows if row["shifted"] is shifted]
    words = {(row["layer"], row["head"]): row for row in own if row["level"] == "word"}
    for row in own:
        if row["level"] == "subword":
            head = "mean" if row["head"] is None else str(row["head"])
            shares = (row["aer"], row["precision"], row["recall"], words[row["layer"], row["head"]]["aer"])
            yield str(row["layer"]), head, f"{row['agreement']:.2f}", *(f"{100 * share:.1f}" for share in shares)


def draw(results: Results, picture: Path) -> None:
    """Error rates as a heat map for each step: layers from top to bottom, heads and their mean from left to right."""
    rows = [row for row in results["heads"] if row["level"] == "subword"]
    layers = 1 + max(row["layer"] for row in rows)
    columns = [*sorted({row["head"] for row in rows if row["head"] is not None}), None]
    figure = Figure(figsize=(2 * (1.2 + 0.55 * len(columns)), 1.5 + 0.45 * layers), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    colours = ScalarMappable(Normalize(0, 100), "viridis_r")
    for axes, (shifted, step) in zip(figure.subplots(1, 2, sharey=True), _STEPS.items(), strict=True):
        rates = {(row["layer"], row["head"]): 100 * row["aer"] for row in rows if row["shifted"] is shifted}
        shown = [[rates[layer, head] for head in columns] for layer in range(layers)]
        axes.imshow(shown, norm=colours.norm, cmap=colours.cmap, aspect="auto")
        for (layer, head), rate in rates.items():
            axes.text(columns.index(head), layer, f"{rate:.0f}", ha="center", va="center", color="white" if rate > 40 else "black")
        axes.set(title=step, xlabel="head", xticks=range(len(columns)), yticks=range(layers))
        axes.set_xticklabels(["mean" if head is None else str(head) for head in columns])
    figure.axes[0].set_ylabel("decoder layer")
    figure.colorbar(colours, ax=figure.axes, label="alignment error rate, %")
    write_png(figure, picture)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how well each head of a model aligns the words of the built-in corpus.")
    add = parser.add_argument
    add("model", help="a folder of ours, such as runs/NAME/averaged, or a repository of the Hub")
    add("--sentences", type=int, default=1000, help="of the built-in test set (default: %(default)s)")
    add("--source-language", choices=["en", "de"], default="en", help="which the model reads (default: %(default)s)")
    add("--eflomal", metavar="PROGRAM", help="compare with this aligner: eflomal-align, of `pip install eflomal`")
    add("--output", type=Path, default=Path("runs/alignment_benchmark"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    results = benchmark_alignment(a.model, a.sentences, a.output, a.source_language, a.eflomal)
    print(f"{table(results)}\nresults.json, table.md and alignment.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
