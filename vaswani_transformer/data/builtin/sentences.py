"""The kinds of sentences in the built-in corpus: statements, questions, requests, relative and subordinate clauses and so on.

Each kind is a function that lets an `Author` choose what is said and returns the pair. English determines German: "you" is
always said to somebody ("Anna, are you tired?"), which settles du, ihr or Sie.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from .author import (
    ACTIONS_OF,
    ACTIONS_ON,
    DELIBERATE,
    FREQUENCIES,
    NAMES,
    PRESENT_MODALS,
    TITLED,
    WITH_COMPANY,
    WITH_DIRECTION,
    WITH_PLACE,
    Author,
    Dice,
)
from .grammar import (
    NOTHING,
    Clause,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Pronoun,
    Tense,
    Text,
    english_imperative,
    english_infinitive,
    english_question,
    english_statement,
    german_imperative,
    german_infinitive,
    german_inverted,
    german_statement,
    join,
    linked,
    negated_object,
    opening_comma,
    part,
    possessive,
    prepositional,
    sentence,
    subordinate,
)
from .lexicon import (
    ACCUSATIVE,
    ADJECTIVES_FOR,
    BARE,
    BE,
    CAN,
    COST,
    DATIVE,
    HAVE,
    HAVE_TO,
    HE,
    HOW_MANY,
    IT,
    MEN,
    MYSELF,
    NOMINATIVE,
    NOUNS_OF,
    SHE,
    SHOULD,
    STATES,
    THEY,
    VERB,
    WE,
    WHICH,
    WHOSE,
    WILL,
    WOMEN,
    YOU_FRIEND,
    YOU_FRIENDS,
    YOU_POLITE,
    A,
    Modal,
    Person,
    number_words,
)
from .marks import AlignedPair, inside, mark, marking, read

Pair = tuple[str, str]

_TIME_TO_SPARE, _NO_TIME = Text("time", "Zeit"), Text("no time", "keine Zeit")
_BECAUSE, _ALTHOUGH, _IF = Text("because", "weil"), Text("although", "obwohl"), Text("if", "wenn")
_THAT, _WHETHER = Text("that", "dass"), Text("whether", "ob")
_WEATHER = (
    ("it is raining", "es regnet", "0-0 1p1 2-1"),
    ("it is snowing", "es schneit", "0-0 1p1 2-1"),
    ("it is cold", "es kalt ist", "0-0 1-2 2-1"),
)
_REPORTING = ("wissen", "sagen", "hoffen", "glauben")
_OTHERS = (HE, SHE, WE, THEY)
"""Whom questions are about: one seldom asks what one does oneself."""

_PLEASE = Text("", "bitte")


def _pair(english: str, german: str, end: str = ".") -> Pair:
    end = mark(end, "end")
    return sentence(english, end), sentence(german, end)


def _said(clause: Clause) -> Pair:
    return _pair(english_statement(clause), german_statement(clause))


def _asked(clause: Clause, word: Text = NOTHING) -> Pair:
    word = part(word, "asked")
    return _pair(english_question(clause, word.english), german_inverted(clause, word.german), "?")


def statement(author: Author) -> Pair:
    """`Today the teacher is reading a book.`"""
    clause = author.clause()
    if clause.time.english and author.dice.chance(0.35):
        clause = replace(clause, front="time")
    elif clause.tail.english and "place" in clause.verb.frame and not clause.is_negated and author.dice.chance(0.25):
        clause = replace(clause, front="tail")
    return _said(clause)


def property_statement(author: Author) -> Pair:
    """`The red car is expensive.`"""
    return _said(author.state())


def question(author: Author) -> Pair:
    """`Does the teacher often read the newspaper?`"""
    author = Author(author.dice, _OTHERS)
    clause = author.clause() if author.dice.chance(0.75) else author.state()
    if clause.frequency.english == "never":
        clause = replace(clause, frequency=FREQUENCIES[0])
    return _asked(clause)


def word_question(author: Author) -> Pair:
    """`Why is Anna calling the doctor?`"""
    return author.dice.pick(_WORD_QUESTIONS)(Author(author.dice, _OTHERS))


def _when_or_why(author: Author) -> Pair:
    word = author.dice.pick((Text("when", "wann"), Text("why", "warum"), Text("why", "warum")))
    verb = author.dice.pick(ACTIONS_OF["person"] if word.english == "why" else DELIBERATE)
    tense: Tense = author.tense(verb)
    if word.english == "when" and not isinstance(tense, Modal):
        tense = "past"
    clause = author.clause(verb=verb, tense=tense, is_plain=True, may_deny=word.english == "why")
    return _asked(replace(clause, frequency=NOTHING, time=NOTHING) if word.english == "when" else clause, word)


def _where(author: Author) -> Pair:
    if author.dice.chance(0.4):
        clause = author.clause(verb=author.dice.pick(WITH_DIRECTION), may_deny=False)
        return _asked(replace(clause, tail=NOTHING), Text("where", "wohin"))
    clause = author.clause(verb=author.dice.pick((*WITH_PLACE, VERB["wohnen"], VERB["wohnen"], VERB["liegen"])), may_deny=False)
    return _asked(replace(clause, tail=NOTHING), Text("where", "wo"))


def _who(author: Author) -> Pair:
    clause = author.clause(subject=Gap(), verb=author.dice.pick(ACTIONS_OF["person"]), may_deny=False)
    if author.dice.chance(0.4):
        noun = author.dice.pick(NOUNS_OF["person"])
        plural = noun.is_plural_sensible and author.dice.chance(0.5)
        determiner = author.dice.pick((WHICH, HOW_MANY)) if plural else WHICH
        clause = replace(clause, subject=NounPhrase(noun, determiner, plural))
        return _pair(english_statement(clause), german_statement(clause), "?")
    word = part(Text("who", "wer"), "asked")
    return _pair(join(word.english, english_statement(clause)), german_inverted(clause, word.german), "?")


def _whom(author: Author) -> Pair:
    if author.dice.chance(0.25):
        clause = author.clause(verb=author.dice.pick(WITH_COMPANY), may_deny=False)
        return _asked(replace(clause, company=NOTHING), Text("with whom", "mit wem"))
    verb = author.dice.pick(ACTIONS_ON[NOUNS_OF["person"][0]])
    if "dat" in verb.frame:
        return _asked(author.clause(verb=verb, gap="dative", may_deny=False), Text("whom", "wem"))
    return _asked(author.clause(verb=verb, gap="accusative", may_deny=False), Text("whom", "wen"))


def _what(author: Author) -> Pair:
    """For an object that is no person: what, which, how many, whose."""
    noun = author.dice.pick(NOUNS_OF[author.dice.pick(("goods", "food", "drink", "flat"))])
    clause = author.clause(verb=author.dice.pick(ACTIONS_ON[noun]), gap="accusative", may_deny=False)
    if author.dice.chance(0.35):
        return _asked(clause, Text("what", "was"))
    plural = not noun.is_mass and author.dice.chance(0.5)
    determiner = author.dice.pick((WHICH, WHOSE, HOW_MANY) if plural else (WHICH, WHOSE))
    phrase = NounPhrase(noun, determiner, plural)
    return _asked(clause, Text(phrase.english(), phrase.german(ACCUSATIVE)))


def _how(author: Author) -> Pair:
    if author.dice.chance(0.5):
        return _asked(Clause(author.subject("person", is_denied=True), BE, "simple"), Text("how old", "wie alt"))
    return _asked(Clause(author.subject("goods"), COST, "simple"), Text("how much", "wie viel"))


_WORD_QUESTIONS = (_when_or_why, _when_or_why, _where, _where, _who, _who, _whom, _what, _what, _how)

_TAKES_DESCRIBED = ("kaufen", "verkaufen", "suchen", "sehen", "reparieren", "lieben", "kennen", "mögen", "helfen")  # fmt: skip
"""Verbs after whose object nothing follows in German, so that its relative clause can end the sentence."""


def relative_sentence(author: Author) -> Pair:
    """`The man whom Anna is calling is tired.`, `I know the man whose car is red.`"""
    if author.dice.chance(0.5):
        if author.dice.chance(0.5):
            return _said(author.state(subject=author.described("person,goods,animal")))
        return _said(author.clause(subject=author.described("person"), verb=author.dice.pick(ACTIONS_OF["person"]), is_plain=True))
    verb = VERB[author.dice.pick(_TAKES_DESCRIBED)]
    tense: Tense = "simple" if "simple" in verb.frame else "progressive"
    clause = Clause(author.subject("person"), verb, tense)
    if "dat" in verb.frame:
        return _said(replace(clause, dative=author.described("person")))
    return _said(replace(clause, accusative=author.described(verb.frame["acc"].split(",")[0])))


def _reason(author: Author, subject: Nominal | None) -> Clause:
    """What stands after because and although; `subject` is the pronoun that takes up the other clause's subject, if any."""
    if subject is None:
        return author.clause(is_plain=True)
    roll = author.dice.number(1, 10)
    if roll <= 5:
        return author.state(subject=subject, is_plain=True)
    if roll <= 7:
        return Clause(subject, HAVE, "simple", tail=author.dice.pick((_TIME_TO_SPARE, _NO_TIME)))
    return author.clause(subject=subject, verb=author.dice.pick(ACTIONS_OF["person"]), is_plain=True)


