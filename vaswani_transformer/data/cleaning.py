"""Which sentence pairs are worth training on."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from ..recipe import CleaningSettings
from .sources.corpus import SentencePair, update_digest
from .workers import in_chunks, map_in_order

# Chinese, Japanese, Thai, Lao, Tibetan, Burmese and Khmer put no space between words: each of their characters counts as a word.
_SPACELESS = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# No language has words this long on average: a text counts at least one word for so many characters, such as a megabyte without a space.
_LONGEST_WORD = 40
_VISIBLE = re.compile("[^\\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")


@dataclass
class CleaningReport:
    """What `clean` did with the pairs it has been asked for so far.

    Attributes:
        pairs_in: pairs read.
        kept: pairs handed on.
        trimmed: kept pairs that lost white space at an end.
        dropped: pairs dropped, for each reason the first that applies.
        text_sha256: of all text read, kept or not, as UTF-8: source, "\\n", target, "\\n", ... It exists for every kind of corpus, so that
            anybody with the same data can tell that it is the same. None before the last pair.
    """

    pairs_in: int = 0
    kept: int = 0
    trimmed: int = 0
    dropped: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("empty_side", "too_long", "length_ratio", "identical_sides", "held_out", "duplicate"), 0)
    )
    text_sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it goes into `cleaning.json`."""
        return asdict(self)


def clean(
    pairs: Iterable[SentencePair],
    settings: CleaningSettings,
    held_out: Iterable[SentencePair] = (),
    processes: int = 1,
) -> tuple[Iterator[SentencePair], CleaningReport]:
    """Hand on the pairs worth training on, without white space at their ends and otherwise as they are.

    A pair is dropped for the first of these reasons that applies:

    - `empty_side`: a side without one visible character;
    - `too_long`: a side of more than `max_words` words;
    - `length_ratio`: one side has more than `max_length_ratio` times the words of the other;
    - `identical_sides`: source and target are the same;
    - `held_out`: the source is also a source of `held_out`. With any translation: a model that has seen the sentence has seen the question.
      A target alone does not count, or every "Yes." of a corpus would go;
    - `duplicate`: the same pair came before.

    The last three compare text with every run of white space taken as one space. Remembered are 64-bit hashes, about 80 bytes a pair.

    Args:
        pairs: the training pairs.
        settings: limits, and which reasons apply.
        held_out: the pairs of the validation and test sets, read at once.
        processes: that look at the pairs; the outcome does not depend on it.

    Returns:
        The stream of kept pairs, and the report, which counts along and is complete when the stream ends.
    """
    report = CleaningReport()
    questions = {_fingerprint(_plain(pair.source)) for pair in held_out} if settings.drop_held_out else set()
    judge = partial(_judge, settings=settings, questions=questions)
    return _clean(map_in_order(judge, in_chunks(pairs), processes), report), report


def _clean(judged: Iterable[tuple[list[SentencePair], list[str | int | None]]], report: CleaningReport) -> Iterator[SentencePair]:
    """What only one who sees all pairs can do: count, digest, and know what came before."""
    seen: set[int] = set()
    digest = hashlib.sha256()
    for pair, verdict in chain.from_iterable(zip(*both, strict=True) for both in judged):
        report.pairs_in += 1
        update_digest(digest, pair)
        reason = "duplicate" if verdict in seen else verdict
        if isinstance(reason, str):
            report.dropped[reason] += 1
            continue
        if isinstance(verdict, int):
            seen.add(verdict)
        trimmed = pair._replace(source=pair.source.strip(), target=pair.target.strip())
        report.trimmed += trimmed != pair
        report.kept += 1
        yield trimmed
    report.text_sha256 = digest.hexdigest()


def _judge(pairs: Iterable[SentencePair], settings: CleaningSettings, questions: set[int]) -> list[str | int | None]:
    """For each pair the reason to drop it; or else, where duplicates are dropped, the hash by which they are known."""
    return [_verdict(pair, settings, questions) for pair in pairs]


def _verdict(pair: SentencePair, settings: CleaningSettings, questions: set[int]) -> str | int | None:
    if not (_VISIBLE.search(pair.source) and _VISIBLE.search(pair.target)):
        return "empty_side"
    shorter, longer = sorted((count_words(pair.source), count_words(pair.target)))
    if longer > settings.max_words:
        return "too_long"
    if longer > settings.max_length_ratio * shorter:
        return "length_ratio"
    source, target = _plain(pair.source), _plain(pair.target)
    # The same words may be the translation into two languages
    language = "" if pair.language is None else f"\n{pair.language}"
    if settings.drop_identical_sides and source == target:
        return "identical_sides"
    if questions and _fingerprint(source) in questions:
        return "held_out"
    return _fingerprint(f"{source}\n{target}{language}") if settings.drop_duplicates else None


def count_words(text: str) -> int:
    """Words; in a script that puts no space between them, characters."""
    spaced, spaceless = (text, 0) if text.isascii() else _SPACELESS.subn(" ", text)
    return max(len(spaced.split()) + spaceless, len(text) // _LONGEST_WORD)


def _plain(text: str) -> str:
    """The text with every run of white space, at its ends too, made one space or none: as texts are compared."""
    return " ".join(text.split())


def _fingerprint(plain: str) -> int:
    """64 bits that tell texts apart: of 36 million pairs, the chance that any two collide is 1 in 28,000."""
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest())
