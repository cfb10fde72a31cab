"""Work on all cores: the same as on one, in the same order, with nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from vaswani_transformer.data.workers import available_cores, in_chunks, map_in_order

if sys.platform != "linux":
    pytest.skip("processes are forked on Linux only", allow_module_level=True)


def test_chunks_hold_everything_in_order() -> None:
    chunks = list(in_chunks(range(2001)))
    assert [len(chunk) for chunk in chunks] == [1000, 1000, 1]
    assert [item for chunk in chunks for item in chunk] == list(range(2001))


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_results_come_in_order(processes: int) -> None:
    def late_if_even(number: int) -> int:
        time.sleep(0.004 if number % 2 == 0 else 0)
        return number * number

    assert list(map_in_order(late_if_even, range(31), processes)) == [(n, n * n) for n in range(31)]


def test_each_process_takes_its_part_and_tokenizers_start_no_threads_there() -> None:
    def who(_: int) -> tuple[int, str]:
        time.sleep(0.01)
        return os.getpid(), os.environ["TOKENIZERS_PARALLELISM"]

    before = os.environ.get("TOKENIZERS_PARALLELISM")
    answers = [answer for _, answer in map_in_order(who, range(9), 3)]
    assert len({pid for pid, _ in answers}) == 3
    assert os.getpid() not in {pid for pid, _ in answers}
    assert {setting for _, setting in answers} == {"false"}
    assert os.environ.get("TOKENIZERS_PARALLELISM") == before


def test_a_single_item_is_worked_on_right_here() -> None:
    assert list(map_in_order(lambda item: os.getpid(), ["one"], 4)) == [("one", os.getpid())]
    assert list(map_in_order(lambda item: os.getpid(), [], 4)) == []


def test_an_endless_stream_is_read_as_needed() -> None:
    read = []

    def numbers() -> Iterator[int]:
        for number in count():
            read.append(number)
            yield number

    results = map_in_order(abs, numbers(), 2)
    assert list(islice(results, 10)) == [(n, n) for n in range(10)]
    assert len(read) <= 10 + 3


def test_an_error_is_raised_here_and_nobody_stays() -> None:
    workers = set()

    def fail_at_five(number: int) -> int:
        if number == 5:
            raise ValueError("not five")
        return os.getpid()

    with pytest.raises(ValueError, match="not five"):
        for _, pid in map_in_order(fail_at_five, range(99), 2):
            workers.add(pid)
    assert workers
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_killed_process_is_told_and_not_waited_for() -> None:
    def die_at_five(number: int) -> int:
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(ChildProcessError, match=r"ended from outside \(status -9\).*memory.*run the same again"):
        list(map_in_order(die_at_five, range(99), 2))


def test_when_the_first_process_is_killed_the_others_go(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from vaswani_transformer.data.workers import map_in_order\n"
        "for _, pid in map_in_order(lambda n: os.getpid(), iter(int, 1), 3):\n"
        "    print(pid, flush=True)\n"
        "    time.sleep(0.05)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root) as first:
        assert first.stdout is not None
        workers = {int(first.stdout.readline()) for _ in range(6)}
        first.kill()
        assert len(workers) == 3
        first.stdout.read()  # ends when the last who could write to it has gone
    deadline = time.monotonic() + 10
    while any(map(_is_at_work, workers)):
        assert time.monotonic() < deadline, "workers stay behind"
        time.sleep(0.01)


def _is_at_work(pid: int) -> bool:
    """Whether there is such a process; one that has ended but that nobody has asked about yet does not count."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def test_the_cores_that_this_process_may_use() -> None:
    assert available_cores() == len(os.sched_getaffinity(0))
