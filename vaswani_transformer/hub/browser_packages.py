"""What a translator in a browser needs from npm, in exact versions that the lock file proves by their hashes.

`npm` fetches them once, without running any script of theirs; of the 150 MB that it unpacks, one copy of what a page loads is kept.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import cached_assets_path

from ..files.atomic_folder import atomic_folder
from ..files.json_files import read_json

PARTS = Path(__file__).parent / "static_space_parts"
"""The page's own files, and the definition of what it needs."""

KEPT = {
    "ort.js": "onnxruntime-web/dist/ort.wasm.bundle.min.mjs",
    "ort-wasm-simd-threaded.wasm": "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm",
    "tokenizers.js": "@huggingface/tokenizers/dist/tokenizers.min.mjs",
    "tokenizers.LICENSE": "@huggingface/tokenizers/LICENSE",
}
"""Names in `vendor/`, and where the files lie in npm's folder. This is the smallest of onnxruntime-web's builds."""

_DEFINITION = ("package.json", "package-lock.json")

Say = Callable[[str], None]


def packages_folder() -> Path:
    """Where the files are kept: beside Hugging Face's other caches."""
    return cached_assets_path("vaswani_transformer", "browser", "packages")


def provide_packages(folder: Path | None = None, say: Say | None = None) -> Path:
    """Have the files of `KEPT` and the licences in `folder`, fetched where they are absent or of other versions.

    Args:
        folder: by default `packages_folder()`.
        say: gets a line before npm is asked; by default it goes to standard error.

    Returns:
        `folder`.

    Raises:
        OSError: npm is missing, or fails.
        ImportError: the extra `browser`, whose licences are copied, is not installed.
    """
    folder, say = folder or packages_folder(), say or _write_to_standard_error
    lock = "package-lock.json"
    if (folder / lock).is_file() and (folder / lock).read_bytes() == (PARTS / lock).read_bytes():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise OSError(
            "A page for browsers needs npm, which fetches onnxruntime-web; install Node.js (https://nodejs.org), then run it again."
        )
    versions = read_json(PARTS / "package.json")["dependencies"]
    say(f"Fetching {', '.join(f'{name} {version}' for name, version in versions.items())} into {folder}, once")
    with tempfile.TemporaryDirectory() as scratch, atomic_folder(folder) as unfinished:
        for name in _DEFINITION:
            shutil.copyfile(PARTS / name, Path(scratch) / name)
        # No script of a package runs, and nothing but what the lock file names is taken.
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(command, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            told = [line.strip() for line in done.stderr.splitlines() if line.strip()] or [f"exit status {done.returncode}"]
            raise OSError(f"npm could not fetch what a page for browsers needs ({told[0]}); see to the network and run the same again.")
        for name, place in KEPT.items():
            shutil.copyfile(Path(scratch) / "node_modules" / place, unfinished / name)
        _write_licences(unfinished, versions)
        shutil.copyfile(PARTS / lock, unfinished / lock)
    return folder


def _write_licences(folder: Path, versions: dict[str, str]) -> None:
    """Add the licences of ONNX Runtime, which its npm package lacks and its Python package has."""
    found = importlib.util.find_spec("onnxruntime")
    if found is None or found.origin is None:
        raise ImportError("A page for browsers needs onnxruntime; install the extra: pip install 'vaswani_transformer[browser]'.")
    package = Path(found.origin).parent
    shutil.copyfile(package / "LICENSE", folder / "onnxruntime.LICENSE")
    shutil.copyfile(package / "ThirdPartyNotices.txt", folder / "onnxruntime.ThirdPartyNotices.txt")
    lines = [
        "# What lies in this folder",
        "",
        f"- `ort.js`, `ort-wasm-simd-threaded.wasm`: onnxruntime-web {versions['onnxruntime-web']}, MIT (`onnxruntime.LICENSE`,",
        "  `onnxruntime.ThirdPartyNotices.txt`), Copyright (c) Microsoft Corporation",
        f"- `tokenizers.js`: @huggingface/tokenizers {versions['@huggingface/tokenizers']}, Apache-2.0 (`tokenizers.LICENSE`)",
    ]
    (folder / "LICENSES.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_to_standard_error(line: str) -> None:
    print(line, file=sys.stderr)
