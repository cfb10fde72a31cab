"""Export to ONNX: by way of our Marian export, with Hugging Face's Optimum.

Optimum asks for another transformers than this package, so it lives in an environment of its own, which is made at the first export and
used again. Greedy search over the export gives the tokens of the original.

```python
export_onnx("runs/NAME/averaged", "exported_onnx")
```
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from huggingface_hub import cached_assets_path

from ..files.atomic_file import write_text
from ..files.atomic_folder import new_folder
from ..files.locks import lock
from .marian import export_marian

REQUIREMENTS = (
    "torch==2.13.0",
    "optimum-onnx[onnxruntime]==0.1.0",
    "optimum==2.1.0",
    "transformers==4.57.6",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
)
"""What the environment holds: versions that were tried together."""

TASK = "text2text-generation-with-past"

_COMPLETE = "requirements.txt"
"""Written into an environment when everything is installed."""

Say = Callable[[str], None]


def export_onnx(folder: str | Path, out: str | Path, *, python: str | Path | None = None, say: Say | None = None) -> Path:
    """Write the translator in `folder` as ONNX models in float32, for `optimum.onnxruntime.ORTModelForSeq2SeqLM`.

    Args:
        folder: a trained model that `export_marian` takes.
        out: a new folder.
        python: the interpreter of an environment that has Optimum with its ONNX exporter; by default that of `environment_folder()`,
            which is made where it is missing (1.3 GB with PyTorch for a CPU, minutes).
        say: gets a line for each step; by default they are written to standard error.

    Returns:
        `out`.

    Raises:
        FileNotFoundError: `folder` does not exist, a file is missing in it, or there is no `python`.
        FileExistsError: there is something at `out`.
        ValueError: the model cannot be exported to Marian's format, or Optimum failed.
        OSError: the environment cannot be made.
    """
    say = say or _write_to_standard_error
    with tempfile.TemporaryDirectory() as scratch, new_folder(out) as unfinished:
        marian = export_marian(folder, Path(scratch) / "marian")
        interpreter = python or provide_environment(environment_folder(), say)
        say(f"Exporting {folder} to ONNX")
        command = [interpreter, "-m", "optimum.exporters.onnx", "--model", marian, "--task", TASK, unfinished]
        if failure := _failure_of(command):
            raise ValueError(f"Optimum could not export {folder} to ONNX ({failure}); nothing was written.")
    return Path(out)


def environment_folder() -> Path:
    """Where the environment lies, unless another is given: beside Hugging Face's other caches."""
    return cached_assets_path("vaswani_transformer", "environments", "onnx")


def provide_environment(folder: Path, say: Say) -> Path:
    """The interpreter of an environment with `REQUIREMENTS` in `folder`, which is made, or made new, where it is not complete.

    Raises:
        BlockingIOError: another process is making it.
        OSError: it cannot be made; the sentence ends with pip's last words.
    """
    interpreter, complete = folder / "bin" / "python", folder / _COMPLETE
    wanted = "".join(f"{requirement}\n" for requirement in REQUIREMENTS)
    folder.parent.mkdir(parents=True, exist_ok=True)
    taken = BlockingIOError(f"Another process is making the environment {folder}; wait for it, then run the same again.")
    with lock(folder.with_name(f"{folder.name}.lock"), taken):
        if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
            return interpreter
        say(f"Making an environment for Optimum in {folder}, once: {' '.join(REQUIREMENTS)} (minutes, and more than 1 GB)")
        venv, install = ("-m", "venv", "--clear", str(folder)), ("-m", "pip", "install", "--quiet", *REQUIREMENTS)
        for step in ((sys.executable, *venv), (interpreter, *install)):
            if failure := _failure_of(step):
                raise OSError(
                    f"The environment {folder} could not be made ({failure}); see to the network and the disk, or give the python of an "
                    "environment that has optimum-onnx."
                )
        write_text(complete, wanted)
    return interpreter


def _failure_of(command: Sequence[str | Path]) -> str | None:
    """Run a program; of one that fails, its exit status and the last line that tells of an error.

    Raises:
        FileNotFoundError: there is no such program.
    """
    # What this process was told to import is not for another environment.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no program {command[0]}; give the python of an environment that has optimum-onnx.") from error
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower()] or lines or ["without a word"]
    return f"exit status {done.returncode}: {told[-1]}"


def _write_to_standard_error(line: str) -> None:
    print(line, file=sys.stderr)
