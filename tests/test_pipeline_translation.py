"""Text in, text out, as users knew it from transformers 4."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    pipeline,
)
from transformers.pipelines.pt_utils import KeyDataset

from vaswani_transformer import (
    TranslationPipeline,
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniForSequenceClassification,
    train_tokenizer,
)
from vaswani_transformer.decoding import PAPER_SEARCH

TEXTS = ["the old man sees a dog .", "two dogs run", "a", "der alte Mann sieht einen Hund am Morgen ."]
SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS * 2, 270)


def randomised(model: Any) -> Any:
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.7)
    return model.double().eval()


@pytest.fixture(scope="module")
def ours(tokenizer: PreTrainedTokenizerFast) -> TranslationPipeline:
    model = randomised(VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **SIZES)))
    model.generation_config.update(**{**PAPER_SEARCH, "extra_length": 8}, allow_custom_entries=True)
    return pipeline("translation", model=model, tokenizer=tokenizer, device="cpu")


def other_models(vocab_size: int) -> Iterator[Any]:
    tokens = {"vocab_size": vocab_size, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
    yield MarianMTModel(MarianConfig(**tokens, **SIZES, forced_eos_token_id=None))
    yield BartForConditionalGeneration(BartConfig(**tokens, **SIZES, bos_token_id=1, forced_eos_token_id=None))
    yield T5ForConditionalGeneration(T5Config(**tokens, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=2))


def translations(records: list) -> list[str]:
    return [record["translation_text"] for record in records]


def test_a_string_gives_a_list_of_one(ours: TranslationPipeline) -> None:
    (record,) = ours(TEXTS[0])
    assert list(record) == ["translation_text"]
    assert isinstance(record["translation_text"], str)


def test_collections_keep_their_order(ours: TranslationPipeline) -> None:
    expected = [ours(text)[0] for text in TEXTS]
    assert len(set(translations(expected))) == len(TEXTS)
    assert ours(TEXTS) == ours(tuple(TEXTS)) == expected
    assert ours(TEXTS, batch_size=3) == ours(TEXTS, batch_size=10) == expected
    assert ours([]) == []


def test_streams_are_read_as_they_are_asked_for(ours: TranslationPipeline) -> None:
    expected = [ours(text) for text in TEXTS]
    read: list[str] = []

    def texts() -> Iterator[str]:
        for text in TEXTS:
            read.append(text)
            yield text

    stream = iter(ours(texts()))
    assert next(stream) == expected[0]
    assert len(read) < len(TEXTS)
    assert list(stream) == expected[1:]
    assert list(ours(iter(TEXTS), batch_size=3)) == expected
    assert list(ours(text for text in ())) == []


def test_data_sets(ours: TranslationPipeline) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"en": TEXTS})
    expected = ours(TEXTS)
    assert [record for (record,) in ours(KeyDataset(data, "en"), batch_size=2)] == expected
    assert ours(data["en"]) == expected
    with pytest.raises(TypeError, match="KeyDataset"):
        ours(data)


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_a_blank_string_has_a_blank_translation(ours: TranslationPipeline, blank: str) -> None:
    assert ours(blank) == [{"translation_text": ""}]
    assert ours([blank], batch_size=2) == [{"translation_text": ""}]
    assert ours(blank, num_return_sequences=2) == [{"translation_text": ""}] * 2
    expected = ours(TEXTS)
    assert ours([blank, *TEXTS, blank], batch_size=4) == [
        {"translation_text": ""},
        *expected,
        {"translation_text": ""},
    ]
    assert len(ours(blank, return_tensors=True)[0]["translation_token_ids"]) == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "3 (int)"),
        (2.5, "2.5 (float)"),
        (None, "None"),
        (b"bytes", "bytes"),
        ([1, 2], "Item 0 of the input is 1 (int) and not a string"),
        (["fine", None], "Item 1 of the input is None"),
        ([["a", "b"]], "Item 0 of the input is ['a', 'b'] (list)"),
        ({"text": "a"}, "(dict)"),
        (torch.tensor([1, 2]), "(Tensor)"),
    ],
)
def test_what_is_no_text_is_refused(ours: TranslationPipeline, wrong: Any, message: str) -> None:
    with pytest.raises(TypeError) as error:
        ours(wrong)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_stream_names_its_wrong_item(ours: TranslationPipeline) -> None:
    with pytest.raises(TypeError, match=r"An input is 7 \(int\) and not a string"):
        list(ours(item for item in ["fine", 7]))


def test_token_ids_instead_of_or_beside_text(ours: TranslationPipeline, tokenizer: PreTrainedTokenizerFast) -> None:
    (text,) = ours(TEXTS[0])
    (ids,) = ours(TEXTS[0], return_tensors=True)
    assert list(ids) == ["translation_token_ids"]
    assert tokenizer.decode(ids["translation_token_ids"], skip_special_tokens=True) == text["translation_text"]
    (both,) = ours(TEXTS[0], return_tensors=True, return_text=True)
    assert set(both) == {"translation_token_ids", "translation_text"}


def test_several_translations_of_each_input(ours: TranslationPipeline) -> None:
    alone = [ours(text, num_return_sequences=3) for text in TEXTS]
    assert [len(records) for records in alone] == [3] * len(TEXTS)
    assert ours(TEXTS, num_return_sequences=3, batch_size=4) == alone


def test_search_settings_may_be_given_anywhere(ours: TranslationPipeline, tokenizer: PreTrainedTokenizerFast) -> None:
    def ids(translator: TranslationPipeline, **settings: Any) -> list[int]:
        return translator(TEXTS[0], return_tensors=True, **settings)[0]["translation_token_ids"].tolist()

    model, inputs = ours.model, tokenizer(TEXTS[0], return_tensors="pt")
    greedy = model.generate(**inputs, num_beams=1, max_new_tokens=4)[0].tolist()
    assert ids(ours) == model.generate(**inputs)[0].tolist()
    assert ids(ours, num_beams=1, max_new_tokens=4) == greedy
    assert ids(ours, generate_kwargs={"num_beams": 1, "max_new_tokens": 4}) == greedy
    assert ids(ours, generation_config=GenerationConfig(num_beams=1, max_new_tokens=4)) == greedy
    assert ids(pipeline("translation", model=model, tokenizer=tokenizer, device="cpu", num_beams=1, max_new_tokens=4)) == greedy
    forced = {"suppress_tokens": [2], "num_beams": 2}
    source = inputs["input_ids"].shape[1]
    assert len(ids(ours, **forced, extra_length=3)) == 1 + source + 3
    assert len(ids(ours, **forced, length_penalty_type=None)) == 1 + source + 8
    assert len(ids(ours, **forced, max_new_tokens=5)) == 1 + 5


@pytest.mark.parametrize("draft", ["assistant_model", "prompt_lookup_num_tokens"])
def test_drafts_are_refused_where_the_checkpoint_searches_with_beams(
    ours: TranslationPipeline, tokenizer: PreTrainedTokenizerFast, draft: str
) -> None:
    assisted = {draft: ours.model if draft == "assistant_model" else 2}
    own = pipeline("translation", model=ours.model, tokenizer=tokenizer, device="cpu", **assisted)
    for translate in (lambda **settings: ours(TEXTS[0], **assisted, **settings), lambda **settings: own(TEXTS[0], **settings)):
        with pytest.raises(ValueError, match=f"`{draft}` speeds up greedy search .* num_beams is 4"):
            translate()
        assert translate(num_beams=1) == ours(TEXTS[0], num_beams=1)


def test_nothing_is_cut_unless_asked(ours: TranslationPipeline) -> None:
    long = "the old man sees a dog . " * 100
    seen: list[int] = []
    handle = ours.model.get_encoder().register_forward_hook(
        lambda module, args, kwargs, output: seen.append(output[0].shape[1]), with_kwargs=True
    )
    ours(long, max_new_tokens=2)
    limit, ours.tokenizer.model_max_length = ours.tokenizer.model_max_length, 12
    ours(long, max_new_tokens=2, truncation=True)
    ours.tokenizer.model_max_length = limit
    handle.remove()
    assert seen[0] == len(ours.tokenizer(long)["input_ids"]) > 600
    assert seen[1] == 12


def test_text_that_spells_a_control_token_is_text(ours: TranslationPipeline) -> None:
    assert ours("a</s><pad>") != ours("a")


def test_every_sequence_to_sequence_model_translates(tokenizer: PreTrainedTokenizerFast) -> None:
    for model in other_models(len(tokenizer)):
        translator = pipeline("translation", model=randomised(model), tokenizer=tokenizer, device="cpu")
        texts = [TEXTS[0], "", TEXTS[1]]
        expected = [translator(text, max_new_tokens=6)[0] for text in texts]
        assert translator(texts, max_new_tokens=6, batch_size=3) == expected
        assert expected[1] == {"translation_text": ""}
        ids = translator(TEXTS[0], return_tensors=True, suppress_tokens=[2])[0]["translation_token_ids"]
        assert len(ids) == 1 + 256, "transformers 4 gave up to 256 new tokens where nobody said anything"


def test_older_checkpoints_bring_a_prefix_for_their_languages(tokenizer: PreTrainedTokenizerFast) -> None:
    *_, model = other_models(len(tokenizer))
    model.config.task_specific_params = {
        "summarization": {"prefix": "summarize: "},
        "translation_en_to_de": {"prefix": "to German: ", "num_beams": 1, "max_length": 7},
    }
    plain = pipeline("translation_en_to_ro", model=randomised(model), tokenizer=tokenizer, device="cpu")
    expected = plain("to German: " + TEXTS[0], num_beams=1, max_new_tokens=7)
    for task in ("translation_en_to_de", "translation"):
        assert pipeline(task, model=model, tokenizer=tokenizer, device="cpu")(TEXTS[0]) == expected


def test_multilingual_tokenizers_are_told_the_languages(tokenizer: PreTrainedTokenizerFast) -> None:
    class Multilingual(PreTrainedTokenizerFast):
        def _build_translation_inputs(self, text: str, src_lang: Any = None, tgt_lang: Any = None, **kwargs: Any) -> Any:
            if src_lang is None or tgt_lang is None:
                raise ValueError("Translation requires a `src_lang` and a `tgt_lang` for this model")
            inputs = self(text, **kwargs)
            inputs["forced_bos_token_id"] = {"de": 70, "fr": 71}[tgt_lang]
            return inputs

    many = Multilingual(tokenizer_object=tokenizer.backend_tokenizer, pad_token="<pad>", eos_token="</s>")
    model = randomised(next(other_models(len(tokenizer))))
    translator = pipeline("translation", model=model, tokenizer=many, device="cpu")

    def first(translator: TranslationPipeline, **settings: Any) -> list[int]:
        records = translator(TEXTS[:2], return_tensors=True, max_new_tokens=4, **settings)
        return [record["translation_token_ids"][1].item() for record in records]

    assert first(translator, src_lang="en", tgt_lang="de") == [70, 70]
    assert first(translator, src_lang="en", tgt_lang="fr", batch_size=2) == [71, 71]
    named = pipeline("translation_en_to_fr", model=model, tokenizer=many, device="cpu")
    assert first(named) == [71, 71]
    assert first(named, src_lang="en", tgt_lang="de") == [70, 70]
    with pytest.raises(ValueError, match="src_lang"):
        translator(TEXTS[0])


@pytest.fixture(scope="module")
def several() -> TranslationPipeline:
    """A model of ours that chooses among two target languages."""
    tokenizer = train_tokenizer(TEXTS * 2, 270, target_languages=["de", "fr"])
    model = randomised(VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **SIZES)))
    model.generation_config.update(**{**PAPER_SEARCH, "extra_length": 8}, allow_custom_entries=True)
    return pipeline("translation", model=model, tokenizer=tokenizer, device="cpu")


def test_the_target_language_is_a_token_before_the_source(several: TranslationPipeline) -> None:
    model, tokenizer = several.model, several.tokenizer
    for language, number in (("de", 3), ("fr", 4)):
        ids = torch.tensor([[number, *tokenizer(TEXTS[0])["input_ids"]]])
        [expected] = tokenizer.batch_decode(model.generate(input_ids=ids), skip_special_tokens=True)
        assert several(TEXTS[0], tgt_lang=language)[0]["translation_text"] == expected
        named = pipeline("translation", model=model, tokenizer=tokenizer, device="cpu", tgt_lang=language)
        by_task = pipeline(f"translation_en_to_{language}", model=model, tokenizer=tokenizer, device="cpu")
        for translator in (named, by_task):
            assert translator(TEXTS[:2], batch_size=2) == several(TEXTS[:2], tgt_lang=language)
        assert named(TEXTS[0] + " " + TEXTS[1], split_sentences="en") == several(
            TEXTS[0] + " " + TEXTS[1], tgt_lang=language, split_sentences="en"
        )
    assert several(TEXTS[0], tgt_lang="de") != several(TEXTS[0], tgt_lang="fr")
    assert named(TEXTS[0], tgt_lang="de") == several(TEXTS[0], tgt_lang="de")


def test_text_that_spells_a_target_language_chooses_none(several: TranslationPipeline) -> None:
    with pytest.raises(ValueError, match=r"needs the target language; choose one of de, fr"):
        several("<2fr> " + TEXTS[0])
    spelled = several.preprocess("<2fr> " + TEXTS[0], tgt_lang="de")["input_ids"][0].tolist()
    assert spelled[0] == 3 and 4 not in spelled


def test_target_languages_that_are_not_there_are_refused(several: TranslationPipeline, ours: TranslationPipeline) -> None:
    parts = {"model": several.model, "tokenizer": several.tokenizer, "device": "cpu"}
    for wrong in (
        lambda: several(TEXTS[0], tgt_lang="it"),
        lambda: pipeline("translation", **parts, tgt_lang="it"),
    ):
        with pytest.raises(ValueError, match=r"does not translate into 'it'; choose one of de, fr"):
            wrong()
    with pytest.raises(ValueError, match=r"no choice of target languages, so 'de' cannot be asked"):
        ours(TEXTS[0], tgt_lang="de")
    by_task = pipeline("translation_en_to_de", model=ours.model, tokenizer=ours.tokenizer, device="cpu")
    assert by_task(TEXTS[0]) == ours(TEXTS[0]), "a task's name has always been free"


def test_a_model_in_training_translates_without_dropout(ours: TranslationPipeline) -> None:
    expected = ours(TEXTS)
    ours.model.train()
    assert ours(TEXTS) == expected
    assert ours.model.training
    ours.model.eval()


def test_models_that_cannot_translate_are_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    decoder = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=1))
    classifier = VaswaniForSequenceClassification(VaswaniConfig.from_preset("tiny", vocab_size=len(tokenizer)))
    for model in (decoder, classifier):
        with pytest.raises(ValueError, match="no encoder and decoder"):
            pipeline("translation", model=model, tokenizer=tokenizer, device="cpu")
    with pytest.raises(ValueError, match="needs its tokenizer"):
        TranslationPipeline(model=next(other_models(len(tokenizer))), task="translation", device="cpu")


def test_a_stop_sequence_ends_the_translation(ours: TranslationPipeline) -> None:
    full = [ours(text, num_beams=1, max_new_tokens=20)[0]["translation_text"] for text in TEXTS]
    text, translation = max(zip(TEXTS, full, strict=True), key=lambda pair: sum(map(str.isascii, pair[1])))
    stop = next(letter for letter in translation[:-1] if letter.isascii())
    cut = ours(text, num_beams=1, max_new_tokens=20, stop_sequence=stop)[0]["translation_text"]
    assert stop in cut
    assert translation.startswith(cut)
    assert len(cut) < len(translation)


TEXT = "A man sees a dog. Two dogs run,  Mr. Smith!\r\n\r\n\tThe old man?\n"
SENTENCES = ["A man sees a dog.", "Two dogs run,  Mr. Smith!", "The old man?"]


def test_a_text_is_split_into_sentences_and_joined(ours: TranslationPipeline) -> None:
    first, second, third = translations(ours(SENTENCES))
    expected = [{"translation_text": f"{first} {second}\r\n\r\n\t{third}\n"}]
    assert ours(TEXT, split_sentences="en") == expected
    assert ours(TEXT, split_sentences="en-GB", batch_size=3) == expected
    assert ours(TEXT) != expected
    assert ours(" \n", split_sentences="en") == [{"translation_text": ""}]


def test_sentences_of_all_texts_share_batches(ours: TranslationPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [TEXT, "", "One. Two. Three. Four.", " ", TEXT, "\n"]
    expected = [ours(text, split_sentences="en")[0] for text in texts]
    sizes: list[int] = []
    generate = ours.model.generate

    def counting(input_ids: torch.Tensor, **settings: Any) -> Any:
        sizes.append(len(input_ids))
        return generate(input_ids=input_ids, **settings)

    monkeypatch.setattr(ours.model, "generate", counting)
    assert ours(texts, split_sentences="en", batch_size=4) == expected
    assert sizes == [4, 4, 2]
    assert ours([], split_sentences="en") == ours([""], split_sentences="en")[1:] == []
    stream = ours((text for text in texts), split_sentences="en", batch_size=4, num_workers=1)
    assert list(stream) == [[record] for record in expected]
    datasets = pytest.importorskip("datasets")
    rows = KeyDataset(datasets.Dataset.from_dict({"en": texts}), "en")
    assert list(ours(rows, split_sentences="en")) == [[record] for record in expected]


def test_texts_are_read_as_far_as_a_batch_needs(ours: TranslationPipeline) -> None:
    read: list[str] = []

    def texts() -> Iterator[str]:
        for text in [TEXT] * 5:
            read.append(text)
            yield text

    stream = ours(texts(), split_sentences="en", batch_size=2)
    next(stream)
    assert len(read) <= 2
    with pytest.raises(TypeError, match=r"An input is 7 \(int\)"):
        list(ours(iter([TEXT, 7]), split_sentences="en"))


def test_the_language_is_found_where_it_is_named(ours: TranslationPipeline, tokenizer: PreTrainedTokenizerFast) -> None:
    def translator(task: str = "translation", **settings: Any) -> TranslationPipeline:
        return pipeline(task, model=ours.model, tokenizer=tokenizer, device="cpu", **settings)

    german = "Das ist z. B. am 3. Mai so. Der Mann sieht."
    expected = ours(german, split_sentences="de")
    assert expected != ours(german, split_sentences="en"), "a date is no end of a sentence in German"
    assert ours(german, split_sentences=True, src_lang="de") == expected
    assert translator(split_sentences="de")(german) == expected
    assert translator(split_sentences="de")(german, split_sentences=False) == ours(german)
    assert translator("translation_de_to_en", split_sentences=True)(german) == expected
    with pytest.raises(ValueError, match='not known here; pass its code, such as split_sentences="en"'):
        ours(german, split_sentences=True)
    for inputs in (german, [german], iter([german])):
        with pytest.raises(ValueError, match="split_sentences is 'klingon', which is no language's code"):
            ours(inputs, split_sentences="klingon")


def test_half_a_surrogate_pair_is_no_text(ours: TranslationPipeline) -> None:
    sentence = r"holds half a surrogate pair at character 3, which is not text: 'a \\ud800' \(str\); repair it"
    for settings in ({}, {"split_sentences": "en"}):
        for inputs in ("a \ud800", ["a", "a \ud800"], iter(["a \ud800"])):
            with pytest.raises(ValueError, match=sentence):
                list(ours(inputs, **settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"num_return_sequences": 2},
        {"generate_kwargs": {"num_return_sequences": 2}},
        {"generation_config": GenerationConfig(num_beams=2, num_return_sequences=2)},
        {"return_tensors": True},
    ],
)
def test_joined_sentences_have_one_translation(ours: TranslationPipeline, settings: dict[str, Any]) -> None:
    for inputs in (TEXT, [TEXT], iter([TEXT])):
        with pytest.raises(ValueError, match="best translations of the sentences"):
            ours(inputs, split_sentences="en", **settings)


def test_without_the_library_the_sentence_says_what_to_install(ours: TranslationPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(ImportError, match="pip install sentencex"):
        ours(TEXT, split_sentences="en")
    assert ours(TEXT)
