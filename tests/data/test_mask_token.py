"""The tokenizer with `<mask>`: one token in a user's text, and nothing else changes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.data.mask_token import MASK_TOKEN, add_mask_token

PLAIN = train_tokenizer(["a small dog asks (in the mask), it's <b>a</b> <mas> k>.", "ein kleiner Hund läuft 😀"] * 5, 300)
MASKED = add_mask_token(PLAIN)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    folder = tmp_path_factory.mktemp("tokenizer")
    MASKED.save_pretrained(folder / "once")
    AutoTokenizer.from_pretrained(folder / "once").save_pretrained(folder / "twice")
    return AutoTokenizer.from_pretrained(folder / "twice")


def test_a_mask_is_one_token_wherever_it_stands(loaded: PreTrainedTokenizerFast) -> None:
    for text, before, after in [
        ("a <mask> runs", "a", "runs"),
        ("(<mask>).", "(", ")."),
        ("un<mask>able", "un", "able"),
        ("<mask>", "", ""),
    ]:
        ids = loaded(text)["input_ids"]
        assert ids.count(loaded.mask_token_id) == 1
        place = ids.index(loaded.mask_token_id)
        assert loaded.decode(ids[:place]) == before
        assert loaded.decode(ids[place + 1 :], skip_special_tokens=True) == after


@settings(max_examples=60)
@given(st.text(alphabet="ab <>mask/s'.,1\n\té😀", max_size=20).filter(lambda text: MASK_TOKEN not in text))
def test_other_text_keeps_its_ids(text: str) -> None:
    ids = MASKED(text)["input_ids"]
    assert ids == PLAIN(text)["input_ids"]
    assert MASKED.decode(ids, skip_special_tokens=True) == text


def test_what_spells_a_control_token_stays_text(loaded: PreTrainedTokenizerFast) -> None:
    ids = loaded("a </s> <pad> <mask>")["input_ids"]
    assert [ids.count(token) for token in (0, 1, 2, loaded.mask_token_id)] == [0, 0, 1, 1]


def test_a_second_time_it_changes_nothing(loaded: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    assert add_mask_token(loaded) is loaded
    assert len(loaded) == len(PLAIN) + 5


def test_a_tokenizer_of_another_make_is_refused() -> None:
    from tokenizers import Tokenizer, models

    other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0})))
    with pytest.raises(ValueError, match="Only a tokenizer of `train_tokenizer` gets a mask"):
        add_mask_token(other)
