"""Trainings in forked processes, which start in no time, and the ways in which such a process dies.

A fork of a process with one thread is a whole process. So the parent imports everything and computes nothing: no backward pass, no
tokenizer, nothing that would start a thread.
"""

import json
import os
import runpy
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import vaswani_transformer

_PACKAGE = str(Path(vaswani_transformer.__file__).parent)
_TRACED = (_PACKAGE, str(Path(os.__file__).with_name("shutil.py")))
"""Whose lines count: ours, and those that delete folders file by file."""

_SECONDS_BETWEEN_LOOKS = 0.005
_LINES_TO_TELL = 12

STAGES = {
    "claim_run_folder": "claiming the run folder",
    "prepare_data": "preparing data",
    "train_tokenizer": "training the tokenizer",
    "encode_corpus": "encoding",
    "Training.resume": "resuming",
    "Updater.run": "an update",
    "Validator.run": "validating",
    "TrainingLog.write": "writing the log",
    "save_checkpoint": "writing a checkpoint",
    "save_state": "writing a state",
    "prune_checkpoints": "pruning checkpoints",
    "Training.write_facts": "writing training.json",
    "average_checkpoints": "averaging",
}
"""The functions to which an executed line is attributed: the innermost of them that is at work."""


class Child:
    """A forked process at work on `program`; what it says goes into the file `said`."""

    def __init__(self, program: Callable[[], Any], said: Path) -> None:
        """
        Raises:
            RuntimeError: this process has threads, so that a fork would be a cripple.
        """
        if (threads := len(os.listdir("/proc/self/task"))) > 1:
            raise RuntimeError(f"This process has {threads} threads and cannot be forked soundly; set OMP_NUM_THREADS=1 and start it anew.")
        self.said = said
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(_run(program, said))

    def wait(self, seconds: float) -> int | None:
        """The exit status, negative for a signal; None if the process still runs after so many seconds, in which this one was awake."""
        for _ in range(round(seconds / _SECONDS_BETWEEN_LOOKS) + 1):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return None

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def words(self) -> str:
        """Its last ones."""
        lines = self.said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return "\n".join(lines[-_LINES_TO_TELL:])


def module(name: str, *arguments: object, environment: Mapping[str, str]) -> Callable[[], Any]:
    """What `python -m name arguments` does with these variables set, to be done by a child."""

    def run() -> None:
        os.environ.update(environment)
        sys.argv = [name, *map(str, arguments)]
        runpy.run_module(name, run_name="__main__")

    return run


def counting_lines(program: Callable[[], Any], counts: Path) -> Callable[[], Any]:
    """`program`, which leaves in `counts` how many lines of code each stage executed, as JSON."""
    found: Counter[str] = Counter()

    def count(stage: str, frame: FrameType) -> None:
        found[stage] += 1

    def run() -> None:
        try:
            _traced(program, count)
        finally:
            counts.write_text(json.dumps(found), encoding="utf-8")

    return run


def killing_itself(program: Callable[[], Any], stage: str, number: int, place: Path) -> Callable[[], Any]:
    """`program`, killed before it executes line `number` of a stage; which line of which file that is stands in `place` then."""
    left = number

    def kill(current: str, frame: FrameType) -> None:
        nonlocal left
        left -= current == stage
        if left == 0:
            place.write_text(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: _traced(program, kill)


def _traced(program: Callable[[], Any], at_line: Callable[[str, FrameType], None]) -> None:
    stages: list[str] = []

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_TRACED):
            return None
        if frame.f_code.co_qualname not in STAGES:
            return inside if stages else None
        stages.append(frame.f_code.co_qualname)
        return inside_stage

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and stages:
            at_line(stages[-1], frame)
        return inside

    def inside_stage(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            stages.pop()
        inside(frame, event, argument)
        return inside_stage

    os.register_at_fork(after_in_child=lambda: sys.settrace(None))  # lines of the child's own helpers do not count
    sys.settrace(enter)
    try:
        program()
    finally:
        sys.settrace(None)


def _run(program: Callable[[], Any], said: Path) -> int:
    """Do the work of a child that has just been forked; returns its exit status."""
    for number, handler in _USUAL_HANDLERS.items():
        signal.signal(number, handler)
    stream = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for descriptor in (1, 2):
        os.dup2(stream, descriptor)
    status: Any = 0
    try:
        program()
    except SystemExit as leaving:
        status = leaving.code or 0
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return int(status)


_USUAL_HANDLERS: Mapping[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,  # who is started in the background begins with SIGINT ignored
    signal.SIGTERM: signal.SIG_DFL,
}
