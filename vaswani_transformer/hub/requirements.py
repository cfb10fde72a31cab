"""The exact versions that a program ran with here, for a machine that is to run the same."""

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_BROUGHT_BY_TORCH = re.compile(r"(nvidia|cuda|triton|pytorch-triton)(-|$)")
"""For a GPU; torch's wheels pin them, and those for CPUs have none."""


def pinned(roots: Sequence[str]) -> list[str]:
    """`name==version` of the distributions `roots` and of all that they need here, sorted by name.

    Raises:
        ImportError: one of them is not installed.
    """
    from packaging.requirements import Requirement

    found: dict[str, str] = {}
    waiting = [Requirement(root) for root in roots]
    while waiting:
        requirement = waiting.pop()
        name = requirement.name.lower().replace("_", "-").replace(".", "-")
        if name in found and not requirement.extras:
            continue
        try:
            installed = distribution(requirement.name)
        except PackageNotFoundError as error:
            raise ImportError(f"{requirement.name} is not installed; install it: pip install {requirement.name}") from error
        # What follows + names a build, such as "+cpu", which only its maker's index has.
        found[name] = f"{installed.metadata['Name']}=={installed.version.partition('+')[0]}"
        waiting += _needed(installed.requires or [], requirement.extras)
    return sorted(found.values(), key=str.lower)


def _needed(lines: Sequence[str], extras: set[str]) -> "Iterator[Requirement]":
    """The requirements of these lines that count on this machine."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, lines):
        wanted = any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)) if requirement.marker else True
        if wanted and not _BROUGHT_BY_TORCH.match(requirement.name):
            yield requirement
