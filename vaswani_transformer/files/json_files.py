"""JSON files, and files of one JSON object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .atomic_file import write_text


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        FileNotFoundError: `path` does not exist.
        ValueError: the file is not JSON; the sentence names the file and the line.
    """
    remedy = "restore the file, or delete it and run again what wrote it"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno} is not valid JSON ({error.msg}); {remedy}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text, so no JSON either; {remedy}.") from error


def read_json_lines(path: Path, growing: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that holds one JSON object a line.

    Args:
        path: the file.
        growing: leave out a last line without its end: a process may be writing it now, or was killed while writing it.

    Raises:
        ValueError: a line is not JSON; the sentence names it.
    """
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, start=1):
            if growing and not line.endswith(b"\n"):
                return
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number} is not valid JSON ({error}); remove that line.") from error
