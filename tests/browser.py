"""A real browser for pages: Debian's Chromium, driven by Playwright. Where one of them is absent, the test skips and says so."""

import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="a page is tested by playwright, which scripts/test.sh installs")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("a page is tested in Chromium, which is not installed (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        # Root, as in a container, cannot have Chromium's sandbox; the pages are our own.
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty page. In the end, the test fails if the page asked another machine for anything, or ended in an error of its own."""
    context = browser.new_context()
    page = context.new_page()
    outside: list[str] = []
    errors: list[str] = []

    def guard(route: Any) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname not in ("127.0.0.1", "localhost"):
            outside.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    context.route("**/*", guard)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not outside, f"the page asked other machines: {outside}"
    assert not errors, f"errors of the page: {errors}"
