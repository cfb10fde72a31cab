import os
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from benchmarks.own_process import OwnProcess
from benchmarks.training.contestants import train_round

MIB = 2**20


def test_rounds_are_done_there_on_so_many_threads_and_in_its_own_memory() -> None:
    """A round takes 300 MiB, which are free again when it is over."""
    own = "(__import__('os').getpid(), __import__('torch').get_num_threads(), len(b'1' * (300 << 20)))"
    before = torch.get_num_threads()
    with OwnProcess("it", partial(SimpleNamespace, round=partial(eval, own), device=torch.device("cpu"))) as process:
        at_first = process.memory()
        rounds = [process.ask(train_round, threads, False) for threads in (1, 3, 2)]
        at_last = process.memory()
    assert [threads for _, threads, _ in rounds] == [1, 3, 2]
    assert len({pid for pid, *_ in rounds} | {os.getpid()}) == 2
    assert torch.get_num_threads() == before
    if sys.platform == "linux":  # others do not tell of a process' peak memory
        assert at_first["imports_bytes"] == at_last["imports_bytes"] > 50 * MIB
        assert at_last["peak_bytes"] - at_first["peak_bytes"] > 250 * MIB


def test_what_cannot_be_built_says_why() -> None:
    with (
        pytest.raises(RuntimeError, match=r"^the number failed: ValueError: could not .*'abc'. Leave it out"),
        OwnProcess("the number", float, "abc"),
    ):
        pass


def test_a_process_that_dies_is_told_of() -> None:
    with (
        pytest.raises(RuntimeError, match="its process ended with status 3; there may be too little memory for all"),
        OwnProcess("it", partial(SimpleNamespace, round=partial(os._exit, 3))) as process,
    ):
        process.ask(train_round, 1, False)
