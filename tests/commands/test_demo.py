"""`vaswani demo`, as people start and stop it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.demo.conftest import Folders, folders
from vaswani_transformer.__main__ import app

__all__ = ["folders"]
ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}


def test_ctrl_c_ends_it_at_once(folders: Folders, tmp_path: Path) -> None:
    pytest.importorskip("gradio", reason='the demo needs Gradio: pip install "vaswani_transformer[demo]"')
    said = tmp_path / "said"
    # a shell that starts things in the background lets them ignore Ctrl-C; this test may run in one
    heard = ["import signal, sys, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv = sys.argv[1:]"]
    heard += ["runpy.run_module('vaswani_transformer', run_name='__main__')"]
    program = [sys.executable, "-c", "; ".join(heard), "vaswani", "demo", folders.ours, "--no-open", "--port", "0", "--title", "Try it"]
    with open(said, "w") as stream:
        process = subprocess.Popen(program, env=environment(), stdout=stream, stderr=stream)
    deadline = time.monotonic() + 120
    while not (address := re.search(r"Try it: (http://127\.0\.0\.1:\d+/)", said.read_text())):
        assert process.poll() is None and time.monotonic() < deadline, said.read_text()
        time.sleep(0.1)
    assert b"Try it" in urllib.request.urlopen(address[1], timeout=30).read()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert "Traceback" not in said.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["no/such/model"], 1, "error: no/such/model is neither a folder nor a repository"),
        ([], 2, "Missing argument 'FOLDER..."),
        (["x", "--max-characters", "0"], 2, "max-characters"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], status: int, sentence: str) -> None:
    pytest.importorskip("gradio", reason='the demo needs Gradio: pip install "vaswani_transformer[demo]"')
    ended = CliRunner().invoke(app, ["demo", *arguments, "--port", "0", "--no-open"])
    assert ended.exit_code == status
    assert sentence in ended.stderr and "Traceback" not in ended.stderr


def test_a_taken_port_is_told_before_a_model_is_loaded() -> None:
    pytest.importorskip("gradio", reason='the demo needs Gradio: pip install "vaswani_transformer[demo]"')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = CliRunner().invoke(app, ["demo", "no/such/model", "--port", port, "--no-open"])
    assert ended.exit_code == 1
    assert ended.stderr.startswith(f"error: Port {port} of 127.0.0.1 cannot be had") and "--port 0" in ended.stderr
