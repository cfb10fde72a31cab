"""How the ranks of a training learn that one of them failed, was killed or became unreachable.

A rank that waits in a collective operation notices nothing else. It may wait for hours, because the first rank prepares data, validates
and saves while the others wait. So the ranks share a store beside their process group: each writes signs of life there, and why it failed.
"""

import contextlib
import os
import sys
import threading
import time
from datetime import timedelta
from types import TracebackType

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch.distributed import TCPStore

SECONDS_BETWEEN_SIGNS = 1.0
SILENT_SIGNS = 60
"""How many signs of life in a row a rank may miss: while Python writes to a slow disk, it gives none for a while."""
_GRACE_SECONDS = 5.0
"""Time for a rank that learns of a failure to end with a better sentence of its own, or to finish writing."""
_LAST_WORDS = "last words"


class Watch:
    """Inside this context, if another rank ends too early, this process soon ends with a sentence, whatever it is waiting for.

    This rank reports its own failure to the others. If it only follows from another rank's, such as a closed connection, a
    `ConnectionError` with the cause takes its place. If this rank is stuck, a thread ends the process. A single process watches nothing.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.rank, self.ranks = accelerator.process_index, accelerator.num_processes
        self._over, self._failed = threading.Event(), threading.Event()
        self._cause = ""
        # The first rank, whose process holds the store, watches all others, and they watch it
        self._missed = dict.fromkeys(range(1, self.ranks) if self.rank == 0 else [0], 0)

    def __enter__(self) -> "Watch":
        if self.ranks > 1:
            self._store = self._open_store()
            for work in (self._exchange_signs, self._end_what_is_stuck):
                threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._over.set()
        elif self.ranks > 1:  # the threads keep running: this process might hang while it ends
            self._part(error)

    def _open_store(self) -> TCPStore:
        """Open the store, which answers from its own thread in the first rank, even while Python is blocked there."""
        host, timeout = os.environ["MASTER_ADDR"], timedelta(seconds=SILENT_SIGNS * SECONDS_BETWEEN_SIGNS)
        if self.rank > 0:
            port = broadcast_object_list([0])[0]
            return TCPStore(host, port, is_master=False, timeout=timeout)
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timeout)
        broadcast_object_list([store.port])
        return store

    def _part(self, error: BaseException) -> None:
        """Report this rank's failure, or learn the cause from the rank that failed first."""
        is_consequence = _is_consequence(error)
        if is_consequence:  # the cause may arrive a little later than the end of a connection
            self._failed.wait(2 * SECONDS_BETWEEN_SIGNS)
            cause = "another rank ended without a word, as one does that is killed"
        else:
            cause = f"rank {self.rank} failed: {str(error) or type(error).__name__}"
        if self._learn(cause):
            with contextlib.suppress(RuntimeError):  # the store may be what was lost
                self._store.compare_set(_LAST_WORDS, "", cause)
        if self.rank == 0:  # the store ends with this process, so all ranks need time to read first
            time.sleep(2 * SECONDS_BETWEEN_SIGNS)
        if is_consequence:
            raise ConnectionError(self._sentence()) from error

    def _learn(self, cause: str) -> bool:
        """Whether this cause is the first, which is the one that counts."""
        is_news = not self._failed.is_set()
        if is_news:
            self._cause = cause
            self._failed.set()
        return is_news

    def _exchange_signs(self) -> None:
        """Exchange signs of life until the watch is over or a rank failed; blocks if the network is cut."""
        seen = dict.fromkeys(self._missed, b"")
        number = 0
        while not (self._over.wait(SECONDS_BETWEEN_SIGNS) or self._failed.is_set()):
            number += 1
            try:
                self._store.set(f"sign of {self.rank}", str(number))
                if self._store.check([_LAST_WORDS]):
                    self._learn(self._store.get(_LAST_WORDS).decode())
                for rank in self._missed:
                    sign = self._store.get(key) if self._store.check([key := f"sign of {rank}"]) else b""
                    if sign != seen[rank]:
                        seen[rank], self._missed[rank] = sign, 0
            except RuntimeError:
                self._learn("rank 0, or its machine, is gone")

    def _end_what_is_stuck(self) -> None:
        """Count missed signs by a clock that pauses with this process; if a rank failed and this process does not end, end it."""
        while not self._over.wait(SECONDS_BETWEEN_SIGNS):
            for rank in self._missed:
                self._missed[rank] += 1
                if self._missed[rank] > SILENT_SIGNS:
                    seconds = SILENT_SIGNS * SECONDS_BETWEEN_SIGNS
                    self._learn(
                        f"rank {rank} has given no sign of life for {seconds:.0f} s, so that its machine or the network must be down"
                    )
            if self._failed.is_set() and not self._over.wait(_GRACE_SECONDS):
                print(f"\nerror: {self._sentence()}", file=sys.stderr, flush=True)
                os._exit(1)

    def _sentence(self) -> str:
        cause = self._cause.rstrip(".")
        return f"Rank {self.rank} ends because {cause}. The last saved state is kept; the same command resumes from there."


def _is_consequence(error: BaseException) -> bool:
    """Whether another rank's end may be the cause: a communication error, which gloo reports as a plain `RuntimeError`."""
    return isinstance(error, torch.distributed.DistError) or (type(error) is RuntimeError and "gloo" in str(error))
