"""Freed memory stays with the process: seen from outside, in page faults."""

import platform
import subprocess
import sys

import pytest

_FAULTS_OF_REPEATED_TENSORS = """
import resource, sys, torch
from vaswani_transformer.training.heap import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(min(faults() for _ in range(6)))
"""


def _faults(how: str) -> int:
    command = [sys.executable, "-c", _FAULTS_OF_REPEATED_TENSORS, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's heap is told to keep its memory")
def test_large_tensors_are_not_fetched_from_the_system_again() -> None:
    """In the best round: something small may settle in the hole that a tensor left, and the next one is fetched once more."""
    assert _faults("keep") * 10 < _faults("leave")
