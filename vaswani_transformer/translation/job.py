"""Translates or labels a file of any size, window by window, in order.

The main process reads windows of lines and hands them out. Each process translates one, longest sentences first. The main process writes
the results in the order of the windows. The content alone decides where windows end, and each is translated by itself. So the output does
not depend on the number of processes, nor on where a job was stopped and resumed.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from ..files.compression import compress
from ..files.delimiters import DELIMITERS
from ..files.lines import LineReader, Window, count_lines, open_input
from ..sentence_splitting import check_language, join_sentences, split_sentences
from .output import JobProgress, Output, open_output, skip_finished
from .processes import gather, processes, share
from .records import FORMATS, CsvRows, Layout, Records, make_records
from .translate import Failure, Outcome, Translation

_SECONDS_BETWEEN_LINES = 10.0
"""How often the bar is printed where it cannot be overwritten: in a file, or in the log of a batch system."""

Translate = Callable[[Sequence[str]], Iterator[tuple[int, Outcome]]]
"""The type of the call of a `Translator` or `Labeller`."""


@dataclass(frozen=True)
class JobSettings:
    """All that the output depends on, apart from the input and the translator.

    Attributes:
        format: one of `records.FORMATS`.
        column: see `make_records`; a line of `text` has none.
        hypotheses, scores: what is written for each line, see `Layout`.
        window: the most lines that are read, sorted by length and translated together.
        split_language: split every text into sentences of this language; None does not split.
        name: what a line gets, "translation", "label" or "labels".
    """

    format: str = "text"
    column: str | None = None
    hypotheses: int = 1
    scores: bool = False
    window: int = 4000
    split_language: str | None = None
    name: str = "translation"

    @property
    def layout(self) -> Layout:
        return Layout(self.hypotheses, self.scores, self.name)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"There is no format {self.format!r}; choose one of {', '.join(FORMATS)}.")
        if self.format == "text" and self.column is not None:
            raise ValueError(f"`column` is {self.column!r}, and a line of the format text has none; leave it out, or choose another.")
        if self.window < 1 or self.hypotheses < 1:
            raise ValueError(f"A window of {self.window} lines, {self.hypotheses} {self.name}s a line: both must be at least 1.")
        if self.split_language is not None:
            check_language(self.split_language)
        if self.split_language is not None and self.layout.columns > 1:
            raise ValueError(
                "Texts that are split into sentences have one translation each, without a score; leave out either the splitting, "
                "or several hypotheses and scores."
            )


class Result(NamedTuple):
    """A window's output, compressed if needed, and its failures: line numbers from 1, and why."""

    content: bytes
    failures: list[tuple[int, str]]


def translate_file(
    source: str,
    target: str,
    translate: Translate,
    settings: JobSettings,
    identity: Mapping[str, Any] | None = None,
    *,
    progress: bool = True,
) -> JobProgress:
    """Translate or label `source` into `target`, or resume where an earlier call stopped. Every process of a job calls this.

    Args:
        source: a file, plain, .gz or .xz; or "-" for standard input.
        target: likewise; a job that writes to standard output cannot be resumed.
        translate: the `Translator` or `Labeller`; each process has its own.
        settings: see `JobSettings`.
        identity: what identifies the model, as data for JSON; a job resumes only with an equal one.
        progress: show a bar on standard error.

    Returns:
        How many lines there were, and how many failed.

    Raises:
        OSError: a file is missing, exists already, or cannot be written.
        ValueError: the job was started with another input or other settings, or the input is damaged.
        KeyboardInterrupt: the job was stopped, by Ctrl-C or SIGTERM.
    """
    team = processes()
    with ExitStack() as stack:
        stack.enter_context(_stoppable())
        desk = stack.enter_context(_open_desk(source, target, settings, identity or {}, progress)) if team.is_main_process else None
        records: Records = share(desk.records if desk else None)
        while windows := share(desk.take(team.num_processes) if desk else None):
            result = None
            if team.process_index < len(windows):
                window = windows[team.process_index]
                advance = desk.advance if desk else _advance_nothing
                result = translate_window(window, records, translate, settings.split_language, advance)
                result = result._replace(content=compress(result.content, target))
            results = gather(result)
            if desk:
                for window, finished in zip(windows, results, strict=False):
                    desk.put(window, finished)
        if desk:
            return desk.finish()
    return JobProgress(complete=True)


