"""The claims with their verdicts as JSON and as tables in Markdown."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.report import Results, Row, markdown_table
from benchmarks.why_attention.claims import SECTIONS, SOURCES, Claim
from benchmarks.why_attention.verdicts import RULES, VERDICTS
from vaswani_transformer.files.json_files import read_json

_HEADER = ("the paper's words", "what is asked", "here", "verdict")


def found_results(folders: Sequence[Path]) -> dict[str, tuple[str, Results]]:
    """The first file of each source in any of the folders: its name there, and what it holds. A source that has none is left out.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: a file is no JSON object.
    """
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no folder {folder} with results; name others with --results.")
    found = {}
    for name, source in SOURCES.items():
        places = ((file, folder / file) for folder in folders for file in source.files)
        place = next(((file, path) for file, path in places if path.is_file()), None)
        if place is not None:
            found[name] = (place[0], read_json(place[1]))
    return found


def judged(claims: Iterable[Claim], found: dict[str, tuple[str, Results]]) -> Results:
    """Every claim with its figure and its verdict.

    Raises:
        ValueError: the results of a benchmark lack what every run of it writes.
    """
    return {"sources": {name: file for name, (file, _) in found.items()}, "claims": [_judged(claim, found) for claim in claims]}


def _judged(claim: Claim, found: dict[str, tuple[str, Results]]) -> Row:
    finding = None
    if claim.source in found:
        file, results = found[claim.source]
        try:
            finding = claim.judge(results)
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{file} is not what {SOURCES[claim.source].command} writes: {type(error).__name__} {error}.") from error
    return {
        "section": claim.section,
        "quote": claim.quote,
        "reading": claim.reading,
        "figure": finding.figure if finding else None,
        "verdict": finding.verdict if finding else "not measured",
        "command": SOURCES[claim.source].command if claim.source else None,
    }


def table(results: Results) -> str:
    """Markdown: how many claims got which verdict, a table for each section, and the rules."""
    rows: list[Row] = results["claims"]
    counts = ", ".join(f"{verdict} {sum(row['verdict'] == verdict for row in rows)}" for verdict in VERDICTS)
    parts = [f"Verdicts on {len(rows)} claims: {counts}."]
    for section, own in groupby(rows, key=lambda row: row["section"]):
        parts += [f"## Section {section}: {SECTIONS[section]}", markdown_table(_HEADER, map(_cells, own), left=len(_HEADER))]
    return "\n\n".join([*parts, "## The rules", RULES]) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    command = f"`{row['command']}`" if row["command"] else "nothing here does"
    here = f"run {command}" if row["command"] else command
    if row["figure"]:
        here = f"{row['figure']} ({command})"
    return f'"{row["quote"]}"', row["reading"], here, f"**{row['verdict']}**" if row["figure"] else row["verdict"]
