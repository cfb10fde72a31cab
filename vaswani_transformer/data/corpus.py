"""Where sentence pairs come from, and which of them are worth training on.

Everything is a stream: a corpus is never held in memory as a whole. Lines end at "\\n" and nowhere else: `str.splitlines` also breaks at
characters such as U+2028, and one of those inside a sentence would shift every line behind it against the other side.
"""

import csv
import gzip
import hashlib
import itertools
import json
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..files.checksums import file_sha256
from ..recipe import CleaningSettings, CorpusSpec
from .builtin.corpus import Split, builtin_pairs
from .workers import in_chunks, map_in_order

_OPENERS: dict[str, Callable[[Path], BufferedIOBase]] = {".gz": gzip.GzipFile, ".xz": lzma.LZMAFile}
_ROWS_PER_READ = 1000
_BYTE_ORDER_MARK = "\ufeff"

# Chinese, Japanese, Thai, Lao, Tibetan, Burmese and Khmer put no space between words: each of their characters counts as a word.
_SPACELESS = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# No language has words this long on average: a text counts at least one word for so many characters, such as a megabyte without a space.
_LONGEST_WORD = 40
_VISIBLE = re.compile("[^\\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")


class SentencePair(NamedTuple):
    """A sentence and its translation, and where they were read.

    `origin` is the file, as the recipe names it (of two line-aligned ones the source's), or the data set. `line` counts from 1: lines in
    text files, the header included, so that an editor finds it; rows elsewhere. `language` is the target's, where there are several.
    """

    source: str
    target: str
    origin: str
    line: int
    language: str | None = None


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


