"""What an example of each task is, checked against the tokenizer's own decoding."""

import pytest
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import train_tokenizer
from vaswani_transformer.data.encoding import EncodedCorpus, encode_corpus
from vaswani_transformer.data.examples import CutTexts, LabelledTexts, TaggedWords, all_labels, check_lengths, with_labels
from vaswani_transformer.data.sources.corpus import SentencePair

WORDS = ["Zoë", "'s", "1 000", "naïve", "🙂🙂", "ﬁne", "do", "n't", "."]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return train_tokenizer(["the naïve do fine here .", "do n't do the fine thing ."] * 3, vocab_size=280)


def tagged(words: list[str], tags: list[str]) -> SentencePair:
    return SentencePair("\t".join(words), "\t".join(tags), "words.conll", 3)


def test_the_label_of_a_word_is_at_its_first_token(tokenizer: PreTrainedTokenizerBase) -> None:
    tags = ["B", "A", "B", "B", "A", "A", "B", "A", "A"]
    (ids,), (targets,) = TaggedWords(("A", "B")).ids([tagged(WORDS, tags)], tokenizer)
    assert ids == tokenizer(" ".join(WORDS))["input_ids"]
    assert ["AB"[target % 2] for target in targets] == tags
    places = [target // 2 for target in targets]
    for start, end, word in zip(places, [*places[1:], len(ids) - 1], WORDS, strict=True):
        # Between the first token of a word and that of the next one is the word, its bytes whole, and perhaps the space before the next
        assert tokenizer.decode(ids[start:end]).strip() == word


def test_a_long_text_is_cut_where_its_last_token_ends(tokenizer: PreTrainedTokenizerBase) -> None:
    pair, examples = SentencePair("do the naïve thing 🙂 here", "one\x1etwo", "f", 1), CutTexts(8)
    (ids,), (target,) = examples.ids([pair], tokenizer)
    assert ids == [*tokenizer(pair.source)["input_ids"][:7], tokenizer.eos_token_id]
    assert target == tokenizer("one")["input_ids"]  # the first of two references
    (cut,) = examples.cut([pair.source], tokenizer)
    assert pair.source.startswith(cut) and len(tokenizer(cut)["input_ids"]) == 8
    assert CutTexts(99).cut([pair.source], tokenizer) == [pair.source]


def test_a_cut_text_is_read_as_it_was_trained_on(tokenizer: PreTrainedTokenizerBase) -> None:
    """At every limit, also inside the four bytes of a character, and behind a space that would be a token of its own."""
    pair = SentencePair("do  the 🙂🙂 naïve\tthing  🙂 ", "x", "f", 1)
    for longest in range(2, len(tokenizer(pair.source)["input_ids"]) + 2):
        examples = CutTexts(longest)
        (ids,), _ = examples.ids([pair], tokenizer)
        (cut,) = examples.cut([pair.source], tokenizer)
        assert tokenizer(cut)["input_ids"] == ids and len(ids) <= longest and pair.source.startswith(cut) and "\ufffd" not in cut
    assert cut == pair.source


def test_a_text_that_a_model_has_no_positions_for_is_named() -> None:
    pairs = [SentencePair("x", "A", "f", 1), SentencePair("x y", "A", "f", 2)]
    check_lengths(pairs, [[1], [1, 2, 3]], None)
    check_lengths(pairs, [[1], [1, 2, 3]], 3)
    with pytest.raises(ValueError, match="f:2 has 3 tokens, and the model has positions for 2"):
        check_lengths(pairs, [[1], [1, 2, 3]], 2)


def test_labels_are_read_by_the_names_that_a_recipe_gives() -> None:
    texts = LabelledTexts(("bad", "good"), {"0": "bad", "1": "good"})
    assert [texts.numbers(SentencePair("x", label, "f", 1)) for label in "10"] == [[1], [0]]
    with pytest.raises(ValueError, match=r"f:7 has the label '2', but `data.labels` names '0', '1'"):
        texts.numbers(SentencePair("x", "2", "f", 7))


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (SentencePair("x", "C", "f", 4), "f:4 has the label 'C', which no training text has"),
        (SentencePair("x", "A\tB", "f", 5), r"f:5 has 2 labels \('A', 'B'\), and `task: classification` gives each text one"),
        (tagged(["a", "b"], ["A"]), "words.conll:3 has 2 words and 1 labels"),
        (tagged(["a", "b"], ["A", "-100"]), "words.conll:3 has the label -100, by which transformers leaves a token out"),
        (tagged(["b", " "], ["A", "A"]), "words.conll:3 has a word without a character to see"),
    ],
)
def test_labels_that_do_not_fit_are_named(tokenizer: PreTrainedTokenizerBase, pair: SentencePair, message: str) -> None:
    examples = (TaggedWords if "\t" in pair.source else LabelledTexts)(("A", "B"))
    with pytest.raises(ValueError, match=message):
        examples.ids([pair], tokenizer)


@pytest.mark.parametrize(("target", "message"), [(" ", "f:9 has no label;"), ("A\t\tB", "f:9 has no label for one of its words")])
def test_a_missing_label_is_named(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(with_labels([SentencePair("x", target, "f", 9)]))


def test_labels_are_numbered_in_their_order() -> None:
    pairs = [SentencePair("x", label, "f", 1) for label in ("10", "9", "b", "a", "9")]
    assert all_labels(pairs) == ("9", "10", "a", "b")
    with pytest.raises(ValueError, match="two or more"):
        all_labels(pairs[:1])


def test_places_beyond_sixteen_bits_survive_the_disk(tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory) -> None:
    labels = tuple(f"L{number}" for number in range(900))
    pair = tagged(["do"] * 100, ["L899"] * 100)
    folder = tmp_path_factory.mktemp("encoded") / "train"
    encode_corpus([pair], tokenizer, folder, max_tokens=200, examples=TaggedWords(labels))
    corpus = EncodedCorpus.open(folder)
    assert corpus.labels == labels
    assert (corpus.target[0] % 900 == 899).all() and len(set(corpus.target[0].tolist())) == 100
