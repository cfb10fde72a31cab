"""What counts as running out of memory, and what does not."""

import pytest
import torch

from vaswani_transformer.training.out_of_memory import fitting


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), r"Too large\. \(no memory\)"),
        (MemoryError("Unable to allocate 3 TiB"), r"Too large\. \(Unable to allocate 3 TiB\)"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore"), r"\(CUDA out of .* 2 GiB\.\)"),
    ],
)  # fmt: skip
def test_whoever_has_no_memory_says_so(error: Exception, words: str) -> None:
    with pytest.raises(MemoryError, match=words), fitting(lambda: "Too large."):
        raise error


def test_the_allocator_of_the_cpu_has_none_either() -> None:
    with (
        pytest.raises(MemoryError, match=r"Too large\. \(.*can't allocate memory"),
        fitting(lambda: "Too large."),
    ):
        torch.empty(2**62, dtype=torch.uint8)


def test_other_errors_are_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes"), fitting(lambda: "Too large."):
        raise RuntimeError("shapes do not fit")
