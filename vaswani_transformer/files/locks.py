"""Files that one process at a time works on."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system answers that knows no locks, as some network file systems do; there, nobody looks out for a second process."""

_held: set[int] = set()


@contextmanager
def lock(path: Path, taken: Exception) -> Iterator[None]:
    """Keep whoever else asks for this lock out until the block ends, or this process does, however it ends.

    Args:
        path: the file to lock; it is made if need be.
        taken: what to raise if somebody has the lock already, in this process or another.
    """
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
    """In a forked process: a lock lasts until the last copy of its descriptor is closed, and a helper may outlive who was killed."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)