def translate_window(
    window: Window,
    records: Records,
    translate: Translate,
    split_language: str | None,
    advance: Callable[[int], None],
) -> Result:
    """Translate the lines of one window; call `advance` with the number of further lines done."""
    outcomes: list[Outcome | None] = [None] * len(window.lines)
    gaps: list[list[str]] = [[] for _ in window.lines]
    parts: list[list[Outcome | None]] = [[] for _ in window.lines]
    sentences: list[str] = []
    places: list[tuple[int, int]] = []
    for row, line in enumerate(window.lines):
        found = []
        try:
            found = [records.source(line)]
            if split_language is not None:
                found, gaps[row] = split_sentences(found[0], split_language)
                outcomes[row] = [Translation("", None)]  # for a blank line; all others are joined below
        except ValueError as error:
            outcomes[row], found = Failure(str(error)), []
        sentences += found
        parts[row] = [None] * len(found)
        places += [(row, position) for position in range(len(found))]
        advance(not found)
    waiting = [len(part) for part in parts]
    for index, outcome in translate(sentences):
        row, position = places[index]
        parts[row][position] = outcome
        waiting[row] -= 1
        if not waiting[row]:
            outcomes[row] = _joined(parts[row], gaps[row])
            advance(1)
    return _rendered(window, records, outcomes)


def _joined(parts: Sequence[Outcome | None], gaps: Sequence[str]) -> Outcome | None:
    """The outcome of a text, joined from those of its sentences; without gaps, the text is one sentence."""
    if not gaps:
        return parts[0]
    translations = []
    for part in parts:
        if not isinstance(part, list):
            return part
        translations.append(part[0].text)
    return [Translation(join_sentences(translations, gaps), None)]


def _rendered(window: Window, records: Records, outcomes: Sequence[Outcome | None]) -> Result:
    content, failures = bytearray(), []
    for row, (line, outcome) in enumerate(zip(window.lines, outcomes, strict=True)):
        assert outcome is not None, "the translator left out a sentence"
        content += records.render(line, outcome) + b"\n"
        if isinstance(outcome, Failure):
            failures.append((window.start + row + 1, outcome.reason))
    return Result(bytes(content), failures)


class _Desk:
    """The main process' side of a job: reads windows, writes results, shows progress."""

    def __init__(self, name: str, records: Records, windows: Iterator[Window], output: Output, bar: Any, done: str) -> None:
        self.records, self.output = records, output
        self._name, self._windows, self._bar, self._done = name, windows, bar, done

    def take(self, count: int) -> list[Window]:
        return list(islice(self._windows, count))

    def put(self, window: Window, result: Result) -> None:
        for number, reason in result.failures:
            self._bar.write(f"{self._name}:{number}: {reason}", file=sys.stderr)
        lines = window.start + len(window.lines)
        self.output.append(result.content, lines, self.output.progress.failed + len(result.failures), window.digest)
        self._bar.update(lines - self._bar.n)

    def advance(self, lines: int) -> None:
        self._bar.update(lines)

    def finish(self) -> JobProgress:
        self.output.finish()
        done = self.output.progress
        if done.failed:
            self._bar.write(
                f"{done.failed} of {done.lines} lines of {self._name} could not be {self._done}.",
                file=sys.stderr,
            )
        return done


@contextmanager
def _open_desk(source: str, target: str, settings: JobSettings, identity: Mapping[str, Any], progress: bool) -> Iterator[_Desk]:
    name = "standard input" if source == "-" else source
    translates = settings.name == "translation"
    doing, done, unit = ("Translating", "translated", "sentence") if translates else ("Labelling", "labelled", "text")
    with ExitStack() as stack:
        reader = LineReader(stack.enter_context(open_input(source)), name, DELIMITERS if settings.format == "csv" else "")
        first = reader.read()
        records = make_records(settings.format, settings.column, settings.layout, first or b"")
        if isinstance(records, CsvRows):
            reader.separators = records.delimiter
        # Only now: a column that is not there leaves no trace of a job
        output = stack.enter_context(open_output(target, {**asdict(settings), **identity}))
        if output.progress.lines:
            skip_finished(output.progress, reader, name)
        elif records.header is not None:
            output.append(compress(records.header + b"\n", target), 1, 0, reader.digest)
        begun = [first] if first is not None and not output.progress.lines else []
        windows = iter(()) if output.progress.complete else reader.windows(settings.window, begun)
        with tqdm(
            desc=doing,
            unit=unit if settings.split_language is None else "line",
            total=count_lines(source) if progress and settings.format != "csv" else None,  # a row may span several lines
            initial=output.progress.lines,
            disable=not progress,
            dynamic_ncols=True,
            smoothing=0.0,  # a window begins with its longest, slowest lines, so only the average predicts the time left
            mininterval=0.1 if sys.stderr.isatty() else _SECONDS_BETWEEN_LINES,
        ) as bar:
            try:
                yield _Desk(name, records, windows, output, bar, done)
            except BaseException:
                bar.write(output.advice(), file=sys.stderr)
                raise


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops the job like Ctrl-C: at once, since completed work cannot be lost."""
    if threading.current_thread() is not threading.main_thread():  # Python allows handlers nowhere else
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _advance_nothing(lines: int) -> None:
    pass
