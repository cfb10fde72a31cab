"""A Space for browsers: its search against ours, its ONNX models against PyTorch, and its page in a real browser."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import GenerationConfig, PreTrainedTokenizerBase
from typer.testing import CliRunner

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.__main__ import app
from vaswani_transformer.configuration_vaswani import PAPER_SEARCH
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.hub import browser_packages, static_space
from vaswani_transformer.hub.browser_packages import PARTS, provide_packages
from vaswani_transformer.hub.publish import PublishError
from vaswani_transformer.hub.static_space import PAGE, assemble_static_space, publish_static_space
from vaswani_transformer.hub.static_space_check import Checked, check_static_space, node_translations, served
from vaswani_transformer.interop.browser_onnx import DECODER, ENCODER, cache_names, quantize

WORDS = [
    *("A", "man", "reads", "the", "old", "house", "while", "two", "small", "dogs", "run", "along", "beach", "and", "children", "watch"),
    *("them", "from", "boat", ".", ",", "?", "Ünïcödé", "日本", "</s>", "<pad>", "🐕"),
]
HOSTILE = '<img src=x onerror="document.title=`stolen`"> </textarea><script>document.title="stolen"</script> & &lt;'


class Published(NamedTuple):
    folder: Path
    model: VaswaniForConditionalGeneration
    tokenizer: PreTrainedTokenizerBase


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerBase) -> Published:
    """Random weights, so certain of themselves that no rounding turns a choice, with the end within reach."""
    pytest.importorskip("onnxscript", reason="the export needs the extra `browser`")
    torch.manual_seed(1)
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40}
    config = VaswaniConfig(vocab_size=len(tokenizer), encoder_attention_heads=4, decoder_attention_heads=4, **sizes)
    model = VaswaniForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.normal_(mean=float("norm.weight" in name), std=0.3)
        last = model.model.decoder.layers[-1].final_layer_norm
        last.weight *= 3
        last.bias += 0.3 * model.lm_head.weight[2] * config.d_model**0.5
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1}
    model.generation_config = GenerationConfig(**PAPER_SEARCH, **ids)
    folder = tmp_path_factory.mktemp("static") / "toy"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n", encoding="utf-8")
    return Published(folder, model, tokenizer)


@pytest.fixture(scope="module")
def packages() -> Path:
    folder = os.environ.get("VASWANI_BROWSER_PACKAGES")
    if folder is None or not Path(folder).is_dir():
        pytest.skip("VASWANI_BROWSER_PACKAGES names no folder: scripts/test.sh fetches it where npm is installed")
    if shutil.which("node") is None:
        pytest.skip("the page's search is run by node, which is not installed")
    return Path(folder)


@pytest.fixture(scope="module")
def space(published: Published, packages: Path) -> Path:
    return assemble_static_space(published.folder, published.folder.with_name("space"), "me/toy", precision="float32", packages=packages)


@pytest.fixture(scope="module")
def address(space: Path) -> Iterator[str]:
    with served(space) as address:
        yield address


def sentences(count: int) -> list[str]:
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 12, (count,), generator=random).tolist()
    return [" ".join(WORDS[i] for i in torch.randint(len(WORDS), (length,), generator=random)) for length in lengths]


def generated(published: Published, sources: Sequence[str], **settings: Any) -> list[list[tuple[list[int], float]]]:
    """What our search in PyTorch finds: for each source, tokens and scores, best first."""
    found = []
    for source in sources:
        inputs = published.tokenizer(source, return_tensors="pt")
        output = published.model.generate(**inputs, return_dict_in_generate=True, output_scores=False, **settings)
        scores = output.get("sequences_scores")
        rows = [[token for token in row if token] for row in output.sequences[:, 1:].tolist()]
        found.append(list(zip(rows, [0.0] * len(rows) if scores is None else scores.tolist(), strict=True)))
    return found


def test_the_search_finds_what_ours_finds(published: Published, space: Path) -> None:
    """50 sentences by four searches: tokens, texts, and scores."""
    sources = sentences(50)
    searches: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"wanted": 4}, {"num_return_sequences": 4}),
        (
            {"beams": 3, "wanted": 2, "alpha": 2.0, "extraLength": 2},
            {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 2.0, "extra_length": 2},
        ),
        ({"beams": 5, "alpha": 0.0}, {"num_beams": 5, "length_penalty": 0.0}),
        ({"beams": 1}, {"num_beams": 1}),
    ]
    answers = node_translations(space, [(source, settings) for settings, _ in searches for source in sources])
    expected = [rows for _, ours in searches for rows in generated(published, sources, **ours)]
    assert [answer["source"] for answer in answers[:50]] == [published.tokenizer(source).input_ids for source in sources]
    found = [[row["tokens"] for row in answer["translations"]] for answer in answers]
    assert found == [[tokens for tokens, _ in rows] for rows in expected]
    texts = [[row["text"] for row in answer["translations"]] for answer in answers]
    assert texts == [published.tokenizer.batch_decode([tokens for tokens, _ in rows], skip_special_tokens=True) for rows in expected]
    scores = torch.tensor([row["score"] for answer in answers[:150] for row in answer["translations"]])
    torch.testing.assert_close(scores, torch.tensor([score for rows in expected[:150] for _, score in rows]), atol=1e-4, rtol=1e-4)
    assert sum(beams[0] != greedy[0] for beams, greedy in zip(found[:50], found[150:], strict=True)) >= 10
    assert len({len(rows[0]) for rows in found[:50]}) > 5


def test_the_graphs_give_what_pytorch_gives_with_any_cache(published: Published, space: Path) -> None:
    """Two sentences with padding, then four hypotheses of one sentence; states, logits, cache, and all attention weights."""
    onnxruntime = pytest.importorskip("onnxruntime")
    encoder, decoder = (onnxruntime.InferenceSession(space / "onnx" / f"{name}.onnx") for name in (ENCODER, DECODER))
    inputs = published.tokenizer(["A man reads.", "The dogs run along the beach."], padding=True, return_tensors="pt")
    read = torch.tensor([[1, 40, 50, 60], [1, 70, 80, 90]])
    published.model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = published.model(**inputs, decoder_input_ids=read, output_attentions=True, use_cache=False)
    published.model.set_attn_implementation("sdpa")
    mask = inputs.attention_mask.numpy()
    states, *seen = encoder.run(None, {"input_ids": inputs.input_ids.numpy(), "attention_mask": mask})
    names = [output.name for output in decoder.get_outputs()]

    def decode(rows: slice, tokens: torch.Tensor, cache: dict[str, Any]) -> dict[str, Any]:
        feeds = {"input_ids": tokens.numpy(), "encoder_hidden_states": states[rows], "encoder_attention_mask": mask[rows]}
        return dict(zip(names, decoder.run(None, feeds | cache), strict=True))

    def kept(outputs: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(cache_names(2, "past_key_values"), (outputs[name] for name in cache_names(2, "present")), strict=True))

    empty = {name: torch.zeros(2, 4, 0, 8).numpy() for name in cache_names(2, "past_key_values")}
    first = decode(slice(0, 2), read[:, :3], empty)
    last = decode(slice(0, 2), read[:, 3:], kept(first))
    logits = torch.cat((torch.tensor(first["logits"]), torch.tensor(last["logits"])), dim=1)
    torch.testing.assert_close(logits, expected.logits, atol=2e-4, rtol=1e-4)
    close = {"atol": 1e-5, "rtol": 1e-4}
    real = inputs.attention_mask.bool()
    for layer in range(2):
        weights = torch.tensor(seen[layer]).transpose(1, 2)[real]
        torch.testing.assert_close(weights, expected.encoder_attentions[layer].transpose(1, 2)[real], **close)
        for kind in ("cross", "decoder"):
            torch.testing.assert_close(
                torch.tensor(last[f"{kind}_attentions.{layer}"]), expected[f"{kind}_attentions"][layer][:, :, 3:], **close
            )
    shared = {name: tensor[1:] if "encoder" in name else tensor[[1, 1, 1, 1]] for name, tensor in kept(first).items()}
    four = decode(slice(1, 2), read[1:, 3:].expand(4, 1), shared)["logits"]
    torch.testing.assert_close(torch.tensor(four), torch.tensor(last["logits"])[1:].expand(4, -1, -1), atol=1e-4, rtol=1e-4)


def test_int8_is_small_and_near(published: Published, space: Path, tmp_path: Path) -> None:
    small = shutil.copytree(space, tmp_path / "int8")
    for name in (ENCODER, DECODER):
        quantize(space / "onnx" / f"{name}.onnx", small / "onnx" / f"{name}_quantized.onnx")
        (small / "onnx" / f"{name}.onnx").unlink()
    write_json(small / "space.json", read_json(space / "space.json") | {"precision": "_quantized"})
    sources = sentences(20)
    near = [answer["translations"][0]["score"] for answer in node_translations(small, [(source, {}) for source in sources])]
    exact = [rows[0][1] for rows in generated(published, sources)]
    assert near != pytest.approx(exact, abs=1e-3)
    assert torch.tensor(near).sub(torch.tensor(exact)).abs().mean() < 0.15 * torch.tensor(exact).abs().mean()


def test_the_folder_holds_a_whole_space_and_nothing_else(space: Path) -> None:
    names = {file.relative_to(space).as_posix() for file in space.rglob("*") if file.is_file()}
    model = {f"onnx/{name}.onnx" for name in (ENCODER, DECODER)}
    model |= {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "space.json"}
    libraries = {*browser_packages.KEPT, "LICENSES.md", "onnxruntime.LICENSE", "onnxruntime.ThirdPartyNotices.txt"}
    assert names == {*PAGE, "README.md", "attention.js", "attention.css", *model, *(f"vendor/{name}" for name in libraries)}
    card = ModelCard.load(space / "README.md").data.to_dict()
    assert (card["sdk"], card["app_file"], card["license"], card["models"]) == ("static", "index.html", "cc-by-4.0", ["me/toy"])
    loaded = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vendor/ort-wasm-simd-threaded.wasm",
        *model,
    ]
    del loaded[1]  # the page reads none of Hugging Face's settings of a search
    settings = read_json(space / "space.json")
    assert settings["search"] == {"beams": 4, "alpha": 0.6, "extraLength": 50}
    for name in (*PAGE, "attention.js", "attention.css"):
        assert not re.search(r"https?://(?!www\.w3\.org/)", (space / name).read_text(encoding="utf-8")), f"{name} names another machine"


def test_the_lock_file_names_hashes_and_no_host() -> None:
    lock = read_json(PARTS / "package-lock.json")
    wanted = read_json(PARTS / "package.json")["dependencies"]
    assert lock["packages"][""]["dependencies"] == wanted
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all(package["integrity"].startswith("sha512-") and "resolved" not in package for package in packages.values())


def test_npm_that_is_missing_or_fails_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match=r"needs npm, which fetches onnxruntime-web; install Node\.js"):
        provide_packages(tmp_path / "packages")
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\necho "$@" > told\necho "npm error code ENOTFOUND" >&2\nexit 1\n')
    npm.chmod(0o755)
    with pytest.raises(OSError, match=r"\(npm error code ENOTFOUND\); see to the network"):
        provide_packages(tmp_path / "packages", say=lambda _: None)
    assert not (tmp_path / "packages").exists()


def test_what_is_there_is_not_fetched_again(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: pytest.fail("npm was looked for"))
    assert provide_packages(packages, say=lambda _: pytest.fail("it said something")) == packages


def test_a_space_is_checked_in_a_browser(published: Published, space: Path, browser: Any) -> None:
    del browser  # without one, this skips
    (inputs,) = generated(published, ["A man is reading a book."])
    expected = published.tokenizer.decode(inputs[0][0], skip_special_tokens=True)
    checked = check_static_space(space, published.folder)
    told = f"Translated under node and in Chromium: 'A man is reading a book.' as {expected!r}; 1 of 1 translations are those of the model"
    assert checked.sentence.startswith(told)
    assert (checked.translation, checked.faults) == (expected, [])


def test_a_checked_space_is_published(
    published: Published, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The assembling and the check are played, and so is the Hub."""
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "encoder_model.onnx").write_bytes(b"model")
    checked, committed = [Checked("Translated.", "")], {}
    monkeypatch.setattr(static_space, "assemble_static_space", lambda *_: tmp_path)
    monkeypatch.setattr(static_space, "check_static_space", lambda *_: checked[0])
    monkeypatch.setattr(static_space, "commit_files", lambda folder, files, repo_id, **how: committed.update(how, files=files) or "there")
    with pytest.raises(PublishError, match="was not published, because its translation of the sentence above is empty; train longer"):
        publish_static_space(published.folder, "me/space", dry_run=True)
    with pytest.raises(PublishError, match="cannot name a repository"):
        publish_static_space(published.folder, "me/space", model_id="some body/x")
    checked[0] = Checked("Translated.", "Ein Hund.")
    capsys.readouterr()
    publish_static_space(published.folder, "me/space", dry_run=True)
    said = capsys.readouterr().out
    assert "5 bytes  onnx/encoder_model.onnx\n" in said and "\nTranslated.\n" in said
    assert "Dry run: would be uploaded to https://huggingface.co/spaces/me/space, branch main." in said
    assert not committed
    publish_static_space(published.folder, "me/space", private=True, revision="v2")
    assert "Uploaded: there" in capsys.readouterr().out
    files = [tmp_path / "onnx" / "encoder_model.onnx"]
    assert committed == {"space_sdk": "static", "private": True, "revision": "v2", "files": files}


