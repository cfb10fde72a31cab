"""The models on the encoder as one ONNX graph, for any number of texts and tokens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from typer.testing import CliRunner

from tests.test_modeling_tasks import SIZES
from vaswani_transformer import (
    VaswaniConfig,
    VaswaniEncoderModel,
    VaswaniForConditionalGeneration,
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
)
from vaswani_transformer.__main__ import app
from vaswani_transformer.interop import onnx_encoder
from vaswani_transformer.interop.onnx_encoder import MODEL, export_encoder_onnx

onnxruntime = pytest.importorskip("onnxruntime", reason="the test runs what it exports")
pytest.importorskip("onnxscript", reason="torch's exporter needs it")

LEARNED = {"position_embedding_type": "learned", "max_position_embeddings": 300}


@pytest.fixture
def saved_encoder(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> Callable[..., tuple[Path, Any]]:
    def save(kind: type[Any], **settings: Any) -> tuple[Path, Any]:
        torch.manual_seed(1)
        model = kind(VaswaniConfig(**{**SIZES, "vocab_size": len(tokenizer), **settings})).eval()
        folder = tmp_path / "model"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder, model

    return save


@pytest.mark.parametrize(
    ("kind", "settings", "names"),
    [
        (VaswaniForSequenceClassification, {}, ["logits"]),
        (VaswaniForTokenClassification, {"residual_connections": False}, ["logits"]),
        (VaswaniForQuestionAnswering, LEARNED, ["start_logits", "end_logits"]),
        (VaswaniForMaskedLM, {"attention_score": "additive"}, ["logits"]),
        (VaswaniEncoderModel, {}, ["last_hidden_state"]),
    ],
)  # fmt: skip
def test_onnx_runtime_says_the_same(
    kind: type[Any], settings: dict[str, Any], names: list[str], saved_encoder: Callable[..., tuple[Path, Any]], tmp_path: Path
) -> None:
    folder, model = saved_encoder(kind, **settings)
    out = export_encoder_onnx(folder, tmp_path / "out")
    session, tokenizer = onnxruntime.InferenceSession(out / MODEL), AutoTokenizer.from_pretrained(out)
    assert [output.name for output in session.get_outputs()] == names
    for texts in (["a"], ["a man and a dog", "two", "b " * 100]):
        inputs = dict(tokenizer(texts, padding=True, return_tensors="np"))
        with torch.no_grad():
            expected = model(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        for name, found in zip(names, session.run(None, inputs), strict=True):
            per_token = expected[name].shape[:2] == inputs["input_ids"].shape
            real = inputs["attention_mask"].astype(bool) if per_token else ...
            numpy.testing.assert_allclose(found[real], expected[name].numpy()[real], rtol=1e-4, atol=1e-5)
    assert VaswaniConfig.from_pretrained(out).id2label == model.config.id2label


def test_the_command_tells_how_to_use_it(saved_encoder: Callable[..., tuple[Path, Any]], tmp_path: Path) -> None:
    folder, _ = saved_encoder(VaswaniForSequenceClassification)
    told = CliRunner().invoke(app, ["export", str(folder), str(tmp_path / "out"), "--to", "onnx"])
    assert told.exit_code == 0, told.output
    assert f'InferenceSession("{tmp_path / "out"}/model.onnx")' in told.stdout.replace("\n", "")
    told = CliRunner().invoke(app, ["export", str(folder), str(tmp_path / "new"), "--to", "onnx", "--optimum-python", "python3"])
    assert told.exit_code == 2 and "--optimum-python is for translators" in told.stderr


def test_a_graph_that_finds_something_else_is_not_left(
    saved_encoder: Callable[..., tuple[Path, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = saved_encoder(VaswaniForSequenceClassification)
    export = torch.onnx.export

    def wrong(model: Any, *arguments: Any, **settings: Any) -> None:
        bias = model.classifier.bias.clone()
        model.classifier.bias += 0.25
        export(model, *arguments, **settings)
        model.classifier.bias.copy_(bias)

    monkeypatch.setattr(onnx_encoder.torch.onnx, "export", wrong)
    with pytest.raises(ValueError, match=r"ONNX Runtime finds other logits than the model, by 0\.25; nothing was written"):
        export_encoder_onnx(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_that_lack_the_map_make_no_graph(saved_encoder: Callable[..., tuple[Path, Any]], tmp_path: Path) -> None:
    folder, _ = saved_encoder(VaswaniForSequenceClassification)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: tensor for name, tensor in weights.items() if "classifier" not in name}, folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(ValueError, match=r"lack classifier\.bias, classifier\.weight; they are not those of its config\.json"):
        export_encoder_onnx(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_window_is_refused(saved_encoder: Callable[..., tuple[Path, Any]], tmp_path: Path) -> None:
    folder, _ = saved_encoder(VaswaniEncoderModel, attention_window=3)
    with pytest.raises(ValueError, match="attends within a window of 3 positions, in as many blocks as a text needs"):
        export_encoder_onnx(folder, tmp_path / "out")


def test_a_model_with_a_decoder_is_refused(saved: Callable[..., tuple[Path, VaswaniForConditionalGeneration]], tmp_path: Path) -> None:
    folder, _ = saved()
    with pytest.raises(ValueError, match="holds a model with a decoder; this export is for those without one"):
        export_encoder_onnx(folder, tmp_path / "out")