def _main_first(main: Clause, subclause: Text) -> Pair:
    comma = inside(opening_comma(), "subclause")
    english, german = part(subclause, "subclause")
    return _pair(join(english_statement(main), english), join(german_statement(main) + comma, german))


def _main_last(subclause: Text, main: Clause) -> Pair:
    """The subordinate clause stands where the subject would, so German inverts what follows it."""
    comma = mark(",", "comma")
    english, german = part(subclause, "subclause")
    return _pair(join(english + comma, english_statement(main)), join(german + comma, german_inverted(main)))


def _weather(conjunction: Text, author: Author) -> Text:
    weather = part(linked(*author.dice.pick(_WEATHER)), "weather")
    word = part(conjunction, "opening")
    return Text(join(word.english, weather.english), join(word.german, weather.german))


def reason_sentence(author: Author) -> Pair:
    """`The doctor is working although he is sick.`, `Because Anna is tired, she can't work.`: the noun first, then the pronoun."""
    conjunction = author.dice.pick((_BECAUSE, _BECAUSE, _ALTHOUGH))
    roll = author.dice.number(1, 100)
    if roll <= 12:
        return _main_first(author.clause(is_plain=True), _weather(conjunction, author))
    if roll <= 60:
        main = author.clause(is_plain=True)
        return _main_first(main, subordinate(conjunction, _reason(author, author.resumed(main.subject))))
    reason = _reason(author, author.subject("person", is_denied=True))
    verb = author.dice.pick(ACTIONS_OF["person"])
    main = author.clause(subject=author.resumed(reason.subject), verb=verb, is_plain=True)
    return _main_last(subordinate(conjunction, reason), main)


