"""A selection of the torture, and that it would tell if something were lost."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.training import tiny_recipe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and watched as on Linux")

ROOT = Path(__file__).parents[2]


def _torture(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tests.torture",
        "--folder",
        str(folder),
        *arguments,
    ]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)


def test_every_kind_of_fault_is_survived(tmp_path: Path) -> None:
    done = _torture(tmp_path, "--kills", "4", "--others", "1", "--grace", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    survived, of = re.search(r"^ *(\d+) +(\d+)  in all$", done.stdout, re.MULTILINE).groups()  # type: ignore[union-attr]
    assert survived == of and int(of) >= 13
    assert not list((tmp_path / "faults").iterdir())


_BROKEN = """
from tests.torture import faults, training
from vaswani_transformer.training import progress
training.OTHERS = (faults.damaged_state,)
progress._cut = lambda path, update: None
"""


def test_what_is_lost_is_told(tmp_path: Path) -> None:
    """Here the log of a training that goes on is not cut: records of updates that are done again stand there twice."""
    (tmp_path / "sitecustomize.py").write_text(_BROKEN, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = _torture(tmp_path / "runs", "--kills", "0", "--others", "1", PYTHONPATH=path)
    assert done.returncode == 1
    assert re.search(r"damaged state: .*NOT SURVIVED.*log\.jsonl differs: \d+ records instead of", done.stdout)
    assert (tmp_path / "runs" / "faults" / "damaged_state_000").is_dir()


def test_the_tiny_recipe_has_what_the_faults_need() -> None:
    training = tiny_recipe().training
    states = training.updates // training.checkpoint_every
    assert states > training.average_checkpoints > 1
