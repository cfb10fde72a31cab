"""What a process keeps, seen from outside: in page faults, and in its peak."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from tests.processor import needs_bfloat16
from vaswani_transformer.training.process_memory import peak_memory

_FAULTS_OF_REPEATED_TENSORS = """
import resource, sys, torch
from vaswani_transformer.training.process_memory import keep_freed_memory
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


_GROWTH_BY_NEW_SHAPES = """
import sys, torch
from vaswani_transformer.training.process_memory import bound_kernel_caches, peak_memory
if sys.argv[1] == "bound":
    bound_kernel_caches()
def multiply(sizes):
    for size in sizes:
        torch.ones(size, 64, dtype=torch.bfloat16) @ torch.ones(64, size, dtype=torch.bfloat16)
multiply(range(64, 264))
before = peak_memory()
multiply(range(264, 664))
print(peak_memory() - before)
"""


@needs_bfloat16
def test_new_shapes_of_batches_do_not_pile_up_kernels() -> None:
    """Every batch has another shape; oneDNN would keep 1,024 kernels, and PyTorch once more as many."""
    assert _bytes("bound") * 4 < _bytes("leave")


def _bytes(how: str) -> int:
    """In an environment that no training in this process has bounded."""
    command = [sys.executable, "-c", _GROWTH_BY_NEW_SHAPES, how]
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_the_peak_is_that_of_this_process() -> None:
    before = peak_memory()
    large = torch.ones(2**26)  # 256 MiB
    after = peak_memory()
    assert before is not None and after is not None and after >= len(large) * 4
