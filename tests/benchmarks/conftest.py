"""A checkpoint of ours that knows nothing, two line-aligned files, and results as a benchmark leaves them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from benchmarks.training.measurement import Settings, Shape
from benchmarks.training.work import Batching, Work, plan_work
from benchmarks.translation.measurement import ParallelFiles
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.data.encoding import EncodedCorpus
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.preparation import prepare_data


@pytest.fixture(scope="session")
def checkpoint(tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the end within reach, and sure enough of itself that rounding turns no choice."""
    torch.manual_seed(1)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config)
    with torch.no_grad():
        last = model.model.decoder.layers[-1].final_layer_norm
        last.weight *= 3
        last.bias += 0.3 * model.lm_head.weight[2] * config.d_model**0.5
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1}
    model.generation_config = GenerationConfig(**{**PAPER_SEARCH, "extra_length": 6}, **ids)
    folder = tmp_path_factory.mktemp("run") / "averaged"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def files(sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> ParallelFiles:
    """Eight lines, two of them blank."""
    folder = tmp_path_factory.mktemp("text")
    for language in ("en", "de"):
        (folder / f"tiny.{language}").write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
    return ParallelFiles("tiny", str(folder / "tiny.en"), str(folder / "tiny.de"))


def _speed(beams: int, batch_size: int, contestant: str, seconds: float, ratio: float) -> dict[str, Any]:
    memory = {"peak_bytes": 300 * 2**20, "imports_bytes": 200 * 2**20}
    return {
        "test_set": "tiny", "beams": beams, "lengths": "own", "batch_size": batch_size, "contestant": contestant, "seconds": seconds,
        "cpu_seconds": seconds, "sentences": 6, "target_tokens": 6000, "sentences_per_second": 6 / seconds,
        "target_tokens_per_second": 6000 / seconds, "ratio": {"median": ratio, "low": ratio - 0.25, "high": ratio + 0.5},
        "cpu_ratio": {"median": ratio + 0.125, "low": ratio, "high": ratio + 0.25}, "memory": memory,
        "all_seconds": [seconds], "all_cpu_seconds": [seconds],
    }  # fmt: skip


@pytest.fixture
def results() -> dict[str, Any]:
    """Two contestants, beam 4 in batches of 1 and 8, and greedy in batches of 8."""
    settings = [(4, 1), (4, 8), (1, 8)]
    speed = [
        _speed(beams, size, name, seconds, ratio)
        for beams, size in settings
        for name, seconds, ratio in [("marian", 4.0, 1.0), ("ours", 1.5, 2.5)]
    ]
    quality: list[dict[str, Any]] = [
        {"test_set": "tiny", "beams": beams, "contestant": name, "bleu": 33.456, "signature": "tok:13a", "share_as_ours": share}
        for beams in (4, 1)
        for name, share in [("marian", 0.9876), ("ours", 1.0)]
    ]  # fmt: skip
    sizes = ("d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "vocab_size")
    return {
        "model": "run/averaged",
        "architecture": dict.fromkeys(sizes, 1000),
        "date": "2026-11-21T12:00:00+00:00",
        "machine": {"cpu": "a CPU", "threads": 1, "cores": 2, "instructions": ["avx2"], "load_average": 0.5},
        "versions": {"torch": "2.13.0"},
        "settings": {"device": "cpu", "threads": 1, "repeats": 5, "quality_batch_size": 8},
        "contestants": {"marian": "MarianMTModel float32", "ours": "ours float32"},
        "test_sets": [{"name": "tiny", "sentences": 8, "timed_sentences": 6}],
        "quality": quality,
        "speed": speed,
    }


@pytest.fixture(scope="session")
def little() -> Shape:
    """Of 16 dimensions."""
    layers = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return Shape({**layers, **heads}, vocab_size=10_000, updates=1, goals={"marian": 2.5, "best-loop": 1.5})


@pytest.fixture(scope="session")
def parallel_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """1,500 generated pairs: eleven batches of transformers' trainer."""
    folder = tmp_path_factory.mktemp("corpus")
    for side, lines in zip(("en", "de"), zip(*builtin_pairs("train", 1500), strict=True), strict=True):
        (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / "train.en"), str(folder / "train.de")


@pytest.fixture(scope="session")
def benchmark_run(
    parallel_files: tuple[str, str], little: Shape, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunFolder, EncodedCorpus]:
    """These files as a training prepares them."""
    run = RunFolder(tmp_path_factory.mktemp("prepared") / "run")
    return run, prepare_data(Settings().recipe(little, *parallel_files, 512), run).train


@pytest.fixture
def make_work(parallel_files: tuple[str, str], little: Shape, benchmark_run: tuple[RunFolder, EncodedCorpus]) -> Callable[..., Work]:
    """A round of so many updates of a little model."""

    def make(batching: Batching, updates: int, dropout: float = 0.1) -> Work:
        recipe = Settings(dropout=dropout).recipe(little, *parallel_files, 512)
        return plan_work(batching, recipe, *benchmark_run, little.vocab_size, updates)

    return make
