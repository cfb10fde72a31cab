"""The first command of the README, with a training of seconds: every stage really runs, in the order a newcomer sees."""

import os
import re
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
    run_the_readmes_python(tmp_path / "run" / "published")


def run_the_readmes_python(published: Path) -> None:
    """The examples that load the quickstart's folder, as they stand in the README, one after another in a new process."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    # That section's are run by `test_fine_tuning_section.py`, with files to train on
    readme = re.sub(r"^## Fine-tune to a new pair\n.*?(?=^## )", "", readme, flags=re.MULTILINE | re.DOTALL)
    examples = re.findall(r"^```python\n(.*?)^```$", readme, flags=re.MULTILINE | re.DOTALL)
    program = "\n".join(examples).replace("runs/builtin_tiny/published", str(published))
    assert program.count(str(published)) >= 3
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
