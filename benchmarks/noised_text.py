"""Write a training text with noise, line by line beside the clean one, to train on both: what does noised training buy?

    python -m benchmarks.noised_text data/multi30k_tok/train.lc.norm.tok.en.gz --misspellings data/robustness/char_noise/en.natural.gz \\
        --share 10 --output data/noised/train.en.gz

The noise is that of `benchmarks.limits noise`, whose curves then compare a run on both texts with a run on the clean one. The share of all
words is divided evenly among the kinds.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.limits.noise import KINDS, Noised, add_noise, read_misspellings
from benchmarks.limits.subject import existing
from vaswani_transformer.data.sources.text import file_lines
from vaswani_transformer.files.atomic_file import write_bytes
from vaswani_transformer.files.compression import compress


def noised_text(sentences: Sequence[str], kinds: Sequence[str], share: float, seed: int, misspellings: Path | None = None) -> Noised:
    """Add each kind of noise to a part of the words, one kind after the other.

    Args:
        sentences: clean text.
        kinds: of `KINDS`.
        share: of all words, from 0 to 1, over all kinds.
        seed: the same seed gives the same noise.
        misspellings: the list that the kind of that name needs.

    Returns:
        As many sentences; a word that two kinds have changed counts twice.

    Raises:
        FileNotFoundError: there is no such list.
        ValueError: see `add_noise`.
    """
    known = None if misspellings is None else read_misspellings(misspellings)
    found, changed, words = list(sentences), 0, 0
    for kind in kinds:
        noised = add_noise(found, kind, share / len(kinds), seed=seed, misspellings=known)
        found, changed, words = noised.sentences, changed + noised.changed_words, words or noised.words
    return Noised(found, changed, words)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write a training text with noise, line by line beside the clean one.")
    add = parser.add_argument
    add("text", type=Path, help="sentences, one a line, plain, .gz or .xz")
    add("--kinds", nargs="+", choices=list(KINDS), default=["misspelling", "swap"], help="(default: misspelling swap)")
    add("--share", type=float, default=10, metavar="PERCENT", help="of all words, over all kinds (default: %(default)s)")
    add("--misspellings", type=Path, metavar="FILE", help="a word and what people write instead, a line each")
    add("--seed", type=int, default=1, help="(default: %(default)s)")
    add("--output", type=Path, required=True, metavar="FILE", help="plain, .gz or .xz")
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    """Write the noised text."""
    found = noised_text(list(file_lines(existing(a.text))), a.kinds, a.share / 100, a.seed, a.misspellings)
    a.output.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(a.output, compress("".join(f"{sentence}\n" for sentence in found.sentences).encode(), a.output.name))
    print(
        f"{found.changed_words:,} of {found.words:,} words are changed ({found.share:.1%}); {len(found.sentences):,} lines in {a.output}."
    )


if __name__ == "__main__":
    run(main, parse)