def condition_sentence(author: Author) -> Pair:
    """`If Anna has time, she will help the child.`"""
    subject = author.subject("person", is_denied=True)
    main = author.clause(
        subject=author.resumed(subject),
        verb=author.dice.pick(DELIBERATE),
        tense=author.dice.pick((WILL, CAN, HAVE_TO, SHOULD)),
        is_plain=True,
    )
    roll = author.dice.number(1, 100)
    if roll <= 12:
        return _main_first(main, _weather(_IF, author))
    if roll <= 25:
        return _main_last(_weather(_IF, author), main)
    if roll <= 60:
        condition = Clause(subject, HAVE, "simple", tail=author.dice.pick((_TIME_TO_SPARE, _NO_TIME)))
    else:
        condition = Clause(subject, BE, "simple", tail=Text(*author.dice.pick(STATES)))
    return _main_last(subordinate(_IF, condition), main)


def reported_sentence(author: Author) -> Pair:
    """`Anna says that the teacher has already called her.`, `We don't know whether he is coming.`"""
    content = author.clause(is_plain=True) if author.dice.chance(0.75) else author.state(is_plain=True)
    if author.dice.chance(0.7):
        reporter = Clause(author.subject("person"), VERB[author.dice.pick(_REPORTING)], "simple")
        return _main_first(reporter, subordinate(_THAT, content))
    reporter = Clause(author.subject("person", is_denied=True), VERB["wissen"], "simple", is_negated=True)
    return _main_first(reporter, subordinate(_WHETHER, content))


