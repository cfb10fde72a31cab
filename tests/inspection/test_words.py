"""What tokens spell and which make one word, for every way in which tokenizers write spaces and bytes."""

from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies
from tokenizers import Tokenizer, decoders, models
from transformers import ByT5Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.inspection.families import bart, m2m100, marian, mbart, nllb, t5
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.inspection.words import control_ids, labels, units_of, visible, words_of
from vaswani_transformer.interop.fairseq_tokenizer import fairseq_tokenizer


def words(tokenizer: PreTrainedTokenizerBase, text: str, side: str = "target") -> list[str]:
    ids = tokenizer(text).input_ids
    return list(labels(units_of(tokenizer, ids, side), words_of(tokenizer, ids, side)))  # type: ignore[arg-type]


def entries(*names: str, decoder: decoders.Decoder | None = None) -> PreTrainedTokenizerFast:
    """A tokenizer that has these entries, with the ids 0, 1 ..."""
    backend = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token=names[0]))
    if decoder is not None:
        backend.decoder = decoder
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=names[0])


def seen(*names: str, decoder: decoders.Decoder | None = None) -> tuple[list[str], list[str]]:
    """Labels of tokens and of words."""
    tokenizer = entries("<unk>", *dict.fromkeys(names), decoder=decoder)
    ids = tokenizer.convert_tokens_to_ids(list(names))
    units = units_of(tokenizer, ids)
    return list(units), list(labels(units, words_of(tokenizer, ids)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, I don't know!", "Yes|,|I|don't|know|!"),
        ("l’homme d'eau", "l’homme|d'eau"),
        ("well-known A–B x—y", "well|-|known|A|–|B|x|—|y"),
        ("3.14 1,000.50 € 12:30 22/11", "3.14|1,000.50|€|12|:|30|22|/|11"),
        ("Wait... what?!!", "Wait|...|what|?|!!"),
        ("'tis the dogs' \"day\"", "'|tis|the|dogs|'|\"|day|\""),
        ("我们是学生。", "我|们|是|学|生|。"),
        ("カタカナとひ", "カタカナ|と|ひ"),
        ("한국어 문장", "한국어|문장"),
        ("नमस्ते दुनिया", "नमस्ते|दुनिया"),
        ("שלום עולם! مرحبا؟", "שלום|עולם|!|مرحبا|؟"),
        ("👍🏽 👨‍👩‍👧 🇩🇪🇫🇷 😀😀", "👍🏽|👨‍👩‍👧|🇩🇪|🇫🇷|😀|😀"),
        ("Größe e\u0301te", "Größe|e\u0301te"),
        ("<b>x</b> https://x.org a@b.de", "<|b|>|x|<|/|b|>|https|:|//|x.org|a|@|b.de"),
        ("  two \n\n lines\t", "two|lines"),
        ("</s> <pad> <0xC3>", "<|/|s|>|<|pad|>|<|0xC3|>"),
    ],
)
def test_words_as_people_read_them(tokenizer: PreTrainedTokenizerBase, text: str, expected: str) -> None:
    """By a byte-level BPE that knows hardly a word, so that most characters are split."""
    assert "|".join(words(tokenizer, text)) == f"{expected}|</s>"


@hypothesis.given(strategies.text())
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_and_nothing_invented(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    """Every token is in one word; the words' labels are the text without its white space, with signs for what cannot be seen."""
    ids = tokenizer(text).input_ids
    units, places = units_of(tokenizer, ids), words_of(tokenizer, ids)
    assert sorted(place for word in places for place in word) == list(range(len(ids)))
    assert places == tuple(sorted(places)) and all(list(word) == sorted(word) for word in places)
    *shown, end = labels(units, places)
    assert end == "</s>" and places[-1] == (len(ids) - 1,)
    if text.isprintable() and text.strip() and "◌" not in text:
        spelled = "".join(shown).replace("◌", "")
        assert "".join(spelled.split()) == "".join(text.split())


def test_tokens_show_what_they_hold_of_a_character() -> None:
    tokenizer = train_tokenizer(["ab ab"] * 3, vocab_size=261)
    ids = tokenizer("ab ü\u200b \n").input_ids
    assert units_of(tokenizer, ids) == ("ab", "␣", "<0xC3>", "<0xBC>", "<0xE2>", "<0x80>", "<0x8B>", "␣", "↵", "</s>")
    assert words(tokenizer, "ab ü\u200b \n") == ["ab", "ü", "<U+200B>", "</s>"]
    # a model may write half a character
    assert units_of(tokenizer, ids[:3]) == ("ab", "␣", "<0xC3>")
    assert labels(units_of(tokenizer, ids[:3]), words_of(tokenizer, ids[:3])) == ("ab", "<0xC3>")


def test_sentencepiece() -> None:
    for decoder in (None, decoders.Metaspace(), decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])):
        units, found = seen(
            "▁Die", "▁Gr", "ö", "ße", ",", "▁", "Ü", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "▁我们", "是", "▁", decoder=decoder
        )
        assert units == ["Die", "Gr", "ö", "ße", ",", "␣", "Ü", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "我们", "是", "␣"]
        assert found == ["Die", "Größe", ",", "Ü", "😀", "我们", "是"]


