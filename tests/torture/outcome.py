"""What a training has left in its run folder, apart from what the clock and the machine decide, so that two of them can be compared."""

import json
from typing import Any

from vaswani_transformer.files.checksums import CHECKSUMS, file_sha256, find_damage
from vaswani_transformer.files.json_files import read_json, read_json_lines
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.state import newest_state


def outcome(run: RunFolder) -> dict[str, Any]:
    """Every file below the run folder by its name, as its hash, or as its content without seconds, rates and memory where it is JSON.

    Of the saved states only the newest counts: the one before it may be that of a signal. What was left unfinished counts too.
    """
    newest = newest_state(run.state)
    found: dict[str, Any] = {}
    for file in sorted(path for path in run.path.rglob("*") if path.is_file()):
        name = str(file.relative_to(run.path))
        if run.state in file.parents and file.parent != newest:
            continue
        if file.parent == newest and file.name == CHECKSUMS:
            found[name] = find_damage(file.parent, [])
        elif file.suffix == ".json":
            found[name] = _timeless(read_json(file))
        elif file.suffix == ".jsonl":
            found[name] = [_timeless(record) for record in read_json_lines(file)]
        else:
            found[name] = file_sha256(file)
    unfinished = {str(path.relative_to(run.path)): "unfinished" for path in run.path.rglob(".*")}
    return found | unfinished


def differences(expected: dict[str, Any], found: dict[str, Any], apart_from: tuple[str, ...] = ()) -> list[str]:
    """What is not as expected, a phrase each."""
    told = []
    for name in sorted(expected.keys() | found.keys()):
        if name in apart_from or expected.get(name) == found.get(name):
            continue
        if name not in found:
            told.append(f"{name} is missing")
        elif name not in expected:
            told.append(f"{name} should not be there")
        else:
            told.append(f"{name} differs{_first_difference(expected[name], found[name])}")
    return told


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(entry) for key, entry in value.items() if not _is_of_the_moment(key)}
    return [_timeless(entry) for entry in value] if isinstance(value, list) else value


def _is_of_the_moment(key: str) -> bool:
    return "second" in key or key == "peak_memory_bytes"


def _first_difference(expected: Any, found: Any) -> str:
    if not (isinstance(expected, list) and isinstance(found, list)):
        return ""
    if len(expected) != len(found):
        return f": {len(found)} records instead of {len(expected)}"
    for number, (one, other) in enumerate(zip(expected, found, strict=True), start=1):
        if one != other:
            return f" in record {number}: {json.dumps(other)[:200]} instead of {json.dumps(one)[:200]}"
    return ""
