"""What every contestant can do. Nothing heavy is imported here: a contestant's own process loads this file, too."""

from typing import Any, Protocol


class Contestant(Protocol):
    """What is timed is `translate` alone."""

    def prepare(self, batch: list[list[int]]) -> Any:
        """Token ids of each source, its end among them, as `translate` wants them."""

    def translate(self, batch: Any, beams: int, length: int | None = None) -> Any:
        """The best hypothesis of each, in this contestant's own form; complete when it returns.

        With `length`, of those that have exactly so many tokens, so that every contestant takes the same steps.
        """

    def token_ids(self, output: Any) -> list[list[int]]:
        """What `translate` returned, without start, end and padding."""


def translate_all(contestant: Contestant, batches: list[list[list[int]]], beams: int) -> None:
    """Translate batches of token ids, one after the other."""
    for batch in batches:
        contestant.translate(contestant.prepare(batch), beams)
