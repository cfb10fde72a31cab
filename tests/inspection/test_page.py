"""The attention page, in a real browser: what it shows is what the tensors hold, whoever looks and whatever the sentence says."""

import base64
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.inspection.made_maps import SOURCE, TARGET, made_maps
from vaswani_transformer.inspection import page as page_module
from vaswani_transformer.inspection.maps import AttentionMaps
from vaswani_transformer.inspection.page import AttentionPage, attention_data, attention_page, script, style

Opened = Callable[..., Any]
HOSTILE = [
    "</script><img src=x onerror='window.hacked=1'>", "<!--", "-->", "]]>", "\u2028\u2029", '"\'`', "javascript:window.hacked=1",
    "&lt;b&gt;", "${window.hacked=1}", "\x00\x07", "<svg/onload=window.hacked=1>", "{{ title }}",
    "</title><script>window.hacked=1</script>", "\ud800", "",
]  # fmt: skip


@pytest.fixture
def opened(page: Any, tmp_path: Path) -> Opened:
    """Write a page, open it as a file, and wait until it is drawn."""

    def open_page(shown: Sequence[AttentionMaps] | AttentionMaps | AttentionPage, **settings: Any) -> Any:
        made = shown if isinstance(shown, AttentionPage) else attention_page(shown, **settings)
        made.write(tmp_path / "attention.html")
        page.goto((tmp_path / "attention.html").as_uri())
        settle(page)
        return page

    return open_page


def settle(page: Any) -> None:
    """Until all is decoded and the next frame is drawn."""
    page.evaluate("document.getElementById('attention').view.ready")
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


def says(page: Any) -> str:
    settle(page)
    return str(page.inner_text(".says"))


def percentages(page: Any, side: str) -> list[str]:
    settle(page)
    return [str(text) for text in page.locator(f".column.{side} .percent").all_text_contents()]


def expected(weights: torch.Tensor) -> list[str]:
    """As the page tells weights: rounded to 1/255, then to 1%, from half a percent on."""
    rounded = (weights * 255).round().mean(0) if weights.dim() == 2 else (weights * 255).round()
    return [f"{int(100 * w / 255 + 0.5)}%" if w >= 255 / 200 else "" for w in rounded.tolist()]


def by_subwords() -> AttentionMaps:
    """The last source word and the second target word are two units each."""
    maps = made_maps([*SOURCE[:-1], "a", "b"], [*TARGET[:2], "x", *TARGET[2:]])
    return replace(
        maps,
        source_words=(*((place,) for place in range(7)), (7, 8)),
        target_words=((0,), (1, 2), *((place,) for place in range(3, 9))),
        read_words=((0,), (1,), (2, 3), *((place,) for place in range(4, 9))),
    )


def test_data_are_bytes_of_the_weights() -> None:
    maps = made_maps(score=-0.5)
    (candidate,) = attention_data([maps])["candidates"]
    assert candidate["source"] == SOURCE and candidate["target"] == TARGET and candidate["score"] == -0.5
    for kind, entry in candidate["maps"].items():
        stored = torch.frombuffer(bytearray(page_module.zlib.decompress(base64.b64decode(entry["weights"]))), dtype=torch.uint8)
        weights = getattr(maps, kind)
        assert [entry[name] for name in ("layers", "heads", "queries", "keys")] == list(weights.shape)
        assert torch.equal(stored.view(weights.shape), (255 * weights).round().to(torch.uint8))


def test_weights_on_the_page_are_those_of_the_tensors(opened: Opened) -> None:
    maps = by_subwords()
    page = opened(maps)
    for level, unit in (("word", maps.words()), ("subword", maps)):
        page.click(f".controls label:has-text('{'Words' if level == 'word' else 'Subwords'}')")
        for kind in ("Cross", "Encoder", "Decoder"):
            page.click(f".controls label:has-text('{kind}')")
            settle(page)
            weights = getattr(unit, kind.lower())
            places = torch.cartesian_prod(*map(torch.arange, weights.shape)).tolist()
            read = "([kind, places]) => places.map(place => document.getElementById('attention').view.weight(kind, ...place))"
            shown = torch.tensor(page.evaluate(read, [kind.lower(), places]))
            assert (shown.view(weights.shape) - weights).abs().max() <= 0.5 / 255 + 1e-6


