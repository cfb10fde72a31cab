"""Summaries, and texts from texts, by every sequence-to-sequence model; what they share with translation is tested there."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    pipeline,
)

from tests.test_pipeline_translation import SIZES, TEXTS, randomised
from vaswani_transformer import (
    SummarizationPipeline,
    VaswaniConfig,
    VaswaniEncoderModel,
    VaswaniForConditionalGeneration,
    train_tokenizer,
)
from vaswani_transformer.decoding import PAPER_SEARCH

KEYS = {"summarization": "summary_text", "text2text-generation": "generated_text"}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer([*TEXTS, "summarize: "] * 2, 270)


def made(kind: str, entries: int) -> Any:
    tokens = {"vocab_size": entries, "pad_token_id": 0, "eos_token_id": 2}
    if kind == "T5":
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
        return randomised(T5ForConditionalGeneration(T5Config(**tokens, **sizes, decoder_start_token_id=0)))
    if kind == "BART":
        config = BartConfig(**tokens, **SIZES, bos_token_id=1, decoder_start_token_id=2, forced_eos_token_id=None)
        return randomised(BartForConditionalGeneration(config))
    return randomised(VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=entries, **SIZES)))


@pytest.mark.parametrize("kind", ["T5", "BART", "ours"])
@pytest.mark.parametrize("task", list(KEYS))
def test_every_model_from_text_to_text_has_these_tasks(task: Any, kind: str, tokenizer: PreTrainedTokenizerFast) -> None:
    model = made(kind, len(tokenizer))
    write = pipeline(task, model=model, tokenizer=tokenizer, device="cpu", max_new_tokens=6)
    expected = []
    for text in TEXTS:
        ids = model.generate(**tokenizer(text, return_tensors="pt"), num_beams=4, max_new_tokens=6)
        expected.append({KEYS[task]: tokenizer.decode(ids[0], skip_special_tokens=True)})
    assert [write(text) for text in TEXTS] == [[record] for record in expected]
    assert write([*TEXTS, " "], batch_size=3) == [*expected, {KEYS[task]: ""}]
    assert list(write(text for text in TEXTS)) == [[record] for record in expected]
    [ids] = write(TEXTS[0], return_tensors=True)
    assert list(ids) == [KEYS[task].replace("text", "token_ids", 1) if task == "summarization" else "generated_token_ids"]


def test_a_checkpoint_says_how_it_summarises(tokenizer: PreTrainedTokenizerFast) -> None:
    model = made("T5", len(tokenizer))
    model.config.task_specific_params = {"summarization": {"prefix": "summarize: ", "num_beams": 1, "max_length": 7}}
    parts: Any = {"model": model, "tokenizer": tokenizer, "device": "cpu"}
    plain, summarise = pipeline("text2text-generation", **parts), pipeline("summarization", **parts)
    (expected,) = plain("summarize: " + TEXTS[0], num_beams=1, max_new_tokens=7)
    assert summarise(TEXTS[0]) == [{"summary_text": expected["generated_text"]}]
    assert summarise(TEXTS[0], max_new_tokens=3) != summarise(TEXTS[0])


def test_our_search_settings_hold(tokenizer: PreTrainedTokenizerFast) -> None:
    model = made("ours", len(tokenizer))
    model.generation_config.update(**{**PAPER_SEARCH, "extra_length": 2}, allow_custom_entries=True)
    write = pipeline("text2text-generation", model=model, tokenizer=tokenizer, device="cpu")
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    [record] = write(TEXTS[0], return_tensors=True)
    assert record["generated_token_ids"].tolist() == model.generate(**inputs)[0].tolist()


def test_a_folder_that_summarises_says_so(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model = made("ours", len(tokenizer)).float()
    model.config.task_specific_params = {"summarization": {"num_beams": 2, "max_new_tokens": 5}}
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert list(json.loads((tmp_path / "config.json").read_text())["custom_pipelines"]) == ["summarization"]
    summarise = pipeline("summarization", model=str(tmp_path), device="cpu")
    assert type(summarise) is SummarizationPipeline
    assert summarise(TEXTS) == summarise(TEXTS, num_beams=2, max_new_tokens=5)


@pytest.mark.parametrize("task", list(KEYS))
def test_models_that_cannot_are_refused(task: Any, tokenizer: PreTrainedTokenizerFast) -> None:
    encoder = VaswaniEncoderModel(VaswaniConfig(vocab_size=len(tokenizer), **SIZES))
    with pytest.raises(ValueError, match=r"VaswaniEncoderModel has no encoder and decoder, so it cannot (summarise|write text) here"):
        pipeline(task, model=encoder, tokenizer=tokenizer, device="cpu")
    several = train_tokenizer(TEXTS * 2, 270, target_languages=["de", "fr"])
    with pytest.raises(ValueError, match=f"translates into several languages, so {task} is not for it"):
        pipeline(task, model=made("ours", len(several)), tokenizer=several, device="cpu")
    write = pipeline(task, model=made("ours", len(tokenizer)), tokenizer=tokenizer, device="cpu")
    with pytest.raises(ValueError, match="`num_beams` is 0"):
        write(TEXTS[0], num_beams=0)
    with pytest.raises(TypeError, match=r"Item 1 of the input is 3 \(int\)"):
        write([TEXTS[0], 3])