def test_marks_that_a_word_goes_on_or_ends() -> None:
    for names, decoder in (
        (("hou@@", "se", ",", "don't"), None),
        (("hou", "se</w>", ",</w>", "don't</w>"), decoders.BPEDecoder(suffix="</w>")),
        (("hou", "##se", ",", "don't"), decoders.WordPiece()),
    ):
        assert seen(*names, decoder=decoder) == (["hou", "se", ",", "don't"], ["house", ",", "don't"])
    assert seen("plain", "words") == (["plain", "words"],) * 2


def test_a_token_of_several_words_joins_them() -> None:
    assert seen("▁of▁the", "▁dog", "s.") == (["of the", "dog", "s."], ["of the", "dogs."])
    assert seen("▁we", "'", "ll") == (["we", "'", "ll"], ["we'll"])


def test_bytes_of_byt5() -> None:
    tokenizer = ByT5Tokenizer()
    assert words(tokenizer, "Für 👍 dich.") == ["Für", "👍", "dich", ".", "</s>"]


def test_moses_marks_and_two_vocabularies_of_fairseq() -> None:
    """The same id is another word on the other side."""
    merges = [("h", "o"), ("ho", "u"), ("s", "e</w>")]
    controls = ["<s>", "<pad>", "</s>", "<unk>"]
    source = [*controls, "hou@@", "se", "&apos;s", "@-@", "a", "&amp;"]
    target = [*controls, *source[:3:-1]]
    tokenizer = fairseq_tokenizer(source, target, merges, ("en", "de"))
    ids = [4, 5, 6, 7, 8, 9, 3, 2]
    assert units_of(tokenizer, ids, "source") == ("hou", "se", "'s", "-", "a", "&", "<unk>", "</s>")
    assert labels(units_of(tokenizer, ids, "source"), words_of(tokenizer, ids, "source")) == ("house", "'s", "-", "a", "&", "<unk>", "</s>")
    assert units_of(tokenizer, ids) == ("&", "a", "-", "'s", "se", "hou", "<unk>", "</s>")


def test_two_vocabularies_of_marian(tmp_path: Path) -> None:
    tokenizer = marian(tmp_path).tokenizer
    source, target = tokenizer("A man reads.").input_ids, tokenizer(text_target="Für dich.").input_ids
    assert labels(units_of(tokenizer, source, "source"), words_of(tokenizer, source, "source")) == ("A", "man", "reads", ".", "</s>")
    assert labels(units_of(tokenizer, target), words_of(tokenizer, target)) == ("Für", "dich", ".", "</s>")


def test_names_of_languages_are_controls(tmp_path: Path) -> None:
    for family, expected in ((bart, "<s>"), (mbart, "en_XX"), (nllb, "eng_Latn"), (m2m100, "__en__"), (t5, "</s>")):
        (tmp_path / family.__name__).mkdir()
        tokenizer = family(tmp_path / family.__name__).tokenizer
        found = words(tokenizer, "A man", "source")
        assert expected in found and [word for word in found if word[0] not in "<_e"] == ["A", "man"]
    ours = train_tokenizer(["a b"], vocab_size=262, min_frequency=1, target_languages=["fr"])
    assert words(ours, "<2fr> a") == ["<", "2fr", ">", "a", "</s>"]
    fr = ours.convert_tokens_to_ids("<2fr>")
    assert fr in control_ids(ours) and units_of(ours, [fr]) == ("<2fr>",)


def test_an_id_beyond_the_vocabulary_is_a_control() -> None:
    tokenizer = entries("<unk>", "▁a")
    assert units_of(tokenizer, [1, 9]) == ("a", "<9>") and words_of(tokenizer, [1, 9]) == ((0,), (1,))


def test_what_cannot_be_seen_has_a_sign() -> None:
    assert [visible(text) for text in ("", " ", "\n\t", "\u0301", "\u202e", "a\x07b", " x ")] == [
        "␣", "␣", "↵⇥", "◌\u0301", "<U+202E>", "a<U+0007>b", "x"
    ]  # fmt: skip
