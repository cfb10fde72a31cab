"""Maps one function over a stream with processes on all cores; the results keep the order of the stream.

Processes and not threads, because cleaning is Python; forked and not spawned, because a new interpreter takes seconds to load PyTorch.
"""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_CHUNK = 1000
_TOKENIZERS_PARALLELISM = "TOKENIZERS_PARALLELISM"


def available_cores() -> int:
    """The cores that this process may use, which a container or `taskset` may have limited."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def in_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The items in lists: large enough that a millisecond of transport does not matter, small enough to take a fraction of a second."""
    iterator = iter(items)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, in order, whatever the number of processes; each process works on one item at a time.

    The processes are forked at once and inherit `function`, so that it may hold what cannot be pickled. This process does the work itself
    for a stream of a single item, and where forking is not safe (anywhere but on Linux).

    Args:
        function: returns for an item a result that can be pickled.
        items: picklable, such as those of `in_chunks`; read as they are needed.
        processes: at least 1; with 1, this process does the work.

    Raises:
        ChildProcessError: a process was killed, or ran out of memory. Whatever `function` raises is raised here.
    """
    iterator = iter(items)
    head = list(islice(iterator, 2 if processes > 1 else 0))
    stream = chain(head, iterator)
    if len(head) < 2 or sys.platform != "linux":
        return ((item, function(item)) for item in stream)
    return _deal(_fork(function, processes), stream)


class _Worker:
    """One forked process and the pipe to it. It ends by itself when the pipe's other end closes, even by a crash."""

    def __init__(self, function: Callable[[Any], Any], siblings: Sequence["_Worker"]) -> None:
        fork = multiprocessing.get_context("fork")
        self._pipe, theirs = fork.Pipe()
        not_theirs = [self._pipe, *(sibling._pipe for sibling in siblings)]
        self._process = fork.Process(target=_serve, args=(function, theirs, not_theirs), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, item: Any) -> None:
        try:
            self._pipe.send(item)
        except OSError as error:
            raise self._lost() from error

    def receive(self) -> Any:
        try:
            result, error = self._pipe.recv()
        except (EOFError, OSError) as end:
            raise self._lost() from end
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        self._process.terminate()
        self._process.join()
        self._pipe.close()

    def _lost(self) -> ChildProcessError:
        self._process.join()
        return ChildProcessError(
            f"A process that prepares data was ended from outside (status {self._process.exitcode}), most often because memory ran out; "
            "nothing half-written is left: free some memory and run the same again."
        )


def _fork(function: Callable[[Any], Any], processes: int) -> list[_Worker]:
    workers: list[_Worker] = []
    configured = os.environ.get(_TOKENIZERS_PARALLELISM)
    # There are as many workers as cores, so none needs threads; unless this is set, tokenizers warns at every fork after using threads
    os.environ[_TOKENIZERS_PARALLELISM] = "false"
    try:
        while len(workers) < processes:
            workers.append(_Worker(function, workers))
    finally:
        if configured is None:
            del os.environ[_TOKENIZERS_PARALLELISM]
        else:
            os.environ[_TOKENIZERS_PARALLELISM] = configured
    return workers


def _deal(workers: list[_Worker], items: Iterable[Item]) -> Iterator[tuple[Item, Any]]:
    """One item at a time for each worker: with a second one under way, both ends could wait for each other to read."""
    busy: deque[tuple[Item, _Worker]] = deque()
    try:
        for item in items:
            if len(busy) < len(workers):
                worker = workers[len(busy)]
                worker.send(item)
                busy.append((item, worker))
                continue
            done, worker = busy.popleft()
            result = worker.receive()
            worker.send(item)  # before the caller gets the result, so that the worker is not idle meanwhile
            busy.append((item, worker))
            yield done, result
        for done, worker in busy:
            yield done, worker.receive()
    finally:
        for worker in workers:
            worker.close()


def _serve(function: Callable[[Any], Any], pipe: Connection, not_ours: Sequence[Connection]) -> None:
    """The loop of a worker. Ctrl-C reaches all processes of a terminal; workers ignore it, since the first process decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for connection in not_ours:
        connection.close()
    with suppress(EOFError, ConnectionError):  # the first process has ended
        while True:
            pipe.send(_answer(function, pipe.recv()))


def _answer(function: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None]:
    try:
        return function(item), None
    except Exception as error:  # raised again in the first process
        return None, error
