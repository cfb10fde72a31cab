"""The tokenizer: lossless for any text, deaf to spelled-out control tokens, the same after a round trip through the disk."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from vaswani_transformer.data.bpe import SMALLEST_VOCABULARY, extend_tokenizer, train_tokenizer
from vaswani_transformer.languages import target_languages

SENTENCES = [
    "The house is not small, and the house is not old.",
    "Das Haus ist nicht klein, und das Haus ist nicht alt.",
    "</s><pad><s> </s> the </s>house</s>",
    "小さな家は古くない。",
] * 25
VOCAB_SIZE = 330

TRAINED = train_tokenizer(SENTENCES, VOCAB_SIZE)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    TRAINED.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["trained", "loaded", "pickled", "copied"])
def tokenizer(request: pytest.FixtureRequest, saved: Path) -> PreTrainedTokenizerFast:
    return {
        "trained": lambda: TRAINED,
        "loaded": lambda: AutoTokenizer.from_pretrained(saved),
        "pickled": lambda: pickle.loads(pickle.dumps(TRAINED)),
        "copied": lambda: copy.deepcopy(TRAINED),
    }[request.param]()


def assert_safe_and_lossless(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    ids = tokenizer(text)["input_ids"]
    assert ids[-1] == 2 and not {0, 1, 2} & set(ids[:-1])
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer(text_target=text)["input_ids"] == ids
    assert tokenizer.encode(text) == ids


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "   ",
        " leading and trailing  ",
        "two  spaces",
        "\n\r\n\t",
        "line\u2028separator \x85 next",
        "nul \0 and \x1b escape",
        "e\u0301 is not é",
        "👩‍👩‍👧 🇩🇪 \ufeff \u200d",
        "Don't . do n't , 's !",
        "▁ Ġ Ċ",
        "\U0010ffff\ue000",
        "</s>",
        "<pad><s></s>",
        " </s> <pad>\n<s>",
        "a</s>b",
    ],
)
def test_any_text_comes_back_and_never_becomes_a_control_token(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert_safe_and_lossless(tokenizer, text)


@given(st.text())
def test_arbitrary_text_comes_back(text: str) -> None:
    assert_safe_and_lossless(TRAINED, text)


@given(st.lists(st.sampled_from(["</s>", "<pad>", "<s>", "<", "/", "s", ">", " ", "\n", "pad", "家"])).map("".join))
def test_no_combination_spells_a_control_token(text: str) -> None:
    assert_safe_and_lossless(TRAINED, text)


def test_batches_are_encoded_like_single_texts(tokenizer: PreTrainedTokenizerFast) -> None:
    texts = ["the house", "</s> is", ""]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    for row, mask, text in zip(batch["input_ids"], batch["attention_mask"], texts, strict=True):
        assert row[mask.bool()].tolist() == tokenizer(text)["input_ids"]
        assert not row[~mask.bool()].any()  # padding stands on the right and is <pad>
    assert tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True) == texts


def test_control_tokens_have_the_ids_of_the_contract(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<s>", "</s>"]) == [0, 1, 2]
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert len(tokenizer) == tokenizer.vocab_size == VOCAB_SIZE


def test_a_word_has_the_same_ids_at_the_start_of_a_sentence_as_inside() -> None:
    assert TRAINED("house house", add_special_tokens=False)["input_ids"] == TRAINED("house")["input_ids"][:-1] * 2


def test_long_text_is_never_cut(tokenizer: PreTrainedTokenizerFast) -> None:
    text = "the house " * 20_000
    assert tokenizer.decode(tokenizer(text, truncation=True)["input_ids"], skip_special_tokens=True) == text


def test_the_folder_holds_a_stock_tokenizer_without_code(saved: Path) -> None:
    assert {path.name for path in saved.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    assert "auto_map" not in (saved / "tokenizer_config.json").read_text()
    assert type(AutoTokenizer.from_pretrained(saved)) is PreTrainedTokenizerFast


def test_the_same_texts_give_the_same_tokenizer_in_another_process() -> None:
    program = (
        "import sys; from vaswani_transformer.data.bpe import train_tokenizer; "
        f"sys.stdout.write(train_tokenizer(iter({SENTENCES!r}), {VOCAB_SIZE}).backend_tokenizer.to_str())"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    other = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    assert other == train_tokenizer(SENTENCES, VOCAB_SIZE).backend_tokenizer.to_str()


def test_a_vocabulary_beyond_the_text_is_a_warning_that_says_what_was_reached() -> None:
    with pytest.warns(UserWarning, match=r"support only (\d+) of the 5000 .* has \1\. Ask for at most"):
        tokenizer = train_tokenizer(["one house"] * 3, 5000)
    assert SMALLEST_VOCABULARY < len(tokenizer) < 300
    assert_safe_and_lossless(tokenizer, "one mouse")


def test_the_smallest_vocabulary_still_writes_everything() -> None:
    assert_safe_and_lossless(train_tokenizer(["x"], SMALLEST_VOCABULARY), "any text: 家 \0")


def test_texts_are_a_stream_read_once() -> None:
    stream = iter(SENTENCES)
    train_tokenizer(stream, VOCAB_SIZE)
    assert next(stream, None) is None


@pytest.mark.parametrize("texts", [[], [""], iter(())])
def test_no_text_is_an_error(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="no text to train"):
        train_tokenizer(texts, VOCAB_SIZE)


def test_a_vocabulary_without_room_for_the_bytes_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"vocab_size=258 is too small.*need 259"):
        train_tokenizer(SENTENCES, 258)


def test_what_is_not_text_is_named() -> None:
    with pytest.raises(TypeError, match=r"Text number 1 .* NoneType"):
        train_tokenizer(["text", None], VOCAB_SIZE)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not one string"):
        train_tokenizer("text", VOCAB_SIZE)


def test_target_languages_are_control_tokens_that_no_text_spells(tmp_path: Path) -> None:
    train_tokenizer([*SENTENCES, "<2de> <2fr>"], VOCAB_SIZE, target_languages=["de", "fr"]).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert target_languages(tokenizer) == {"de": 3, "fr": 4}
    assert_safe_and_lossless(tokenizer, "<2de>the house<2fr> </s>")
    assert not {3, 4} & set(tokenizer("<2de>the house<2fr>")["input_ids"])
    assert tokenizer.decode([4, *tokenizer("the house")["input_ids"]], skip_special_tokens=True) == "the house"
    with pytest.raises(ValueError, match=r"5 control tokens and the 256 bytes need 261"):
        train_tokenizer(SENTENCES, 260, target_languages=["de", "fr"])


def test_extending_adds_the_languages_that_are_missing() -> None:
    texts = ["la maison", "une maison"] * 9
    once = extend_tokenizer(TRAINED, texts, len(TRAINED) + 5, target_languages=["fr"])
    assert target_languages(once) == {"fr": len(TRAINED)}
    twice = extend_tokenizer(once, texts, len(once) + 5, target_languages=["fr", "de"])
    assert target_languages(twice) == {"fr": len(TRAINED), "de": len(once)}
    assert_safe_and_lossless(twice, "<2fr> la maison")
    with pytest.raises(ValueError, match="entries already"):
        extend_tokenizer(TRAINED, texts, len(TRAINED) + 1, target_languages=["fr"])
