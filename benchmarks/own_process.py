"""A contestant in a process of its own: what one of them sets for the whole process, such as precision or how memory is given back, is
not set for the others, and the memory it takes is its own.

While one works, the others wait for a message and take no time.
"""

import ctypes
import gc
import multiprocessing
import platform
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, Self

import torch

from benchmarks.interleaved import Timed
from benchmarks.memory import process_bytes


class Rounds(Protocol):
    """What works round after round."""

    def round(self) -> Timed: ...


class OwnProcess:
    """A new Python that builds a contestant and lets it work whenever it is told to. Use it as a context manager."""

    def __init__(self, title: str, build: Callable[..., Rounds], *arguments: Any, gives_back: bool = False) -> None:
        """Start it, and do not wait for it: several may start side by side.

        Args:
            title: for error messages.
            build, arguments: give the contestant, in the other process; all must be picklable.
            gives_back: after each round, return to the system what memory is free (where the C library is glibc).
        """
        self._title = title
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, build, arguments, gives_back), daemon=True)
        self._process.start()
        theirs.close()

    def round(self, threads: int) -> Timed:
        """Let it work, on so many of PyTorch's threads.

        Raises:
            RuntimeError: it failed, or its process ended.
        """
        return self._ask(threads)

    def memory(self) -> dict[str, int | None]:
        """`peak_bytes` so far, and of it `imports_bytes`, which libraries took before anything was built (None on a system without /proc);
        with an accelerator also `device_peak_bytes`."""
        return self._ask(None)

    def __enter__(self) -> Self:
        """
        Raises:
            RuntimeError: it cannot be built; its own words are in the sentence.
        """
        self._answer()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()
        self._process.join(timeout=None if error is None else 0)
        if self._process.is_alive():
            self._process.terminate()

    def _ask(self, threads: int | None) -> Any:
        self._connection.send(threads)
        return self._answer()

    def _answer(self) -> Any:
        try:
            failure, answer = self._connection.recv()
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            failure, answer = (
                f"its process ended with status {status}; there may be too little memory for all",
                None,
            )
        if failure is not None:
            raise RuntimeError(f"{self._title} failed: {failure}. Leave it out, or make its work smaller.")
        return answer


def _work(connection: Connection, build: Callable[..., Rounds], arguments: tuple[Any, ...], gives_back: bool) -> None:
    """The other process, until nobody asks any more. A question is a number of threads for a round, or None for the memory; an answer is a
    failure, if there is one, and a value."""
    imports = process_bytes("VmRSS")
    try:
        contestant = build(*arguments)
        connection.send((None, None))
        while True:
            if (threads := connection.recv()) is None:
                answer: Any = _memory(imports)
            else:
                torch.set_num_threads(threads)
                gc.collect()
                answer = contestant.round()
                if gives_back and platform.libc_ver()[0] == "glibc":
                    gc.collect()
                    ctypes.CDLL(None).malloc_trim(0)
            connection.send((None, answer))
    except EOFError:
        return
    except Exception as error:
        connection.send((f"{type(error).__name__}: {error}", None))


def _memory(imports: int | None) -> dict[str, int | None]:
    used = {"peak_bytes": process_bytes("VmHWM"), "imports_bytes": imports}
    if torch.accelerator.is_available():
        used["device_peak_bytes"] = torch.accelerator.max_memory_allocated()
    return used
