"""Run `vaswani train` as several ranks of one machine, job after job: a launcher that loads PyTorch once and forks.

Jobs come as JSON, one a line, and each is answered with a line when all its ranks have ended:

    echo '{"ranks": 2, "recipe": "r.yaml", "run": "runs/two", "float64": true}' | python tests/training/in_ranks.py

A job may be `sharded`, or run `twice` in its processes, and may have a `fault` that strikes one rank in its third update, or the first rank
when it saves. It leaves `RUN/rank-R.txt`, what rank R had to say, and `RUN/ends.json`, exit status and seconds until the end of each rank.
"""

import contextlib
import errno
import faulthandler
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from vaswani_transformer.training import engine, update, watch

SILENT_SIGNS = 4
"""Less patience than in a real training, where silence is what is looked at."""
TOO_LONG = 60.0
"""Seconds after which a rank counts as hanging, and is killed."""


def no_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def full_disk(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, "The disk is full: the checkpoint could not be written")


FAULTS: dict[str, tuple[int, Callable[..., Any]]] = {
    "out of memory": (1, no_memory),
    "killed": (1, lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "first killed": (0, lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "frozen": (1, lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    "disk full": (0, full_disk),
}
"""Which rank something happens to, and what."""


def strike_in_third_update(fault: Callable[[], None]) -> None:
    backward = update.Updater._backward

    def struck(self: update.Updater, plan: Any, number: int, target_tokens: int) -> Any:
        if number == 3:
            self.module.forward = lambda **batch: fault()
        return backward(self, plan, number, target_tokens)

    update.Updater._backward = struck


def poison_third_update() -> None:
    backward = update.Updater._backward

    def poisoned(self: update.Updater, plan: Any, number: int, target_tokens: int) -> Any:
        return backward(self, plan, number, target_tokens) * (float("nan") if number == 3 else 1.0)

    update.Updater._backward = poisoned


def end_the_group_for_good() -> None:
    """Fail if something still holds the process group when it is destroyed: who lets go of it last might then hang for ever."""
    destroy = torch.distributed.destroy_process_group

    def checked(*arguments: Any) -> None:
        destroy(*arguments)
        names = [(thread / "comm").read_text() for thread in Path("/proc/self/task").glob("*")]
        assert not any("gloo" in name for name in names), "the threads of the process group outlive it"

    torch.distributed.destroy_process_group = checked


def be_rank(rank: int, port: int, job: dict[str, Any]) -> None:
    """What a launcher sets, then the command."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": job["ranks"], "LOCAL_WORLD_SIZE": job["ranks"]}
    os.environ |= {name: str(value) for name, value in numbers.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if job.get("sharded"):
        os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    else:  # with sharding, caches of PyTorch keep the group until the process ends
        end_the_group_for_good()
    if job.get("float64"):
        torch.set_default_dtype(torch.float64)
    fault = job.get("fault")
    if fault == "frozen":
        watch.SILENT_SIGNS = SILENT_SIGNS
    if fault == "not a number" and rank == 1:
        poison_third_update()
    elif fault in FAULTS and FAULTS[fault][0] == rank:
        if fault == "disk full":
            engine.save_checkpoint = FAULTS[fault][1]
        else:
            strike_in_third_update(FAULTS[fault][1])
    sys.argv = ["vaswani", "train", job["recipe"], "--run-folder", job["run"]]
    if job.get("twice"):
        with contextlib.suppress(SystemExit):
            runpy.run_module("vaswani_transformer", run_name="__main__")
    runpy.run_module("vaswani_transformer", run_name="__main__")


def fork_rank(rank: int, port: int, job: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    with open(os.devnull) as nothing, open(Path(job["run"]) / f"rank-{rank}.txt", "w") as words:
        os.dup2(nothing.fileno(), 0)
        os.dup2(words.fileno(), 1)
        os.dup2(words.fileno(), 2)
    # Of a rank that hangs, its words say where; this needs no turn of Python's.
    faulthandler.dump_traceback_later(TOO_LONG - 5)
    status = 1
    try:
        be_rank(rank, port, job)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(status)


def run(job: dict[str, Any]) -> None:
    Path(job["run"]).mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    children = {fork_rank(rank, port, job): rank for rank in range(job["ranks"])}
    ends: dict[int, tuple[int, float]] = {}
    while len(ends) < len(children):
        child, status = os.waitpid(-1, os.WNOHANG)
        seconds = time.monotonic() - began
        if child:
            ends[children[child]] = (os.waitstatus_to_exitcode(status), seconds)
        elif seconds > TOO_LONG or (job.get("fault") == "frozen" and 0 in ends):
            for waiting in [child for child, rank in children.items() if rank not in ends]:
                os.kill(waiting, signal.SIGKILL)
        time.sleep(0.05)
    (Path(job["run"]) / "ends.json").write_text(json.dumps([ends[rank] for rank in sorted(ends)]))


if __name__ == "__main__":
    for line in sys.stdin:
        run(json.loads(line))
        print("done", flush=True)
