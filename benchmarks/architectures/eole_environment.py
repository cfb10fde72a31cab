"""An environment of its own for eole, whose pins are not ours, and programs in it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.locks import lock

REQUIREMENTS = ("torch==2.13.0", "eole==0.6.4", "aiohttp>=3.9")
"""torch first and alone, so that the build for a CPU that was found for it is not exchanged; eole imports aiohttp without asking for it."""

_COMPLETE = "installed.txt"
_ROOT = Path(__file__).parents[2]


def provide_environment(folder: Path) -> Path:
    """The interpreter of an environment with `REQUIREMENTS` in `folder`, which is made where it is not complete (minutes, about 2 GB).

    Raises:
        BlockingIOError: another process is making it.
        OSError: it cannot be made; the sentence ends with pip's last words.
    """
    interpreter, complete, wanted = folder / "bin" / "python", folder / _COMPLETE, "".join(f"{line}\n" for line in REQUIREMENTS)
    folder.parent.mkdir(parents=True, exist_ok=True)
    taken = BlockingIOError(f"Another process is making the environment {folder}; wait for it, then run the same again.")
    with lock(folder.with_name(f"{folder.name}.lock"), taken):
        if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
            return interpreter
        print(f"Making an environment for eole in {folder}, once (minutes, about 2 GB) ...", file=sys.stderr)
        install = (str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        for step in ((sys.executable, "-m", "venv", "--clear", str(folder)), (*install, REQUIREMENTS[0]), (*install, *REQUIREMENTS)):
            done = subprocess.run(step, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                raise OSError(
                    f"The environment {folder} could not be made ({last_line(done.stderr)}); see to the network and the disk, or name the "
                    "python of an environment that has eole with --eole-python."
                )
        write_text(complete, wanted)
    return interpreter


def run_in(interpreter: Path, module: str, arguments: Sequence[str], log: Path) -> None:
    """Run a module of this repository in another environment; what it says is appended to `log`.

    Raises:
        FileNotFoundError: there is no such interpreter.
        RuntimeError: the program failed; its last words are in the sentence.
    """
    if not interpreter.is_file():
        raise FileNotFoundError(f"There is no python {interpreter}; name one of an environment that has eole, or leave out --eole-python.")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as said:
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONWARNINGS": "ignore"}
        command = [str(interpreter), "-m", module, *arguments]
        status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said).returncode
    if status:
        raise RuntimeError(f"{module} ended with status {status} ({last_line(log.read_text(encoding='utf-8'))}); all of it is in {log}.")


def last_line(text: str) -> str:
    """Of what a program said, without blank lines."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "without a word")
