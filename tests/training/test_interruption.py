"""The first signal is a request, its echo is ignored, a later one is an order."""

import os
import signal
from collections.abc import Iterator

import pytest

from vaswani_transformer.training import interruption
from vaswani_transformer.training.interruption import Interruption


def test_the_first_signal_only_asks() -> None:
    with Interruption() as asked:
        assert not asked.requested
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)  # the echo of a launcher
        assert asked.requested


@pytest.fixture
def ctrl_c_interrupts() -> Iterator[None]:
    """As in a terminal: what a shell starts in the background begins with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_interrupts")
def test_a_later_signal_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "_ECHO_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt), Interruption():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_work_that_can_be_done_again_is_left_in_the_middle() -> None:
    done = []

    def work() -> str:
        done.append("begun")
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("ended")
        return "result"

    with Interruption() as asked:
        assert asked.unless_requested(lambda: "result") == "result"
        assert asked.unless_requested(work) is None
        assert asked.requested
        assert asked.unless_requested(work) is None  # whoever has to leave begins nothing
    assert done == ["begun"]


def test_after_such_work_a_signal_only_asks_again() -> None:
    with Interruption() as asked:
        asked.unless_requested(lambda: "result")
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.requested


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interruption():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
