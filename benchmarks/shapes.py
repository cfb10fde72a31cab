"""Measure how fast models of different shape translate, such as 6 + 6 layers beside 10 + 1, in one run, packed for a CPU.

    python -m benchmarks.shapes docs_en_de docs_en_de_deep_8_2 docs_en_de_deep_10_1 --tokenizer FOLDER --source FILE --reference FILE
    python -m benchmarks.shapes runs/teacher/averaged runs/student/averaged --lengths own --source FILE --reference FILE

A model is a folder, or a recipe: its shape with random weights, which cost the same a step. All contestants of a setting take turns in one
process; ratios refer to the first model in the same precision. Writes results.json, table.md and results.png into --output.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from benchmarks.chart import Panel
from benchmarks.interleaved import Ratio, cpu_ratios, interleave, wall_ratios
from benchmarks.machine import circumstances
from benchmarks.report import Results, Row, grouped, markdown_table, on_what, ratio_cell, speed_row, write_files
from benchmarks.translation.contestants import EXTRA_LENGTH
from benchmarks.translation.generating_contestant import GeneratingContestant, load
from benchmarks.translation.measurement import Lengths, Material, ParallelFiles, read_material, translate_batches
from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.shipped_recipes import find_recipe

PRECISIONS = ("float32", "bfloat16", "int8")
_HEADER = (
    *("batch", "precision", "model", "layers", "parameters", "sentences/s", "ms a sentence"),
    *("times as fast (least-most)", "by CPU time"),
)


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        sentences: of the test set, evenly spaced; all by default.
        lengths: of what is timed, see `measurement.Lengths`. Random weights find no end, so they need those of the references.
        tokenizer: the folder of one, for random weights.
    """

    sentences: int | None = None
    batch_sizes: tuple[int, ...] = (1, 32)
    beams: tuple[int, ...] = (1,)
    precisions: tuple[str, ...] = PRECISIONS
    lengths: Lengths = "references"
    repeats: int = 5
    threads: int = 1
    tokenizer: Path | None = None


@dataclass(frozen=True)
class Entrant:
    """One model: its name, its shape, the test set as its token ids, and a contestant for each precision."""

    name: str
    facts: Row
    material: Material
    contestants: dict[str, GeneratingContestant]


def benchmark_shapes(models: Sequence[str], test_set: ParallelFiles, settings: Settings) -> Iterator[Results]:
    """Measure `models`, folders or recipes.

    Yields:
        All results so far, after each setting (beams, batch size).

    Raises:
        ValueError: random weights have no tokenizer or are to end by themselves.
        FileNotFoundError: there is no such file.
    """
    with TemporaryDirectory() as scratch:
        entrants = [_enter(name, Path(scratch) / str(number), test_set, settings) for number, name in enumerate(models)]
    first = entrants[0].material
    results: Results = {
        **circumstances(torch.device("cpu")),
        "settings": {"threads": settings.threads, "repeats": settings.repeats, "lengths": settings.lengths},
        "models": [entrant.facts for entrant in entrants],
        "test_set": first.facts | {"timed_sentences": sum(map(len, first.batches(1, settings.sentences)))},
        "speed": [],
    }
    for beams, batch_size in product(settings.beams, settings.batch_sizes):
        results["speed"] += _speed(entrants, beams, batch_size, settings)
        yield results


def _enter(name: str, scratch: Path, test_set: ParallelFiles, settings: Settings) -> Entrant:
    is_trained = (Path(name) / "config.json").is_file()
    if not is_trained and (settings.tokenizer is None or settings.lengths == "own"):
        raise ValueError(f"{name} is a recipe, so its weights are random: give --tokenizer, and --lengths references.")
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name if is_trained else settings.tokenizer)
    recipe = None if is_trained else load_recipe(find_recipe(name))
    folder = Path(name) if recipe is None else _random_weights(recipe, scratch, len(tokenizer))
    build = partial(load, str(folder), device="cpu", threads=settings.threads, extra_length=EXTRA_LENGTH, dtype="float32")
    contestants = {precision: build(packed=precision) for precision in settings.precisions}
    model = contestants[settings.precisions[0]].model
    sizes = ("encoder_layers", "decoder_layers", "d_model", "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size")
    facts = {
        "name": "/".join(Path(name).parts[-2:]) if recipe is None else recipe.name,
        "trained": is_trained,
        "parameters": VaswaniForConditionalGeneration(model.config).num_parameters(),
        **{size: getattr(model.config, size) for size in sizes},
    }
    return Entrant(facts["name"], facts, read_material(test_set, tokenizer), contestants)


def _random_weights(recipe: Recipe, folder: Path, vocab_size: int) -> Path:
    torch.manual_seed(1)
    VaswaniForConditionalGeneration(recipe.model_config(vocab_size=vocab_size)).save_pretrained(folder)
    return folder


