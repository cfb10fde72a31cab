"""Measure how fast models of different shape translate, such as 6 + 6 layers beside 10 + 1, in one run, packed for a CPU.

    python -m benchmarks.shapes docs_en_de docs_en_de_deep_8_2 docs_en_de_deep_10_1 --tokenizer FOLDER --source FILE --reference FILE
    python -m benchmarks.shapes runs/teacher/averaged runs/student/averaged --lengths own --source FILE --reference FILE
    python -m benchmarks.shapes docs_en_de docs_en_de_deep_10_1 --tokenizer FOLDER --d-model 512 --beams 4 --batch-sizes 1 \
        --engines int8 int8-shortlist ctranslate2-int8 ctranslate2-int8-shortlist --against ctranslate2-int8 --source FILE --reference FILE

A model is a folder, or a recipe: its shape with random weights. All contestants of a setting take turns in one
process; ratios refer to the first model in the same engine, or in the one of --against. Writes results.json, table.md and results.png into
--output.
"""

import argparse
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from benchmarks.chart import Panel
from benchmarks.command_line import run
from benchmarks.interleaved import Ratio, cpu_ratios, interleave, wall_ratios
from benchmarks.machine import circumstances
from benchmarks.report import Results, Row, grouped, markdown_table, on_what, ratio_cell, speed_row, write_files
from benchmarks.translation.contestant import Contestant
from benchmarks.translation.contestants import EXTRA_LENGTH, as_power
from benchmarks.translation.generating_contestant import load
from benchmarks.translation.measurement import Lengths, Material, ParallelFiles, read_material, translate_batches
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.shipped_recipes import find_recipe
from vaswani_transformer.shortlist import SHORTLIST_FILE
from vaswani_transformer.training.checkpoints import set_search

ENGINES = {
    "float32": "ours float32",
    "bfloat16": "ours bfloat16",
    "int8": "ours int8",
    "int8-shortlist": "ours int8, shortlist",
    "ctranslate2-int8": "CTranslate2 int8",
    "ctranslate2-int8-shortlist": "CTranslate2 int8, shortlist",
}
"""What translates, and its name in tables: ours packed in a precision, or CTranslate2; within a shortlist, where it says so."""

OURS = ("float32", "bfloat16", "int8")
"""The engines that run by default."""

