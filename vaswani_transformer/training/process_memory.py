"""The memory of this process: what it keeps between updates, how that is bounded, and its peak."""

import ctypes
import os
import platform
from collections.abc import Mapping
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
"""Parameters of glibc's `mallopt`."""

_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""How many kernels oneDNN keeps, and how many PyTorch's layer above it; each makes one for every shape and type of a product."""

_KERNELS_KEPT = 64
"""More than one micro-batch needs. The default is 1,024, nearly all for shapes of batches that do not come again."""


def keep_freed_memory() -> None:
    """Make glibc's heap keep freed memory for this process; with another C library, do nothing.

    By default a large tensor is mapped and unmapped each time, and the kernel clears its pages again.
    """
    _set_in_heap({_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1})


def map_large_tensors() -> None:
    """Make glibc's heap map each tensor of 256 KiB or more for itself; with another C library, do nothing.

    This is the opposite of `keep_freed_memory`: the process holds what its tensors need, and gives back what is freed.
    """
    _set_in_heap({_M_MMAP_THRESHOLD: 2**18})


def _set_in_heap(parameters: Mapping[int, int]) -> None:
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for parameter, value in parameters.items():
            libc.mallopt(parameter, value)


def bound_kernel_caches() -> None:
    """Let a CPU's matrix products keep few kernels, unless the environment sets the number.

    A kernel takes about half a megabyte, and lies between tensors, so that the heap cannot join the free memory on both sides. Call this
    before the process first multiplies in bfloat16; later it has no effect.
    """
    for name in _KERNEL_CACHES:
        os.environ.setdefault(name, str(_KERNELS_KEPT))


def process_bytes(quantity: str) -> int | None:
    """A line of /proc/self/status in bytes: `VmRSS` is what this process holds, `VmHWM` its peak. None on a system without /proc.

    `getrusage` would also count the memory of the process that started this one.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    lines = (line.split() for line in status.read_text(encoding="utf-8").splitlines())
    return next(int(words[1]) * 1024 for words in lines if words[0] == f"{quantity}:")


def peak_memory() -> int | None:
    """Bytes of memory that this process held at most; None on a system without /proc."""
    return process_bytes("VmHWM")
