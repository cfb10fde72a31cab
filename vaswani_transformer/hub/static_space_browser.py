"""A visitor: open a Space's page in Chromium, type a sentence, and read its translation.

`static_space_check.browser_translation` runs this file as a program, with the page's address and the sentence; it prints the translation as
JSON, or ends with the status `NO_BROWSER` where there is nothing to visit it with.
"""

import json
import shutil
import sys

NO_BROWSER = 3
_PATIENCE = 120_000
"""Milliseconds to load the model, and to translate."""


def translation_of(address: str, sentence: str, program: str) -> str:
    """What the page at `address` shows for `sentence` in the Chromium `program`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Root, as in a container, cannot have Chromium's sandbox; the page is our own.
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = chromium.new_page()
        page.goto(address)
        page.fill("#text", sentence)
        page.click("#translate:enabled", timeout=_PATIENCE)
        page.wait_for_selector("#copy:enabled", timeout=_PATIENCE)
        shown = page.inner_text("#translation")
        chromium.close()
    return shown


def find_chromium() -> str | None:
    """Chromium's program; None where it, or Playwright, is not installed."""
    try:
        import playwright
    except ImportError:
        return None
    del playwright
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


if __name__ == "__main__":
    found = find_chromium()
    if found is None:
        sys.exit(NO_BROWSER)
    print(json.dumps(translation_of(address=sys.argv[1], sentence=sys.argv[2], program=found)))
