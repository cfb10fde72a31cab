"""Takes a picture of a page, in Chromium, as the documents show it.

vaswani look runs/builtin_tiny/averaged "The small boy thinks that I should buy two cakes." --n-best 3 --output attention.html --no-open
python -m tests.page_picture attention.html docs/_static/attention_page.png --hover ".column.queries li:nth-child(10)"
"""

import argparse
import shutil
from pathlib import Path


def take_picture(page: Path, picture: Path, hover: str | None, size: tuple[int, int], scheme: str) -> None:
    """Open a file, point at an element, and write a PNG of the window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        window = chromium.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)  # type: ignore[arg-type]
        window.goto(page.resolve().as_uri())
        window.wait_for_selector(".thumbnail[aria-pressed=true]")
        if hover is not None:
            window.hover(hover)
        window.wait_for_timeout(500)
        window.screenshot(path=picture)
        chromium.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="a file that vaswani look wrote")
    parser.add_argument("picture", type=Path, help="the PNG file to write")
    parser.add_argument("--hover", metavar="SELECTOR", help="point at this element")
    parser.add_argument("--size", type=int, nargs=2, default=(1120, 720), metavar=("WIDTH", "HEIGHT"), help="of the window, in pixels")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    arguments = parser.parse_args()
    take_picture(arguments.page, arguments.picture, arguments.hover, tuple(arguments.size), arguments.scheme)
