"""Train on short texts and translate long ones: does a model of sinusoids reach further than one of learned positions (section 3.5)?

    python -m benchmarks.longer_texts --train-words 16 --edges 8 16 24 32 48 64 --updates 3000 --output runs/longer_texts

Texts are sentences of the built-in grammar, one after the other, up to a length in English words; no sentence of a test text is in a
training text. Both models are trained with each seed on the same texts of at most `--train-words` words, and translate test texts of each
class of length. A run that was stopped goes on with the same command. Writes results.json, table.md and table.png into --output after each
run.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean

import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.command_line import run
from benchmarks.known_runs import FINGERPRINT
from benchmarks.levers import Plan, budget_of, compare_levers
from benchmarks.report import Results, Row, markdown_table
from vaswani_transformer.data.builtin.corpus import Split, builtin_pairs
from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.evaluation.scores import text_sha256
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.report.curves import write_png
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.strict_yaml import read_mapping
from vaswani_transformer.translation.loading import load_checkpoint
from vaswani_transformer.translation.translate import translate

Texts = list[tuple[str, str]]

POSITIONS = {"sinusoids": [], "learned": ["model.position_embedding_type=learned"]}
"""Which positions, and the settings that take them."""

RESULT, TESTS = "longer_texts.json", "tests.json"
"""The scores of a run, in its folder; the test texts of every class, beside the training texts."""


_SHORTEST = 3
_ENOUGH_SENTENCES = 10_000_000
"""More than anybody joins: the grammar is asked for as many as are used."""

_COLOURS = {"sinusoids": "#c44e52", "learned": "#5b84b1"}
_HEADER = (
    "words",
    "positions",
    "texts",
    "BLEU",
    "of each seed",
    "chrF",
    "exactly right, %",
    "of each seed",
    "length, % of the reference's",
)


@dataclass(frozen=True)
class Lengths:
    """How long the texts are, in English words.

    Attributes:
        train_words: the longest training text.
        edges: the longest text of each class of test texts, ascending; a class begins one word above the class before.
        train_texts: so many.
        test_texts: of each class.
    """

    train_words: int = 16
    edges: tuple[int, ...] = (8, 16, 24, 32, 48, 64)
    train_texts: int = 24_000
    test_texts: int = 200

    def __post_init__(self) -> None:
        if list(self.edges) != sorted(set(self.edges)) or not self.edges or self.edges[0] < _SHORTEST:
            raise ValueError(f"`--edges` must ascend, from {_SHORTEST} words on, and are {' '.join(map(str, self.edges)) or 'missing'}.")
        if self.edges[0] <= self.train_words < self.edges[-1] and self.train_words not in self.edges:
            raise ValueError(
                f"A class of test texts would hold both shorter and longer texts than those of the training; name {self.train_words} among "
                "the `--edges`."
            )
        if self.train_words < _SHORTEST or self.train_texts < 1 or self.test_texts < 1:
            raise ValueError(f"A training text needs {_SHORTEST} words or more, and there must be a training and a test text.")

    @property
    def classes(self) -> list[tuple[int, int]]:
        """Shortest and longest text of each class."""
        return [(shorter + 1, longest) for shorter, longest in pairwise((_SHORTEST - 1, *self.edges))]


def texts(split: Split, shortest: int, longest: int, seed: int) -> Iterator[tuple[str, str]]:
    """Texts of so many English words, English and German, of the sentences of a split in their order; the same for the same seed.

    The length that a text grows towards is drawn evenly. A sentence that would make it too long ends it, and is left out.
    """
    draw = random.Random(seed).random
    grown: Texts = []
    words, wanted = 0, shortest
    for pair in builtin_pairs(split, _ENOUGH_SENTENCES):
        own = len(pair[0].split())
        fits = words + own <= longest
        if not grown:
            words, wanted = 0, shortest + int(draw() * (longest + 1 - shortest))
        if fits:
            grown.append(pair)
            words += own
        if words >= wanted or (not fits and words >= shortest):
            english, german = (" ".join(side) for side in zip(*grown, strict=True))
            yield english, german
        if words >= wanted or not fits:
            grown, words = [], 0


def write_corpus(lengths: Lengths, updates: int, folder: Path) -> Path:
    """Write all texts below `folder`, unless they are there, and a recipe for them: the quickstart's, with these texts.

    Returns:
        The recipe's file.
    """
    if not (folder / TESTS).is_file() or read_json(folder / TESTS)["lengths"] != _plain(lengths):
        numbers: dict[Split, int] = {"train": lengths.train_texts, "validation": min(lengths.train_texts, 500)}
        for split, number in numbers.items():
            chosen = islice(texts(split, _SHORTEST, lengths.train_words, seed=1), number)
            for language, side in zip(("en", "de"), zip(*chosen, strict=True), strict=True):
                write_text(folder / f"{split}.{language}", "".join(f"{text}\n" for text in side))
        tests = [list(islice(texts("test", *bounds, seed=2), lengths.test_texts)) for bounds in lengths.classes]
        write_json(folder / TESTS, {"lengths": _plain(lengths), "tests": tests})
    tree = read_mapping(find_recipe("builtin_tiny"))
    files = {split: {"format": "lines", "source": f"{split}.en", "target": f"{split}.de"} for split in ("train", "validation")}
    data = {"licence": tree["data"]["licence"], "train": [files["train"]], "validation": files["validation"], "test": {}}
    tree |= {"name": "longer_texts", "data": data, "training": tree["training"] | {"updates": updates}}
    write_text(folder / "recipe.yaml", yaml.safe_dump(tree, sort_keys=False))
    return folder / "recipe.yaml"


def _plain(lengths: Lengths) -> Row:
    """As JSON gives it back."""
    return {**vars(lengths), "edges": list(lengths.edges)}


def compare_lengths(plan: Plan, lengths: Lengths) -> Iterator[Results]:
    """Train what is not trained yet, and translate the test texts of every class.

    Yields:
        All results so far, after each run.

    Raises:
        InterruptedError, ValueError: as for `benchmarks.levers.compare_levers`.
    """
    tests = dict(zip(lengths.classes, read_json(Path(plan.recipe).parent / TESTS)["tests"], strict=True))
    done: list[Row] = []
    for found in compare_levers(plan):
        last = found["runs"][-1]
        run = RunFolder(plan.output / last["variant"] / f"seed-{last['seed']}")
        done.append({**last, "classes": _classes_of(run, last[FINGERPRINT], tests)})
        yield {**found, "lengths": _plain(lengths), "runs": done}


def _classes_of(run: RunFolder, trained_on: str, tests: dict[tuple[int, int], Texts]) -> list[Row]:
    """The scores of each class of length; those of the same model on the same texts are not computed again."""
    file = run.path / RESULT
    classes = [[*bounds, text_sha256(text for pair in chosen for text in pair)] for bounds, chosen in tests.items()]
    asked = {FINGERPRINT: trained_on, "classes": classes}
    if file.is_file() and (known := read_json(file))["asked"] == asked:
        return list(known["classes"])
    model, tokenizer = load_checkpoint(run.averaged)
    rows: list[Row] = []
    for (shortest, longest), chosen in tests.items():
        sources, references = (list(side) for side in zip(*chosen, strict=True))
        found = _scores(translate(model, tokenizer, sources), references)
        rows.append({"shortest": shortest, "longest": longest, "texts": len(chosen), **found})
    write_json(file, {"asked": asked, "classes": rows})
    return rows


def _scores(translations: Sequence[str], references: Sequence[str]) -> Row:
    points = score(translations, references, target_language="de", tokenized=False)
    words = [sum(len(text.split()) for text in side) for side in (translations, references)]
    return {
        "bleu": points["sacrebleu"].score,
        "chrf": points["chrf"].score,
        "exact": fmean(own == reference for own, reference in zip(translations, references, strict=True)),
        "length_ratio": words[0] / words[1],
    }


def table(results: Results) -> str:
    """Markdown: a row for each class of length and kind of positions."""
    lengths = results["lengths"]
    rows = []
    for bounds in _bounds(results):
        for name in results["variants"]:
            if own := _of_class(results, name, bounds):
                rows.append(_cells(name, bounds, own, lengths["train_words"]))
    seeds = sorted({run["seed"] for run in results["runs"]})
    return (
        f"Trained on {lengths['train_texts']:,} texts of at most {lengths['train_words']} English words, {results['runs'][0]['updates']:,} "
        f"updates, seeds {', '.join(map(str, seeds))}: sentences of the built-in grammar, one after the other. Longer texts than in "
        f"training are in italics. Means over the seeds; BLEU is sacreBLEU.\n\n{markdown_table(_HEADER, rows, left=2)}\n"
    )


def _bounds(results: Results) -> list[tuple[int, int]]:
    return [(row["shortest"], row["longest"]) for row in results["runs"][0]["classes"]]


def _of_class(results: Results, positions: str, bounds: tuple[int, int]) -> list[Row]:
    return [
        row
        for run in results["runs"]
        if run["variant"] == positions
        for row in run["classes"]
        if (row["shortest"], row["longest"]) == bounds
    ]


def _cells(name: str, bounds: tuple[int, int], own: Sequence[Row], trained: int) -> tuple[str, ...]:
    words = f"{bounds[0]} to {bounds[1]}"
    return (
        f"*{words}*" if bounds[1] > trained else words,
        name,
        f"{own[0]['texts']}",
        f"{fmean(row['bleu'] for row in own):.2f}",
        ", ".join(f"{row['bleu']:.2f}" for row in own),
        f"{fmean(row['chrf'] for row in own):.2f}",
        f"{100 * fmean(row['exact'] for row in own):.1f}",
        ", ".join(f"{100 * row['exact']:.1f}" for row in own),
        f"{100 * fmean(row['length_ratio'] for row in own):.1f}",
    )


def draw(results: Results, picture: Path) -> None:
    """BLEU and exact matches over the length, a line for each kind of positions, a thin one for each seed."""
    figure = Figure(figsize=(9.6, 3.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, key, title in zip(figure.subplots(1, 2), ("bleu", "exact"), ("BLEU", "texts translated exactly right, %"), strict=True):
        factor = 100 if key == "exact" else 1
        for name in results["variants"]:
            curves = [run["classes"] for run in results["runs"] if run["variant"] == name]
            places = [row["longest"] for row in curves[0]] if curves else []
            for curve in curves:
                axes.plot(places, [factor * row[key] for row in curve], color=_COLOURS[name], alpha=0.35, linewidth=0.9)
            means = [factor * fmean(curve[place][key] for curve in curves) for place in range(len(places))]
            axes.plot(places, means, color=_COLOURS[name], marker="o", label=name)
        axes.axvspan(0, results["lengths"]["train_words"], color="0.94", zorder=0)
        axes.set(xlim=(0, None), ylim=(0, 102), xlabel="words of the longest source of the class; grey: seen in training")
        axes.set_title(title, loc="left", fontweight="bold")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    write_png(figure, picture)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train on short texts, translate long ones: sinusoids beside learned positions.")
    add = parser.add_argument
    add("--train-words", type=int, default=Lengths.train_words, help="of the longest training text, English (default: %(default)s)")
    add("--train-texts", type=int, default=Lengths.train_texts, help="default: %(default)s")
    add("--edges", type=int, nargs="+", default=list(Lengths.edges), metavar="WORDS", help="longest text of each class of test texts")
    add("--test-texts", type=int, default=Lengths.test_texts, help="of each class (default: %(default)s)")
    add("--updates", type=int, default=3000, help="of each run (default: %(default)s)")
    add("--seeds", type=int, nargs="+", default=[1, 2])
    add("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="a setting of both models; repeatable")
    add("--output", type=Path, default=Path("runs/longer_texts"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Compare, and leave `results.json`, `table.md` and `table.png` in `a.output`."""
    lengths = Lengths(a.train_words, tuple(a.edges), a.train_texts, a.test_texts)
    recipe = write_corpus(lengths, a.updates, a.output / "corpus")
    plan = Plan(str(recipe), POSITIONS, budget_of(recipe, a.updates, a.overrides), tuple(a.seeds), a.output, tuple(a.overrides))
    results: Results = {}
    for results in compare_lengths(plan, lengths):
        write_json(plan.output / "results.json", results)
        write_text(plan.output / "table.md", table(results))
        draw(results, plan.output / "table.png")
    print(f"{table(results)}\nresults.json, table.md and table.png are in {plan.output}.")


if __name__ == "__main__":
    run(main, parse, RuntimeError)
