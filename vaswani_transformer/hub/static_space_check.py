"""Lets a Space for browsers translate before anybody sees it: under node, and in Chromium where Playwright and Chromium are installed."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from ..files.json_files import read_json
from ..translation.loading import load_checkpoint
from ..translation.translate import translate
from . import static_space_browser
from .browser_packages import PARTS
from .publish import PublishError

_FIRST_SENTENCE = "A man is reading a book."


@dataclass(frozen=True)
class Checked:
    """What a Space did."""

    sentence: str
    """One sentence that tells it."""
    translation: str
    """Its first translation."""
    faults: list[str] = field(default_factory=list)
    """Signs that it is useless, as parts of a sentence."""


def check_static_space(space: Path, folder: Path) -> Checked:
    """Translate the samples of the model's evaluation with the Space's own files, and with the model.

    Args:
        space: what `assemble_static_space` made.
        folder: the published folder that it was made from.

    Raises:
        PublishError: the Space does not translate, or says something else in a browser than under node.
        OSError: node is missing.
    """
    sentences, language = _sentences(folder)
    answers = node_translations(space, [(sentence, {"language": language} if language else {}) for sentence in sentences])
    found = [answer["translations"][0]["text"] for answer in answers]
    search = read_json(space / "space.json")["search"]
    model, tokenizer = load_checkpoint(folder, torch.float32, only_ours=True)
    settings = {"num_beams": search["beams"], "length_penalty": search["alpha"], "extra_length": search["extraLength"]}
    expected = translate(model.eval(), tokenizer, sentences, target_language=language, length_penalty_type="gnmt", **settings)
    equal = sum(a == b for a, b in zip(found, expected, strict=True))
    where = "under node"
    if (shown := browser_translation(space, sentences[0])) is not None:
        where = "under node and in Chromium"
        if shown != found[0]:
            raise PublishError(
                f"{space} was not published: it translates {sentences[0]!r} as {found[0]!r} under node, and as {shown!r} in Chromium."
            )
    told = f"Translated {where}: {sentences[0]!r} as {found[0]!r}; {equal} of {len(found)} translations are those of the model in float32."
    faults = [f"only {equal} of {len(found)} translations are those of the model in float32"] if 2 * equal < len(found) else []
    return Checked(told, found[0], faults)


def node_translations(space: Path, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What the Space's own files make of sentences under node.

    Args:
        space: its folder.
        requests: sentences, each with settings of `Translator.translate` in `translator.js`, such as `{"beams": 1, "wanted": 1}`.

    Returns:
        One dictionary a request, with `source` (ids), `translations` (the best first, each with `text`, `score` and `tokens`) and `seconds`
        (of processor time).

    Raises:
        PublishError: it fails; the sentence tells node's last words.
        OSError: node is missing.
    """
    node = shutil.which("node")
    if node is None:
        raise OSError("The check of a page for browsers needs node; install Node.js (https://nodejs.org), then run it again.")
    command = [node, str(PARTS / "translate.mjs"), str(space.absolute())]
    done = subprocess.run(command, input=json.dumps(requests), capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if re.match(r"(\[?\w*Error\b)", line)]
        told = (lines or [f"exit status {done.returncode}"])[0]
        raise PublishError(f"{space} does not translate under node, so it was not published: {told}")
    return json.loads(done.stdout)


def browser_translation(space: Path, sentence: str) -> str | None:
    """What the page shows in Chromium, or None where Playwright or Chromium is not installed.

    Raises:
        PublishError: the page fails.
    """
    with served(space) as address:
        command = [sys.executable, static_space_browser.__file__, address, sentence]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8")
    if done.returncode == static_space_browser.NO_BROWSER:
        return None
    if done.returncode != 0:
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise PublishError(f"{space} does not translate in Chromium, so it was not published: {last}")
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve `folder` on this machine only; gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Silent(SimpleHTTPRequestHandler):
    """Serves files and says nothing about it."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _sentences(folder: Path) -> tuple[list[str], str | None]:
    """What the model was evaluated with, or one sentence; and the target language, where there is a choice."""
    if not (folder / "evaluation.json").is_file():
        return [_FIRST_SENTENCE], None
    first = read_json(folder / "evaluation.json")["test_sets"][0]
    return [sample["source"] for sample in first["samples"]], first.get("tgt_lang")
