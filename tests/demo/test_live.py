import threading
import time

import pytest

from vaswani_transformer.demo.live import Live, Show


def test_the_last_state_always_arrives_and_early_ones_may_be_skipped() -> None:
    def count(show: Show[int]) -> None:
        for number in range(1000):
            show(number)

    seen = list(Live(count))
    assert seen[-1] == 999
    assert seen == sorted(seen) and len(seen) < 100


def test_slow_work_shows_every_state() -> None:
    def count(show: Show[int]) -> None:
        for number in range(3):
            show(number)
            time.sleep(0.12)

    assert list(Live(count)) == [0, 1, 2]


def test_work_without_states_ends() -> None:
    assert list(Live[int](lambda show: None)) == []


def test_an_error_reaches_the_reader_behind_the_states_before_it() -> None:
    def fail(show: Show[int]) -> None:
        show(1)
        raise ValueError("broken")

    seen = []
    with pytest.raises(ValueError, match="broken"):
        for state in Live(fail):
            seen.append(state)
    assert seen == [1]


def test_work_ends_when_its_reader_leaves() -> None:
    ended = threading.Event()

    def forever(show: Show[int]) -> None:
        try:
            for number in range(10**9):
                show(number)
                time.sleep(0.001)
        finally:
            ended.set()

    states = iter(Live(forever))
    next(states)
    states.close()  # type: ignore[attr-defined]  # it is a generator
    assert ended.wait(5)
