"""Prepared data that runs share: folders under the hash of all that decides their content.

They lie where the libraries of Hugging Face keep such things, `~/.cache/huggingface/assets`, which `HF_ASSETS_CACHE` and `HF_HOME` move;
`VASWANI_CACHE` names another folder for this project alone, or is `off`. Every user has a private folder in it: a user who can
write the data can also write checksums that fit. Run folders and the cache hold copies, so that a change in one reaches no other.
"""

import hashlib
import json
import os
import shutil
import stat
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import cached_assets_path

from .. import answer_windows
from ..files.atomic_folder import atomic_folder, discard
from ..files.checksums import file_sha256, find_damage

CACHE = "VASWANI_CACHE"
"""The environment variable."""
_BYTES_AT_ONCE = 2**30


def provide(folder: Path, kind: str, facts: Mapping[str, Any] | None, make: Callable[[], object], *, depends_on_code: bool = True) -> None:
    """Have `folder` made, unless some run has made the same: then take it from there.

    Runs that begin at the same moment each make their own, and the first to end keeps it for later ones.

    Args:
        folder: what `make` writes, whole or not at all; a flat one, with its `SHA256SUMS`.
        kind: of the content, such as `tokenizer`: a folder of the cache.
        facts: JSON that decides the content, with this code. None: unknown, so nothing is shared.
        make: writes `folder`.
        depends_on_code: whether the content may change with the code that turns text into ids.

    Warns:
        UserWarning: the cache cannot be used; the run continues without it.
    """
    if facts is None or os.environ.get(CACHE) == "off":
        make()
        return
    try:
        entry = _entry(kind, facts, depends_on_code)
        fetched = _fetch(entry, folder)
    except OSError as error:
        _warn(error)
        make()
        return
    if fetched:
        return
    make()
    try:
        _keep(folder, entry)
    except OSError as error:
        _warn(error)


def _entry(kind: str, facts: Mapping[str, Any], depends_on_code: bool = True) -> Path:
    decisive = json.dumps({"facts": facts, "code": _code() if depends_on_code else None}, sort_keys=True)
    place = _own_folder() / kind
    place.mkdir(exist_ok=True)
    return place / hashlib.sha256(decisive.encode()).hexdigest()


def _own_folder() -> Path:
    """This user's part of the cache.

    Raises:
        PermissionError: it is another user's, or others may enter it.
    """
    own = cached_assets_path("vaswani_transformer", "prepared", assets_dir=os.environ.get(CACHE)) / f"user-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    found = own.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{own} is not a folder of yours alone: remove it, or give it back to yourself with mode 700")
    return own


def _code() -> dict[str, str]:
    """What turns text into ids: another version of it may turn it into others."""
    here = Path(__file__).parent
    files = {file.relative_to(here).as_posix(): file_sha256(file) for file in sorted(here.rglob("*.py"))}
    return files | {"answer_windows": file_sha256(Path(answer_windows.__file__)), "tokenizers": version("tokenizers")}


def _fetch(entry: Path, folder: Path) -> bool:
    if not entry.is_dir():
        return False
    if damage := find_damage(entry, ()):
        warnings.warn(f"{damage}; it is removed from the cache and made again.", stacklevel=3)
        discard(entry)
        return False
    with atomic_folder(folder) as unfinished:
        _copy(entry, unfinished)
    return True


def _keep(folder: Path, entry: Path) -> None:
    """The name appears with the whole content. It carries the run's, so that two runs do not write into the same folder."""
    run = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    unfinished = entry.with_name(f".{entry.name}.{run}.unfinished")
    discard(unfinished)
    try:
        unfinished.mkdir()
        _copy(folder, unfinished)
        if not entry.exists():
            os.rename(unfinished, entry)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _copy(there: Path, here: Path) -> None:
    shutil.copytree(there, here, copy_function=_copy_file, dirs_exist_ok=True)


def _copy_file(there: str, here: str) -> None:
    """A copy which takes no second place where the file system lets files share blocks until one of them is changed."""
    try:
        with open(there, "rb") as source, open(here, "wb") as copy:
            while os.copy_file_range(source.fileno(), copy.fileno(), _BYTES_AT_ONCE):
                pass
    except (OSError, AttributeError):  # another file system, or a system that cannot: the ordinary copy has the last word
        shutil.copyfile(there, here)


def _warn(error: OSError) -> None:
    warnings.warn(
        f"Prepared data are not shared with other runs: {error}. Set {CACHE} to a folder that can be written, or to `off`.",
        stacklevel=3,
    )
