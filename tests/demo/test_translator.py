import threading
from typing import Any

import pytest
from transformers import pipeline

from tests.conftest import SENTENCES
from tests.demo.conftest import Folders
from vaswani_transformer.demo.limits import Limits
from vaswani_transformer.demo.translator import Request, Translator, load_translators

TEXT = "A man reads.  The house is old.\nTwo small dogs run along the beach."


@pytest.fixture(scope="module", params=["ours", "marian"])
def translator(request: pytest.FixtureRequest, folders: Folders) -> Translator:
    return Translator(request.param, getattr(folders, request.param), Limits(characters=300, tokens=60))


@pytest.fixture(scope="module")
def plain(translator: Translator) -> Any:
    task: Any = "translation"  # which transformers' own type hints no longer know
    return pipeline(task, model=translator.folder)


def last(translator: Translator, text: str, **settings: Any) -> Any:
    return list(translator.translate(Request(text, **settings)))[-1]


@pytest.mark.parametrize("beams", [None, 1, 2, 5])
def test_watching_a_search_changes_nothing(translator: Translator, plain: Any, beams: int | None) -> None:
    search = {} if beams is None else {"num_beams": beams}
    for sentence in filter(str.strip, SENTENCES):
        assert last(translator, sentence, search=search).text == plain(sentence, **search)[0]["translation_text"]


def test_a_text_is_translated_as_the_pipeline_does(translator: Translator, plain: Any) -> None:
    state = last(translator, TEXT, split_language="en")
    assert state.text == plain(TEXT, split_sentences="en")[0]["translation_text"]
    assert [sentence.source for sentence in state.sentences] == ["A man reads.", "The house is old.", "Two small dogs run along the beach."]


def test_the_best_translations_are_those_of_the_pipeline_in_their_order(translator: Translator, plain: Any) -> None:
    search = {"num_beams": 4, "num_return_sequences": 3}
    (sentence,) = last(translator, TEXT, search=search).sentences
    assert [one.text for one in sentence.hypotheses] == [one["translation_text"] for one in plain(TEXT, **search)]
    scores = [one.score for one in sentence.hypotheses]
    assert None not in scores and scores == sorted(scores, reverse=True) and scores[0] < 0


def test_every_token_is_shown_as_it_comes(translator: Translator) -> None:
    seen: list[str] = []
    for beams in (1, 4):
        (best, *_) = translator.pipeline.hypotheses(SENTENCES[1], {"num_beams": beams}, None, seen.append)
        assert len(seen) >= 12
        lengths = [len(text) for text in seen]
        assert lengths[0] <= 4 and max(lengths) >= 6, "it does not grow"
        assert beams > 1 or best.text.startswith(seen[-1])
        seen.clear()


def test_an_open_translation_is_shown_behind_those_that_are_done(folders: Folders) -> None:
    translator = Translator("ours", folders.ours, Limits())
    states = list(translator.translate(Request(" ".join(["The house is old."] * 20), {"num_beams": 4}, "en")))
    assert len(states) > 2
    first, second = states[len(states) // 2], states[-1]
    assert 0 < len(first.sentences) < 20 and len(second.sentences) == 20 and second.is_done and not first.is_done
    assert second.text.startswith(first.sentences[0].hypotheses[0].text)


def test_whoever_leaves_frees_the_model_at_once(folders: Folders) -> None:
    translator = Translator("ours", folders.ours, Limits(extra_length=100_000))
    states = translator.translate(Request("A man reads.", {"num_beams": 4, "extra_length": 50_000}))
    next(iter(states))
    assert translator.lock.locked()
    states.close()  # type: ignore[attr-defined]  # it is a generator
    assert translator.lock.acquire(timeout=5), "the search goes on for nobody"
    translator.lock.release()


def test_twenty_at_once_get_their_own(translator: Translator, plain: Any) -> None:
    texts = [f"The {size} dog sees {number} cats." for number in range(10) for size in ("small", "old")]
    found: dict[str, str] = {}
    threads = [threading.Thread(target=lambda text=text: found.update({text: last(translator, text).text})) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {text: plain(text)[0]["translation_text"] for text in texts}
    assert len(set(found.values())) > 5


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (Request(""), "There is nothing to translate"),
        (Request(" \n\u00a0\t"), "There is nothing to translate"),
        (Request("word " * 10_000), "The text has 50,000 characters, and this page takes 300; shorten it, or translate it as a file"),
        (Request("x" * 200), "The sentence has .* tokens, and this page takes 60 in one sentence"),
        (Request("Yes. " + "x" * 200, split_language="en"), "Sentence 2 has .* tokens"),
        (Request("half a pair: \ud800"), "half a surrogate pair"),
        (Request("Yes.", {"num_beams": 0}), "`num_beams` is 0; it must be a whole number from 1"),
        (Request("Yes.", {"num_beams": 99}), "`num_beams` is 99; this page takes at most 10"),
        (Request("Yes.", {"num_beams": 2, "num_return_sequences": 3}), "3 translations a sentence need as many beams"),
        (Request("Yes.", {"length_penalty": float("nan")}), "`length_penalty` is nan"),
        (Request("Yes.", split_language="english"), "no language's code"),
        (Request("Yes.", split_language="<script>"), "no language's code"),
    ],
)
def test_what_cannot_be_translated_is_one_sentence(translator: Translator, request_: Request, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        list(translator.translate(request_))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["שלום עולם", "مرحبا", "👩‍👩‍👧 🐕‍🦺 🇩🇪", "<b>bold</b> &amp; <script>alert(1)</script>", "</s><pad>", "\x00\x07"]
)
def test_other_scripts_emoji_and_markup_are_text(translator: Translator, plain: Any, text: str) -> None:
    assert last(translator, text).text == plain(text)[0]["translation_text"]


def test_models_are_called_by_their_run(folders: Folders) -> None:
    assert list(load_translators([folders.ours, folders.marian], Limits())) == ["ours", "marian"]
    with pytest.raises(ValueError, match="each once"):
        load_translators([folders.ours, folders.ours], Limits())
    with pytest.raises(ValueError, match="each once"):
        load_translators([], Limits())


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="limit tokens is 0"):
        Limits(tokens=0)
