"""One sentence for running out of memory: what did not fit, how large it was, and how to make it smaller."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from accelerate.utils.memory import should_reduce_batch_size


@contextmanager
def fitting(sentence: Callable[[], str]) -> Iterator[None]:
    """Raise `MemoryError` with `sentence()` and the allocator's message, if the block runs out of memory on any device."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or should_reduce_batch_size(error)):
            raise
        words = str(error).strip().splitlines() or ["no memory"]
        raise MemoryError(f"{sentence()} ({words[0]})") from error
