"""The processes of a job: those that `accelerate launch` started, or this one alone."""

from datetime import timedelta
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object, parse_flag_from_env

from .output import JobProgress

_PATIENCE = timedelta(days=7)
"""How long a process waits for another: for the slowest window of a turn, and for an input that comes slowly."""


def processes() -> PartialState:
    """The processes of this job; the first call decides how long they wait for each other."""
    # If the CPU is asked for, or is all there is, Accelerate must be told so, or CPU processes do not find each other.
    on_cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    return PartialState(cpu=on_cpu, timeout=_PATIENCE)


def exit_status(done: JobProgress) -> int:
    """3 if lines failed and this process is alone; with several, 0, since their launcher takes any other status for a crash."""
    return 3 if done.failed and processes().num_processes == 1 else 0


def share(value: Any) -> Any:
    """The main process' `value`, in every process."""
    if processes().num_processes == 1:
        return value
    return broadcast_object_list([value])[0]


def gather(value: Any) -> list[Any]:
    """The values of all processes, in their order."""
    return gather_object([value]) if processes().num_processes > 1 else [value]