def infinitive_sentence(author: Author) -> Pair:
    """`The boy is trying to open the window.`, `Anna is going home in order to sleep.`"""
    subject = author.subject("person")
    goal = author.clause(subject=subject, verb=author.dice.pick(DELIBERATE), tense="progressive", is_plain=True, may_deny=False)
    goal = replace(goal, time=NOTHING)
    english, german = part(Text(english_infinitive(goal), german_infinitive(goal)), "goal")
    roll = author.dice.number(1, 10)
    if roll <= 4:
        main = author.clause(subject=subject, verb=author.dice.pick(WITH_DIRECTION), is_plain=True, may_deny=False)
        in_order = linked("in order", ", um", "0p0 0-1 1p1")
        return _pair(join(english_statement(main), in_order.english, english), join(german_statement(main) + in_order.german, german))
    if roll <= 6:
        main = Clause(subject, HAVE, "simple", tail=author.dice.pick((_TIME_TO_SPARE, _NO_TIME)))
    elif roll <= 8:
        main = Clause(subject, VERB["versuchen"], "progressive" if author.dice.chance(0.6) else "past")
    else:
        main = Clause(subject, VERB["hoffen"], "simple")
    return _pair(join(english_statement(main), english), join(german_statement(main) + mark(",", "?goal.to"), german))


def comparison(author: Author) -> Pair:
    """`The red car is bigger than the bicycle.`, `... as big as ...`"""
    kind = author.dice.pick(("person", "goods", "animal", "place"))
    first, second = author.phrase(kind, adjective=0.1), author.phrase(kind, adjective=0.1)
    adjective = author.dice.pick([a for a in ADJECTIVES_FOR[first.noun] if a.english_comparative and a in ADJECTIVES_FOR[second.noun]])
    if author.dice.chance(0.65):
        words = f"{adjective.english_comparative} than", f"{adjective.german_comparative} als"
        degree = linked(*words, "0p0 1-0 2-1" if " " in adjective.english_comparative else "0-0 1-1")
    else:
        degree = linked(f"as {adjective.english} as", f"so {adjective.german} wie", "0-0 1-1 2-2")
    other = part(Text(second.english(), second.german(NOMINATIVE)), "other")
    tail = Text(join(degree.english, other.english), join(degree.german, other.german))
    return _said(Clause(first, BE, "simple", is_negated=author.dice.chance(0.2), tail=tail))


def number_sentence(author: Author) -> Pair:
    """Age, price or quantity, in words or (prices) in digits."""
    number = author.dice.number(2, 59)
    english, german = number_words(number)
    roll = author.dice.number(1, 4)
    if roll == 1:
        tail = Text(f"{english} years old", f"{german} Jahre alt")
        return _said(Clause(author.subject("person"), BE, "simple", tail=tail))
    if roll == 2:
        subject = author.phrase("goods") if author.dice.chance(0.7) else author.owned("goods")
        return _said(Clause(subject, COST, "simple", tail=Text(f"{english} euros", f"{german} Euro")))
    if roll == 3:
        digits = str(5 * author.dice.number(2, 12))
        return _said(Clause(author.phrase("goods"), COST, "simple", tail=Text(f"{digits} euros", f"{digits} Euro")))
    phrase = author.counted("goods,animal,food,flat", most=59)
    tense: Tense = author.dice.pick(("simple", "past"))
    return _said(Clause(author.subject("person"), HAVE, tense, accusative=phrase))


