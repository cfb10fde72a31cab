"""The command, as people run it, kill it and run it again."""

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from typer.testing import CliRunner

from vaswani_transformer.__main__ import app

ROOT = Path(__file__).parents[2]
COMMAND = ["-m", "vaswani_transformer", "translate"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
WORDS = ["man", "woman", "dogs", "run", "read", "house", "beach", "coat"]
CONTENT = "".join(f"The {WORDS[n % 8]} that the {WORDS[n * 5 % 7]} sees {WORDS[n * 3 % 8]} {n}.\n" for n in range(40))


def command(*arguments: object) -> list[str]:
    return [sys.executable, *COMMAND, *map(str, arguments)]


def run(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(command(*arguments), env=ENVIRONMENT, input=text, capture_output=True, text=True, timeout=120)


def stopped(number: signal.Signals, arguments: list[object], progress: Path, lines: int) -> tuple[int, str]:
    """Start the command on standard input that does not end, and send it a signal once `lines` lines are recorded."""
    process = subprocess.Popen(command(*arguments), env=ENVIRONMENT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(CONTENT[: CONTENT.index("29.") + 4])
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not progress.exists() or json.loads(progress.read_text())["progress"]["lines"] < lines:
        assert process.poll() is None and time.monotonic() < deadline, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(number)
    return process.wait(timeout=60), process.stderr.read()


def test_stopped_twice_it_ends_with_the_same_bytes(checkpoint: Path, tmp_path: Path) -> None:
    """Killed, stopped, and finished by one process or by two; the reference was never stopped."""
    name = "out.txt.gz"
    source = tmp_path / "in.txt"
    source.write_text(CONTENT)
    settings = [checkpoint, "--window", 5, "--batch-tokens", 100]
    whole = run(*settings, "--input", source, "--output", tmp_path / name)
    assert whole.returncode == 0, whole.stderr
    assert "40/40" in whole.stderr
    expected = (tmp_path / name).read_bytes()
    lines = gzip.decompress(expected).split(b"\n")
    assert len(lines) == 41 and len(set(lines)) > 20

    target = tmp_path / f"again-{name}"
    journal = tmp_path / f"{target.name}.progress.json"
    arguments = [*settings, "--output", target]
    assert stopped(signal.SIGKILL, arguments, journal, 10)[0] == -signal.SIGKILL
    status, said = stopped(signal.SIGTERM, arguments, journal, 20)
    assert status == 130
    assert f"lines are safe in {target}.partial; the same command resumes there." in said
    assert not target.exists()
    for file in list(tmp_path.glob(f"{target.name}*")):
        shutil.copy(file, tmp_path / file.name.replace("again", "together"))

    done = run(*arguments, text=CONTENT)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == expected
    other = run(*arguments[:-1], tmp_path / f"together-{name}", "--num-beams", 3, text=CONTENT)
    assert other.returncode == 1
    assert "num_beams was None and is now 3" in other.stderr and "Traceback" not in other.stderr
    together = tmp_path / f"together-{name}"
    on_two_processes(*settings, "--input", source, "--output", together)
    assert together.read_bytes() == expected


def on_two_processes(*arguments: object) -> str:
    """Standard error of both."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = ROOT / "scripts" / "accelerate" / "cpu.yaml"
    launcher = ["-m", "accelerate.commands.launch", "--config_file", config, "--main_process_port", port]
    done = subprocess.run(
        [sys.executable, *map(str, [*launcher, *COMMAND, *arguments])],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_two_processes_write_what_one_writes(checkpoint: Path, tmp_path: Path) -> None:
    """Also with a number of windows that is odd, a header, lines that fail in either process, and several hypotheses."""
    rows = [f"{n}\t{line}" for n, line in enumerate(CONTENT.splitlines())]
    rows[3], rows[12] = "broken", "12\t" + "far too long " * 20
    source = tmp_path / "in.tsv"
    source.write_text("\n".join(["id\tsource", *rows]))
    settings = [
        checkpoint,
        "--input",
        source,
        "--format",
        "tsv",
        "--column",
        "source",
        "--nbest",
        2,
        "--scores",
    ]
    settings += ["--window", 8, "--set", "length_penalty=1.0"]
    alone = run(*settings, "--output", tmp_path / "alone.tsv")
    assert alone.returncode == 3, alone.stderr
    named = [line for line in alone.stderr.splitlines() if line.startswith(f"{source}:")]
    assert named[0] == f"{source}:5: 1 columns, but the first line has 2"
    assert named[1].startswith(f"{source}:14: ValueError: ")
    assert f"2 of 41 lines of {source} could not be translated." in alone.stderr
    together = on_two_processes(*settings, "--output", tmp_path / "together.tsv")
    assert sorted(line for line in together.splitlines() if f"{source}:" in line) == sorted(named)
    output = (tmp_path / "alone.tsv").read_text()
    assert (tmp_path / "together.tsv").read_text() == output
    header, *written = output.splitlines()
    assert header == "id\tsource\ttranslation_1\tscore_1\ttranslation_2\tscore_2"
    assert [line.rsplit("\t", 4)[0] for line in written] == rows
    assert written[3] == "broken\t\t\t\t" and written[12].endswith("\t\t\t\t")
    best, second = (float(written[0].split("\t")[position]) for position in (3, 5))
    assert best >= second


def test_standard_streams_and_wrong_arguments(checkpoint: Path, tmp_path: Path) -> None:
    done = run(checkpoint, "--split-sentences", "en", "--dtype", "int8", text="A man reads. Yes.  \n\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 2
    (tmp_path / "there").touch()
    wrong = {
        "exists already": ["--output", tmp_path / "there"],
        "one translation each": ["--split-sentences", "en", "--nbest", "2"],
        "2 beams or more": ["--scores", "--num-beams", "1"],
        "use --nbest": ["--set", "num_return_sequences=2"],
        "use --batch-tokens": ["--set", "batch_tokens=0"],
        "--set model is no setting of the search": ["--set", "model=x"],
    }
    for sentence, arguments in wrong.items():
        refused = CliRunner().invoke(app, ["translate", *map(str, [checkpoint, *arguments])], input="A man reads.\n")
        assert refused.exit_code == (2 if "--set" in arguments else 1)
        last = refused.stderr.splitlines()[-1]  # after the bars of loading
        assert last.startswith("error: ") and sentence in last and "Traceback" not in refused.stderr
