"""What a translation of a software's text copies as it stands: inline code, placeholders, addresses, options, names, versions, numbers.

Each class is a pattern, and `CLASSES` is the definition. Patterns are tried from left to right in the text, and in the order of `CLASSES`
at each place; what one has taken no other sees. An item counts as copied where it stands between what cannot belong to it: `sp_help` is not
copied by `sp_helptext`, and 5 not by 15 or 5.000.

This file travels with checkpoints.
"""

import re
from collections import Counter
from collections.abc import Collection
from functools import cache
from typing import Any

_NAME = r"\w(?:[\w.$%~-]*[\w$%~])?"
_BEFORE = r"(?<![^\s(\"'\[=])"
"""At the beginning of the text, after white space, a quote, a bracket or an equals sign."""

CLASSES = {
    "code": r"`[^`\n]+`",
    "url": r"(?:https?|ftp)://[^\s<>\"'`]*[\w/#=&]|www\.[\w-]+(?:\.[\w-]+)+",
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "placeholder": (
        r"%\(\w+\)[a-zA-Z]"  # %(name)s
        r"|%[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|I64|I32|z)?[sdiufxXcpeEgG](?!\w)|%\d+(?:![^!\s]+!|(?![\w.,]))"  # %s, %5.2f, %1, %1!s!
        r"|%\w+%(?!\\)|\$?\{\{?[\w.:-]*\}?\}|\$\([\w.]+\)|</?[A-Za-z][\w.:-]*/?>"  # %NAME%, {0}, ${name}, $(name), <name>
    ),
    "option": rf"{_BEFORE}(?:--[A-Za-z][\w-]*\w|[-/][A-Za-z]\w*(?![\w/\\-]))",
    "path": (
        rf"(?<!\w)[A-Za-z]:(?:\\{_NAME})+|\\\\{_NAME}(?:\\{_NAME})*|%\w+%(?:\\{_NAME})+"  # C:\temp, \\server\share, %TEMP%\x
        rf"|{_BEFORE}~?(?:/[\w.-]*\w){{2,}}|\w+(?:\\{_NAME})+"  # /usr/bin, tmp\x.txt
    ),
    "version": r"(?<![\w.,])v?\d+(?:\.\d+){2,}(?!\w)|(?<!\w)v\d+(?:\.\d+)*(?!\w)",
    "identifier": (
        r"(?<!\w)[@$#]{1,2}[A-Za-z_]\w*(?:\.\w+)*"  # @name, $name
        r"|(?<!\w)[A-Za-z]\w+(?:(?:\.|::|->)_?[A-Za-z]\w+)+(?:\(\))?"  # sys.columns, std::string, test.sql
        r"|(?<!\w)(?=\w*[^\W_])\w*_\w*(?:\(\))?"  # sp_configure
        r"|(?<!\w)[a-z]+[A-Z]\w*(?:\(\))?|(?<!\w)(?:[A-Z]+[a-z]+\d*){2,}(?:\(\))?(?!\w)"  # lowerCamel, TwoWords
        r"|(?<!\w)[A-Za-z]\w+\(\)|(?<!\w)[A-Za-z]+\d\w*"  # call(), utf8
    ),
    "number": r"(?<![\w.,:/])\d+(?![\w:/]|[.,]\d)",
    "formatted_number": r"(?<![\w.,])\d+(?:[.,]\d+)+(?!\w)",
}
"""The classes and their patterns."""

COPIED = tuple(name for name in CLASSES if name != "formatted_number")
"""What `copy_items=True` asks for: all but numbers with separators, which languages write differently (1,000.5 and 1.000,5)."""

_ANY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in CLASSES.items()))


def items_of(text: str, classes: Collection[str] = tuple(CLASSES)) -> Counter[str]:
    """The items of a text and how often each stands there."""
    return Counter(found.group() for found in _ANY.finditer(text) if found.lastgroup in classes)


def items_by_class(text: str) -> dict[str, Counter[str]]:
    """The items of a text by their class; classes without an item are absent."""
    found: dict[str, Counter[str]] = {}
    for match in _ANY.finditer(text):
        found.setdefault(str(match.lastgroup), Counter())[match.group()] += 1
    return found


def occurrences(item: str, text: str) -> int:
    """How often `item` stands in `text` as a whole."""
    return len(_whole(item).findall(text)) if item in text else 0


def lost_items(items: Counter[str], text: str) -> Counter[str]:
    """Which of `items` a translation lacks, and how often."""
    return Counter({item: lost for item, number in items.items() if (lost := number - occurrences(item, text)) > 0})


def wanted_classes(setting: Any) -> tuple[str, ...]:
    """The classes that a value of `copy_items` means: those of `COPIED` for True, none for False and None.

    Raises:
        ValueError: it is something else than that or a list of classes.
    """
    if setting is None or isinstance(setting, bool):
        return COPIED if setting else ()
    if not isinstance(setting, list | tuple | set | frozenset) or not all(isinstance(name, str) and name in CLASSES for name in setting):
        raise ValueError(f"`copy_items` is {setting!r}; it must be true, false, or a list out of {', '.join(CLASSES)}.")
    return tuple(setting)


@cache
def _whole(item: str) -> re.Pattern[str]:
    before = r"(?<!\w)" if re.match(r"\w", item) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", item) else ""
    if item.isdecimal():
        before, after = r"(?<!\w)(?<!\d[.,:])", r"(?!\w|[.,:]\d)"
    return re.compile(before + re.escape(item) + after)


__all__ = ["CLASSES", "COPIED", "items_of", "lost_items"]
