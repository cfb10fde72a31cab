"""A visitor's file, translated line by line as `vaswani translate` does, while other visitors' sentences come in between."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files.lines import count_lines
from ..translation import translate as sentences_at_once
from ..translation.job import JobSettings, translate_file
from ..translation.records import FORMATS
from ..translation.translate import Outcome
from .live import Live
from .live import Show as ShowState
from .translator import Request, Translator

_BATCH_TOKENS = 1024
"""Source tokens that are translated before a visitor with a single sentence gets the model: seconds, not minutes."""
_WINDOW = 500
_ENDINGS = {".txt": "text", **{f".{name}": name for name in FORMATS if name != "text"}}


@dataclass(frozen=True)
class FileState:
    """How far a file is.

    Attributes:
        done: lines, or sentences where texts are cut into sentences.
        total: of the lines; None where sentences are counted.
        failed: lines that could not be translated.
        result: at the end, the translated file.
    """

    done: int
    total: int | None
    seconds: float
    failed: int = 0
    result: Path | None = None


def translate_upload(translator: Translator, upload: Path, folder: Path, request: Request, column: str | None) -> Iterator[FileState]:
    """Translate a file into `folder`.

    Args:
        translator: whose model it is.
        upload: a file whose name ends as one of `vaswani translate`'s formats.
        folder: an empty one; the result is `NAME.translated.SUFFIX` there.
        request: the settings; its text counts for nothing.
        column: see `make_records`; None for the default.

    Raises:
        ValueError: the file is of no known format, empty or too large, or no text; or a setting is impossible.
    """
    ending = upload.suffix.lower()
    if ending not in _ENDINGS:
        raise ValueError(f"The name of the file ends in {ending or 'nothing'!r}; give one that ends in {', '.join(_ENDINGS)}.")
    if upload.stat().st_size == 0:
        raise ValueError("The file is empty; there is nothing to translate.")
    if upload.stat().st_size > translator.limits.megabytes * 1_000_000:
        raise ValueError(f"The file is larger than {translator.limits.megabytes} MB; cut it into several.")
    translator.check(request)
    settings = JobSettings(_ENDINGS[ending], column or None, window=_WINDOW, split_language=request.split_language)
    result = folder / f"{upload.stem}.translated{ending}"
    total = count_lines(str(upload)) if request.split_language is None else None
    begun = time.monotonic()

    def work(show: ShowState[FileState]) -> None:
        def advance(lines: int) -> None:
            show(FileState(lines, total, time.monotonic() - begun))

        search = {name: value for name, value in request.search.items() if name != "num_return_sequences"}
        with translator.lock:
            at_once = sentences_at_once.Translator(
                translator.model, translator.tokenizer, target_language=request.target_language, batch_tokens=_BATCH_TOKENS,
                max_source_tokens=translator.token_limit, **search,
            )  # fmt: skip
        taking_turns = TakingTurns(at_once, translator.lock, advance)
        progress = translate_file(str(upload), str(result), taking_turns, settings, progress=False)
        show(FileState(progress.lines, total, time.monotonic() - begun, progress.failed, result))

    yield from Live(work)


AtOnce = Callable[[Sequence[str]], Iterator[tuple[int, Outcome]]]
"""The type of a `translation.translate.Translator`'s call."""


class TakingTurns:
    """A translator of many sentences that leaves the model to others between two batches."""

    def __init__(self, translate: AtOnce, lock: threading.Lock, advance: Callable[[int], None]) -> None:
        """`advance` gets the number of sentences done; what it raises ends the work."""
        self._translate, self._lock, self._advance = translate, lock, advance
        self._done = 0

    def __call__(self, sentences: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        """See `translation.translate.Translator.__call__`."""
        outcomes = self._translate(sentences)
        while True:
            with self._lock:
                outcome = next(outcomes, None)
            if outcome is None:
                return
            self._done += 1
            self._advance(self._done)
            yield outcome
