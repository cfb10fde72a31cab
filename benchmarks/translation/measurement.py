"""How fast a checkpoint translates, in how much memory and how well: in PyTorch, as a Marian model and in CTranslate2, side by side.

Everybody gets the same weights and the same sentences in the same batches, sorted by length. Tokenising, padding, naming tokens and
detokenising are outside of what is timed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import torch
from tqdm.auto import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from benchmarks.interleaved import cpu_ratios, interleave, wall_ratios
from benchmarks.machine import circumstances
from benchmarks.own_process import OwnProcess
from benchmarks.report import speed_row
from benchmarks.settings import Rounds
from benchmarks.translation.contestant import Contestant, translate_all
from benchmarks.translation.contestants import ON_CPU, ON_GPU, STANDARD, Entry, enter
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.evaluation.scores import spread_evenly, text_sha256
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.translation.loading import folder_sha256, local_folder

_ENGINES = ("ctranslate2", "sacrebleu")

Batches = list[list[int]]
"""Numbers of the sentences of each batch."""

Lengths = Literal["own", "references"]
"""How long what is timed gets: as each search ends it, or all of a batch as its references are on average, so that everybody takes the
same steps."""


@dataclass(frozen=True)
class ParallelFiles:
    """A test set: two line-aligned files, plain, .gz or .xz."""

    name: str
    source: str
    reference: str


@dataclass(frozen=True)
class Settings(Rounds):
    """What to measure.

    Attributes:
        sentences: how many of each test set to time, evenly spaced through the file; all by default. BLEU is of all, always.
        threads: of each contestant.
        lengths: see `Lengths`. BLEU is always of translations that end by themselves.
        device: "cpu" or "cuda"; by default the second where there is one.
        target_language: code; chooses sacreBLEU's tokeniser.
        memory: start every contestant alone, too, and see how much memory it takes, with translations that end by themselves.
    """

    sentences: int | None = None
    batch_sizes: tuple[int, ...] = (1, 32)
    beams: tuple[int, ...] = (4, 1)
    lengths: tuple[Lengths, ...] = ("own",)
    threads: int = 1
    device: str | None = None
    target_language: str = "de"
    memory: bool = True

    def __post_init__(self) -> None:
        self.check_numbers("sentences", "batch_sizes", "beams", "repeats", "threads")
        unknown = set(self.lengths) - set(get_args(Lengths))
        if unknown or not self.lengths or len(set(self.lengths)) < len(self.lengths):
            raise ValueError(f"`lengths` is {self.lengths}; name {' or '.join(get_args(Lengths))}, or both, each once.")


@dataclass(frozen=True)
class Material:
    """A test set as token ids, the end of each sentence among them; a blank sentence has none and is not asked for."""

    name: str
    sources: list[list[int]]
    references: list[str]
    reference_lengths: list[int]
    facts: dict[str, Any]

    def batches(self, size: int, sentences: int | None = None) -> Batches:
        """Some sentences or all, longest first, `size` to a batch."""
        asked = [number for number, ids in enumerate(self.sources) if ids]
        if sentences is not None:
            asked = [asked[position] for position in spread_evenly(len(asked), sentences)]
        asked.sort(key=lambda number: -len(self.sources[number]))
        return [asked[start : start + size] for start in range(0, len(asked), size)]

    def ids_of(self, batches: Batches) -> list[list[list[int]]]:
        return [[self.sources[number] for number in batch] for batch in batches]

    def lengths_of(self, batches: Batches, lengths: Lengths) -> list[int | None]:
        """How many tokens the translations of each batch shall have."""
        if lengths == "own":
            return [None] * len(batches)
        return [max(1, round(mean(self.reference_lengths[number] for number in batch))) for batch in batches]


def benchmark_translation(model_name: str, test_sets: Sequence[ParallelFiles], settings: Settings) -> Iterator[dict[str, Any]]:
    """Measure a checkpoint of ours.

    Yields:
        All results so far, after each setting (test set, beams, batch size), so that whoever stops a long run keeps what it has found:
        what was measured on what (`model`, `machine`, `versions`, `settings`, `contestants`, `test_sets`, ...), and two lists of rows,
        `quality` for each test set, number of beams and contestant, and `speed` for each batch size, too.

    Raises:
        FileNotFoundError: no such model or file.
        ImportError: CTranslate2 is asked for and not installed.
        ValueError: a contestant that is not there or cannot be, a checkpoint that is not ours, or a test set that cannot be read.
    """
    if len({test_set.name for test_set in test_sets}) < len(test_sets):
        raise ValueError("Two test sets have the same name; give each its own.")
    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    used = None if device == "cpu" else _device_bytes_used
    names = settings.contestants or (ON_CPU if device == "cpu" else ON_GPU)
    folder = local_folder(model_name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    materials = [read_material(test_set, tokenizer) for test_set in test_sets]
    with TemporaryDirectory() as scratch:
        entries = enter(names, folder, Path(scratch), device=device, threads=settings.threads)
        contestants = {entry.name: entry.load() for entry in entries}
        results = _circumstances(model_name, folder, entries, materials, device, settings)
        for material in materials:
            for beams in settings.beams:
                results["quality"] += _quality(contestants, material, beams, tokenizer, settings)
                for lengths, batch_size in product(settings.lengths, settings.batch_sizes):
                    batches = material.batches(batch_size, settings.sentences)
                    rows = _speed(contestants, material, batches, beams, lengths, settings)
                    if settings.memory and lengths == settings.lengths[0]:
                        for row, entry in zip(rows, entries, strict=True):
                            row["memory"] = peak_memory(entry, material.ids_of(batches), beams, device_bytes_used=used)
                    setting = {"test_set": material.name, "beams": beams, "lengths": lengths}
                    setting["batch_size"] = batch_size
                    results["speed"] += [setting | row for row in rows]
                    yield results


def read_material(test_set: ParallelFiles, tokenizer: PreTrainedTokenizerBase) -> Material:
    pairs = list(LinesCorpus(source=test_set.source, target=test_set.reference).pairs(Path(), ("", "")))
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    ids = tokenizer(sources)["input_ids"]
    ids = [tokens if source.strip() else [] for tokens, source in zip(ids, sources, strict=True)]
    if not any(ids):
        raise ValueError(f"{test_set.source} has no line with text to translate.")
    facts = {
        "name": test_set.name,
        "source": Path(test_set.source).name,
        "reference": Path(test_set.reference).name,
        "source_sha256": text_sha256(sources),
        "reference_sha256": text_sha256(references),
        "sentences": len(pairs),
        "source_tokens": sum(map(len, ids)),
    }
    reference_lengths = [len(tokens) for tokens in tokenizer(text_target=references)["input_ids"]]
    return Material(test_set.name, ids, references, reference_lengths, facts)


def _quality(
    contestants: Mapping[str, Contestant],
    material: Material,
    beams: int,
    tokenizer: PreTrainedTokenizerBase,
    settings: Settings,
) -> list[dict[str, Any]]:
    """One pass over all sentences in the largest batches."""
    batches = material.batches(max(settings.batch_sizes))
    found = {}
    title = f"{material.name}, beam {beams}: BLEU"
    for name, contestant in tqdm(contestants.items(), desc=title, unit="contestant", leave=False):
        hypotheses: list[list[int]] = [[] for _ in material.sources]
        for batch, ids in zip(batches, material.ids_of(batches), strict=True):
            output = contestant.token_ids(contestant.translate(contestant.prepare(ids), beams))
            for number, tokens in zip(batch, output, strict=True):
                hypotheses[number] = tokens
        found[name] = hypotheses
    rows = []
    for name, hypotheses in found.items():
        texts = tokenizer.batch_decode(hypotheses, skip_special_tokens=True)
        bleu = score(texts, material.references, target_language=settings.target_language, tokenized=False)
        row: dict[str, Any] = {"test_set": material.name, "beams": beams, "contestant": name}
        row |= {"bleu": bleu["sacrebleu"].score, "signature": bleu["sacrebleu"].signature}
        if STANDARD in found:
            same = sum(a == b for a, b in zip(hypotheses, found[STANDARD], strict=True))
            row["share_as_ours"] = same / len(hypotheses)
        rows.append(row)
    return rows


def _speed(
    contestants: Mapping[str, Contestant],
    material: Material,
    batches: Batches,
    beams: int,
    lengths: Lengths,
    settings: Settings,
) -> list[dict[str, Any]]:
    ids, wanted = material.ids_of(batches), material.lengths_of(batches, lengths)
    runs = {
        name: partial(translate_batches, contestant, [contestant.prepare(batch) for batch in ids], beams, wanted)
        for name, contestant in contestants.items()
    }
    title = f"{material.name}, beam {beams}, lengths: {lengths}, batches of {len(batches[0])}"
    measured = interleave(runs, settings.repeats, title=title)
    by_wall, by_cpu = wall_ratios(measured), cpu_ratios(measured)
    sentences = sum(map(len, batches))
    rows = []
    for name, own in measured.items():
        outputs = [contestants[name].token_ids(output) for output in own.result]
        target_tokens = sum(len(tokens) for output in outputs for tokens in output)
        work = {"sentences": sentences, "target_tokens": target_tokens, "sentences_per_second": sentences / own.median_seconds}
        rows.append(speed_row(name, own, work, by_wall[name], by_cpu[name]))
    return rows


def translate_batches(contestant: Contestant, batches: list[Any], beams: int, lengths: list[int | None]) -> list[Any]:
    return [contestant.translate(batch, beams, length) for batch, length in zip(batches, lengths, strict=True)]


def peak_memory(
    entry: Entry, batches: list[list[list[int]]], beams: int, *, device_bytes_used: Callable[[], int] | None = None
) -> dict[str, int | None]:
    """Load a contestant and translate in a process that does nothing else.

    Args:
        entry: the contestant.
        batches: token ids of the sentences of each batch.
        beams: of the search.
        device_bytes_used: tells how much of an accelerator's memory is taken, by whomever; it is looked at while the process runs.

    Returns:
        `peak_bytes` and of it `imports_bytes`, as `OwnProcess.memory` has them; with `device_bytes_used` also `device_peak_bytes`, what was
        taken above the use before.

    Raises:
        RuntimeError: the process failed; its own words are in the sentence.
    """
    if device_bytes_used is None:
        with OwnProcess(entry.title, entry.build) as process:
            process.ask(translate_all, batches, beams)
            return process.memory()
    looks = [device_bytes_used()]
    with OwnProcess(entry.title, entry.build, meanwhile=lambda: looks.append(device_bytes_used())) as process:
        process.ask(translate_all, batches, beams)
        return process.memory() | {"device_peak_bytes": max(looks) - looks[0]}


def _device_bytes_used() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


def _circumstances(
    model_name: str,
    folder: Path,
    entries: Sequence[Entry],
    materials: Sequence[Material],
    device: str,
    settings: Settings,
) -> dict[str, Any]:
    """All but the rows."""
    config = read_json(folder / "config.json")
    sizes = ("d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "vocab_size")
    hashes = folder_sha256(folder)
    return {
        "model": "/".join(folder.parts[-2:]) if Path(model_name).is_dir() else model_name,
        "weights_sha256": {name: digest for name, digest in hashes.items() if name.endswith(".safetensors")},
        "architecture": {name: config[name] for name in sizes},
        **circumstances(torch.device(device), _ENGINES),
        "settings": {
            "device": device,
            "threads": settings.threads,
            "repeats": settings.repeats,
            "quality_batch_size": max(settings.batch_sizes),
        },
        "contestants": {entry.name: entry.title for entry in entries},
        "test_sets": [
            material.facts
            | {"timed_sentences": sum(map(len, material.batches(1, settings.sentences)))}
            | {"median_source_tokens": median(map(len, material.sources))}
            for material in materials
        ],
        "quality": [],
        "speed": [],
    }