def existence(author: Author) -> Pair:
    """`In the garden there is a big table.`: German says es gibt, with the accusative."""
    place, kinds = prepositional("in", "in", DATIVE, author.phrase("place", plural=0.0)), "goods,animal"
    if author.dice.chance(0.3):
        place, kinds = author.in_city(), "building,animal"
    phrase = author.counted(kinds) if author.dice.chance(0.3) else author.phrase(kinds, indefinite=1.0)
    is_denied = phrase.determiner in (A, BARE) and author.dice.chance(0.25)
    denied = negated_object(phrase) if is_denied else phrase
    there = linked("there are" if phrase.plural else "there is", "gibt es", "0p0 0p1 1-0")
    place, there, thing = part(place, "place"), part(there, "there"), part(Text(denied.english(), denied.german(ACCUSATIVE)), "thing")
    denial = mark("n't", "thing.negation") if is_denied else ""
    return _pair(join(place.english, there.english + denial, thing.english), join(place.german, there.german, thing.german))


def thing_taken_up(author: Author) -> Pair:
    """`The table is new, but it is too small.`: `it` has the gender of the German noun."""
    thing = author.phrase("goods", adjective=0.15)
    pronoun = Pronoun(THEY if thing.plural else IT[thing.noun.gender])
    is_denied = author.dice.chance(0.15)
    second = Clause(pronoun, BE, "simple", is_negated=is_denied, tail=author.property(thing, too=0.35))
    if author.dice.chance(0.4):
        first = Clause(thing, BE, "simple", tail=author.property(thing))
        while first.tail.english == second.tail.english.removeprefix("too "):
            first = replace(first, tail=author.property(thing))
        return _coordinated(first, Text(", but", ", aber"), second)
    verb = author.dice.pick([verb for verb in ACTIONS_ON[thing.noun] if "person" in verb.frame["subject"]])
    first = author.clause(verb=verb, gap="accusative", is_plain=True, may_deny=False)
    conjunction = author.dice.pick((_BECAUSE, _ALTHOUGH))
    return _main_first(replace(first, accusative=thing), subordinate(conjunction, second))


def _coordinated(first: Clause, conjunction: Text, second: Clause) -> Pair:
    english, german = part(conjunction, "conjunction")
    second_english, second_german = part(Text(english_statement(second), german_statement(second)), "second")
    return _pair(
        english_statement(first) + join(english, second_english),
        german_statement(first) + join(german, second_german),
    )


def two_clauses(author: Author) -> Pair:
    """`Anna is working and Paul is sleeping.`"""
    conjunction = author.dice.pick((Text(" and", " und"), Text(", but", ", aber")))
    return _coordinated(author.clause(is_plain=True), conjunction, author.clause(is_plain=True))


def _addressed(dice: Dice) -> tuple[Text, Person, tuple[Name, ...]]:
    """Somebody to speak to: the vocative, the pronoun it settles, and who may still be named."""
    roll = dice.number(1, 4)
    if roll <= 2:
        name = dice.pick(NAMES)
        return Text(name.name, name.name), YOU_FRIEND, tuple(other for other in NAMES if other is not name)
    if roll == 3:
        name = dice.pick(TITLED)
        return Text(name.english(), name.german(NOMINATIVE)), YOU_POLITE, NAMES
    if dice.chance(0.4):
        return Text("children", "Kinder"), YOU_FRIENDS, NAMES
    woman, man = dice.pick(WOMEN), dice.pick(MEN)
    names = tuple(other for other in NAMES if other.name not in (woman, man))
    return Text(f"{woman} and {man}", f"{woman} und {man}"), YOU_FRIENDS, names


