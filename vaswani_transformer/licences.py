"""What the licences of a model's training corpora ask for, put together from what the recipe states.

This is a summary of statements and no legal advice. Two rules make it. A condition of one part is a condition of the whole. A part whose
licence nobody states leaves the licence of the whole open. Which condition a licence has stands in one table; of a licence that is not in
it nothing is claimed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .data.sources.corpus import Corpus

CONDITIONS = {
    "attribution": "name the authors",
    "share_alike": "pass adaptations on under the same licence",
    "non_commercial": "no commercial use",
    "no_derivatives": "pass on no adaptations",
}
"""The conditions that are carried along, in the words of the card."""

_CREATIVE_COMMONS = re.compile(r"cc-by(?P<non_commercial>-nc)?(?:(?P<share_alike>-sa)|(?P<no_derivatives>-nd))?-[1-4]\.[05]")
"""The Hub's identifiers of the six licences; each names its own conditions."""

_OTHERS = {
    **dict.fromkeys(("cc0-1.0", "pddl", "unlicense", "0bsd"), ()),
    **dict.fromkeys(("apache-2.0", "mit", "isc", "bsd-2-clause", "bsd-3-clause", "odc-by"), ("attribution",)),
    **dict.fromkeys(("gpl-2.0", "gpl-3.0", "agpl-3.0", "lgpl-3.0", "odbl"), ("attribution", "share_alike")),
}

_UNSTATED = re.compile(r"unknown|none stated\b.*|not stated\b.*", re.IGNORECASE | re.DOTALL)
"""Such a value states that there is no statement; further words, such as "none stated; research use", are quoted."""

_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True)
class Part:
    """One training corpus.

    Attributes:
        title: what messages call it.
        licence: as stated, or how it is said that none is.
        attribution: whom to name, where the recipe says so.
    """

    title: str
    licence: str
    attribution: str | None = None

    @property
    def is_stated(self) -> bool:
        """Whether anybody stated a licence."""
        return not _UNSTATED.fullmatch(self.licence)


@dataclass(frozen=True)
class Licences:
    """The licences of all training corpora."""

    parts: tuple[Part, ...]

    @property
    def stated(self) -> list[str]:
        """The different licences, in the order of the parts."""
        return list(dict.fromkeys(part.licence for part in self.parts if part.is_stated))

    @property
    def unstated(self) -> list[Part]:
        """The parts without a statement."""
        return [part for part in self.parts if not part.is_stated]

    @property
    def single(self) -> str | None:
        """The one licence of all parts, or "unknown" where none states any."""
        if not self.stated:
            return "unknown"
        return self.stated[0] if len(self.stated) == 1 and not self.unstated else None

    @property
    def unlisted(self) -> list[str]:
        """Stated licences of whose conditions nothing is known here."""
        return [licence for licence in self.stated if conditions_of(licence) is None]

    @property
    def conditions(self) -> dict[str, list[str]]:
        """Each condition of any part, in the words of `CONDITIONS`, with the titles of the parts that have it."""
        found = {
            words: [part.title for part in self.parts if name in (conditions_of(part.licence) or ())] for name, words in CONDITIONS.items()
        }
        return {words: titles for words, titles in found.items() if titles}

    def metadata(self) -> dict[str, Any]:
        """The Hub's entries: an identifier for one licence; for several, or with a part that states none, `other` with a name."""
        if self.single is not None:
            return licence_metadata(self.single)
        name = "not stated for all parts" if self.unstated else " and ".join(self.stated)
        return {"license": "other", "license_name": _name(name)}

    def lines(self) -> list[str]:
        """The same as text: a line for each part, and one for what they ask for together."""
        lines = [": ".join(filter(None, (part.title, part.licence, part.attribution))) for part in self.parts]
        together = [f"{words} ({', '.join(titles)})" for words, titles in self.conditions.items()]
        together += [f"conditions not known here ({licence})" for licence in self.unlisted]
        together += [f"no licence stated ({part.title})" for part in self.unstated]
        return [*lines, f"together: {'; '.join(together) or 'no condition'}"]


def licences_of(corpora: Sequence[Corpus], default: str) -> Licences:
    """The licences of training corpora; `default`, the recipe's `data.licence`, is that of each that names none."""
    return Licences(tuple(Part(corpus.title, corpus.licence or default, corpus.attribution) for corpus in corpora))


def conditions_of(licence: str) -> tuple[str, ...] | None:
    """The names of a licence's conditions, keys of `CONDITIONS`; None if the table does not have it."""
    if found := _CREATIVE_COMMONS.fullmatch(licence):
        return ("attribution", *(name for name, part in found.groupdict().items() if part))
    return _OTHERS.get(licence)


def licence_metadata(licence: str) -> dict[str, Any]:
    """The Hub knows short identifiers; anything else is `other` with a name."""
    if _IDENTIFIER.fullmatch(licence):
        return {"license": licence}
    return {"license": "other", "license_name": _name(licence)}


def _name(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