def read_pairs(spec: CorpusSpec, root: str | Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
    """Stream the pairs of a corpus, untouched except for line ends and a byte order mark.

    Args:
        spec: what to read.
        root: where relative file names start.
        languages: source and target code: the columns of a table or data set that names no others, the direction of the built-in corpus.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the content is not what the recipe says: files of different length, broken UTF-8, a damaged archive, a missing
            column, no pair at all. The sentence names file, line and remedy.
    """
    readers = {"builtin": _read_builtin, "lines": _read_lines, "table": _read_table, "hub": _read_hub}
    pairs = itertools.islice(readers[spec.format](spec, Path(root), languages), spec.limit)
    first = next(pairs, None)
    if first is None:
        name = spec.source or spec.path or f"{spec.format} {spec.split}"
        raise ValueError(f"The corpus {name} holds no sentence pairs; check the recipe and the file.")
    yield first
    yield from pairs


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


def file_hashes(spec: CorpusSpec, root: str | Path, languages: tuple[str, str]) -> dict[str, str]:
    """sha256 of the bytes of each file of a corpus; of the text, as in `CleaningReport`, where there are no files.

    A streamed data set gives none, as it would have to be fetched a second time.

    Raises:
        FileNotFoundError: a file is missing.
    """
    if spec.format in ("lines", "table"):
        names = [name for name in (spec.source, spec.target, spec.path) if name is not None]
        return {name: file_sha256(_existing(Path(root) / name)) for name in names}
    if spec.streaming:
        return {}
    digest = hashlib.sha256()
    for pair in read_pairs(spec, root, languages):
        _update_digest(digest, pair)
    parts = (spec.path or spec.format, spec.name, spec.split, spec.target_language)
    return {":".join(filter(None, parts)): digest.hexdigest()}


def _clean(judged: Iterable[tuple[list[SentencePair], list[str | int | None]]], report: CleaningReport) -> Iterator[SentencePair]:
    """What only one who sees all pairs can do: count, digest, and know what came before."""
    seen: set[int] = set()
    digest = hashlib.sha256()
    for pair, verdict in chain.from_iterable(zip(*both, strict=True) for both in judged):
        report.pairs_in += 1
        _update_digest(digest, pair)
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
    shorter, longer = sorted((_count_words(pair.source), _count_words(pair.target)))
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


def _count_words(text: str) -> int:
    spaced, spaceless = (text, 0) if text.isascii() else _SPACELESS.subn(" ", text)
    return max(len(spaced.split()) + spaceless, len(text) // _LONGEST_WORD)


def _plain(text: str) -> str:
    """The text with every run of white space, at its ends too, made one space or none: as texts are compared."""
    return " ".join(text.split())


def _fingerprint(plain: str) -> int:
    """64 bits that tell texts apart: of 36 million pairs, the chance that any two collide is 1 in 28,000."""
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest())


def _update_digest(digest: Any, pair: SentencePair) -> None:
    digest.update(f"{pair.source}\n{pair.target}\n".encode())


def _read_builtin(spec: CorpusSpec, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
    if sorted(languages) != ["de", "en"]:
        raise ValueError(
            f"The built-in corpus is English-German, not {languages[0]}-{languages[1]}; set source_language and target_language."
        )
    for number, (english, german) in enumerate(builtin_pairs(cast(Split, spec.split), spec.limit), start=1):
        sides = (english, german) if languages[0] == "en" else (german, english)
        yield SentencePair(*sides, f"builtin {spec.split}", number)


def _read_lines(spec: CorpusSpec, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
    names = cast(str, spec.source), cast(str, spec.target)
    paths = [_existing(root / name) for name in names]
    sides = [_decoded_lines(path) for path in paths]
    for number, (source, target) in enumerate(itertools.zip_longest(*sides), start=1):
        if source is None or target is None:
            shorter, longer = (0, 1) if source is None else (1, 0)
            total = number + sum(1 for _ in sides[longer])
            raise ValueError(
                f"{paths[shorter]} has {number - 1} lines but {paths[longer]} has {total}: line-aligned files must have equally "
                "many. Find where they part (a lost or split line), or fetch both again."
            )
        yield SentencePair(source, target, names[0], number)


def _read_table(spec: CorpusSpec, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
    name = cast(str, spec.path)
    path = _existing(root / name)
    suffix = next(ending for ending in reversed(["", *path.suffixes]) if ending not in _OPENERS)
    if suffix not in _TABLE_READERS:
        raise ValueError(
            f"{path} is of no known kind of table; the name must end in {', '.join(_TABLE_READERS)} (the text ones also .gz or .xz)."
        )
    columns = _columns(spec, languages)
    for number, row in _TABLE_READERS[suffix](path, columns):
        yield _pair(row, columns, name, number)


def _read_hub(spec: CorpusSpec, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
    """Rows of a data set in `translation` format, or with one column for each language."""
    import datasets  # takes seconds to import, and only this format needs it

    name = cast(str, spec.path)
    origin = " ".join(filter(None, (name, spec.name, spec.split)))
    location = str(root / name) if (root / name).exists() else name
    try:
        rows = datasets.load_dataset(location, spec.name, split=spec.split, streaming=spec.streaming)
    except (datasets.exceptions.DatasetsError, ConnectionError, ValueError) as error:
        raise ValueError(f"The data set {origin} cannot be loaded; check path, name and split in the recipe. {error}") from error
    columns = _columns(spec, languages)
    for number, row in enumerate(_rows(rows.iter(_ROWS_PER_READ)), start=1):
        yield _pair(row, columns, origin, number)


def _columns(spec: CorpusSpec, languages: tuple[str, str]) -> tuple[str, str]:
    return spec.source_column or languages[0], spec.target_column or languages[1]


def _rows(batches: Iterable[Mapping[str, list[Any]]]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(batch, values, strict=True))


def _pair(row: Mapping[str, Any], columns: tuple[str, str], origin: str, number: int) -> SentencePair:
    source, target = (_cell(row, column, f"{origin}:{number}") for column in columns)
    return SentencePair(source, target, origin, number)


def _cell(row: Mapping[str, Any], column: str, where: str) -> str:
    """The text of a column, also inside the column `translation` of a row; no value is empty text, which cleaning counts."""
    nested = row.get("translation")
    cells = nested if column not in row and isinstance(nested, Mapping) else row
    if column not in cells:
        raise ValueError(
            f"{where} has no column `{column}`; available are {', '.join(f'`{name}`' for name in cells)}. "
            "Set source_column and target_column in the recipe (to numbers from 1 where a .tsv file has no header)."
        )
    text = cells[column]
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{where}: column `{column}` must hold text, not {text!r}; choose other columns in the recipe.")
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: column `{column}` holds half a surrogate pair at character {error.start + 1}, which is not text; repair the row."
        ) from error
    return text or ""


def _read_tsv(path: Path, columns: tuple[str, str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Tab-separated values have no quoting: a quotation mark is a character like any other.

    Where there is no header, columns are called by their numbers: "1", "2", ...
    """
    header: list[str] = []
    for number, line in enumerate(_decoded_lines(path), start=1):
        cells = line.split("\t")
        if number == 1:
            by_number = all(column.isdecimal() and column not in cells for column in columns)
            header = [str(position) for position in range(1, len(cells) + 1)] if by_number else cells
            if not by_number:
                continue
        if line:
            _check_width(cells, header, f"{path}:{number}")
            yield number, dict(zip(header, cells, strict=True))


def _read_csv(path: Path, columns: tuple[str, str]) -> Iterator[tuple[int, dict[str, str]]]:
    # A very long sentence is for cleaning to drop, not for the parser to fail on.
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((f"{line}\n" for line in _decoded_lines(path)), strict=True)
    try:
        header = next(reader, [])
        for cells in reader:
            if cells:
                _check_width(cells, header, f"{path}:{reader.line_num}")
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}:{reader.line_num} is not valid CSV ({error}); quote the line properly, or use a .tsv file.") from error


def _check_width(cells: list[str], header: list[str], where: str) -> None:
    if len(cells) != len(header):
        raise ValueError(f"{where} has {len(cells)} columns, but {len(header)} belong there; repair or remove the line.")


def _read_jsonl(path: Path, columns: tuple[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_decoded_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number} is not valid JSON ({error}); each line must hold one object.") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{number} holds {type(row).__name__} instead of an object with the columns as keys.")
        yield number, row


def _read_parquet(path: Path, columns: tuple[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow  # comes with datasets, and only this format needs it
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        wanted = list(columns) if set(columns) <= set(file.schema_arrow.names) else None
        batches = (batch.to_pydict() for batch in file.iter_batches(_ROWS_PER_READ, columns=wanted))
        yield from enumerate(_rows(batches), start=1)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet ({error}); it is probably incomplete: fetch it again.") from error


_TABLE_READERS: dict[str, Callable[[Path, tuple[str, str]], Iterator[tuple[int, dict[str, Any]]]]] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


def _decoded_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends, "\\n" or "\\r\\n"."""
    for number, line in enumerate(_raw_lines(path), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}:{number} is not valid UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1}); convert the file, "
                "for instance with `iconv -f LATIN1 -t UTF-8`, or remove the line from both sides."
            ) from error
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        yield text.removesuffix("\n").removesuffix("\r")


def _raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain or compressed file, split at the byte "\\n" only."""
    lines_read = 0
    with _OPENERS.get(path.suffix, _open_plain)(path) as stream:
        try:
            for line in stream:
                yield line
                lines_read += 1
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            raise ValueError(
                f"{path} cannot be decompressed beyond line {lines_read} ({error}); it is damaged or incomplete: fetch it again."
            ) from error


def _open_plain(path: Path) -> BufferedIOBase:
    return path.open("rb")


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}; check its name and `data.root` in the recipe.")
    return path
