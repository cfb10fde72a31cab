"""Starts a Space as the Hub would, and translates there as visitors do: by its API, and by clicks where there is a browser."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import clean_space
from .publish import PublishError
from .static_space_browser import find_chromium

_SECONDS_TO_START = 300
_SECONDS_TO_TRANSLATE = 120


def check_space(space: Path, sentence: str, expected: str) -> Iterator[str]:
    """Start a copy of `space` in a clean folder, in a process without network that has only what its requirements name, and translate.

    Args:
        space: its folder, which stays as it is.
        sentence: what to translate.
        expected: its translation by the plain pipeline.

    Returns:
        What was done, step by step.

    Raises:
        PublishError: the Space does not start, or translates otherwise.
    """
    with running_space(space) as address:
        yield f"Started in a clean folder with the packages of requirements.txt only: {len(pinned_names(space))} of them."
        _demand(space, _by_api(address, sentence), sentence, expected)
        yield f"Asked over HTTP, it translates {sentence!r} as {expected!r}, like the plain pipeline."
        with ThreadPoolExecutor(1) as another:  # Playwright refuses a thread that runs an event loop, as a notebook's does
            clicked = another.submit(_by_clicks, address, sentence).result()
        if clicked is None:
            yield "Not clicked through: there is no Playwright with a Chromium here."
        else:
            _demand(space, clicked, sentence, expected)
            yield "Clicked through in a browser, with the same translation, its attention, and no request to another machine."


@contextmanager
def running_space(space: Path) -> Iterator[str]:
    """A copy of the Space while the block runs, at the address that this yields.

    Raises:
        PublishError: it does not start; the sentence ends with the last line of its error output.
    """
    with tempfile.TemporaryDirectory() as elsewhere:
        copy = Path(shutil.copytree(space, Path(elsewhere) / "space"))
        port = _free_port()
        environment = os.environ | {
            "GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port), "HF_HUB_OFFLINE": "1", "HF_HOME": elsewhere,
            "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        program = [sys.executable, "-E", "-P", clean_space.__file__, str(copy), *pinned_names(space)]
        with open(Path(elsewhere) / "log", "w+", encoding="utf-8") as log:
            process = subprocess.Popen(program, cwd=elsewhere, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                _wait(process, port, Path(log.name), space)
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def pinned_names(space: Path) -> list[str]:
    """The distributions that `requirements.txt` names."""
    lines = (space / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [name for name, equals, _ in (line.partition("==") for line in lines) if equals]


def _wait(process: subprocess.Popen[bytes], port: int, log: Path, space: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            words = log.read_text(encoding="utf-8").strip().splitlines() or [f"exit status {process.returncode}"]
            raise PublishError(f"{space} does not start, so it was not published: {words[-1]}")
        if "http://" in log.read_text(encoding="utf-8"):  # the page is told once it is served
            return
        time.sleep(0.1)
    raise PublishError(f"{space} did not start within {_SECONDS_TO_START} seconds, so it was not published.")


def _by_api(address: str, sentence: str) -> str:
    """The translation that a program gets."""
    from gradio_client import Client

    client = Client(address, verbose=False, analytics_enabled=False)
    try:
        answer = client.submit(sentence, api_name="/translate").result(timeout=_SECONDS_TO_TRANSLATE)
    except Exception as error:  # of several libraries
        raise PublishError(f"The Space answers with an error, so it was not published: {' '.join(str(error).split())}") from error
    finally:
        client.close()
    return str(answer["translation"])


def _by_clicks(address: str, sentence: str) -> str | None:
    """The translation that the page shows to somebody who writes and clicks; None without a browser."""
    program = find_chromium()
    if program is None:
        return None
    from playwright.sync_api import Error, sync_playwright

    outside: list[str] = []

    def guard(route: Any) -> None:
        if re.match(r"https?://(?!127\.0\.0\.1[:/])", route.request.url):
            outside.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
            page = browser.new_page()
            page.route("**/*", guard)
            page.goto(address)
            page.locator("#source textarea").fill(sentence)
            page.get_by_role("button", name="Translate", exact=True).click()
            page.get_by_text(re.compile(r"\d sentences? in")).wait_for(timeout=1000 * _SECONDS_TO_TRANSLATE)
            page.locator("iframe.picture").wait_for(timeout=1000 * _SECONDS_TO_TRANSLATE)
            shown = page.locator("#target textarea").input_value()
            browser.close()
    except Error as error:
        raise PublishError(
            f"The page of the Space does not work in a browser, so it was not published: {str(error).splitlines()[0]}"
        ) from error
    if outside:
        raise PublishError(f"The page of the Space asks another machine, {outside[0]}, so it was not published.")
    return str(shown)


def _demand(space: Path, translation: str, sentence: str, expected: str) -> None:
    if translation != expected:
        raise PublishError(
            f"{space} was not published, because it translates {sentence!r} as {translation!r}, and the plain pipeline as {expected!r}."
        )


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
