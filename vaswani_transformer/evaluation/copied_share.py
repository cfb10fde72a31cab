"""How much inline code, how many placeholders and numbers a translation copies intact, and how much of it the reference itself copies.

An item that stands n times in the source and m times in a translation is copied min(n, m) times. People change some items with reason
(1,000 becomes 1.000) and lose others by accident, so there are two shares: of all items of the sources, and of those that the reference
has, too. What an item is, and when it counts as copied, says `copied_items`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..copied_items import CLASSES, COPIED, items_by_class, occurrences


class Copied(NamedTuple):
    """Counts of items, over all sentences."""

    items_in_source: int
    """How many there are."""
    by_reference: int
    """Of these, copied by the reference."""
    by_model: int
    """Copied by the model."""
    by_both: int
    """Copied by the model among those that the reference copies."""

    def plus(self, other: "Copied") -> "Copied":
        """Both texts together."""
        return Copied(*(mine + its for mine, its in zip(self, other, strict=True)))

    @property
    def share(self) -> float | None:
        """Of all items of the sources, the share that the model copies; None where there is none."""
        return self.by_model / self.items_in_source if self.items_in_source else None

    @property
    def share_of_reference(self) -> float | None:
        """Of the items that the reference copies, the share that the model copies, too."""
        return self.by_both / self.by_reference if self.by_reference else None


def count_copied(sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, Copied]:
    """Counts for each class that occurs in the sources, in the order of `CLASSES`.

    Raises:
        ValueError: the lists are of different length.
    """
    counts: dict[str, Copied] = {}
    for source, reference, hypothesis in zip(sources, references, hypotheses, strict=True):
        for name, items in items_by_class(source).items():
            for item, number in items.items():
                by_reference, by_model = (min(number, occurrences(item, text)) for text in (reference, hypothesis))
                found = Copied(number, by_reference, by_model, min(by_reference, by_model))
                counts[name] = counts.get(name, Copied(0, 0, 0, 0)).plus(found)
    return {name: counts[name] for name in CLASSES if name in counts}


def together(counts: dict[str, Copied]) -> Copied:
    """The classes that the search copies, together: all but numbers with separators."""
    total = Copied(0, 0, 0, 0)
    for name in COPIED:
        total = total.plus(counts.get(name, Copied(0, 0, 0, 0)))
    return total


def copied_facts(sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, Any]:
    """What `evaluation.json` holds: counts and shares of each class, and of the copied classes together."""
    counts = count_copied(sources, references, hypotheses)
    return {"together": _facts(together(counts)), "classes": {name: _facts(found) for name, found in counts.items()}}


def _facts(found: Copied) -> dict[str, Any]:
    return {**found._asdict(), "share": found.share, "share_of_reference": found.share_of_reference}
