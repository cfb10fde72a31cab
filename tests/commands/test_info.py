"""`vaswani info` tells what a report of a problem needs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.modeling_tasks import VaswaniEncoderModel, VaswaniForMaskedLM, VaswaniForSequenceClassification
from vaswani_transformer.modeling_vaswani import VaswaniPreTrainedModel
from vaswani_transformer.training.cost import training_flops
from vaswani_transformer.training.memory_cost import parameters, training_memory


def told(**environment: str) -> dict[str, str]:
    shown = CliRunner().invoke(app, ["info"], env=environment)
    assert shown.exit_code == 0, shown.output
    return {line[:20].strip(): line[21:] for line in shown.stdout.splitlines()}


def test_versions_devices_and_what_will_be_used() -> None:
    facts = told(VASWANI_CACHE="elsewhere", OMP_NUM_THREADS="1")
    assert facts["torch"] == torch.__version__
    assert f"PyTorch takes {torch.get_num_threads()} threads" in facts["cores and threads"]
    assert facts["prepared data in"] == "elsewhere/vaswani_transformer"
    assert "OMP_NUM_THREADS=1" in facts["variables"]
    if not torch.accelerator.is_available():
        assert facts["GPUs"] == "none" and facts["train on"].startswith("cpu")
        assert "--dtype may be float32" in facts["translate on"]
    assert told(VASWANI_CACHE="off")["prepared data in"] == "no cache"


def test_a_type_that_cannot_be_packed_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.accelerator.is_available():
        pytest.skip("weights are packed on a CPU only")
    for module in ("packing", "training.precision"):
        monkeypatch.setattr(f"vaswani_transformer.{module}.has_bfloat16", lambda: False)
    facts = told()
    assert facts["bfloat16 (oneDNN)"] == "no"
    assert "bfloat16" not in facts["translate on"]
    assert facts["train on"].endswith("float32, bfloat16 (computed in float32 here)")


def test_the_cost_of_a_model_at_a_length() -> None:
    shown = CliRunner().invoke(app, ["info", "--model", "base", "--length", "4096"])
    assert shown.exit_code == 0, shown.output
    facts = {line[:20].strip(): line[21:] for line in shown.stdout.splitlines()}
    assert facts["lengths"].startswith("1 x 4,096 source")
    config = VaswaniConfig.from_preset("base")
    assert f"{parameters(config):,} parameters" in facts["model"]
    assert f"{training_flops(config, 1, 4096, 4096, 4096):.3g}" in facts["train: FLOPs"]
    kept = training_memory(config, 1, 4096, 4096)
    assert f"kept {kept.states / 2**30:.2f}" in facts["train: memory"]
    assert float(facts["train: memory"].split()[0]) >= round(kept.total / 2**30, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attention_window": 9}, "over the whole sequence"),
        ({"attention_score": "additive"}, "over the whole sequence"),
        ({"parallel_heads": 3}, "parallel heads"),
    ],
)
def test_operations_are_told_where_memory_cannot_be(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    config = VaswaniConfig.from_preset("tiny", vocab_size=300, **changes)
    config.save_pretrained(tmp_path)
    asked = ["info", "--model", str(tmp_path), "--length", "40"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    facts = {line[:20].strip(): line[21:] for line in shown.stdout.splitlines()}
    assert facts["train: FLOPs"].startswith(f"{training_flops(config, 1, 40, 40, 40):.3g} ")
    assert facts["memory"].startswith("not predicted.") and words in facts["memory"]
    assert "24 GiB train to" not in facts
    measured = CliRunner().invoke(app, [*asked, "--seconds"])
    assert measured.exit_code != 0 and words in measured.stderr


def test_seconds_are_predicted_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaswani_transformer.training.time_cost.predicted_seconds", lambda config, *numbers: (numbers[0] / 7, 2.5))
    shown = CliRunner().invoke(app, ["info", "--model", "tiny", "--length", "70", "--seconds"])
    assert shown.exit_code == 0, shown.output
    facts = {line[:20].strip(): line[21:] for line in shown.stdout.splitlines()}
    assert facts["train: seconds"] == "10 an update"
    assert facts["translate: seconds"].startswith(
        f"2.5, both with as many threads of PyTorch as this process has ({torch.get_num_threads()})"
    )
    too_long = CliRunner().invoke(app, ["info", "--model", "base", "--length", "1000000", "--seconds"])
    assert too_long.exit_code != 0 and "ask for the cost without it" in too_long.stderr


@pytest.mark.parametrize("kind", [VaswaniForSequenceClassification, VaswaniForMaskedLM, VaswaniEncoderModel])
def test_of_an_encoder_alone_only_what_is_true_is_told(kind: type[VaswaniPreTrainedModel], tmp_path: Path) -> None:
    config = VaswaniConfig.from_preset("tiny", vocab_size=300, num_labels=7)
    model = kind(config)
    model.save_pretrained(tmp_path)
    shown = CliRunner().invoke(app, ["info", "--model", str(tmp_path), "--length", "50", "--sentences", "3"])
    assert shown.exit_code == 0, shown.output
    facts = {line[:20].strip(): line[21:] for line in shown.stdout.splitlines()}
    assert facts["model"] == f"{tmp_path}, {model.num_parameters():,} parameters, {kind.__name__}, which has no decoder"
    assert facts["lengths"] == "3 x 50 tokens, padding included"
    layer = 4 * config.d_model**2 + 2 * config.d_model * config.encoder_ffn_dim
    flops = 2 * 3 * config.encoder_layers * (50 * layer + 50**2 * 2 * config.d_model)
    assert facts["encode: FLOPs"].startswith(f"{flops:.3g},") and facts["train: FLOPs"].startswith(f"{3 * flops:.3g} ")
    assert not any(words in shown.stdout for words in ("target", "translate", "GiB"))
    timed = CliRunner().invoke(app, ["info", "--model", str(tmp_path), "--length", "50", "--seconds"])
    assert timed.exit_code == 1
    assert timed.stderr == f"error: --seconds measures a model with a decoder, and {tmp_path} is an encoder alone; leave it out.\n"
    searched = CliRunner().invoke(app, ["info", "--model", str(tmp_path), "--length", "50", "--beams", "4"])
    assert searched.exit_code == 1
    assert searched.stderr == f"error: --beams is for a model that writes text, and {tmp_path} is an encoder alone; leave it out.\n"


def test_a_learned_table_of_positions_limits_the_length(tmp_path: Path) -> None:
    positions = {"position_embedding_type": "learned", "max_position_embeddings": 64}
    VaswaniConfig.from_preset("tiny", vocab_size=300, **positions).save_pretrained(tmp_path)
    refused = CliRunner().invoke(app, ["info", "--model", str(tmp_path), "--length", "65"])
    assert refused.exit_code == 1
    assert refused.stderr == f"error: {tmp_path} has positions for 64 tokens, and --length asks for 65; ask for fewer.\n"
    shown = CliRunner().invoke(app, ["info", "--model", str(tmp_path), "--length", "64"])
    assert shown.exit_code == 0 and "24 GiB train to      64 tokens a side" in shown.stdout


def test_costs_need_a_length_and_a_model_of_ours() -> None:
    for given in (["--seconds"], ["--sentences", "1"], ["--beams", "4"]):
        no_model = CliRunner().invoke(app, ["info", *given])
        assert no_model.exit_code == 2 and f"{given[0]} needs --model and --length" in no_model.output
    alone = CliRunner().invoke(app, ["info", "--model", "base"])
    assert alone.exit_code == 2 and "belong together" in alone.output
    absent = CliRunner().invoke(app, ["info", "--length", "10"])
    assert absent.exit_code == 2


@pytest.mark.parametrize(("name", "value"), [("attention_score", "cosine"), ("attention_window", "8"), ("attention_window", 2.5)])
def test_a_setting_of_a_wrong_kind_in_config_json_is_one_sentence(name: str, value: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vaswani", name: value}), encoding="utf-8")
    shown = CliRunner().invoke(app, ["info", "--model", str(tmp_path), "--length", "5"])
    assert shown.exit_code == 1 and isinstance(shown.exception, SystemExit)
    assert shown.stderr.startswith("error: ") and name in shown.stderr and shown.stderr.count("\n") == 1


def test_the_folder_of_a_run_is_told_from_its_models(tmp_path: Path) -> None:
    VaswaniConfig.from_preset("tiny", vocab_size=300).save_pretrained(tmp_path / "averaged")
    shown = CliRunner().invoke(app, ["info", "--model", str(tmp_path), "--length", "5"])
    assert shown.exit_code == 1
    assert f"{tmp_path} is the folder of a run; give a model in it: {tmp_path}/averaged." in shown.stderr
