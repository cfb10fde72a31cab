"""A polite answer to Ctrl-C and SIGTERM: finish the update, save, then go."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ECHO_SECONDS = 5.0
"""A terminal and a launcher both pass one Ctrl-C on, so that it arrives twice."""

Result = TypeVar("Result")


class _Dropped(BaseException):
    """No `Exception`, lest a library take it for a failure of its own and go on."""


class Interruption:
    """While it is entered, the first signal only sets `requested`; one that comes later than its echo acts as it always does."""

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
        """What `work` returns, or None if a signal came before or while it was done: it is then left in the middle.

        For what takes longer than those who send signals wait, and can be done again.
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
