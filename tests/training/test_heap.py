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
def use():
    for _ in range(20):
        torch.ones(2**24)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    command = [sys.executable, "-c", _FAULTS_OF_REPEATED_TENSORS, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's heap is told to keep its memory")
def test_large_tensors_are_not_fetched_from_the_system_again() -> None:
    """Something small may settle in a hole between two uses, which then costs one fetch more: not twenty."""
    assert _faults("keep") * 10 < _faults("leave")
