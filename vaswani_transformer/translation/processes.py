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
    # Asked to use the CPU, or where there is nothing else, Accelerate must be told before it lets CPU processes find each other.
    on_cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    return PartialState(cpu=on_cpu, timeout=_PATIENCE)


def exit_status(done: JobProgress) -> int:
    """3 tells a shell that lines failed. To a launcher of several processes, anything but 0 is a crash, which this is not."""
    return 3 if done.failed and processes().num_processes == 1 else 0


def share(value: Any) -> Any:
    """The main process' `value`, in every process."""
    if processes().num_processes == 1:
        return value
    return broadcast_object_list([value])[0]


def gather(value: Any) -> list[Any]:
    """The values of all processes, in their order."""
    return gather_object([value]) if processes().num_processes > 1 else [value]