_HEADER = (
    *("batch", "engine", "model", "layers", "parameters", "sentences/s", "ms of CPU a sentence"),
    *("times as fast (least-most)", "by CPU time"),
)


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        sentences: of the test set, evenly spaced; all by default.
        engines: names from `ENGINES`.
        against: the engine in which the first model is what all ratios refer to; by default each engine has its own.
        lengths: of what is timed, see `measurement.Lengths`. Random weights find no end, so they need those of the references.
        tokenizer: the folder of one, for random weights, with a shortlist if an engine needs one.
        d_model: for random weights, in place of the recipe's; inner widths and heads grow with it.
    """

    sentences: int | None = None
    batch_sizes: tuple[int, ...] = (1, 32)
    beams: tuple[int, ...] = (1,)
    engines: tuple[str, ...] = OURS
    against: str | None = None
    lengths: Lengths = "references"
    repeats: int = 5
    threads: int = 1
    tokenizer: Path | None = None
    d_model: int | None = None


@dataclass(frozen=True)
class Entrant:
    """One model: its name, its shape, the test set as its token ids, and a contestant for each engine."""

    name: str
    facts: Row
    material: Material
    contestants: dict[str, Contestant]


def benchmark_shapes(models: Sequence[str], test_set: ParallelFiles, settings: Settings) -> Iterator[Results]:
    """Measure `models`, folders or recipes.

    Yields:
        All results so far, after each setting (beams, batch size).

    Raises:
        ImportError: CTranslate2 is asked for and not installed.
        ValueError: random weights have no tokenizer or are to end by themselves, a model has no shortlist, or no engine has that name.
        FileNotFoundError: there is no such file.
    """
    for engine in (*settings.engines, *filter(None, [settings.against])):
        if engine not in (settings.engines if engine == settings.against else ENGINES):
            raise ValueError(f"There is no engine {engine!r} here; choose from {', '.join(ENGINES)}, and compare with one that runs.")
    with TemporaryDirectory() as scratch:
        entrants = [_enter(name, Path(scratch) / str(number), test_set, settings) for number, name in enumerate(models)]
    first = entrants[0].material
    results: Results = {
        **circumstances(torch.device("cpu"), [name for name in ("ctranslate2",) if any(name in engine for engine in settings.engines)]),
        "settings": {
            "threads": settings.threads,
            "repeats": settings.repeats,
            "lengths": settings.lengths,
            "against": settings.against,
        },
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
    folder = Path(name) if recipe is None else _random_weights(recipe, scratch, tokenizer, settings)
    contestants = {engine: _contestant(engine, folder, scratch.with_suffix(".export"), settings) for engine in settings.engines}
    config: Any = VaswaniConfig.from_pretrained(folder)
    sizes = ("encoder_layers", "decoder_layers", "d_model", "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size")
    facts = {
        "name": "/".join(Path(name).parts[-2:]) if recipe is None else recipe.name,
        "trained": is_trained,
        "parameters": VaswaniForConditionalGeneration(config).num_parameters(),
        **{size: getattr(config, size) for size in sizes},
    }
    return Entrant(facts["name"], facts, read_material(test_set, tokenizer), contestants)


def _contestant(engine: str, folder: Path, exported: Path, settings: Settings) -> Contestant:
    """The model in `folder` in one of `ENGINES`; CTranslate2 reads it from `exported`, which is written once."""
    within = engine.endswith("-shortlist")
    given: dict[str, Any] = {"device": "cpu", "threads": settings.threads, "extra_length": EXTRA_LENGTH, "shortlist": within}
    if not engine.startswith("ctranslate2"):
        return load(str(folder), dtype="float32", packed=engine.removesuffix("-shortlist"), **given)
    from benchmarks.translation.ctranslate2_contestant import CTranslate2Contestant  # an extra
    from vaswani_transformer.interop.ctranslate2 import VMAP
    from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

    if not exported.exists():
        export_ctranslate2(folder, exported, "int8")
    if within and not (exported / VMAP).is_file():
        raise ValueError(f"{folder} has no shortlist for {engine}; make one with vaswani shortlist.")
    search = read_json(folder / "generation_config.json")
    return CTranslate2Contestant(str(exported), length_penalty=as_power(search), **given)


def _random_weights(recipe: Recipe, folder: Path, tokenizer: PreTrainedTokenizerBase, settings: Settings) -> Path:
    """A model of the shape and with the search of `recipe`, with the tokenizer and its shortlist, as a folder."""
    torch.manual_seed(1)
    config: Any = recipe.model_config(vocab_size=len(tokenizer))
    if settings.d_model is not None:
        times = settings.d_model / config.d_model
        growing = ("d_model", "encoder_ffn_dim", "decoder_ffn_dim", "encoder_attention_heads", "decoder_attention_heads")
        wider = {size: max(1, round(getattr(config, size) * times)) for size in growing}
        config = VaswaniConfig(**{**config.to_dict(), **wider, "head_dim": None, "value_head_dim": None})
    model = VaswaniForConditionalGeneration(config)
    set_search(model, recipe.search)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert settings.tokenizer is not None
    if (own := settings.tokenizer / SHORTLIST_FILE).is_file():
        shutil.copyfile(own, folder / SHORTLIST_FILE)
    return folder


def _speed(entrants: Sequence[Entrant], beams: int, batch_size: int, settings: Settings) -> list[Row]:
    """Everybody gets the batches of the first model, as token ids of its own tokenizer."""
    batches = entrants[0].material.batches(batch_size, settings.sentences)
    runs = {}
    for engine, entrant in product(settings.engines, entrants):
        contestant = entrant.contestants[engine]
        prepared = [contestant.prepare(batch) for batch in entrant.material.ids_of(batches)]
        lengths = entrant.material.lengths_of(batches, settings.lengths)
        runs[f"{engine}/{entrant.name}"] = partial(translate_batches, contestant, prepared, beams, lengths)
    measured = interleave(runs, settings.repeats, title=f"beams {beams}, batches of {batch_size}")
    sentences = sum(map(len, batches))
    rows = []
    for engine, entrant in product(settings.engines, entrants):
        name, reference = f"{engine}/{entrant.name}", f"{settings.against or engine}/{entrants[0].name}"
        own = measured[name]
        outputs = [entrant.contestants[engine].token_ids(output) for output in own.result]
        work = {
            "sentences": sentences,
            "target_tokens": sum(len(tokens) for output in outputs for tokens in output),
            "sentences_per_second": sentences / own.median_seconds,
        }
        row = speed_row(entrant.name, own, work, wall_ratios(measured, reference)[name], cpu_ratios(measured, reference)[name])
        rows.append({"beams": beams, "batch_size": batch_size, "engine": engine, **row})
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
    """A panel for each number of beams and batch size, a colour for each engine."""
    names = [facts["name"] for facts in results["models"]]
    return [
        Panel(
            f"{'greedy' if beams == 1 else f'beam {beams}'}, batches of {batch_size}",
            names,
            {ENGINES[engine]: [Ratio(**row["ratio"]) for row in same] for (engine,), same in grouped(rows, "engine")},
        )
        for (beams, batch_size), rows in grouped(results["speed"], "beams", "batch_size")
    ]


def _cells(row: Row, shape: Row) -> tuple[str, ...]:
    speed = row["sentences_per_second"]
    return (
        str(row["batch_size"]),
        ENGINES[row["engine"]],
        row["contestant"],
        f"{shape['encoder_layers']} + {shape['decoder_layers']}",
        f"{shape['parameters']:,}",
        f"{speed:,.1f}",
        f"{1000 * row['cpu_seconds'] / row['sentences']:,.1f}",
        ratio_cell(row["ratio"]),
        f"{row['cpu_ratio']['median']:.2f}",
    )


def _caption(results: Results) -> str:
    settings, test_set = results["settings"], results["test_set"]
    random = [facts["name"] for facts in results["models"] if not facts["trained"]]
    weights = f" The weights of {', '.join(random)} are random; trained ones are not measured here." if random else ""
    lengths = (
        "All translations of a batch get as many tokens as its references have on average, so that everybody takes the same steps."
        if settings["lengths"] == "references"
        else "Each translation is as long as its search makes it."
    )
    reference = "the same engine" if settings["against"] is None else ENGINES[settings["against"]]
    return (
        f"{on_what(results)} {settings['threads']} of the cores, ours with packed weights. {test_set['name']}: "
        f"{test_set['timed_sentences']:,} of {test_set['sentences']:,} sentences, in the same batches for everybody. {lengths}{weights} "
        f"One process; medians of {settings['repeats']} rounds in turn, after one to warm up. Times as fast: against "
        f"{results['models'][0]['name']} in {reference}, within each round, by the clock and by CPU time."
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure how fast models of different shape translate.")
    add = parser.add_argument
    add("models", nargs="+", help="folders of ours, or recipes (random weights); the first is what ratios refer to")
    add("--source", required=True, help="sentences, one a line: plain, .gz or .xz")
    add("--reference", required=True, help="their translations, line by line")
    add("--name", default="test", help="of that test set (default: %(default)s)")
    add("--tokenizer", type=Path, help="the folder of one, for random weights, with a shortlist if an engine needs one")
    add("--d-model", type=int, help="for random weights; inner widths and heads grow with it (default: the recipe's)")
    add("--sentences", type=int, help="how many to time (default: all)")
    add("--batch-sizes", type=int, nargs="+", default=[1, 32])
    add("--beams", type=int, nargs="+", default=[1])
    add("--engines", nargs="+", choices=ENGINES, default=list(OURS))
    add("--against", choices=ENGINES, help="in this engine the first model is what ratios refer to (default: each engine has its own)")
    add("--lengths", choices=get_args(Lengths), default="references", help="of what is timed (default: %(default)s)")
    add("--repeats", type=int, default=5)
    add("--threads", type=int, default=1)
    add("--output", type=Path, default=Path("runs/shapes_benchmark"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Measure, and write the report after each setting."""
    names = [field.name for field in fields(Settings)]
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(a).items() if name in names}
    settings = Settings(**given)
    for results in benchmark_shapes(a.models, ParallelFiles(a.name, a.source, a.reference), settings):
        write_files(results, table(results), panels(results), f"times as fast as {results['models'][0]['name']}", a.output)
    print(f"{table(results)}\nresults.json, table.md and results.png are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
