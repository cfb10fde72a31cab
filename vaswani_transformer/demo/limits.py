"""What one visitor of a demo may ask for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one visitor may ask for.

    Attributes:
        characters: of one text.
        tokens: of one sentence, as the model's tokenizer cuts it.
        beams: of a search, and so translations of a sentence.
        extra_length: tokens that a translation may have beyond its source.
        megabytes: of one file.
        at_once: translations that are computed side by side; others wait in line.
        waiting: visitors in line; whoever comes later is told so.
    """

    characters: int = 5000
    tokens: int = 512
    beams: int = 10
    extra_length: int = 200
    megabytes: int = 10
    at_once: int = 4
    waiting: int = 100

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"The demo's limit {name} is {value}; it must be at least 1.")
