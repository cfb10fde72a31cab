"""The true word alignment of the built-in corpus: links written out by hand, and what must hold for every pair."""

import hashlib
import re
from collections.abc import Callable
from itertools import islice

import pytest

from vaswani_transformer.data.builtin.author import Author, Dice
from vaswani_transformer.data.builtin.corpus import Split, builtin_alignments, builtin_pairs
from vaswani_transformer.data.builtin.marks import AlignedPair, is_marked, mark, marking, read
from vaswani_transformer.data.builtin.sentences import _KINDS, sentences

TEXTS: dict[Split, str] = {
    "train": "1da9aa6f4e88a8e9b62a06374c9b4c9e7dc1f115bb2647d193a4d38f70bac204",
    "validation": "10e915adadbb378965910bac315733406f1a1b776d40dfb6db617056f58c2a14",
    "test": "2fdb98130a6a763c01bd70867057881cdd80c952e3f05a52b7e3a561ee2fc8b7",
}
"""SHA-256 of each split, a pair a line, tab between, from before the grammar knew of alignments."""

HELPERS = frozenset(
    ("am", "are", "is", "do", "does", "did", "has", "have", "would", "to", "for", "of", "there", "order", "in", "past", "more")
)
"""English words that may have no counterpart of their own."""
GERMAN_HELPERS = frozenset(
    (
        ",",
        "hat",
        "haben",
        "habe",
        "hast",
        "habt",
        "ist",
        "sind",
        "bin",
        "bist",
        "an",
        "ein",
        "es",
        "sie",
        "nach",
        "der",
        "die",
        "das",
        "den",
    )
)


@pytest.fixture(scope="module")
def aligned() -> list[AlignedPair]:
    return list(builtin_alignments("train", 6000))


def pharaoh(pair: AlignedPair) -> str:
    return " ".join(f"{i}{'-' if (i, j) in pair.sure else 'p'}{j}" for i, j in sorted(pair.possible))


@pytest.mark.parametrize("split", TEXTS)
def test_the_text_is_what_it_was(split: Split) -> None:
    text = "\n".join("\t".join(pair) for pair in builtin_pairs(split))
    assert hashlib.sha256(text.encode()).hexdigest() == TEXTS[split]


def test_alignments_are_of_the_same_pairs_in_the_same_order(aligned: list[AlignedPair]) -> None:
    assert [(pair.english, pair.german) for pair in aligned] == list(builtin_pairs("train", 6000))
    assert [tuple(pair[:2]) for pair in builtin_alignments("validation", 20)] == list(builtin_pairs("validation", 20))