def _speed(entrants: Sequence[Entrant], beams: int, batch_size: int, settings: Settings) -> list[Row]:
    """Everybody gets the batches of the first model, as token ids of its own tokenizer."""
    batches = entrants[0].material.batches(batch_size, settings.sentences)
    runs = {}
    for precision, entrant in product(settings.precisions, entrants):
        contestant = entrant.contestants[precision]
        prepared = [contestant.prepare(batch) for batch in entrant.material.ids_of(batches)]
        lengths = entrant.material.lengths_of(batches, settings.lengths)
        runs[f"{precision}/{entrant.name}"] = partial(translate_batches, contestant, prepared, beams, lengths)
    measured = interleave(runs, settings.repeats, title=f"beams {beams}, batches of {batch_size}")
    sentences = sum(map(len, batches))
    rows = []
    for precision, entrant in product(settings.precisions, entrants):
        name, reference = (f"{precision}/{each.name}" for each in (entrant, entrants[0]))
        own = measured[name]
        outputs = [entrant.contestants[precision].token_ids(output) for output in own.result]
        work = {
            "sentences": sentences,
            "target_tokens": sum(len(tokens) for output in outputs for tokens in output),
            "sentences_per_second": sentences / own.median_seconds,
        }
        row = speed_row(entrant.name, own, work, wall_ratios(measured, reference)[name], cpu_ratios(measured, reference)[name])
        rows.append({"beams": beams, "batch_size": batch_size, "precision": precision, **row})
    return rows


def table(results: Results) -> str:
    """Markdown: what was measured how, and a table for each number of beams."""
    shapes = {facts["name"]: facts for facts in results["models"]}
    parts = [_caption(results)]
    for (beams,), rows in grouped(results["speed"], "beams"):
        cells = [_cells(row, shapes[row["contestant"]]) for row in rows]
        parts.append(f"**{'greedy' if beams == 1 else f'beam {beams}'}**\n\n{markdown_table(_HEADER, cells, left=4)}")
    return "\n\n".join(parts) + "\n"


def panels(results: Results) -> list[Panel]:
    """A panel for each number of beams and batch size, a colour for each precision."""
    names = [facts["name"] for facts in results["models"]]
    return [
        Panel(
            f"{'greedy' if beams == 1 else f'beam {beams}'}, batches of {batch_size}",
            names,
            {precision: [Ratio(**row["ratio"]) for row in same] for (precision,), same in grouped(rows, "precision")},
        )
        for (beams, batch_size), rows in grouped(results["speed"], "beams", "batch_size")
    ]


def _cells(row: Row, shape: Row) -> tuple[str, ...]:
    speed = row["sentences_per_second"]
    return (
        str(row["batch_size"]),
        row["precision"],
        row["contestant"],
        f"{shape['encoder_layers']} + {shape['decoder_layers']}",
        f"{shape['parameters']:,}",
        f"{speed:,.1f}",
        f"{1000 / speed:,.1f}",
        ratio_cell(row["ratio"]),
        f"{row['cpu_ratio']['median']:.2f}",
    )


def _caption(results: Results) -> str:
    settings, test_set = results["settings"], results["test_set"]
    random = [facts["name"] for facts in results["models"] if not facts["trained"]]
    weights = f" The weights of {', '.join(random)} are random, which changes nothing in the time of a step." if random else ""
    lengths = (
        "All translations of a batch get as many tokens as its references have on average, so that everybody takes the same steps."
        if settings["lengths"] == "references"
        else "Each translation is as long as its search makes it."
    )
    return (
        f"{on_what(results)} {settings['threads']} of the cores, packed weights. {test_set['name']}: {test_set['timed_sentences']:,} of "
        f"{test_set['sentences']:,} sentences, in the same batches for everybody. {lengths}{weights} One process; medians of "
        f"{settings['repeats']} rounds in turn, after one to warm up. Times as fast: against {results['models'][0]['name']} in the same "
        "precision, within each round, by the clock and by CPU time."
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure how fast models of different shape translate.")
    add = parser.add_argument
    add("models", nargs="+", help="folders of ours, or recipes (random weights); the first is what ratios refer to")
    add("--source", required=True, help="sentences, one a line: plain, .gz or .xz")
    add("--reference", required=True, help="their translations, line by line")
    add("--name", default="test", help="of that test set (default: %(default)s)")
    add("--tokenizer", type=Path, help="the folder of one, for random weights")
    add("--sentences", type=int, help="how many to time (default: all)")
    add("--batch-sizes", type=int, nargs="+", default=[1, 32])
    add("--beams", type=int, nargs="+", default=[1])
    add("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    add("--lengths", choices=get_args(Lengths), default="references", help="of what is timed (default: %(default)s)")
    add("--repeats", type=int, default=5)
    add("--threads", type=int, default=1)
    add("--output", type=Path, default=Path("runs/shapes_benchmark"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Measure, and write the report after each setting."""
    settings = Settings(
        a.sentences, tuple(a.batch_sizes), tuple(a.beams), tuple(a.precisions), a.lengths, a.repeats, a.threads, a.tokenizer
    )
    for results in benchmark_shapes(a.models, ParallelFiles(a.name, a.source, a.reference), settings):
        write_files(results, table(results), panels(results), f"times as fast as {results['models'][0]['name']}", a.output)
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    try:
        main(parse())
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
