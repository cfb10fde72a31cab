"""How fast one optimisation update is and how much memory it takes: our engine's, MarianMTModel's in a plain loop and in transformers'
trainer, side by side.

Everybody trains a model of the same sizes on the same corpus. Loops get the batches that the engine plans; the trainer makes its own. What
is counted are the target tokens that are not padding.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.interleaved import Measurement, Ratio, cpu_ratios, interleave, wall_ratios
from benchmarks.machine import circumstances, matrix_rate
from benchmarks.own_process import OwnProcess
from benchmarks.report import speed_row
from benchmarks.settings import Rounds
from benchmarks.training.contestants import KINDS, ON_CPU, ON_GPU, current_device, train_round
from benchmarks.training.work import TRAINER_SENTENCES, Work, plan_work
from vaswani_transformer.data.encoding import EncodedCorpus
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import Recipe, parse_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.precision import emulates_bfloat16
from vaswani_transformer.training.preparation import prepare_data

BPE_ENTRIES = 10_000
"""What a small corpus supports; a shape may have more rows in its embedding."""

_TRAINER_GOALS = {"trainer": 6.0, "trainer-grouped": 4.0}
_BEST_LOOP = "best-loop"


@dataclass(frozen=True)
class Shape:
    """An architecture.

    Attributes:
        model: as in a recipe, where it differs from the paper's base model.
        vocab_size: rows of the embedding.
        updates: of a round on a CPU.
        goals: how many times as fast as a contestant ours should be; "best-loop" is the fastest of the loops.
    """

    model: dict[str, Any]
    vocab_size: int
    updates: int
    goals: dict[str, float] = field(default_factory=dict)


_SMALL = {
    "d_model": 256,
    "encoder_ffn_dim": 1024,
    "decoder_ffn_dim": 1024,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}

SHAPES = {
    "tiny": Shape({"preset": "tiny"}, 10_000, 4, {"marian": 2.5, _BEST_LOOP: 1.8, **_TRAINER_GOALS}),
    "small": Shape(_SMALL, 10_000, 2, {"marian": 4.0, _BEST_LOOP: 1.7, **_TRAINER_GOALS}),
    "base": Shape({}, 37_000, 1, {"marian": 3.5, _BEST_LOOP: 1.5, **_TRAINER_GOALS}),
    "big": Shape({"preset": "big"}, 37_000, 1),
}

_UPDATES_ON_GPU, _TOKENS_ON_CPU, _TOKENS_ON_GPU = 10, 4096, 25_000


@dataclass(frozen=True)
class Settings(Rounds):
    """What to measure.

    Attributes:
        shapes: names from `SHAPES`; by default tiny, small and base, on a GPU base and big.
        threads: of PyTorch, each number in turn.
        updates: of a round; by default what the shape says, and 10 on a GPU.
        batch_tokens: most source and most target positions of a batch; by default 4,096, and 25,000 on a GPU.
        dropout: of every model.
        give_back_memory: let contestants that wait hold their weights only, where not all fit into memory otherwise. Every round then
            begins with getting memory again, so let it have several updates.
    """

    shapes: tuple[str, ...] = ()
    threads: tuple[int, ...] = (1,)
    updates: int | None = None
    batch_tokens: int | None = None
    dropout: float = 0.1
    give_back_memory: bool = False

    def __post_init__(self) -> None:
        self.check_names("shapes", SHAPES)
        self.check_names("contestants", KINDS)
        self.check_numbers("threads", "repeats", "updates", "batch_tokens")

    def recipe(self, shape: Shape, source: str, target: str, batch_tokens: int) -> Recipe:
        """What one would train `shape` with on these two files."""
        corpus = {"format": "lines", "source": source, "target": target}
        return parse_recipe({
            "name": "benchmark",
            "source_language": "en",  # whatever they are: nothing that is measured depends on it
            "target_language": "de",
            "data": {
                "train": [corpus],
                "validation": {**corpus, "limit": 1},  # nobody validates, so that nothing is held out
                "test": {},
                "cleaning": {"drop_held_out": False},
            },
            "tokenizer": {"vocab_size": BPE_ENTRIES},
            "model": {**shape.model, "dropout": self.dropout},
            "batching": {"source_tokens": batch_tokens, "target_tokens": batch_tokens, "micro_batches": 1},
            "training": {"updates": 1},
        })  # fmt: skip


def benchmark_training(source: str, target: str, settings: Settings) -> Iterator[dict[str, Any]]:
    """Measure on two line-aligned files, on the accelerator where there is one.

    Yields:
        All results so far, after each setting (shape, threads): what was measured on what, and two lists of rows, `speed` for each setting
        and contestant, and `leads` for each setting, ours against the others.

    Raises:
        FileNotFoundError: no such file.
        RuntimeError: a contestant failed.
        ValueError: the files cannot be read, or hold too few pairs; or a contestant is named whose precision this processor lacks.
    """
    device = current_device()
    on_cpu = device.type == "cpu"
    shapes = settings.shapes or (("tiny", "small", "base") if on_cpu else ("base", "big"))
    names = tuple(dict.fromkeys(settings.contestants or (ON_CPU if on_cpu else ON_GPU)))
    if emulated := [name for name in names if KINDS[name].options["precision"] == "bfloat16" and emulates_bfloat16(on_cpu)]:
        if settings.contestants:
            raise ValueError(f"This machine has no products in bfloat16; leave out {' and '.join(emulated)}.")
        names = tuple(name for name in names if name not in emulated)
    batch_tokens = settings.batch_tokens or (_TOKENS_ON_CPU if on_cpu else _TOKENS_ON_GPU)
    with TemporaryDirectory() as scratch:
        run = RunFolder(Path(scratch) / "run")
        recipes = {name: settings.recipe(SHAPES[name], source, target, batch_tokens) for name in shapes}
        corpus = prepare_data(recipes[shapes[0]], run).train
        results = _circumstances(device, settings, names, recipes, run, corpus, batch_tokens)
        for shape, recipe in recipes.items():
            updates = settings.updates or (SHAPES[shape].updates if on_cpu else _UPDATES_ON_GPU)
            batchings = {KINDS[name].batches for name in names}
            sizes = SHAPES[shape].vocab_size, updates
            planned = {batching: plan_work(batching, recipe, run, corpus, *sizes) for batching in batchings}
            works = {name: planned[KINDS[name].batches] for name in names}
            with ExitStack() as stack:
                processes = {name: OwnProcess(KINDS[name].title, KINDS[name], works[name]) for name in names}
                for process in processes.values():
                    stack.enter_context(process)
                for threads in settings.threads:
                    setting = {"shape": shape, "threads": threads}
                    runs = {
                        name: partial(process.ask, train_round, threads, settings.give_back_memory) for name, process in processes.items()
                    }
                    measured = interleave(runs, settings.repeats, title=f"{shape} ({threads} threads)")
                    rows = _speed(measured, works, _rates(results, threads), threads if on_cpu else None)
                    for row in rows:
                        row["memory"] = processes[row["contestant"]].memory()
                    results["speed"] += [setting | row for row in rows]
                    results["leads"] += [setting | lead for lead in _leads(shape, measured, works)]
                    yield results


def _speed(
    measured: dict[str, Measurement], works: dict[str, Work], rates: dict[str, float], cpu_threads: int | None
) -> list[dict[str, Any]]:
    """A row for each contestant. Where CPU threads do the work, their own time says how much they reach, whoever else is on the machine."""
    first = next(iter(measured))
    by_wall = _per_token(wall_ratios(measured), works, first)
    by_cpu = _per_token(cpu_ratios(measured), works, first)
    rows = []
    for name, own in measured.items():
        load = works[name].load
        busy = own.median_cpu_seconds / cpu_threads if cpu_threads else own.median_seconds
        work = {
            "updates": len(works[name].batches),
            "pairs": load.pairs,
            "target_tokens": load.target_tokens,
            "padding_share": 1 - load.target_tokens / load.padded_target_tokens,
            "flops": load.flops,
            "share_of_matrix_rate": load.flops / busy / rates[KINDS[name].options["precision"]],
        }
        rows.append(speed_row(name, own, work, by_wall[name], by_cpu[name]))
    return rows


def _leads(shape: str, measured: dict[str, Measurement], works: dict[str, Work]) -> list[dict[str, Any]]:
    """The fastest of ours against the others that a goal names, each within its rounds."""

    def seconds_a_token(name: str) -> float:
        return measured[name].median_seconds / works[name].load.target_tokens

    ours = min((name for name in measured if KINDS[name].is_ours), key=seconds_a_token, default=None)
    best_loop = min((name for name in measured if KINDS[name].is_loop), key=seconds_a_token, default=None)
    rows = []
    for against in ("marian", _BEST_LOOP, *_TRAINER_GOALS):
        other = best_loop if against == _BEST_LOOP else against
        if ours is None or other is None or other not in measured:
            continue
        row: dict[str, Any] = {"contestant": ours, "against": other, "as": against}
        row |= {"ratio": _per_token(wall_ratios(measured, other), works, other)[ours]._asdict()}
        row |= {"cpu_ratio": _per_token(cpu_ratios(measured, other), works, other)[ours]._asdict()}
        rows.append(row | {"goal": SHAPES[shape].goals.get(against)})
    return rows


def _per_token(ratios: dict[str, Ratio], works: dict[str, Work], reference: str) -> dict[str, Ratio]:
    """Of rounds, as ratios of the time for a token."""
    tokens = works[reference].load.target_tokens
    return {name: Ratio(*(value * works[name].load.target_tokens / tokens for value in ratio)) for name, ratio in ratios.items()}


def _rates(results: dict[str, Any], threads: int) -> dict[str, float]:
    """Of products of matrices in each precision, measured once for each number of threads."""
    key = str(threads)
    if key not in results["matrix_rates"]:
        results["matrix_rates"][key] = {
            precision: matrix_rate(current_device(), getattr(torch, precision), threads) for precision in ("float32", "bfloat16")
        }
    rates: dict[str, float] = results["matrix_rates"][key]
    return rates


def _circumstances(
    device: torch.device,
    settings: Settings,
    names: Sequence[str],
    recipes: dict[str, Recipe],
    run: RunFolder,
    corpus: EncodedCorpus,
    batch_tokens: int,
) -> dict[str, Any]:
    """All but the rows."""
    sizes = ("encoder_layers", "decoder_layers", "d_model", "encoder_ffn_dim", "encoder_attention_heads")
    hashes = read_json(run.cleaning)["file_hashes"]["train"]
    configs = {name: recipe.model_config(vocab_size=SHAPES[name].vocab_size) for name, recipe in recipes.items()}
    return {
        **circumstances(device),
        "settings": {
            "device": device.type,
            "repeats": settings.repeats,
            "batch_tokens": batch_tokens,
            "trainer_sentences": TRAINER_SENTENCES,
            "dropout": settings.dropout,
            "give_back_memory": settings.give_back_memory,
            "label_smoothing": next(iter(recipes.values())).training.label_smoothing,
        },
        "shapes": {name: {size: getattr(config, size) for size in (*sizes, "vocab_size")} for name, config in configs.items()},
        "contestants": {name: KINDS[name].title for name in names},
        "corpus": {
            "sha256": {Path(name).name: digest for name, digest in hashes.items()},
            "pairs": len(corpus),
            "source_tokens": corpus.index["source_tokens"],
            "target_tokens": corpus.index["target_tokens"],
        },
        "matrix_rates": {},
        "speed": [],
        "leads": [],
    }
