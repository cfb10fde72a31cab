"""The first command of the README, with a training of seconds: every stage really runs, in the order a newcomer sees."""

import contextlib
import gzip
import itertools
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.documents import ROOT, blocks, commands, section, text_of
from vaswani_transformer.__main__ import app

RUN = "runs/builtin_tiny"
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
        env=os.environ | {"VENV": sys.prefix, "RUN": str(tmp_path / RUN), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    said = finished.stdout
    assert said.count("translation  ") == 5
    assert "20 unseen pairs: sacrebleu" in said
    for name in ("published", "published/README.md", "evaluation.json", "curves.png", "log.jsonl"):
        assert str(tmp_path / RUN / name) in said
        assert (tmp_path / RUN / name).exists()
    assert "What the heads do" in (tmp_path / RUN / "published" / "README.md").read_text(encoding="utf-8")
    suffixes = {path.suffix for path in (tmp_path / RUN / "published").rglob("*")}
    assert suffixes == {".json", ".md", ".png", ".py", ".safetensors"}
    run_the_documents_python(tmp_path)
    run_the_documents_commands(tmp_path)


def run_the_documents_python(folder: Path) -> None:
    """The examples that load the quickstart's folder, as they stand in the documents, one after another in a new process."""
    program = "\n".join(example for page in ("README.md", "docs/index.md", "docs/using.md") for example in blocks(text_of(page), "python"))
    assert program.count(f'"{RUN}/published"') >= 4
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]


def run_the_documents_commands(folder: Path) -> None:
    """Translating files and exporting, as the documents show it."""
    (folder / "in.txt").write_text("The small dog sleeps.\n", encoding="utf-8")
    (folder / "in.txt.gz").write_bytes(gzip.compress(b"The small dog sleeps.\n"))
    (folder / "in.jsonl").write_text('{"text": "The small dog sleeps. It is old."}\n', encoding="utf-8")
    (folder / "in.tsv").write_text("source\tnumber\nThe small dog sleeps.\t1\n", encoding="utf-8")
    (folder / "in.csv").write_text('source,number\n"The small dog, and the old one.",1\n', encoding="utf-8")
    written = [commands(section("docs/using.md", "Whole files")), commands(section("docs/engines.md", "Export"))]
    ours = [arguments for program, *arguments in itertools.chain(*written) if program == "vaswani" and "onnx" not in arguments]
    assert [arguments[0] for arguments in ours] == ["translate"] * 4 + ["export", "translate", "export"]
    with contextlib.chdir(folder):
        for arguments in ours:
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, f"vaswani {shlex.join(arguments)}: {done.output[-3000:]}"
    assert gzip.decompress((folder / "out.txt.gz").read_bytes()).count(b"\n") == 1
    assert "translation_4\tscore_4" in (folder / "out.tsv").read_text(encoding="utf-8").splitlines()[0]
    assert {path.name for path in folder.glob("exported*")} == {"exported", "exported_marian"}
