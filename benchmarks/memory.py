"""The most memory that a contestant takes: of a process of its own that loads it, translates, and does nothing else.

This file is that process' program too, which is why it imports nothing of the package: where the contestant needs neither the package nor
PyTorch, they are not loaded.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ALONE = ("ctranslate2_contestant",)
"""Modules that are read as files, without the package around them."""

_PACKAGE = "benchmarks"
_SECONDS_BETWEEN_LOOKS = 0.02


def peak_memory(
    module: str,
    arguments: dict[str, Any],
    batches: list[list[list[int]]],
    beams: int,
    *,
    device_bytes_used: Callable[[], int] | None = None,
) -> dict[str, int | None]:
    """Load and translate in a new process.

    Args:
        module, arguments: as `contestants.Entry` has them.
        batches: token ids of the sentences of each batch.
        device_bytes_used: tells how much of an accelerator's memory is taken, by whomever; it is looked at while the process runs.

    Returns:
        `peak_bytes`, and of it `imports_bytes`, which the libraries took before anything was loaded (both None on a system without
        /proc); with `device_bytes_used` also `device_peak_bytes`, what was taken above the use before.

    Raises:
        RuntimeError: the process failed; its last line is in the sentence.
    """
    job = {"module": module, "arguments": arguments, "batches": batches, "beams": beams}
    search_path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search_path))}
    with tempfile.TemporaryDirectory() as scratch:
        files = [Path(scratch) / name for name in ("job", "said", "complained")]
        files[0].write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, __file__, str(files[0])]
        before = device_bytes_used() if device_bytes_used else 0
        most = before
        with (
            files[1].open("wb") as said,
            files[2].open("wb") as complained,
            subprocess.Popen(command, env=environment, stdout=said, stderr=complained) as process,
        ):
            while process.poll() is None:
                most = max(most, device_bytes_used() if device_bytes_used else 0)
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        if process.returncode:
            words = files[2].read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RuntimeError(
                f"Measuring the memory of {arguments['folder']} ended with status {process.returncode}: "
                f"{words[-1] if words else 'it said nothing'}"
            )
        measured = json.loads(files[1].read_text(encoding="utf-8").splitlines()[-1])
    return measured | ({"device_peak_bytes": most - before} if device_bytes_used else {})


def _translate_alone(job: dict[str, Any]) -> dict[str, int | None]:
    load = _module(job["module"]).load
    imports = process_bytes("VmRSS")
    contestant = load(**job["arguments"])
    for batch in job["batches"]:
        contestant.translate(contestant.prepare(batch), job["beams"])
    return {"peak_bytes": process_bytes("VmHWM"), "imports_bytes": imports}


def _module(name: str) -> Any:
    if name not in ALONE:
        return importlib.import_module(f"{_PACKAGE}.{name}")
    found = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def process_bytes(quantity: str) -> int | None:
    """From Linux; `getrusage` would tell of the parent's memory too, if that was larger when it started this process."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    lines = (line.split() for line in status.read_text(encoding="utf-8").splitlines())
    return next(int(words[1]) * 1024 for words in lines if words[0] == f"{quantity}:")


if __name__ == "__main__":
    # A file's own folder comes first on the path, and its neighbours' names are too common to stand there.
    sys.path.pop(0)
    print(json.dumps(_translate_alone(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
