"""What counts as an item, of which class, and when a translation has it."""

from collections import Counter
from typing import Any

import pytest

from vaswani_transformer.copied_items import CLASSES, COPIED, items_by_class, items_of, lost_items, occurrences, wanted_classes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Run `rm -rf x` now.", {"code": ["`rm -rf x`"]}),
        ("See https://example.com/a_b?c=1#d. Or www.example.org, please.", {"url": ["https://example.com/a_b?c=1#d", "www.example.org"]}),
        ("Write to a.b@example.com.", {"email": ["a.b@example.com"]}),
        ("%s of %d: {0}, {name}, ${HOME}, $(Path), %(x)s and %5.2f", {
            "placeholder": ["%s", "%d", "{0}", "{name}", "${HOME}", "$(Path)", "%(x)s", "%5.2f"]}),
        ("Open %TEMP% as <user_name>.", {"placeholder": ["%TEMP%", "<user_name>"]}),
        ("a discount of 20 % by day, 50% for you", {"number": ["20", "50"]}),
        ("Use --dry-run or -v, not /clr.", {"option": ["--dry-run", "-v", "/clr"]}),
        ("a well-known and/or read-only word -- or not", {}),
        (r"In C:\temp\out.txt. And \\server\share, %TEMP%\x, /usr/bin and ~/a/b.c!", {
            "path": [r"C:\temp\out.txt", r"\\server\share", r"%TEMP%\x", "/usr/bin", "~/a/b.c"]}),
        ("Version 1.2.3, v2 and v2.0.", {"version": ["1.2.3", "v2", "v2.0"]}),
        ("sp_server_diagnostics, sys.columns, @name, $x1, std::string, getName, TwoWords, call(), utf8, _tWinMain.", {
            "identifier": ["sp_server_diagnostics", "sys.columns", "@name", "$x1", "std::string", "getName", "TwoWords", "call()", "utf8",
                           "_tWinMain"]}),
        ("Set it to 0, or 17; 5,000.5 or 3.14 at 10:30.", {"number": ["0", "17"], "formatted_number": ["5,000.5", "3.14"]}),
        ("The dog sleeps. It is old, e.g. 3rd.", {}),
    ],
)  # fmt: skip
def test_each_class_finds_its_items(text: str, found: dict[str, list[str]]) -> None:
    assert items_by_class(text) == {name: Counter(items) for name, items in found.items()}
    assert set(found) <= set(CLASSES)


@pytest.mark.parametrize(
    ("item", "text", "number"),
    [
        ("sp_help", "sp_help, sp_helptext und (sp_help)", 2),
        ("sp_configure", "mit sp_configurefestgelegt", 0),
        ("5", "5 von 15, 5.000 und 5, sowie 5.", 3),
        ("{0}", "Datei{0}en: {0}", 2),
        ("--force", "mit --force.", 1),
        ("größe_x", "größe_x und größe_xy", 1),
    ],
)
def test_an_item_counts_where_it_stands_apart(item: str, text: str, number: int) -> None:
    assert occurrences(item, text) == number


def test_what_stands_twice_must_stand_twice() -> None:
    items = items_of("Set max_a to 3, max_a again to 4.")
    assert items == {"max_a": 2, "3": 1, "4": 1}
    assert lost_items(items, "max_a auf 3, 4 setzen") == {"max_a": 1}
    assert not lost_items(items, "4, max_a, 3, max_a, max_a")


def test_a_setting_names_classes() -> None:
    assert wanted_classes(True) == COPIED and "formatted_number" not in COPIED
    assert wanted_classes(False) == wanted_classes(None) == ()
    assert wanted_classes(["url", "number"]) == ("url", "number")
    assert items_of("x_y costs 5", wanted_classes(["number"])) == {"5": 1}
    for wrong in ("url", 1, ["urls"], {"url": 2, "x": 3}):
        given: Any = wrong
        with pytest.raises(ValueError, match=r"`copy_items` is .* it must be true, false, or a list out of code, url"):
            wanted_classes(given)
