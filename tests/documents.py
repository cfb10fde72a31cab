"""The documents as the tests read them: their pages, sections, code blocks and commands."""

import re
import shlex
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```([^`\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """What stands below `## heading`, up to the next heading of that level."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text_of(page), flags=re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def blocks(text: str, *languages: str) -> list[str]:
    """The code in `text` that is marked as one of `languages`."""
    return [body for language, body in _FENCE.findall(text) if language in languages]


def only_block(text: str, language: str) -> str:
    (body,) = blocks(text, language)
    return body


def commands(text: str) -> list[list[str]]:
    """The words of every command in the shell blocks, without comments; continued lines are one command."""
    joined = "\n".join(blocks(text, "bash", "sh", "shell", "console")).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]