@pytest.mark.parametrize(
    ("english", "german", "links"),
    [
        # word order, and the verb in two parts
        ("The friendly sister is picking up the men today and we want to drink coffee.",
         "Die freundliche Schwester holt heute die Männer ab und wir wollen Kaffee trinken.",
         "0-0 1-1 2-2 3p3 4-3 4p7 5p3 5-7 6-5 7-6 8-4 9-8 10-9 11-10 12p10 12p12 13-12 14-11 15-13"),
        ("Where did we work five weeks ago?", "Wo haben wir vor fünf Wochen gearbeitet?",
         "0-0 1-1 1p6 2-2 3p1 3-6 4-4 5-5 6-3 7-7"),
        ("Because I am tired, I have lived in Hamburg for six days.", "Weil ich müde bin, wohne ich seit sechs Tagen in Hamburg.",
         "0-0 1-1 2-3 3-2 4-4 5-6 6p5 7-5 8-10 9-11 10-7 11-8 12-9 13-12"),
        # particles
        ("Mr Schmidt, please pick us up!", "Herr Schmidt, holen Sie uns bitte ab!",
         "0-0 1-1 2-2 3-6 4-3 4p4 4p7 5-5 6p3 6-7 7-8"),
        ("Anna, please look for a cat!", "Anna, such bitte eine Katze!", "0-0 1-1 2-3 3-2 4p2 5-4 6-5 7-6"),
        ("Doesn't the teacher's letter belong to her?", "Gehört der Brief des Lehrers ihr nicht?",
         "0p0 0-6 1-3 2p1 2-4 3-2 4-0 5p0 6-5 7-7"),
        # prepositions, contracted and of two words
        ("Why will the boy play at the station?", "Warum wird der Junge am Bahnhof spielen?", "0-0 1-1 2-2 3-3 4-6 5-4 6-4 7-5 8-7"),
        ("Julia, please put the book next to the picture!", "Julia, leg bitte das Buch neben das Bild!",
         "0-0 1-1 2-3 3-2 4-4 5-5 6-6 7p6 8-7 9-8 10-9"),
        ("If it is raining, they shouldn't run home.", "Wenn es regnet, sollten sie nicht nach Hause laufen.",
         "0-0 1-1 2p2 3-2 4-3 5-5 6-4 6-6 7-9 8p7 8-8 9-10"),
        # negation
        ("The child whom the sister is inviting today isn't writing a letter.",
         "Das Kind, das die Schwester heute einlädt, schreibt keinen Brief.",
         "0-0 1-1 2p2 2-3 3-4 4-5 5p7 6-7 7-6 8p9 8-10 9-9 10-10 11-11 12-12"),
        ("In Hamburg there isn't a house.", "In Hamburg gibt es kein Haus.", "0-0 1-1 2p2 2p3 3-2 3-4 4-4 5-5 6-6"),
        ("We don't have to help him if it is raining.", "Wir müssen ihm nicht helfen, wenn es regnet.",
         "0-0 1p1 1-3 2-1 3p1 3p4 4-4 5-2 6p5 6-6 7-7 8p8 9-8 10-9"),
        # relative clauses, infinitives, comparisons, numbers
        ("The cat that can't play is black.", "Die Katze, die nicht spielen kann, ist schwarz.",
         "0-0 1-1 2p2 2-3 3-4 3-6 4-5 5-8 6-9 7-10"),
        ("They are helping these children with whom the girls are playing.", "Sie helfen diesen Kindern, mit denen die Mädchen spielen.",
         "0-0 1p1 2-1 3-2 4-3 5p4 5-5 6-6 7-7 8-8 9p9 10-9 11-10"),
        ("They drove into the room in order to write a letter.", "Sie sind ins Zimmer gefahren, um einen Brief zu schreiben.",
         "0-0 1p1 1-4 2-2 3-2 4-3 5p5 5-6 6p6 7-9 7p10 8p9 8-10 9-7 10-8 11-11"),
        ("We have no time to read the newspaper.", "Wir haben keine Zeit, die Zeitung zu lesen.",
         "0-0 1-1 2-2 3-3 4p4 4-7 4p8 5p7 5-8 6-5 7-6 8-9"),
        ("The park isn't more beautiful than the hotel.", "Der Park ist nicht schöner als das Hotel.",
         "0-0 1-1 2-2 2-3 3p4 4-4 5-5 6-6 7-7 8-8"),
        ("They are twenty-seven years old.", "Sie sind siebenundzwanzig Jahre alt.", "0-0 1-1 2-2 3-3 4-4 5-5"),
        ("They should look for this brother at half past eight.", "Sie sollten um halb neun diesen Bruder suchen.",
         "0-0 1-1 2-7 3p7 4-5 5-6 6-2 7-3 8p3 8p4 9p4 10-8"),
        ("Where did their black cats run in 2010?", "Wohin sind ihre schwarzen Katzen 2010 gelaufen?",
         "0-0 1-1 1p6 2-2 3-3 4-4 5p1 5-6 6p5 7-5 8-7"),
        ("Julia, you would like to call the friend.", "Julia, du möchtest den Freund anrufen.",
         "0-0 1-1 2-2 3p3 4-3 5p3 5p6 6-6 7-4 8-5 9-7"),
    ],
)  # fmt: skip
def test_links_written_by_hand(aligned: list[AlignedPair], english: str, german: str, links: str) -> None:
    (pair,) = (pair for pair in aligned if pair.english == english)
    assert (pair.german, pharaoh(pair)) == (german, links)


