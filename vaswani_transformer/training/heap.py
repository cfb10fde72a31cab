"""Memory that is kept instead of being given back to the system and fetched again, page by page, in every update."""

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Names of glibc's `mallopt`."""


def keep_freed_memory() -> None:
    """Let the C library's heap keep for this process what is freed; where it is not glibc's, nothing happens.

    By default a large tensor is mapped and unmapped each time, and the kernel clears its pages anew.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)
