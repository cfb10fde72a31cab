from collections.abc import Callable

import pytest

from benchmarks.interleaved import Measurement, Ratio, Timed, cpu_ratios, interleave, wall_ratios


class Clock:
    """Goes only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def runs_that_take(wall: Clock, cpu: Clock, seconds: dict[str, list[float]], calls: list[str]) -> dict[str, Callable[[], str]]:
    """Contestants that take the listed seconds, one after the other, and compute for half of them."""

    def run_of(name: str) -> Callable[[], str]:
        def run() -> str:
            taken = seconds[name][calls.count(name)]
            calls.append(name)
            wall.now += taken
            cpu.now += taken / 2
            return f"{name}{calls.count(name)}"

        return run

    return {name: run_of(name) for name in seconds}


def test_everybody_runs_by_turns_in_an_order_that_turns_round() -> None:
    wall, cpu, calls = Clock(), Clock(), list[str]()
    seconds = {"a": [50.0, 8, 4, 6], "b": [50.0, 2, 4, 3], "c": [50.0, 1, 1, 1]}
    measured = interleave(runs_that_take(wall, cpu, seconds, calls), repeats=3, warm_ups=1, wall_clock=wall, cpu_clock=cpu)
    assert calls == [*"cba", *"abc", *"cba", *"abc"]
    assert measured == {
        "a": Measurement((8, 4, 6), (4, 2, 3), "a4"),
        "b": Measurement((2, 4, 3), (1, 2, 1.5), "b4"),
        "c": Measurement((1, 1, 1), (0.5, 0.5, 0.5), "c4"),
    }
    assert (measured["a"].median_seconds, measured["b"].median_cpu_seconds) == (6, 1.5)


def test_ratios_are_taken_within_a_round() -> None:
    """Every round twice as slow as the one before, for both: the ratio is the same in all of them."""
    slower = {"a": Measurement((6, 12, 24), (6, 6, 6), None), "b": Measurement((2, 4, 8), (2, 3, 1), None)}
    assert wall_ratios(slower) == {"a": Ratio(1, 1, 1), "b": Ratio(3, 3, 3)}
    assert cpu_ratios(slower) == {"a": Ratio(1, 1, 1), "b": Ratio(3, 2, 6)}


def test_ratios_to_another_contestant() -> None:
    measured = {"a": Measurement((6, 12), (6, 6), None), "b": Measurement((2, 3), (3, 2), None)}
    assert wall_ratios(measured, "b") == {
        "a": Ratio((1 / 3 + 1 / 4) / 2, 1 / 4, 1 / 3),
        "b": Ratio(1, 1, 1),
    }
    assert cpu_ratios(measured, "b")["a"] == Ratio((1 / 2 + 1 / 3) / 2, 1 / 3, 1 / 2)


def test_a_run_that_times_itself_is_believed() -> None:
    times = iter([Timed(50, 40), Timed(3, 2, "first"), Timed(5, 4, "second")])
    measured = interleave({"a": lambda: next(times)}, repeats=2)
    assert measured["a"] == Measurement((3, 5), (2, 4), "second")


def test_without_a_warm_up_the_first_run_counts() -> None:
    wall, cpu, calls = Clock(), Clock(), list[str]()
    runs = runs_that_take(wall, cpu, {"a": [3.0]}, calls)
    measured = interleave(runs, repeats=1, warm_ups=0, wall_clock=wall, cpu_clock=cpu)
    assert measured["a"].seconds == (3,)


@pytest.mark.parametrize(("names", "repeats"), [([], 5), (["a"], 0)])
def test_nothing_to_measure_is_refused(names: list[str], repeats: int) -> None:
    with pytest.raises(ValueError, match="measure nothing; name a contestant or more"):
        interleave({name: lambda: None for name in names}, repeats)