def test_words_and_indices_fit(aligned: list[AlignedPair]) -> None:
    for pair in aligned:
        assert pair.sure <= pair.possible
        for text, words, side in ((pair.english, pair.english_words, 0), (pair.german, pair.german_words, 1)):
            assert text.replace(" ", "") == "".join(words) and not is_marked(text)
            assert text.split(" ") == re.sub(r" ([.,?!])", r"\1", " ".join(words)).split(" ")
            assert all(0 <= link[side] < len(words) for link in pair.possible)


def test_every_word_is_linked_but_the_comma_that_closes_a_german_clause(aligned: list[AlignedPair]) -> None:
    for pair in aligned:
        assert {i for i, _ in pair.possible} == set(range(len(pair.english_words))), pair
        alone = set(range(len(pair.german_words))) - {j for _, j in pair.possible}
        assert {pair.german_words[j] for j in alone} <= {","}, pair


def test_every_content_word_is_surely_linked(aligned: list[AlignedPair]) -> None:
    """Only the hour after `half past` is another word in German: halb neun."""
    for pair in aligned:
        for side, words, helpers in ((0, pair.english_words, HELPERS), (1, pair.german_words, GERMAN_HELPERS)):
            sure = {link[side] for link in pair.sure}
            alone = {word.lower() for place, word in enumerate(words) if place not in sure}
            if "half past" not in pair.english:
                assert alone <= helpers, (pair, alone - helpers)


def test_a_name_is_linked_to_itself(aligned: list[AlignedPair]) -> None:
    seen = 0
    for pair in aligned:
        names = {"Paul", "Peter", "Martin", "Anna", "Maria", "Julia", "Weber", "Schmidt", "Keller", "Berlin", "Hamburg"}
        for english, german in pair.sure:
            word = pair.english_words[english]
            if word in names:
                assert pair.german_words[german] == word
                seen += 1
    assert seen > 1000


@pytest.mark.parametrize("kind", [kind for kind, _ in _KINDS], ids=lambda kind: kind.__name__)
def test_every_kind_of_sentence_is_aligned(kind: Callable[[Author], tuple[str, str]]) -> None:
    """The same draws with and without marks give the same text."""
    plain, marked = Author(Dice(3)), Author(Dice(3))
    for _ in range(100):
        with marking():
            pair = read(*kind(marked))
        assert (pair.english, pair.german) == kind(plain)
        assert (len(pair.english_words) - 1, len(pair.german_words) - 1) in pair.sure
        assert len({i for i, _ in pair.sure}) >= len(pair.english_words) / 2


def test_marks_are_written_only_where_they_are_asked_for() -> None:
    assert mark("book", "noun") == "book"
    with marking():
        assert is_marked(mark("book", "noun"))
        assert mark("", "noun") == ""
    assert not any(is_marked(text) for pair in islice(sentences(1), 500) for text in pair)


def test_reading_marks() -> None:
    """One word with two names, a doubt on one side, a doubt on both, a name that only one side has."""
    with marking():
        english = f"{mark('to', 'to', '?verb')} {mark('call', 'verb')} {mark('is', '?help')} {mark('him', 'object')}."
        german = f"{mark('an', '?verb')}{mark('zurufen', 'verb', 'to')} {mark('hat', '?help')}."
    pair = read(english, german)
    assert (pair.english, pair.german) == ("to call is him.", "anzurufen hat.")
    assert pair.german_words == ("anzurufen", "hat", ".")
    assert (pair.sure, pair.possible) == ({(0, 0), (1, 0)}, {(0, 0), (1, 0)})


def test_impossible_splits_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="train, validation, test"):
        builtin_alignments("dev")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be -1"):
        builtin_alignments("train", -1)
