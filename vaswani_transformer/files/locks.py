"""Files that one process at a time works on."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .atomic_folder import explained

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of a file system without locks, as some network file systems are; there, a second process is not noticed."""

_held: set[int] = set()


@contextmanager
def lock(path: Path, taken: Exception) -> Iterator[None]:
    """Hold a lock until the block ends, or until this process does, however it ends.

    Args:
        path: the file to lock; it is made if need be.
        taken: what to raise if the lock is held already, in this process or another.
    """
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    _held.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise taken from error
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
        yield
    finally:
        if descriptor in _held:
            _held.remove(descriptor)
            os.close(descriptor)


def _let_go() -> None:
    """In a forked process, close its copies of the locks, so that they do not last longer than the process that took them."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)
