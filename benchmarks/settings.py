"""What every benchmark of contestants lets choose, with its checks."""

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Who takes part, and how often.

    Attributes:
        contestants: names from `KINDS`, the first of them the reference of all ratios; by default those of the device.
        repeats: rounds that are timed, after one that is not.
    """

    contestants: tuple[str, ...] = ()
    repeats: int = 5

    @classmethod
    def chosen(cls, arguments: Namespace) -> Self:
        """The settings that a command line's arguments of the same names hold."""
        given = {field.name: getattr(arguments, field.name) for field in fields(cls) if field.name in arguments}
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return cls(**values)

    def check_numbers(self, *names: str) -> None:
        """
        Raises:
            ValueError: one of these settings is below 1, is empty or names a number twice.
        """
        for name in names:
            value = getattr(self, name)
            numbers = value if isinstance(value, tuple) else (value,)
            if not numbers or any(number is not None and number < 1 for number in numbers):
                raise ValueError(f"`{name}` is {value}; it must be 1 or more.")
            if len(set(numbers)) < len(numbers):
                raise ValueError(f"`{name}` is {value}; name each number once.")

    def check_names(self, name: str, known: Iterable[str]) -> None:
        """
        Raises:
            ValueError: a name in this setting is not known.
        """
        known = list(known)
        for unknown in (value for value in getattr(self, name) if value not in known):
            raise ValueError(f"`{name}`: there is no {unknown!r}; choose from {', '.join(known)}.")
