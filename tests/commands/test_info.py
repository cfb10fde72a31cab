"""`vaswani info` tells what a report of a problem needs."""

import pytest
import torch
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app


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
    monkeypatch.setattr("vaswani_transformer.packing.has_bfloat16", lambda: False)
    facts = told()
    assert facts["bfloat16 (oneDNN)"] == "no"
    assert "bfloat16" not in facts["translate on"]