def address(author: Author) -> Pair:
    """`Mr Weber, have you already read the book?`"""
    vocative, you, names = _addressed(author.dice)
    author = Author(author.dice, (you, you, MYSELF), names)
    english, german, end = author.dice.pick(_SPEECHES)(author, Pronoun(you))
    vocative, speech, comma = part(vocative, "vocative"), part(Text(english, german), "speech"), mark(",", "comma")
    return _pair(f"{vocative.english}{comma} {speech.english}", f"{vocative.german}{comma} {speech.german}", end)


Speech = tuple[str, str, str]


def _request(author: Author, you: Pronoun) -> Speech:
    clause = author.clause(subject=you, verb=author.dice.pick(DELIBERATE), tense="progressive", is_plain=True, may_deny=False)
    clause = replace(clause, time=_PLEASE)
    return english_imperative(clause), german_imperative(clause), "!"


def _doing_of(author: Author, you: Pronoun) -> Clause:
    verb = author.dice.pick(ACTIONS_OF["person"])
    tense: Tense = "simple"
    if "simple" not in verb.frame:
        tense = author.dice.pick(("progressive", "progressive", "progressive", "progressive", "past", "perfect", *PRESENT_MODALS))
    return author.clause(subject=you, verb=verb, tense=tense, is_plain=True)


def _question_to(author: Author, you: Pronoun) -> Speech:
    clause = _doing_of(author, you)
    if clause.frequency.english == "never":
        clause = replace(clause, frequency=FREQUENCIES[0])
    word = author.dice.pick((NOTHING, NOTHING, Text("why", "warum")))
    word = part(word, "asked")
    return english_question(clause, word.english), german_inverted(clause, word.german), "?"


def _state_of(author: Author, you: Pronoun) -> Speech:
    subject = you if author.dice.chance(0.6) else replace(author.phrase("person,goods"), determiner=possessive(you.person))
    clause = author.state(subject=subject, tense="simple", is_plain=True)
    return english_question(clause), german_inverted(clause), "?"


def _statement_to(author: Author, you: Pronoun) -> Speech:
    clause = _doing_of(author, you)
    return english_statement(clause), german_statement(clause), "."


def _done_to(author: Author, you: Pronoun) -> Speech:
    verb = author.dice.pick(ACTIONS_ON[NOUNS_OF["person"][0]])
    gap: Literal["dative", "accusative"] = "dative" if "dat" in verb.frame else "accusative"
    subjects: tuple[Nominal, ...] = (
        *(Pronoun(MYSELF), Pronoun(WE)),
        *(author.phrase("person"), author.dice.pick(author.names)),
    )
    is_personal = "person" in verb.frame["subject"]
    clause = author.clause(subject=author.dice.pick(subjects) if is_personal else None, verb=verb, gap=gap, is_plain=True)
    clause = replace(clause, dative=you) if gap == "dative" else replace(clause, accusative=you)
    return english_statement(clause), german_statement(clause), "."


_SPEECHES = (_request, _request, _question_to, _question_to, _state_of, _statement_to, _done_to)

_KINDS: tuple[tuple[Callable[[Author], Pair], int], ...] = (
    (statement, 23), (property_statement, 5), (question, 14), (word_question, 12), (relative_sentence, 9), (reason_sentence, 6),
    (condition_sentence, 4), (reported_sentence, 6), (infinitive_sentence, 4), (comparison, 3), (number_sentence, 7), (existence, 2),
    (thing_taken_up, 4), (two_clauses, 2), (address, 24),
)  # fmt: skip
"""Each kind of sentence, and how many of about 120 are of it."""
_ALL_KINDS = [kind for kind, weight in _KINDS for _ in range(weight)]


def sentences(seed: int) -> Iterator[Pair]:
    """An endless stream of sentence pairs, English and German, in which pairs may come again."""
    author = Author(Dice(seed))
    while True:
        yield author.dice.pick(_ALL_KINDS)(author)


def aligned_sentences(seed: int) -> Iterator[AlignedPair]:
    """The same stream, each pair with its true word alignment."""
    author = Author(Dice(seed))
    while True:
        with marking():
            pair = author.dice.pick(_ALL_KINDS)(author)
        yield read(*pair)
