"""The built-in corpus: paradigms and sentences written out by hand, and what must hold for the corpus as a whole."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from vaswani_transformer.data.builtin import lexicon as words
from vaswani_transformer.data.builtin.corpus import SIZES, Split, builtin_pairs
from vaswani_transformer.data.builtin.grammar import (
    Clause,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Pronoun,
    Text,
    english_imperative,
    english_infinitive,
    english_question,
    english_statement,
    german_imperative,
    german_infinitive,
    german_inverted,
    german_statement,
    german_subordinate,
    negated_object,
    possessive,
    prepositional,
    sentence,
)
from vaswani_transformer.data.builtin.sentences import sentences

NOUN = {noun.english: noun for noun in words.NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in words.ADJECTIVES}
VERB = words.VERB
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def the(noun: str, adjective: str | None = None, plural: bool = False) -> NounPhrase:
    return NounPhrase(NOUN[noun], words.THE, plural, ADJECTIVE[adjective] if adjective else None)


def with_determiner(determiner: words.Determiner, noun: str, adjective: str | None = None, plural: bool = False) -> NounPhrase:
    return replace(the(noun, adjective, plural), determiner=determiner)


def said(clause: Clause) -> tuple[str, str]:
    return sentence(english_statement(clause)), sentence(german_statement(clause))


def asked(clause: Clause, word: tuple[str, str] = ("", "")) -> tuple[str, str]:
    english, german = english_question(clause, word[0]), german_inverted(clause, word[1])
    return sentence(english, "?"), sentence(german, "?")


# --- Inflection, paradigm by paradigm -------------------------------------------------------------------------------------------------

# nominative, accusative, dative, genitive
PARADIGMS: list[tuple[words.Determiner, str, str | None, bool, str]] = [
    (words.THE, "man", "old", False, "der alte Mann|den alten Mann|dem alten Mann|des alten Mannes"),
    (words.THE, "woman", "old", False, "die alte Frau|die alte Frau|der alten Frau|der alten Frau"),
    (words.THE, "child", "small", False, "das kleine Kind|das kleine Kind|dem kleinen Kind|des kleinen Kindes"),
    (words.THE, "child", "small", True, "die kleinen Kinder|die kleinen Kinder|den kleinen Kindern|der kleinen Kinder"),
    (words.A, "table", "new", False, "ein neuer Tisch|einen neuen Tisch|einem neuen Tisch|eines neuen Tisches"),
    (words.A, "cat", "black", False, "eine schwarze Katze|eine schwarze Katze|einer schwarzen Katze|einer schwarzen Katze"),
    (words.A, "car", "expensive", False, "ein teures Auto|ein teures Auto|einem teuren Auto|eines teuren Autos"),
    (words.NO, "book", "good", True, "keine guten Bücher|keine guten Bücher|keinen guten Büchern|keiner guten Bücher"),
    (words.BARE, "coffee", "cold", False, "kalter Kaffee|kalten Kaffee|kaltem Kaffee|kalten Kaffees"),
    (words.BARE, "milk", "fresh", False, "frische Milch|frische Milch|frischer Milch|frischer Milch"),
    (words.BARE, "bread", "fresh", False, "frisches Brot|frisches Brot|frischem Brot|frischen Brotes"),
    (words.BARE, "apple", "big", True, "große Äpfel|große Äpfel|großen Äpfeln|großer Äpfel"),
    (words.THIS, "doctor", "friendly", False,
     "dieser freundliche Arzt|diesen freundlichen Arzt|diesem freundlichen Arzt|dieses freundlichen Arztes"),
    (words.EVERY, "house", None, False, "jedes Haus|jedes Haus|jedem Haus|jedes Hauses"),
    (words.WHICH, "bag", None, False, "welche Tasche|welche Tasche|welcher Tasche|welcher Tasche"),
    (words.THE, "student", "young", False,
     "der junge Student|den jungen Studenten|dem jungen Studenten|des jungen Studenten"),
    (words.A, "boy", None, False, "ein Junge|einen Jungen|einem Jungen|eines Jungen"),
    (words.A, "neighbour", None, False, "ein Nachbar|einen Nachbarn|einem Nachbarn|eines Nachbarn"),
    (words.THE, "car", None, True, "die Autos|die Autos|den Autos|der Autos"),
    (possessive(words.WE), "dog", None, False, "unser Hund|unseren Hund|unserem Hund|unseres Hundes"),
    (possessive(words.YOU_FRIENDS), "sister", None, False, "eure Schwester|eure Schwester|eurer Schwester|eurer Schwester"),
    (possessive(words.YOU_FRIENDS), "dog", "old", False,
     "euer alter Hund|euren alten Hund|eurem alten Hund|eures alten Hundes"),
]  # fmt: skip


@pytest.mark.parametrize(("determiner", "noun", "adjective", "plural", "expected"), PARADIGMS)
def test_noun_phrase_in_four_cases(determiner: words.Determiner, noun: str, adjective: str | None, plural: bool, expected: str) -> None:
    phrase = with_determiner(determiner, noun, adjective, plural)
    assert [phrase.german(case) for case in range(4)] == expected.split("|")


def test_names_with_titles_follow_the_n_declension() -> None:
    weber = Name("Weber", "Mr")
    assert [weber.german(case) for case in range(3)] == ["Herr Weber", "Herrn Weber", "Herrn Weber"]
    assert prepositional("with", "mit", words.DATIVE, weber) == ("with Mr Weber", "mit Herrn Weber")
    assert Name("Keller", "Mrs").german(words.ACCUSATIVE) == "Frau Keller"


def test_the_n_declension_is_that_of_three_nouns() -> None:
    assert {noun.german for noun in words.NOUNS if noun.is_weak} == {"Junge", "Student", "Nachbar"}


VERB_FORMS = {
    "kaufen": "kaufe kaufst kauft kaufen kauft kaufen",
    "lesen": "lese liest liest lesen lest lesen",
    "schreiben": "schreibe schreibst schreibt schreiben schreibt schreiben",
    "essen": "esse isst isst essen esst essen",
    "sehen": "sehe siehst sieht sehen seht sehen",
    "geben": "gebe gibst gibt geben gebt geben",
    "helfen": "helfe hilfst hilft helfen helft helfen",
    "schlafen": "schlafe schläfst schläft schlafen schlaft schlafen",
    "fahren": "fahre fährst fährt fahren fahrt fahren",
    "laufen": "laufe läufst läuft laufen lauft laufen",
    "einladen": "lade lädst lädt laden ladet laden",
    "arbeiten": "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten",
    "öffnen": "öffne öffnest öffnet öffnen öffnet öffnen",
    "schließen": "schließe schließt schließt schließen schließt schließen",
    "haben": "habe hast hat haben habt haben",
    "sein": "bin bist ist sind seid sind",
    "wissen": "weiß weißt weiß wissen wisst wissen",
    "mögen": "mag magst mag mögen mögt mögen",
}


@pytest.mark.parametrize(("infinitive", "expected"), VERB_FORMS.items())
def test_present_tense(infinitive: str, expected: str) -> None:
    assert VERB[infinitive].present == tuple(expected.split())


@pytest.mark.parametrize(
    ("infinitive", "expected"),
    [
        ("lesen", "lies"), ("geben", "gib"), ("essen", "iss"), ("helfen", "hilf"), ("fahren", "fahr"), ("laufen", "lauf"),
        ("warten", "warte"), ("öffnen", "öffne"), ("reparieren", "repariere"), ("anrufen", "ruf"), ("einladen", "lade"),
    ],
)  # fmt: skip
def test_imperative(infinitive: str, expected: str) -> None:
    assert VERB[infinitive].imperative == expected


def test_separable_and_inseparable_infinitives() -> None:
    assert VERB["anrufen"].zu_infinitive == "anzurufen"
    assert VERB["mitbringen"].zu_infinitive == "mitzubringen"
    assert VERB["verkaufen"].zu_infinitive == "zu verkaufen"


@pytest.mark.parametrize(
    ("verb", "expected"),
    [("gehen", "goes"), ("kaufen", "buys"), ("haben", "has"), ("schließen", "closes"), ("mögen", "likes")],
)
def test_english_third_person(verb: str, expected: str) -> None:
    assert VERB[verb].english_third_person == expected


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (2, "two", "zwei"), (7, "seven", "sieben"), (12, "twelve", "zwölf"), (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"), (20, "twenty", "zwanzig"), (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"), (46, "forty-six", "sechsundvierzig"), (77, "seventy-seven", "siebenundsiebzig"),
    ],
)  # fmt: skip
def test_number_words(number: int, english: str, german: str) -> None:
    assert words.number_words(number) == (english, german)


def test_numbers_without_words_are_refused() -> None:
    with pytest.raises(ValueError, match="2 to 99"):
        words.number_words(100)


# --- Clauses ----------------------------------------------------------------------------------------------------------------------------

TEACHER = the("teacher")
ANNA = Name("Anna")
YESTERDAY, TODAY, TOMORROW = Text("yesterday", "gestern"), Text("today", "heute"), Text("tomorrow", "morgen")
READING = Clause(TEACHER, VERB["lesen"], "progressive", accusative=the("book"))
CALLING = Clause(ANNA, VERB["anrufen"], "progressive", accusative=the("student"))
HOME = Text("home", "nach Hause")


@pytest.mark.parametrize(
    ("clause", "english", "german"),
    [
        (READING, "The teacher is reading the book.", "Der Lehrer liest das Buch."),
        (replace(READING, time=TODAY), "The teacher is reading the book today.", "Der Lehrer liest heute das Buch."),
        (replace(READING, time=TODAY, front="time"),
         "Today the teacher is reading the book.", "Heute liest der Lehrer das Buch."),
        (replace(READING, tense="simple", frequency=Text("often", "oft")),
         "The teacher often reads the book.", "Der Lehrer liest oft das Buch."),
        (replace(READING, tense="past"), "The teacher read the book.", "Der Lehrer hat das Buch gelesen."),
        (replace(READING, tense="perfect", aspect=Text("already", "schon")),
         "The teacher has already read the book.", "Der Lehrer hat das Buch schon gelesen."),
        (replace(READING, tense="perfect", aspect=Text("yet", "noch"), is_negated=True),
         "The teacher hasn't read the book yet.", "Der Lehrer hat das Buch noch nicht gelesen."),
        (replace(READING, is_negated=True), "The teacher isn't reading the book.", "Der Lehrer liest das Buch nicht."),
        (replace(READING, is_negated=True, accusative=negated_object(with_determiner(words.A, "book"))),
         "The teacher isn't reading a book.", "Der Lehrer liest kein Buch."),
        (replace(READING, is_negated=True, accusative=negated_object(with_determiner(words.BARE, "book", plural=True))),
         "The teacher isn't reading any books.", "Der Lehrer liest keine Bücher."),
        (Clause(Pronoun(words.HE), VERB["trinken"], "past", is_negated=True,
                accusative=negated_object(with_determiner(words.BARE, "milk"))),
         "He didn't drink any milk.", "Er hat keine Milch getrunken."),
        (replace(READING, tense=words.CAN), "The teacher can read the book.", "Der Lehrer kann das Buch lesen."),
        (replace(READING, tense=words.CAN, is_negated=True),
         "The teacher can't read the book.", "Der Lehrer kann das Buch nicht lesen."),
        (replace(READING, tense=words.HAVE_TO), "The teacher has to read the book.", "Der Lehrer muss das Buch lesen."),
        (replace(READING, tense=words.HAVE_TO, is_negated=True),
         "The teacher doesn't have to read the book.", "Der Lehrer muss das Buch nicht lesen."),
        (replace(READING, tense=words.HAD_TO, time=YESTERDAY),
         "The teacher had to read the book yesterday.", "Der Lehrer musste gestern das Buch lesen."),
        (replace(READING, tense=words.WILL, time=TOMORROW),
         "The teacher will read the book tomorrow.", "Der Lehrer wird morgen das Buch lesen."),
        (replace(READING, tense=words.WOULD_LIKE),
         "The teacher would like to read the book.", "Der Lehrer möchte das Buch lesen."),
        (CALLING, "Anna is calling the student.", "Anna ruft den Studenten an."),
        (replace(CALLING, tense="past"), "Anna called the student.", "Anna hat den Studenten angerufen."),
        (replace(CALLING, tense=words.WANT_TO), "Anna wants to call the student.", "Anna will den Studenten anrufen."),
        (replace(CALLING, accusative=Pronoun(words.MYSELF), time=TODAY), "Anna is calling me today.", "Anna ruft mich heute an."),
        (Clause(Pronoun(words.WE), VERB["abholen"], "progressive", accusative=Pronoun(words.THEY)),
         "We are picking them up.", "Wir holen sie ab."),
        (Clause(Pronoun(words.WE), VERB["abholen"], "progressive", accusative=the("child", plural=True)),
         "We are picking up the children.", "Wir holen die Kinder ab."),
        (Clause(ANNA, VERB["gehen"], "past", tail=HOME), "Anna went home.", "Anna ist nach Hause gegangen."),
        (Clause(ANNA, VERB["gehen"], "past", tail=HOME, is_negated=True),
         "Anna didn't go home.", "Anna ist nicht nach Hause gegangen."),
        (Clause(ANNA, VERB["wohnen"], "since", time=Text("for three years", "seit drei Jahren"), tail=Text("in Vienna", "in Wien")),
         "Anna has lived in Vienna for three years.", "Anna wohnt seit drei Jahren in Wien."),
        (Clause(ANNA, VERB["geben"], "progressive", dative=the("boy"), accusative=with_determiner(words.A, "apple", "big")),
         "Anna is giving the boy a big apple.", "Anna gibt dem Jungen einen großen Apfel."),
        (Clause(ANNA, VERB["geben"], "past", dative=Pronoun(words.HE), accusative=with_determiner(words.A, "egg"), time=YESTERDAY),
         "Anna gave him an egg yesterday.", "Anna hat ihm gestern ein Ei gegeben."),
        (Clause(the("child", plural=True), VERB["helfen"], "progressive", dative=the("man", plural=True)),
         "The children are helping the men.", "Die Kinder helfen den Männern."),
        (Clause(the("book"), VERB["gehören"], "simple", dative=Pronoun(words.SHE)),
         "The book belongs to her.", "Das Buch gehört ihr."),
        (Clause(Pronoun(words.WE), words.BE, "past", tail=Text("tired", "müde"), is_negated=True),
         "We weren't tired.", "Wir waren nicht müde."),
        (Clause(Pronoun(words.THEY), words.HAVE, "past", accusative=with_determiner(words.A, "dog", "old")),
         "They had an old dog.", "Sie hatten einen alten Hund."),
        (Clause(replace(the("car", "new"), possessor=with_determiner(possessive(words.SHE), "brother")), words.BE, "simple",
                tail=Text("red", "rot")),
         "Her brother's new car is red.", "Das neue Auto ihres Bruders ist rot."),
    ],
)  # fmt: skip
def test_statements(clause: Clause, english: str, german: str) -> None:
    assert said(clause) == (english, german)


@pytest.mark.parametrize(
    ("clause", "word", "english", "german"),
    [
        (READING, ("", ""), "Is the teacher reading the book?", "Liest der Lehrer das Buch?"),
        (Clause(TEACHER, VERB["kennen"], "simple", accusative=Pronoun(words.SHE)), ("", ""),
         "Does the teacher know her?", "Kennt der Lehrer sie?"),
        (replace(CALLING, tense="past"), ("why", "warum"),
         "Why did Anna call the student?", "Warum hat Anna den Studenten angerufen?"),
        (CALLING, ("", ""), "Is Anna calling the student?", "Ruft Anna den Studenten an?"),
        (replace(CALLING, accusative=Gap()), ("whom", "wen"), "Whom is Anna calling?", "Wen ruft Anna an?"),
        (Clause(Pronoun(words.HE), VERB["helfen"], words.SHOULD, dative=Gap()), ("whom", "wem"),
         "Whom should he help?", "Wem sollte er helfen?"),
        (Clause(the("child", plural=True), VERB["gehen"], "progressive"), ("where", "wohin"),
         "Where are the children going?", "Wohin gehen die Kinder?"),
        (Clause(the("child"), VERB["schlafen"], "progressive"), ("where", "wo"),
         "Where is the child sleeping?", "Wo schläft das Kind?"),
        (Clause(Pronoun(words.YOU_POLITE), VERB["lesen"], "perfect", accusative=the("letter"), aspect=Text("already", "schon")),
         ("", ""), "Have you already read the letter?", "Haben Sie den Brief schon gelesen?"),
        (Clause(Pronoun(words.THEY), words.BE, "simple", is_negated=True, tail=Text("sick", "krank")), ("", ""),
         "Aren't they sick?", "Sind sie nicht krank?"),
    ],
)  # fmt: skip
def test_questions(clause: Clause, word: tuple[str, str], english: str, german: str) -> None:
    assert asked(clause, word) == (english, german)


@pytest.mark.parametrize(
    ("you", "german"),
    [
        (words.YOU_FRIEND, "ruf bitte den Arzt an"),
        (words.YOU_FRIENDS, "ruft bitte den Arzt an"),
        (words.YOU_POLITE, "rufen Sie bitte den Arzt an"),
    ],
)
def test_requests(you: words.Person, german: str) -> None:
    clause = Clause(Pronoun(you), VERB["anrufen"], "simple", accusative=the("doctor"), time=Text("", "bitte"))
    assert (english_imperative(clause), german_imperative(clause)) == ("please call the doctor", german)


@pytest.mark.parametrize(
    ("clause", "word", "german"),
    [
        (CALLING, "weil", "weil Anna den Studenten anruft"),
        (replace(CALLING, tense="past"), "dass", "dass Anna den Studenten angerufen hat"),
        (replace(CALLING, tense=words.WANT_TO), "ob", "ob Anna den Studenten anrufen will"),
        (replace(CALLING, is_negated=True, time=TODAY), "wenn", "wenn Anna heute den Studenten nicht anruft"),
        (Clause(ANNA, VERB["gehen"], "past", tail=HOME), "obwohl", "obwohl Anna nach Hause gegangen ist"),
        (Clause(ANNA, words.BE, "past", tail=Text("tired", "müde")), "weil", "weil Anna müde war"),
    ],
)
def test_the_verb_is_last_in_subordinate_clauses(clause: Clause, word: str, german: str) -> None:
    assert german_subordinate(clause, word) == german


def test_infinitive_clauses() -> None:
    assert (english_infinitive(CALLING), german_infinitive(CALLING)) == (
        "to call the student",
        "den Studenten anzurufen",
    )
    assert german_infinitive(READING) == "das Buch zu lesen"


@pytest.mark.parametrize(
    ("pronoun", "column", "case"),
    [
        ("der", "m", words.NOMINATIVE), ("den", "m", words.ACCUSATIVE), ("dem", "m", words.DATIVE), ("dessen", "m", words.GENITIVE),
        ("die", "f", words.ACCUSATIVE), ("der", "f", words.DATIVE), ("deren", "f", words.GENITIVE),
        ("das", "n", words.NOMINATIVE), ("dem", "n", words.DATIVE), ("dessen", "n", words.GENITIVE),
        ("die", "p", words.NOMINATIVE), ("denen", "p", words.DATIVE), ("deren", "p", words.GENITIVE),
    ],
)  # fmt: skip
def test_relative_pronouns(pronoun: str, column: words.Column, case: int) -> None:
    assert words.RELATIVE_PRONOUN[column][case] == pronoun


def test_relative_clause_has_commas_around_it_but_none_before_the_full_stop() -> None:
    man = replace(the("man"), relative=Text("whom Anna knows", "den Anna kennt"))
    tired = Clause(man, words.BE, "simple", tail=Text("tired", "müde"))
    assert said(tired) == ("The man whom Anna knows is tired.", "Der Mann, den Anna kennt, ist müde.")
    looking = Clause(TEACHER, VERB["suchen"], "progressive", accusative=man)
    assert said(looking) == (
        "The teacher is looking for the man whom Anna knows.",
        "Der Lehrer sucht den Mann, den Anna kennt.",
    )


@pytest.mark.parametrize(
    ("english", "german", "case", "phrase", "expected"),
    [
        ("in", "in", words.DATIVE, the("garden"), ("in the garden", "im Garten")),
        ("into", "in", words.ACCUSATIVE, the("garden"), ("into the garden", "in den Garten")),
        ("into", "in", words.ACCUSATIVE, the("room", "small"), ("into the small room", "ins kleine Zimmer")),
        ("in", "in", words.DATIVE, the("school"), ("in the school", "in der Schule")),
        ("to", "zu", words.DATIVE, the("school"), ("to the school", "zur Schule")),
        ("to", "zu", words.DATIVE, the("doctor"), ("to the doctor", "zum Arzt")),
        ("on", "auf", words.DATIVE, the("table"), ("on the table", "auf dem Tisch")),
        ("on", "auf", words.ACCUSATIVE, the("table"), ("on the table", "auf den Tisch")),
        ("with", "mit", words.DATIVE, the("child", plural=True), ("with the children", "mit den Kindern")),
        ("with", "mit", words.DATIVE, Pronoun(words.SHE), ("with her", "mit ihr")),
        ("for", "für", words.ACCUSATIVE, the("boy"), ("for the boy", "für den Jungen")),
        ("without", "ohne", words.ACCUSATIVE, Pronoun(words.HE), ("without him", "ohne ihn")),
    ],
)  # fmt: skip
def test_prepositions(english: str, german: str, case: int, phrase: Nominal, expected: tuple[str, str]) -> None:
    assert prepositional(english, german, case, phrase) == expected


# --- The corpus -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[tuple[str, str]]]:
    return {split: list(builtin_pairs(split)) for split in SPLITS}


def word_forms(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text)


def test_sizes_and_distinct_sentences(corpus: dict[str, list[tuple[str, str]]]) -> None:
    assert {split: len(pairs) for split, pairs in corpus.items()} == SIZES
    assert SIZES["train"] >= 20_000
    everything = [pair for pairs in corpus.values() for pair in pairs]
    assert len({english for english, _ in everything}) == len(everything)
    assert len({german for _, german in everything}) == len(everything)


def test_no_english_sentence_has_two_translations() -> None:
    """On the raw stream, before repetitions are dropped, where an ambiguity would show."""
    translation: dict[str, str] = {}
    stream = islice(sentences(seed=2), 25_000)
    differing = [pair for pair in stream if translation.setdefault(*pair) != pair[1]]
    assert differing == []


def test_every_held_out_word_is_known_from_training(corpus: dict[str, list[tuple[str, str]]]) -> None:
    for side in (0, 1):
        known = Counter(word for pair in corpus["train"] for word in word_forms(pair[side]))
        held_out = {word for split in SPLITS[1:] for pair in corpus[split] for word in word_forms(pair[side])}
        assert {word for word in held_out if known[word] < 3} == set()
        assert len(held_out) > 0.8 * len(known)


def test_sentences_are_well_formed(corpus: dict[str, list[tuple[str, str]]]) -> None:
    for english, german in (pair for pairs in corpus.values() for pair in pairs):
        for text in (english, german):
            assert text[0].isupper() or text[0].isdigit(), text
            assert re.fullmatch(r"[^.?!]+[.?!]", text), text
            assert not re.search(r" ,|,,|  |,[^ ]|,[.?!]", text), text
        assert english[-1] == german[-1]
        assert 2 <= len(english.split()) <= 30


def test_a_smaller_or_larger_size_is_the_same_stream(corpus: dict[str, list[tuple[str, str]]]) -> None:
    assert list(builtin_pairs("train", 10)) == corpus["train"][:10]
    assert list(builtin_pairs("validation", 0)) == []
    larger = list(builtin_pairs("validation", 600))
    assert larger[:500] == corpus["validation"]
    assert not {german for _, german in larger} & {german for _, german in corpus["train"]}


def test_the_corpus_does_not_depend_on_the_hash_seed(corpus: dict[str, list[tuple[str, str]]]) -> None:
    program = (
        "import hashlib; from vaswani_transformer.data.builtin.corpus import builtin_pairs\n"
        "pairs = [list(builtin_pairs(split)) for split in ('train', 'validation', 'test')]\n"
        "print(hashlib.sha256(repr(pairs).encode()).hexdigest())"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
        "PYTHONIOENCODING": "utf-8",
    }
    elsewhere = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == hashlib.sha256(repr([corpus[split] for split in SPLITS]).encode()).hexdigest()


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        (r"\bnicht\b", 500), (r"\bkein", 200), (r", (der|die|das|den|dem|denen|dessen|deren) ", 500), (r"\b(weil|obwohl|wenn)\b", 800),
        (r", (dass|ob)\b", 400), (r" (an|ein|ab|mit|auf)[.?!]$", 300), (r"\b(an|ein|ab|auf|mit)zu[a-z]+en[.?!]$", 20), (r"\bum .* zu ", 50),
        (r"\b[a-zü]+und(zwanzig|dreißig|vierzig|fünfzig)\b", 300), (r", (du|Sie|ihr)\b|\b(bist|Sind Sie|seid)\b", 50),
        (r"^(Wer|Wen|Wem|Was|Wann|Warum|Wo|Wohin|Welche)", 800), (r"[a-z]e?s neues? |Annas|Pauls", 50), (r"\bals (der|die|das)\b", 50),
        (r"\b(ihm|ihr|ihnen|mir|uns)\b", 500), (r"\bEs gibt|gibt es\b", 100), (r"\b(Studenten|Jungen|Nachbarn|Herrn)\b", 500),
    ],
)  # fmt: skip
def test_every_construction_is_frequent(corpus: dict[str, list[tuple[str, str]]], pattern: str, least: int) -> None:
    assert sum(bool(re.search(pattern, german)) for _, german in corpus["train"]) >= least


def test_unknown_split_and_impossible_size_are_refused() -> None:
    with pytest.raises(ValueError, match="train, validation, test"):
        builtin_pairs("dev")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be -1"):
        builtin_pairs("train", -1)