def test_a_word_shows_where_it_looks(opened: Opened) -> None:
    maps = made_maps()
    page = opened(maps)
    assert percentages(page, "keys") == [""] * 8
    page.hover(".column.queries li >> nth=3")
    assert percentages(page, "keys") == expected(maps.cross[-1, :, 3])
    largest = expected(maps.cross[-1, :, 3])[int(maps.cross[-1, :, 3].mean(0).argmax())]
    written = f"It was written with a probability of {maps.log_probabilities.exp()[3]:.0%}"
    assert re.fullmatch(rf"“kauft” looks at “\w+” {largest}, .* \(mean of 4 heads\)\. {written}\.", says(page))
    page.hover(".column.keys li >> nth=2")
    assert percentages(page, "queries") == expected(maps.cross[-1, :, :, 2])
    assert says(page).startswith("“boy” is looked at by ")
    page.mouse.move(1, 1)
    assert percentages(page, "queries") == [""] * 8


def test_heads_are_chosen_one_and_several(opened: Opened) -> None:
    maps = made_maps(layers=3)
    page = opened(maps)
    page.click("[aria-label='Layer 2, head 3']")
    page.hover(".column.queries li >> nth=1")
    assert percentages(page, "keys") == expected(maps.cross[1, 2, 1])
    page.click("[aria-label='Layer 1, head 1']", modifiers=["Shift"])
    page.hover(".column.queries li >> nth=1")
    assert percentages(page, "keys") == expected(torch.stack([maps.cross[1, 2, 1], maps.cross[0, 0, 1]]))
    assert page.locator(".thumbnail[aria-pressed=true]").count() == 2
    colours = page.eval_on_selector_all(".legend i", "all => all.map(item => getComputedStyle(item).backgroundColor)")
    assert len(set(colours)) == 2
    page.click("[aria-label='All heads of layer 1']")
    settle(page)
    pressed = page.eval_on_selector_all(".thumbnail[aria-pressed=true]", "all => all.map(item => item.dataset.place)")
    assert pressed == ["0,0", "0,1", "0,2", "0,3"]
    page.check("text=pick several")
    page.click("[aria-label='Layer 1, head 2']")
    settle(page)
    assert page.locator(".thumbnail[aria-pressed=true]").count() == 3


def ink(page: Any, canvas: str) -> int:
    """Pixels of a canvas that are not transparent."""
    settle(page)
    pixels = "canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data"
    return int(page.eval_on_selector(canvas, f"canvas => {pixels}.filter((value, place) => place % 4 === 3 && value).length"))


def test_lines_of_one_word_are_alone_and_follow_the_threshold(opened: Opened) -> None:
    page = opened(made_maps())
    everything = ink(page, ".gap canvas")
    page.locator("[aria-label^='Smallest weight']").fill("40")
    strong = ink(page, ".gap canvas")
    page.hover(".column.queries li >> nth=3")
    assert 0 < ink(page, ".gap canvas") < everything and 0 < strong < everything


def test_the_keyboard_is_enough(opened: Opened) -> None:
    maps = made_maps()
    page = opened([maps, replace(made_maps(seed=1), score=-1.0)])
    page.focus(".column.queries li >> nth=0")
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert says(page).startswith("“boy” is looked at by ")
    page.keyboard.press("Enter")
    page.focus(".quiet")
    assert says(page).startswith("“boy” is looked at by "), "a word stays chosen after Enter"
    page.keyboard.press("Escape")
    assert says(page).startswith("Each word of the translation looks at")
    page.keyboard.press("k")
    settle(page)
    assert page.locator("input[value=encoder]:checked").count() == 1
    page.keyboard.press("v")
    page.keyboard.press("v")
    page.focus("canvas.matrix")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    mean = float((maps.encoder[-1, :, 1, 1] * 255).round().mean()) / 255
    assert says(page) == f"“small” looks at “small” with {int(100 * mean + 0.5)}% (mean of 4 heads)."
    page.focus("[aria-label='Layer 1, head 1']")
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    settle(page)
    assert page.get_attribute("[aria-label='Layer 2, head 2']", "aria-pressed") == "true"
    page.keyboard.press("n")
    settle(page)
    assert page.locator(".candidates input:checked").input_value() == "1"


