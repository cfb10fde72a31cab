"""Work in a thread of its own that shows its latest state while it goes on, and ends when nobody looks any more."""

import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

State = TypeVar("State")
Show = Callable[[State], None]

_SECONDS_BETWEEN_STATES = 0.05
"""Twenty pictures a second look smooth; more of them cost the browser more than the search costs the server."""


class ReaderLeft(Exception):
    """Ends the work: the reader closed the page or pressed Stop."""


class Live(Generic[State]):
    """Iterates over the latest states of `work`, and over the last one always.

    Closing the iterator ends the work at the next state that it shows. An error of the work is raised to the reader.
    """

    def __init__(self, work: Callable[[Show[State]], None]) -> None:
        """Prepare `work`, which gets a function to show a state with."""
        self._work = work
        self._changed = threading.Condition()
        self._latest: list[State] = []
        self._is_done = self._is_left = False
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[State]:
        threading.Thread(target=self._run, daemon=True).start()
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._latest or self._is_done)
                    latest, self._latest = self._latest, []
                    is_last = self._is_done
                yield from latest
                if is_last:
                    break
                with self._changed:
                    self._changed.wait_for(lambda: self._is_done, _SECONDS_BETWEEN_STATES)
            if self._error is not None:
                raise self._error
        finally:
            self._is_left = True

    def _run(self) -> None:
        try:
            self._work(self._show)
        except ReaderLeft:
            pass
        except BaseException as error:  # goes on in the reader's thread
            self._error = error
        finally:
            with self._changed:
                self._is_done = True
                self._changed.notify()

    def _show(self, state: State) -> None:
        if self._is_left:
            raise ReaderLeft
        with self._changed:
            self._latest = [state]
            self._changed.notify()
