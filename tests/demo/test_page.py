"""The page in a browser, as visitors use it."""

import re
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

from tests.demo.conftest import Server

HOSTILE = "<img src=x onerror='broken=1'><b id='bold'>&lt;</b><script>broken=1</script>"
PATIENCE = 60_000  # milliseconds; nothing here takes a second on a machine that is at rest


@pytest.fixture
def demo(page: Any, server: Server) -> Any:
    """The demo's page, ready; it asks no other machine for anything, or the fixture below fails."""
    page.set_default_timeout(PATIENCE)
    page.goto(server.address)
    page.locator("#source textarea").wait_for()
    return page


def translate(page: Any, text: str, ends: str = r"\d sentences? in") -> str:
    """What the page says about the translation of `text`, once it is there."""
    page.locator("#source textarea").fill(text)
    page.get_by_role("button", name="Translate", exact=True).click()
    notice = page.locator("#status .notice").filter(has_text=re.compile(ends))
    notice.wait_for()
    return str(notice.inner_text())


def wait_for(page: Any, place: str, text: str) -> None:
    """Return once the text box at `place` holds `text`."""
    page.wait_for_function("([place, text]) => document.querySelector(place).value === text", arg=[place, text])


def pipeline_of(folder: str) -> Any:
    task: Any = "translation"  # which transformers' own type hints no longer know
    return pipeline(task, model=folder)


def test_a_text_its_best_translations_and_another_model(demo: Any, server: Server) -> None:
    plain, other = pipeline_of(server.folders.ours), pipeline_of(server.folders.marian)
    text = "A man reads. The house is old."
    assert translate(demo, text).startswith("2 sentences in ")
    wait_for(demo, "#target textarea", plain(text, split_sentences="en")[0]["translation_text"])
    picture = demo.frame_locator("iframe.picture")
    picture.get_by_text("A man reads.").first.wait_for()
    demo.get_by_label("Sentence", exact=True).fill("2")
    picture.get_by_text("The house is old.").first.wait_for()

    demo.get_by_role("tab", name="Best translations").click()
    rows = demo.locator(".alternatives tbody").nth(1).locator("tr")
    expected = [one["translation_text"] for one in plain("The house is old.", num_return_sequences=3)]
    assert [rows.nth(row).locator("td").nth(2).inner_text() for row in (1, 2, 3)] == expected
    assert re.fullmatch(r"-\d+\.\d{3}", rows.nth(1).locator("td").nth(1).inner_text())

    demo.get_by_text("Search settings").click()
    demo.get_by_label("marian").check()
    demo.wait_for_function("document.querySelector('[aria-label=\"number input for Beams\"]').value === '3'")  # Marian's own
    demo.get_by_role("tab", name="Compare models").click()
    demo.get_by_role("button", name="Compare", exact=True).click()
    for name, translator in (("ours", plain), ("marian", other)):
        wait_for(demo, f"#compared-{name} textarea", translator(text, split_sentences="en")[0]["translation_text"])


def test_whatever_is_pasted_gets_a_translation_or_a_sentence(demo: Any, server: Server) -> None:
    demo.get_by_role("tab", name="Best translations").click()
    assert "There is nothing to translate" in translate(demo, "  \n ", "nothing")
    assert "this page takes 5,000; shorten it" in translate(demo, "word " * 10_000, "50,000 characters")
    assert "takes 60 in one sentence; make shorter sentences of it" in translate(demo, "x" * 5000, r"The sentence has .* tokens")
    plain = pipeline_of(server.folders.ours)
    for text in ("שלום עולם", "👩‍👩‍👧 🐕‍🦺", "</s> <pad>"):
        translate(demo, text)
        wait_for(demo, "#target textarea", plain(text, split_sentences="en")[0]["translation_text"])
        demo.locator(".alternatives th[scope=rowgroup]").filter(has_text=text).wait_for()
    assert "Traceback" not in demo.content()


def test_markup_is_shown_and_never_obeyed(demo: Any) -> None:
    demo.get_by_role("tab", name="Best translations").click()
    demo.get_by_text("Search settings").click()
    demo.get_by_label("Sentence by sentence").uncheck()
    translate(demo, HOSTILE[:40], "1 sentence in")
    demo.locator(".alternatives th[scope=rowgroup]").filter(has_text=HOSTILE[:40]).wait_for()
    demo.get_by_label("Sentence by sentence").check()
    demo.get_by_label("Language of the text").fill(HOSTILE)
    assert HOSTILE in translate(demo, "Yes.", "no language's code")
    assert demo.locator("#bold").count() == 0 and demo.evaluate("window.broken") is None


def test_a_file_goes_up_and_its_translation_comes_down(demo: Any, server: Server, tmp_path: Path) -> None:
    lines = ["A man reads.", "", "The house is old.", "x" * 300, HOSTILE[:20]]
    name = tmp_path / "in <b>.txt"
    name.write_text("\n".join(lines) + "\n", encoding="utf-8")
    demo.get_by_role("tab", name="Translate a file").click()
    button = demo.get_by_role("button", name="Translate the file")
    button.click()
    demo.get_by_text("Choose a file first.").wait_for()
    demo.locator("input[type=file]").set_input_files(name)
    demo.get_by_text(re.compile("in .*txt")).first.wait_for()
    button.click()
    demo.get_by_text(re.compile(r"5 lines in .*; 1 line could not be translated and stayed")).wait_for()
    with demo.expect_download() as download:
        demo.locator("#result a[download]").first.click()
    plain = pipeline_of(server.folders.ours)
    expected = [plain(line, split_sentences="en")[0]["translation_text"] if len(line) < 300 else "" for line in lines]
    assert download.value.path().read_text(encoding="utf-8").split("\n") == [*expected, ""]
    assert "translated" in download.value.suggested_filename


def test_stop_frees_the_model(demo: Any, server: Server) -> None:
    demo.locator("#source textarea").fill("A man reads. " * 100)
    demo.get_by_role("button", name="Translate", exact=True).click()
    demo.locator("#status .notice").filter(has_text="Translating, sentence").wait_for()
    demo.get_by_role("button", name="Stop").first.click()
    demo.locator("#status .notice").filter(has_text="Stopped.").wait_for()
    translate(demo, "Yes.")
    wait_for(demo, "#target textarea", pipeline_of(server.folders.ours)("Yes.")[0]["translation_text"])
