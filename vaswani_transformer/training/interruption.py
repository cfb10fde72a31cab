"""What Ctrl-C and SIGTERM do: finish the update, save, then stop."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ECHO_SECONDS = 5.0
"""A second signal within this time is an echo: a terminal and a launcher both pass on one Ctrl-C."""

Result = TypeVar("Result")


class _Dropped(BaseException):
    """Not an `Exception`, so that no library catches it as a failure of its own."""


class Interruption:
    """Inside this context, the first signal only sets `requested`. A second one acts as usual, unless it is the echo of the first."""

    def __init__(self) -> None:
        self.requested = False
        self._since = 0.0
        self._may_drop = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            self._handlers = {number: signal.signal(number, self._remember) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def unless_requested(self, work: Callable[[], Result]) -> Result | None:
        """The result of `work`, or None if a signal came before or during it; `work` is then abandoned.

        Use it for work that can be repeated, and that takes longer than the sender of a signal waits.
        """
        try:
            self._may_drop = True
            result = None if self.requested else work()
            self._may_drop = False
            return result
        except _Dropped:
            return None

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested, self._since = True, time.monotonic()
            if self._may_drop:
                self._may_drop = False
                raise _Dropped
        elif time.monotonic() - self._since > _ECHO_SECONDS:
            signal.signal(number, self._handlers[signal.Signals(number)])
            signal.raise_signal(number)