def test_keys_pressed_before_the_next_frame_count(opened: Opened) -> None:
    """A person types faster than a busy machine draws: no key may find the matrix half made."""
    maps = made_maps()
    page = opened(maps)
    settle(page)
    press = """keys => keys.forEach(([selector, key]) => {
        const element = document.querySelector(selector);
        element.focus();
        element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
    })"""
    page.evaluate(press, [[".quiet", "v"], [".quiet", "v"], *[["canvas.matrix", key] for key in ("ArrowRight", "ArrowRight", "ArrowDown")]])
    mean = float((maps.cross[-1, :, 1, 1] * 255).round().mean()) / 255
    assert says(page).endswith(f" with {int(100 * mean + 0.5)}% (mean of 4 heads).")
    page.evaluate(press, [["canvas.matrix", "v"], ["canvas.matrix", "ArrowRight"]])
    assert says(page).startswith("Each word of the translation looks at")


def test_stepping_reveals_the_translation(opened: Opened) -> None:
    maps = made_maps()
    page = opened(maps)
    for _ in range(3):
        page.keyboard.press("Tab")
    for _ in range(4):
        page.keyboard.press(".")
    assert percentages(page, "keys") == expected(maps.cross[-1, :, 3])
    assert page.inner_text(".stepping output") == f"4 of 8: “kauft”, probability {maps.log_probabilities.exp()[3]:.0%}"
    assert page.locator(".column.queries li.unwritten").count() == 4
    page.keyboard.press(",")
    settle(page)
    assert page.locator(".column.queries li.unwritten").count() == 5
    page.focus("[aria-label='Units written']")
    page.keyboard.press("End")
    assert says(page).startswith("“</s>” looks at")
    page.keyboard.press("Escape")
    settle(page)
    assert page.inner_text(".stepping output") == "all written" and page.locator("li.unwritten").count() == 0
    page.click("text=Play")
    page.locator(".stepping output", has_text="2 of 8").wait_for()
    page.click("text=Pause")


def test_the_matrix_tells_the_cell_under_the_pointer(opened: Opened) -> None:
    maps = made_maps(heads=1)
    page = opened(maps)
    page.click(".controls label:has-text('Matrix')")
    settle(page)
    seen = set()
    box = page.locator("canvas.matrix").bounding_box()
    for step in range(0, int(box["height"]), 12):
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + step)
        if match := re.match(r"“(\S+)” looks at “(\S+)” with (\d+)% \(layer 2, head 1\)\.", says(page)):
            row, column = TARGET.index(match[1]), SOURCE.index(match[2])
            assert f"{match[3]}%" == (expected(maps.cross[1, 0, row])[column] or "0%")
            assert page.inner_text(".tip").split() == [match[1], "→", match[2] + f"{match[3]}%"] or match[3] in page.inner_text(".tip")
            seen.add(row)
    assert seen == set(range(8))


def test_candidates_are_switched(opened: Opened) -> None:
    other = replace(made_maps(target=["Die", "Kuchen", "</s>"], seed=1), score=-2.25)
    page = opened([made_maps(score=-0.5), other], title="Two translations")
    assert page.locator(".candidates .score").all_text_contents() == ["score -0.50", "score -2.25"]
    page.click(".candidates label >> nth=1")
    settle(page)
    assert page.locator(".column.queries .name").all_text_contents() == ["Die", "Kuchen", "</s>"]
    page.hover(".column.queries li >> nth=1")
    assert percentages(page, "keys") == expected(other.cross[-1, :, 1])
    assert page.title() == "Two translations"


def test_hostile_text_stays_text(opened: Opened) -> None:
    maps = made_maps(HOSTILE, HOSTILE, layers=1, heads=2)
    page = opened([maps, maps], title="</title><img src=x onerror=window.hacked=1>")
    for view in ("Lines", "Text", "Matrix"):
        page.click(f".controls label:has-text('{view}')")
        settle(page)
    page.hover("canvas.matrix")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, svg, iframe, object").count() == 0 and page.locator("script").count() == 2
    shown = [text if text.strip() else "␣" for text in HOSTILE]
    read = page.evaluate("[...document.querySelectorAll('.column.queries .name')].map(name => name.textContent)")
    assert [text.replace("\ufffd", "\ud800") for text in read] == shown
    assert page.title() == "</title><img src=x onerror=window.hacked=1>"
    assert not re.search("<(?!/script>)", attention_page(maps).html.split('id="data">')[1].split("<script>")[0])


