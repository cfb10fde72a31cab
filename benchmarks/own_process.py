"""A Python process of its own for one piece of work: what it sets for the whole process (threads, precision, how memory is returned) is not
set for the others, and the memory it takes is its own.

The process imports only what its work needs: this module, whose `serve` is its program, needs little more than the standard library.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vaswani_transformer.training.process_memory import process_bytes

_SECONDS_BETWEEN_LOOKS = 0.02

Memory = dict[str, int | None]


class OwnProcess:
    """A new Python that builds something and then answers questions about it. While nobody asks, it takes no time. A context manager."""

    def __init__(self, title: str, build: Callable[..., Any], *arguments: Any, meanwhile: Callable[[], object] | None = None) -> None:
        """Start it, and do not wait for it: several may start side by side.

        Args:
            title: for error messages.
            build, arguments: give the object that works, in the other process; all must be picklable.
            meanwhile: called here, again and again, while this process waits for the other.
        """
        self._title, self._meanwhile = title, meanwhile
        self._connection, theirs = Pipe()
        search_path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search_path))},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._connection.send((build, arguments))

    def __enter__(self) -> Self:
        """
        Raises:
            RuntimeError: the object cannot be built; its own words are in the sentence.
        """
        try:
            self._answer()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()
        if error is not None:
            self._process.kill()
        self._process.wait()

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function(object, *arguments)` returns there.

        Raises:
            RuntimeError: it failed, or its process ended.
        """
        self._connection.send((function, arguments))
        return self._answer()

    def memory(self) -> Memory:
        """`peak_bytes` so far, and of it `imports_bytes`, which libraries took before anything was built (None on a system without /proc);
        with an accelerator that PyTorch uses there also `device_peak_bytes`."""
        return dict(self.ask(_memory))

    def _answer(self) -> Any:
        try:
            while self._meanwhile is not None and not self._connection.poll(_SECONDS_BETWEEN_LOOKS):
                self._meanwhile()
            failure, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            status = self._process.wait()
            failure, answer = f"its process ended with status {status}; there may be too little memory for all", None
        if failure is not None:
            raise RuntimeError(f"{self._title} failed: {failure}. Leave it out, or make its work smaller.")
        return answer


class _Worker:
    """The object that was built, and what the imports took before."""

    def __init__(self, connection: Connection) -> None:
        build, arguments = connection.recv()  # imports what `build` needs
        self.imports_bytes = process_bytes("VmRSS")
        self.thing = build(*arguments)


def _memory(worker: _Worker) -> Memory:
    used = {"peak_bytes": process_bytes("VmHWM"), "imports_bytes": worker.imports_bytes}
    torch = sys.modules.get("torch")
    if torch is not None and torch.accelerator.is_available():
        used["device_peak_bytes"] = torch.accelerator.max_memory_allocated()
    return used


def serve(descriptor: int) -> None:
    """The other process, until nobody asks any more. An answer is a failure, if there is one, and a value."""
    connection = Connection(descriptor)
    try:
        worker = _Worker(connection)
        connection.send((None, None))
        while True:
            function, arguments = connection.recv()
            connection.send((None, function(worker if function is _memory else worker.thing, *arguments)))
    except EOFError:
        return
    except Exception as error:
        connection.send((f"{type(error).__name__}: {error}", None))