def test_a_search_that_the_page_does_not_have_is_told(
    published: Published, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = shutil.copytree(published.folder, tmp_path / "toy")
    monkeypatch.setattr(static_space, "assemble_static_space", lambda *_: tmp_path / "toy")
    monkeypatch.setattr(static_space, "check_static_space", lambda *_: Checked("Translated.", "Ein Hund."))
    publish_static_space(folder)
    assert "the paper's settings" not in capsys.readouterr().out
    settings = read_json(folder / "generation_config.json")
    write_json(folder / "generation_config.json", settings | {"length_penalty_type": None, "length_penalty": 1.2})
    publish_static_space(folder)
    told = "The page searches with the paper's settings (num_beams=4, length_penalty=0.6, length_penalty_type=gnmt, extra_length=50): the"
    assert told in capsys.readouterr().out


def test_a_space_that_does_not_translate_is_a_sentence(published: Published, space: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(space, tmp_path / "broken")
    (broken / "onnx" / f"{DECODER}.onnx").write_bytes(b"no model")
    with pytest.raises(PublishError, match=r"broken does not translate under node, so it was not published: .*Error") as error:
        check_static_space(broken, published.folder)
    assert "\n" not in str(error.value)


def test_two_kinds_of_spaces_at_once_are_refused(published: Published) -> None:
    refused = CliRunner().invoke(app, ["publish", str(published.folder), "--space", "--static-space"])
    assert refused.exit_code == 2 and "give one of them" in refused.stderr


def opened(page: Any, address: str) -> Any:
    page.goto(address)
    page.wait_for_selector("#translate:enabled", timeout=120_000)
    return page


def translated(page: Any, text: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """The refusal that the page shows, and of each sentence the source and its translations."""
    page.fill("#text", text)
    page.press("#text", "Control+Enter")
    page.wait_for_selector("#stop", state="hidden", timeout=120_000)
    refusal = page.text_content("#refusal") if page.is_visible("#refusal") else ""
    return refusal, [
        (card.query_selector("p").text_content(), [row.text_content() for row in card.query_selector_all("li > span:first-child")])
        for card in page.query_selector_all(".sentence")
    ]


def shown(published: Published, source: str, **settings: Any) -> list[str]:
    """What the page must show for one sentence."""
    (rows,) = generated(published, [source], **settings)
    texts = [published.tokenizer.decode(tokens, skip_special_tokens=True) for tokens, _ in rows]
    return [text.replace("\r\n", "\n").replace("\r", "\n") or "(nothing)" for text in texts]


def test_the_page_translates_and_shows_attention(published: Published, address: str, page: Any) -> None:
    """With the keyboard alone; the page may ask no other machine for anything."""
    opened(page, address)
    assert page.title() == page.text_content("h1") == "toy"
    _, [(source, found)] = translated(page, "A man reads.")
    assert (source, found) == ("A man reads.", shown(published, "A man reads.", num_return_sequences=4))
    assert page.text_content("#translation") == found[0].replace("(nothing)", "")
    assert re.fullmatch(r"1 sentence in \d+\.\d s", page.text_content("#status"))
    (rows,) = generated(published, ["A man reads."], num_return_sequences=4)
    assert [row.text_content() for row in page.query_selector_all(".score")][:4] == [f"{score:.3f}" for _, score in rows]
    page.wait_for_selector("#attention .attention-view", timeout=60_000)
    assert "reads" in page.text_content("#attention")
    page.click("summary")
    for name, keys in (("beams", ["ArrowLeft"] * 3), ("wanted", [])):
        for key in keys:
            page.press(f"#{name}", key)
    assert page.text_content("#beams-shown") == "1"
    assert translated(page, "A man reads.") == ("", [("A man reads.", shown(published, "A man reads.", num_beams=1))])


BAD = {
    "": "Please type a sentence to translate.",
    " \n\t": "Please type a sentence to translate.",
    "word " * 10_000: "The text has 50,000 characters, and this page translates up to 20,000 at once; please give it in parts.",
    "x"
    * 5_000: f"The text has 5,000 characters without a space, from “{'x' * 20}” on; the longest word that this page translates has 1,000.",
    "日" * 900: f"The sentence that begins with “{'日' * 30}” is 2702 pieces long; the longest that this page translates has 512. "
    "Please divide it by full stops or line breaks.",
}


def test_bad_input_is_one_sentence_or_a_right_result(published: Published, address: str, page: Any) -> None:
    opened(page, address)
    for text, sentence in BAD.items():
        assert translated(page, text) == (sentence, [])
    for text in ("مرحبا بالعالم", "🐕🐕 👩‍👩‍👧‍👦", HOSTILE, "two\n\n  dogs. </s> <pad>\u200b", "A\u0000B \ufeffC"):
        refusal, cards = translated(page, text)
        assert not refusal and cards
        for source, found in cards:
            assert found == shown(published, source, num_return_sequences=4), source
    assert page.title() == "toy" and not page.query_selector_all("main img, main script")


def test_the_page_stays_alive_and_stops(address: str, page: Any) -> None:
    opened(page, address)
    page.fill("#text", "The dogs run along the beach. " * 600)
    page.click("#translate")
    page.wait_for_selector(".sentence", timeout=60_000)
    longest = page.evaluate(
        """() => new Promise((done) => {
          let last = performance.now(), longest = 0;
          const look = () => {
            longest = Math.max(longest, performance.now() - last);
            last = performance.now();
            if (++count < 20) requestAnimationFrame(look); else done(longest);
          };
          let count = 0;
          look();
        })"""
    )
    assert longest < 2000  # milliseconds, on a machine under any load; the work itself takes a minute
    page.press("body", "Escape")
    assert re.match(r"Stopped after \d+ sentence", page.text_content("#status"))
    assert page.is_enabled("#copy") and page.text_content("#translation")
    assert len(translated(page, "A man reads.")[1]) == 1


def test_a_page_that_cannot_load_says_so(space: Path, page: Any, tmp_path: Path) -> None:
    broken = shutil.copytree(space, tmp_path / "broken")
    (broken / "onnx" / f"{ENCODER}.onnx").unlink()
    with served(broken) as address:
        page.goto(address)
        page.wait_for_selector("#refusal", timeout=60_000)
        assert page.text_content("#refusal").startswith("The translator could not be loaded; please see to the connection")
        assert page.is_disabled("#translate")


def test_hugging_faces_library_runs_the_folder(published: Published, space: Path, page: Any, tmp_path: Path) -> None:
    """Greedily, which is all that it can."""
    packages = os.environ.get("VASWANI_TRANSFORMERS_JS")
    if packages is None:
        pytest.skip("VASWANI_TRANSFORMERS_JS names no folder: scripts/test.sh fetches it where npm is installed")
    shutil.copyfile(Path(__file__).parent / "transformers_js" / "index.html", tmp_path / "index.html")
    (tmp_path / "node_modules").symlink_to(Path(packages).absolute() / "node_modules")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "toy").symlink_to(space)
    plain = [source for source in sentences(50) if "<" not in source]  # it takes "</s>" in a text for the end
    expected = {source: rows[0][0] for source, rows in zip(plain, generated(published, plain, num_beams=1), strict=True)}
    ended = {source: tokens for source, tokens in expected.items() if tokens[-1] == 2}  # it knows no limit by the source
    assert len(ended) >= 10
    with served(tmp_path) as address:
        page.goto(address)
        page.wait_for_function("() => Boolean(globalThis.translate)")
        for source, tokens in list(ended.items())[:10]:
            text = published.tokenizer.decode(tokens, skip_special_tokens=True)
            assert page.evaluate("translate", source).strip() == text.strip()