def test_the_page_can_load_and_send_nothing(opened: Opened) -> None:
    page = opened(made_maps())
    policy = page.get_attribute("meta[http-equiv]", "content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    load = "const image = new Image(); image.onload = () => done('loaded'); image.onerror = () => done('refused'); image.src = pixel"
    pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
    assert page.evaluate(f"pixel => new Promise(done => {{ {load} }})", pixel) == "refused"
    assert page.evaluate("fetch('data:,x').then(() => 'sent', () => 'refused')") == "refused"
    assert not re.search(r"https?://|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|localStorage|</script", script() + style())


def test_light_and_dark(opened: Opened) -> None:
    page = opened(made_maps())
    background = "getComputedStyle(document.querySelector('.attention-view')).backgroundColor"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(background)
    assert light == "rgb(255, 255, 255)" and sum(map(int, re.findall(r"\d+", dark))) < 120
    page.click("text=Theme: system")
    assert page.evaluate(background) == light
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == light
    page.click("text=Theme: light")
    page.emulate_media(color_scheme="light")
    assert page.evaluate(background) == dark


def contrast(page: Any, selector: str) -> float:
    """WCAG's ratio of a text and the page's background."""
    read = "element => [getComputedStyle(element).color, getComputedStyle(document.querySelector('.attention-view')).backgroundColor]"
    bright = []
    for colour in page.eval_on_selector(selector, read):
        channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        bright.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    return (max(bright) + 0.05) / (min(bright) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_that_takes_the_focus_has_a_name(opened: Opened, scheme: str) -> None:
    page = opened([made_maps(), made_maps(seed=1)])
    page.emulate_media(color_scheme=scheme)
    for view in ("Lines", "Matrix"):
        page.click(f".controls label:has-text('{view}')")
        settle(page)
        nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        reached = [
            node for node in nodes if any(p["name"] == "focusable" and p["value"]["value"] for p in node.get("properties", []))
            and node["role"]["value"] != "RootWebArea"
        ]  # fmt: skip
        assert len(reached) > 20
        assert [node["role"]["value"] for node in reached if not node.get("name", {}).get("value")] == []
    assert page.get_attribute(".says", "aria-live") == "polite"
    assert all(contrast(page, selector) >= 4.5 for selector in (".says", ".hint", ".score", ".legend li", "footer", "h3", ".percent"))


def test_right_to_left_and_a_narrow_window(opened: Opened) -> None:
    page = opened(made_maps(["שלום", "עולם", "</s>"], ["x" * 5000, "مرحبا", "</s>"], heads=16))
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.get_attribute(".column.keys", "dir") == "rtl" and page.get_attribute(".column.queries", "dir") == "ltr"
    for view in ("Lines", "Text", "Matrix"):
        page.click(f".controls label:has-text('{view}')")
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
    page.click(".controls label:has-text('Text')")
    page.hover(".column.keys li >> nth=0")
    assert says(page).startswith("“שלום” is looked at by ") and page.inner_text(".says bdi >> nth=0") == "שלום"
    first, second = (page.locator(f".column.keys li >> nth={place}").bounding_box() for place in (0, 1))
    assert first["x"] > second["x"]


def test_print_shows_the_picture_and_no_controls(opened: Opened) -> None:
    page = opened(made_maps())
    page.emulate_media(media="print")
    assert not page.locator(".controls").is_visible() and page.locator(".gap canvas").is_visible()


def test_no_motion_where_none_is_wanted(opened: Opened) -> None:
    page = opened(made_maps())
    duration = "getComputedStyle(document.querySelector('.column li'), '::before').transitionDuration"
    assert page.evaluate(duration) == "0.09s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(duration) == "0s"


def test_two_hundred_words_stay_small_and_usable(opened: Opened) -> None:
    source, target = ([f"{name}{place}" for place in range(size)] for name, size in (("s", 250), ("t", 280)))
    maps = made_maps(source, target, layers=6, heads=8)
    made = attention_page(maps)
    assert len(made.html.encode()) < 3_000_000
    page = opened(made)
    assert page.get_attribute(".stage", "data-view") == "text"
    page.hover(".column.queries li >> nth=200")
    assert "“t200” looks at" in says(page)
    remarks = page.locator(".remark").all_text_contents()
    assert remarks == list(made.left_out)


def test_what_is_left_out_is_told(opened: Opened) -> None:
    candidates = [replace(by_subwords(), score=-1.0 - place) for place in range(4)]
    pages = [attention_page(candidates)]
    while len(pages) < 7:
        pages.append(attention_page(candidates, most_bytes=len(pages[-1].html)))
    told = [[sentence.removeprefix("To keep this page small, ") for sentence in made.left_out] for made in pages]
    small, word = "weights below 1.2% are left out (they count as 0).", "weights are here by words only."
    half, best = "only the best 2 of 4 translations are here.", "only the best of 4 translations is here."
    assert told[:5] == [[], [small], [small, half], [small, best], [small, best, word]]
    assert told[5:] == [
        [small, best, word, "self-attention of the encoder is left out."], [small, best, word, "self-attention is left out."]
    ]  # fmt: skip
    assert all(len(after.html) < len(before.html) for before, after in itertools.pairwise(pages))
    with pytest.raises(
        ValueError, match=r"^The attention of 9 source and 9 written units does not fit into a page of 100 bytes; give a shorter"
    ):
        attention_page(candidates, most_bytes=100)
    shown = opened(pages[-1])
    assert shown.locator(".remark").last.inner_text() == "To keep this page small, self-attention is left out."
    assert shown.locator(".controls input[value=encoder]").count() == 0 and says(shown)


def test_the_notebook_shows_the_page_in_a_frame(page: Any) -> None:
    for shown in (attention_page(made_maps())._repr_html_(), made_maps()._repr_html_()):
        page.set_content(f"<!DOCTYPE html><body>{shown}")
        assert page.get_attribute("iframe", "sandbox") == "allow-scripts"
        frame = page.frame_locator("iframe")
        frame.locator(".thumbnail[aria-pressed=true]").first.wait_for()
        frame.locator(".column.queries li >> nth=3").hover()
        frame.locator(".says", has_text="“kauft” looks at").wait_for()


def test_the_script_alone_takes_plain_bytes_and_tells_damage(page: Any) -> None:
    weights = torch.tensor([[[[255, 0], [51, 204]]]], dtype=torch.uint8)
    entry = {"layers": 1, "heads": 1, "queries": 2, "keys": 2, "weights": base64.b64encode(weights.numpy().tobytes()).decode()}
    data = {"candidates": [{"source": ["a", "b"], "target": ["c", "d"], "read": ["<s>", "c"], "score": None, "maps": {"cross": entry}}]}
    page.set_content("<!DOCTYPE html><div id=here></div>")
    page.add_style_tag(content=style())
    page.add_script_tag(content=script())
    page.evaluate("async data => { window.view = showAttention(document.getElementById('here'), data); await window.view.ready }", data)
    assert page.evaluate("window.view.weight('cross', 0, 0, 1, 1)") == 204 / 255
    page.hover(".column.queries li >> nth=1")
    page.locator(".says", has_text="“d” looks at “b” 80%, “a” 20% (layer 1, head 1).").wait_for()
    assert page.locator(".controls input[type=radio]").count() == 4, "one kind, three views"
    damaged = json.loads(json.dumps(data))
    damaged["candidates"][0]["maps"]["cross"]["weights"] = "AAAA"
    page.evaluate("data => showAttention(document.getElementById('here'), data).ready", damaged)
    assert page.inner_text("[role=alert]") == "The weights cannot be read (their number does not fit)."


def test_what_cannot_be_shown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^There is no translation to show; give the maps of one or more\.$"):
        attention_page([])
    with pytest.raises(ValueError, match=r"^The source has 1025 units, and a page shows at most 1024; give a shorter text\.$"):
        attention_page(made_maps(["a"] * 1025, ["b"], layers=1, heads=1))
    broken = made_maps()
    broken.cross[0, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"^The attention weights are not all numbers; run the model in float32\.$"):
        attention_page(broken)
    (tmp_path / "page.txt").write_text("old")
    with pytest.raises(ValueError, match=r"^An attention page is written as \.html; .*page\.txt has another ending\.$"):
        attention_page(made_maps()).write(tmp_path / "page.txt")
    assert (tmp_path / "page.txt").read_text() == "old"


def test_the_same_maps_are_the_same_page() -> None:
    assert attention_page(made_maps()).html == attention_page(made_maps()).html
