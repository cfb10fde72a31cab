"""How a source is read and a target given: as the pipeline and the family's training do it."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerBase, pipeline

from tests.inspection.families import FAMILIES, SIZES, translator
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.inspection.maps import attention_maps
from vaswani_transformer.inspection.translating import length
from vaswani_transformer.interop.fairseq_tokenizer import fairseq_tokenizer

SOURCE, TARGET = "A man reads the book.", "Für dich, mein Kind!"


@pytest.mark.parametrize("name", sorted({*FAMILIES} - {"mbart"}))  # whose labels end with the language
def test_a_given_target_is_what_the_family_learns_from(name: str, tmp_path: Path) -> None:
    """The model's own loss on its tokenizer's labels is the mean of our log-probabilities."""
    model, tokenizer, _ = translator(name, tmp_path)
    maps = attention_maps(model, tokenizer, SOURCE, TARGET)
    text = f"mein: {SOURCE}" if name == "t5" else SOURCE
    with torch.no_grad():
        loss = model(**tokenizer(text, text_target=TARGET, return_tensors="pt")).loss
    assert float(loss) == pytest.approx(-float(maps.log_probabilities.mean()), abs=1e-9)
    assert maps.target_text == TARGET and maps.target[-1] == tokenizer.eos_token


@pytest.mark.parametrize("name", FAMILIES)
def test_the_translation_is_the_pipelines(name: str, tmp_path: Path) -> None:
    model, tokenizer, _ = translator(name, tmp_path)
    languages = {"src_lang": tokenizer.src_lang, "tgt_lang": tokenizer.tgt_lang} if getattr(tokenizer, "tgt_lang", None) else {}
    expected = pipeline("translation", model=model, tokenizer=tokenizer)(SOURCE, **languages)[0]["translation_text"]
    assert attention_maps(model, tokenizer, SOURCE).target_text == expected


def test_languages_can_be_named_at_the_call(tmp_path: Path) -> None:
    for name, source, target in (("nllb", "fra_Latn", "zho_Hans"), ("m2m100", "fr", "zh"), ("mbart50", "fr_XX", "zh_CN")):
        (tmp_path / name).mkdir()
        model, tokenizer, begins = translator(name, tmp_path / name)
        for text in (None, TARGET):
            maps = attention_maps(model, tokenizer, SOURCE, text, src_lang=source, tgt_lang=target)
            assert maps.source[0].strip("_") == source and maps.read[1].strip("_") == target
            assert attention_maps(model, tokenizer, SOURCE, text).read[1] == begins[1]
        with pytest.raises(ValueError, match="has no language 'klingon'; give one of its codes as tgt_lang"):
            attention_maps(model, tokenizer, SOURCE, tgt_lang="klingon")
        tokenizer.tgt_lang = None
        with pytest.raises(ValueError, match=r"many languages; name one \(tgt_lang\)"):
            attention_maps(model, tokenizer, SOURCE)
        # a checkpoint for one pair of languages says so in its settings
        model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids(begins[1])
        for text in (None, TARGET):
            assert attention_maps(model, tokenizer, SOURCE, text).read[:2] == tuple(begins)


def test_prefixes_of_tasks(tmp_path: Path) -> None:
    model, tokenizer, _ = translator("t5", tmp_path)
    german, chinese = (attention_maps(model, tokenizer, SOURCE, src_lang="en", tgt_lang=to, level="word") for to in ("de", "zh"))
    assert german.source[:2] == ("mein", "<unk>") and chinese.source[0] == "dich"
    with pytest.raises(ValueError, match="no choice of target languages, so 'fr'"):
        attention_maps(model, tokenizer, SOURCE, src_lang="en", tgt_lang="fr")


def test_our_model_of_several_languages() -> None:
    tokenizer = train_tokenizer([SOURCE, TARGET], vocab_size=280, min_frequency=1, target_languages=["de", "fr"])
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), d_model=16, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=8, decoder_ffn_dim=8))  # fmt: skip
    assert attention_maps(model, tokenizer, SOURCE, tgt_lang="fr", max_new_tokens=3).source[0] == "<2fr>"
    for wrong, problem in ((None, "needs the target language"), ("en", "does not translate into 'en'")):
        with pytest.raises(ValueError, match=f"{problem}; choose one of de, fr"):
            attention_maps(model, tokenizer, SOURCE, tgt_lang=wrong)


def test_a_target_of_fairseqs_second_vocabulary() -> None:
    controls = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = list("abcdef")
    source = [*controls, *(f"{letter}@@" for letter in letters), *letters]
    target = [*controls, *letters[::-1], *(f"{letter}@@" for letter in letters[::-1])]
    tokenizer = fairseq_tokenizer(source, target, [("a", "b")], ("en", "de"))
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(source), target_vocab_size=len(target), tie_word_embeddings=False,
        d_model=16, encoder_attention_heads=2, decoder_attention_heads=2, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=8,
        decoder_ffn_dim=8, bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2))  # fmt: skip
    maps = attention_maps(model.eval(), tokenizer, "a cd", "fe a")
    assert maps.source == ("a", "c", "d", "</s>") and maps.target == ("f", "e", "a", "</s>")
    assert maps.words().target == ("fe", "a", "</s>") and tokenizer.src_lang == "en"
    ids = [target.index(entry) for entry in ("f@@", "e", "a", "</s>")]
    with torch.no_grad():
        logits = model(torch.tensor([tokenizer("a cd").input_ids]), decoder_input_ids=torch.tensor([[2, *ids[:-1]]])).logits
    expected = logits[0].log_softmax(-1)[range(4), ids]
    assert torch.allclose(maps.log_probabilities, expected, atol=1e-5)


def test_where_a_translation_ends() -> None:
    """</s> is 2 and padding 1; the first token is given."""
    assert length([2, 5, 6, 2, 1, 1], 1, {2}, 1) == 4
    assert length([2, 5, 6, 1, 1], 1, {2}, 1) == 3
    assert length([2, 5, 9, 2], 1, {2, 9}, None) == 3
    assert length([2, 1, 1], 1, {2}, 1) == 3


def test_prompts_and_whole_settings_reach_the_search(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    model, marian, _ = translator("marian", tmp_path)
    prompt = torch.tensor([[2, 7, 8]])
    maps = attention_maps(model, marian, SOURCE, decoder_input_ids=prompt, max_new_tokens=2)
    assert len(maps.target) == 4 and SIZES["decoder_start_token_id"] == 2
    own = type(model.generation_config)(num_beams=2, max_new_tokens=3, decoder_start_token_id=2, eos_token_id=2, pad_token_id=1)
    expected = model.generate(**marian(SOURCE, return_tensors="pt"), generation_config=own)[0]
    found = attention_maps(model, marian, SOURCE, generation_config=own)
    assert found.target_text == marian.decode(expected, skip_special_tokens=True, clean_up_tokenization_spaces=False)
