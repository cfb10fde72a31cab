"""The models on the encoder leave for ONNX by torch's own exporter, for any number of texts and tokens."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.export import Dim

from tests.test_modeling_tasks import IDS, MASK, made
from vaswani_transformer import VaswaniForQuestionAnswering, VaswaniForSequenceClassification

onnxruntime = pytest.importorskip("onnxruntime", reason="the test runs what it exports")
pytest.importorskip("onnxscript", reason="torch's exporter needs it")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [VaswaniForSequenceClassification, VaswaniForQuestionAnswering])
def test_onnx_runtime_says_the_same(kind: type[Any], tmp_path: Path) -> None:
    model = made(kind)
    axes = {0: Dim("texts"), 1: Dim("tokens")}
    torch.onnx.export(
        model, (), tmp_path / "model.onnx", kwargs={"input_ids": IDS, "attention_mask": MASK}, dynamo=True, verbose=False,
        dynamic_shapes={"input_ids": axes, "attention_mask": axes},
    )  # fmt: skip
    ids = torch.tensor([[5, 9, 3, 17, 8, 4, 2], [7, 2, 0, 0, 0, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    found = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {name: value.numpy() for name, value in inputs.items()})
    with torch.no_grad():
        expected = model(**inputs).to_tuple()
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-5)
