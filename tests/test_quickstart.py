"""The first command of the README, with a training of seconds: every stage really runs, in the order a newcomer sees."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHORT = [
    "data.train=[{format: builtin, split: train, limit: 2000}]",
    "data.validation.limit=20",
    "data.test.builtin.limit=20",
    "tokenizer.vocab_size=500",
    "training.updates=6",
    "training.checkpoint_every=2",
    "training.validate_every=3",
    "training.average_checkpoints=2",
]


@pytest.mark.skipif(os.name != "posix", reason="the quickstart is a shell script")
def test_quickstart_goes_from_nothing_to_a_pipeline(tmp_path: Path) -> None:
    overrides = [word for setting in SHORT for word in ("--set", setting)]
    finished = subprocess.run(
        ["bash", "scripts/quickstart.sh", *overrides],
        cwd=ROOT,
        env=os.environ | {"VENV": sys.prefix, "RUN": str(tmp_path / "run"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    said = finished.stdout
    assert said.count("translation  ") == 5
    assert "20 unseen pairs: sacrebleu" in said
    for name in ("published", "published/README.md", "evaluation.json", "curves.png", "log.jsonl"):
        assert str(tmp_path / "run" / name) in said
        assert (tmp_path / "run" / name).exists()
    suffixes = {path.suffix for path in (tmp_path / "run" / "published").rglob("*")}
    assert suffixes == {".json", ".md", ".png", ".py", ".safetensors"}
