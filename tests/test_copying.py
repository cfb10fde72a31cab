"""Translations keep what the source has in code and numbers, by every way to a translation, and say where they do not."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, pipeline
from transformers.generation.streamers import BaseStreamer
from transformers.utils import logging as transformers_logging

from vaswani_transformer import TranslationPipeline, VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_transformer.copied_items import items_of, lost_items
from vaswani_transformer.copying import generate_copying
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.translation.translate import Translator, translate

TEXTS = [
    "Run sp_x with --all.",
    "A man reads.",
    "Set {0} to 17.",
    "sp_a, sp_a",
    "(7)",
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS * 2, 290)


@pytest.fixture(scope="module")
def model(tokenizer: PreTrainedTokenizerFast) -> Any:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **sizes, **heads))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.7)
    model.generation_config.update(**{**PAPER_SEARCH, "extra_length": 12}, allow_custom_entries=True)
    return model.double().eval()


@pytest.fixture(scope="module")
def translator(model: Any, tokenizer: PreTrainedTokenizerFast) -> TranslationPipeline:
    return pipeline("translation", model=model, tokenizer=tokenizer, device="cpu")


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    transformers_logging.enable_propagation()
    caplog.set_level(logging.WARNING)
    yield caplog
    transformers_logging.disable_propagation()


def texts(records: list[Any]) -> list[str]:
    return [record["translation_text"] for record in records]


def lost(translations: list[str]) -> list[str]:
    return [item for source, text in zip(TEXTS, translations, strict=True) for item in lost_items(items_of(source), text)]


@pytest.mark.parametrize("settings", [{}, {"num_beams": 1}, {"num_beams": 6}, {"length_penalty_type": None, "num_beams": 3}])
def test_every_item_is_copied_and_other_sentences_are_as_without(translator: TranslationPipeline, settings: dict[str, Any]) -> None:
    plain, copied = (texts(translator(TEXTS, batch_size=5, copy_items=wanted, **settings)) for wanted in (False, True))
    assert len(lost(plain)) > 4 and not lost(copied)
    assert copied[1] == plain[1] and copied[0] != plain[0]
    assert texts([translator(text, copy_items=True, **settings)[0] for text in TEXTS]) == copied
    if settings.get("num_beams") == 1:
        assert texts(translator(TEXTS, copy_items=True, draft="source", early_stopping=True, **settings)) == copied


def test_the_checkpoints_setting_holds_everywhere(
    model: Any, tokenizer: PreTrainedTokenizerFast, translator: TranslationPipeline, tmp_path: Path
) -> None:
    asked = texts(translator(TEXTS, copy_items=True))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = GenerationConfig.from_pretrained(tmp_path)
    config.copy_items = True
    config.save_pretrained(tmp_path)
    stored = pipeline("translation", model=str(tmp_path), device="cpu", dtype=torch.float64)
    assert texts(stored(TEXTS)) == translate(stored.model, tokenizer, TEXTS) == asked
    outcomes = dict(Translator(stored.model, tokenizer, scores=True)(TEXTS))
    assert [outcomes[number][0].text for number in range(len(TEXTS))] == asked
    assert texts(stored(TEXTS, copy_items=None)) == texts(translator(TEXTS))
    own = GenerationConfig(**{**PAPER_SEARCH, "extra_length": 12}, copy_items=["number"], decoder_start_token_id=1, eos_token_id=2)
    assert "17" in texts(stored(TEXTS, generation_config=own))[2]


def test_of_several_translations_all_have_the_items_with_their_scores(translator: TranslationPipeline) -> None:
    found = translator(TEXTS, num_return_sequences=3, copy_items=True)
    assert not any(lost(texts([records[place] for records in found])) for place in range(3) if place == 0)
    assert all(not lost_items(items_of(TEXTS[0]), record["translation_text"]) for record in found[0])
    outcomes = dict(Translator(translator.model, translator.tokenizer, scores=True, num_return_sequences=3, copy_items=True)(TEXTS))
    assert [each.text for each in outcomes[0]] == texts(found[0])
    scores = [each.score for each in outcomes[0]]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 3


@pytest.mark.parametrize(("search", "words"), [
    ({"num_beams": 1}, "tells no scores; ask for 2 beams or more"),
    ({"num_beams": 2, "length_penalty_type": None}, "`copy_items` cannot keep; leave out one of both"),
])  # fmt: skip
def test_scores_that_cannot_be_told_are_refused_by_their_name(translator: TranslationPipeline, search: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Translator(translator.model, translator.tokenizer, scores=True, copy_items=True, **search)


def test_where_it_cannot_be_the_first_translation_stands_and_is_counted(
    translator: TranslationPipeline, warnings: pytest.LogCaptureFixture
) -> None:
    plain = texts(translator(TEXTS, max_new_tokens=3))
    assert texts(translator(TEXTS[:4], batch_size=4, copy_items=True, max_new_tokens=3)) == plain[:4]
    assert "3 of 4 sentences keep a translation that lacks inline code or a number of theirs" in warnings.text


def test_generate_alone_says_that_it_sees_no_text(
    model: Any, tokenizer: PreTrainedTokenizerFast, warnings: pytest.LogCaptureFixture
) -> None:
    inputs = tokenizer(TEXTS[:1], return_tensors="pt")
    assert torch.equal(model.generate(**inputs, copy_items=True), model.generate(**inputs))
    assert "`generate` sees tokens and not text" in warnings.text


@pytest.mark.parametrize("prompt", [[1, 77], [77, 78]])
def test_a_prompt_stays_before_what_is_searched_again(
    model: Any, tokenizer: PreTrainedTokenizerFast, translator: TranslationPipeline, prompt: list[int]
) -> None:
    """transformers puts the start token, 1, before a prompt that does not begin with it."""
    settings = {"decoder_input_ids": torch.tensor([prompt] * len(TEXTS)), "copy_items": True}
    found = texts(translator(TEXTS, batch_size=len(TEXTS), **settings))
    assert not lost(found)
    inputs = dict(tokenizer(TEXTS, return_tensors="pt", padding=True))
    sequences = generate_copying(model, tokenizer, inputs, settings)
    whole = prompt if prompt[0] == 1 else [1, *prompt]
    assert sequences[:, : len(whole)].tolist() == [whole] * len(TEXTS)
    alone = [generate_copying(model, tokenizer, dict(tokenizer([text], return_tensors="pt")),
                              {**settings, "decoder_input_ids": torch.tensor([prompt])}) for text in TEXTS]  # fmt: skip
    written = [tokenizer.decode(one[0], skip_special_tokens=True) for one in alone]
    assert written == tokenizer.batch_decode(sequences, skip_special_tokens=True)


def test_drafts_out_of_the_prompt_are_for_the_first_search(model: Any, tokenizer: PreTrainedTokenizerFast) -> None:
    inputs = dict(tokenizer(TEXTS[:1], return_tensors="pt"))
    plain, drafted = (
        generate_copying(model, tokenizer, inputs, {"copy_items": True, "num_beams": 1, **more})
        for more in ({}, {"prompt_lookup_num_tokens": 3})
    )
    assert torch.equal(plain, drafted)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"do_sample": True, "num_beams": 1}, "do_sample=True draws translations; pass copy_items=None"),
        ({"streamer": BaseStreamer(), "num_beams": 1}, "does not go together with `streamer`"),
        ({"return_dict_in_generate": True, "output_scores": True}, "`output_scores` would mix the steps"),
        ({"copy_items": ["urls"]}, "must be true, false, or a list out of code, url"),
        ({"copy_items": [["url"]]}, "must be true, false, or a list out of code, url"),
        ({"copy_items": {"url": 1}}, "must be true, false, or a list out of code, url"),
        ({"max_time": 1.0}, "does not go together with `max_time`"),
    ],
)
def test_what_does_not_go_together_is_refused(translator: TranslationPipeline, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        translator(TEXTS[:1], **{"copy_items": True, **settings})


def test_another_engine_is_refused_or_warned_about(
    model: Any, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2
    from vaswani_transformer.translation.loading import load_engine

    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    config = GenerationConfig.from_pretrained(tmp_path / "model")
    config.copy_items = True
    config.save_pretrained(tmp_path / "model")
    export_ctranslate2(tmp_path / "model", tmp_path / "engine")
    engine = load_engine(str(tmp_path / "engine"), "ctranslate2")
    assert len(translate(engine.model, engine.tokenizer, TEXTS[:2])) == 2
    assert "1 of 2 sentences lost inline code or numbers, which this engine cannot search for again" in warnings.text
    with pytest.raises(ValueError, match="needs one of this package's models in PyTorch, and CTranslate2Model is none"):
        translate(engine.model, engine.tokenizer, TEXTS[:2], copy_items=["number"])
