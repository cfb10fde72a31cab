"""A run as training and evaluation leave it, made in seconds: the model knows nothing, every other file is like a real one."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_transformer.evaluation.scores import PublishedScore, evaluate_run
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.recipe import SearchSettings, parse_recipe
from vaswani_transformer.run_folder import RunFolder

SOURCES = [f"The {size} dog sees {number} cats | *now*." for number in range(6) for size in ("small", "old")]
REFERENCES = [f"Der {size} Hund sieht {number} Katzen." for number in range(6) for size in ("kleine", "alte")]


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Not to be changed: `run` gives each test a copy of its own."""
    folder = tmp_path_factory.mktemp("finished")
    for name, side in (("en", SOURCES), ("de", REFERENCES)):
        (folder / f"text.{name}").write_text("\n".join(side) + "\n", encoding="utf-8")
    run = RunFolder(folder / "run")
    _write_recipe(run, folder)
    _write_averaged(run)
    _write_training(run)
    evaluate_run(run, published=[PublishedScore("toy_test", "A peer, 2020", "sacrebleu", 41.02)], progress=False)
    return run


@pytest.fixture
def run(finished_run: RunFolder, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(finished_run.path, tmp_path / "run"))


def _write_recipe(run: RunFolder, root: Path) -> None:
    lines = {"format": "lines", "source": "text.en", "target": "text.de"}
    recipe = {
        "name": "toy_en_de",
        "source_language": "en",
        "target_language": "de",
        "data": {
            "root": str(root),
            "licence": "cc-by-4.0",
            "train": [lines, {"format": "hub", "path": "wmt/wmt14", "name": "de-en", "split": "train"}],
            "validation": lines,
            "test": {"toy_test": lines, "toy_short": lines | {"limit": 3}},
        },
        "tokenizer": {"vocab_size": 300},
        "training": {"updates": 1200},
    }
    write_text(run.recipe, parse_recipe(recipe).to_yaml())


def _write_averaged(run: RunFolder) -> None:
    torch.manual_seed(1)
    tokenizer = train_tokenizer(SOURCES + REFERENCES, vocab_size=300)
    sizes = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **sizes, **heads))
    for name, value in dataclasses.asdict(SearchSettings(extra_length=5)).items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(run.averaged)
    tokenizer.save_pretrained(run.averaged)


def _write_training(run: RunFolder) -> None:
    dropped = {"empty_side": 2, "too_long": 1, "held_out": 12, "too_many_tokens": 3}
    hashes = {"train": {"text.en": "aa" * 32, "text.de": "bb" * 32}, "validation": {}}
    tokenizer = {"vocab_size": 300, "sha256": "cc" * 32, "source_tokens": 54_321, "target_tokens": 65_432}
    report = {"pairs_in": 4_339, "kept": 4_321, "trimmed": 7, "dropped": dropped, "text_sha256": "dd" * 32}
    write_json(run.cleaning, {**report, "file_hashes": hashes, "tokenizer": tokenizer})
    training = {
        "updates": 1200,
        "target_tokens": 7_654_321,
        "source_tokens": 6_543_210,
        "padded_tokens": 15_000_000,
        "epochs": 17.25,
        "stopped_early": True,
        "seconds": 3_725.0,
        "hardware": {"cpu": "A processor", "threads": 2, "processes": 1},
        "world_size": 1,
        "parameters": 9_999,
        "flops": 3.3e14,
        "versions": {"python": "3.11.9", "torch": "2.13.0"},
        "averaged_checkpoints": ["step-1100", "step-1200"],
    }
    write_json(run.training, training)
    with open(run.log, "w", encoding="utf-8") as log:
        for update in range(100, 1201, 100):
            train = {"kind": "train", "update": update, "loss": 3.0, "nll": 2 + 5 * math.exp(-update / 300)}
            log.write(json.dumps(train) + "\n")
            if update % 400 == 0:
                validation = {
                    "kind": "validation",
                    "update": update,
                    "nll": 2.1,
                    "bleu": update / 40,
                    "chrf": 50.0,
                }
                log.write(json.dumps(validation) + "\n")
