"""The author of the built-in corpus: chooses at random words that fit together and makes clauses of them, which `builtin_grammar` can say.

Wherever German leaves a choice (word order, tense, which past), one fixed rule makes it, so that English determines German.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

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
    linked,
    negated_object,
    possessive,
    prepositional,
    subordinate,
)
from .lexicon import (
    ACCUSATIVE,
    ADJECTIVES_FOR,
    BARE,
    BE,
    CAN,
    CITIES,
    COULD,
    DATIVE,
    EVERY,
    FAMILIES,
    GENITIVE,
    HAD_TO,
    HAVE_TO,
    HE,
    MEN,
    MYSELF,
    NOMINATIVE,
    NOUNS_OF,
    RELATIVE_PRONOUN,
    SHE,
    SHOULD,
    STATES,
    THE,
    THEY,
    THIS,
    VERB,
    VERBS,
    WANT_TO,
    WANTED_TO,
    WE,
    WILL,
    WOMEN,
    WOULD_LIKE,
    A,
    Determiner,
    Noun,
    Person,
    Verb,
    number_words,
)

T = TypeVar("T")


class Dice:
    """Seeded choices that stay the same on every version of Python: only `random.Random.random` promises that."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def number(self, first: int, last: int) -> int:
        return first + int(self._random() * (last + 1 - first))


# --- What there is to choose from ---------------------------------------------------------------------------------------------------------

PEOPLE = (MYSELF, MYSELF, HE, SHE, WE, THEY)
NAMES = tuple(Name(name) for name in (*MEN, *WOMEN))
TITLED = tuple(Name(family, title) for family in FAMILIES for title in ("Mr", "Mrs"))
_NUMERALS = {n: Determiner(number_words(n)[0], number_words(n)[0], number_words(n)[1], "fixed") for n in range(2, 100)}

_ACTIONS = tuple(verb for verb in VERBS if "special" not in verb.frame)
ACTIONS_OF = {
    kind: tuple(verb for verb in _ACTIONS if kind in verb.frame["subject"].split(",")) for kind in ("person", "animal", "flat", "goods")
}
DELIBERATE = tuple(verb for verb in ACTIONS_OF["person"] if "simple" not in verb.frame and verb is not VERB["ankommen"])
"""What one may ask somebody to do, or try to do."""
WITH_COMPANY = tuple(verb for verb in _ACTIONS if "company" in verb.frame and "tail" not in verb.frame)
WITH_PLACE = tuple(verb for verb in _ACTIONS if "place" in verb.frame)
WITH_DIRECTION = tuple(verb for verb in _ACTIONS if verb.frame.get("tail") == "direction")
_LASTING = (VERB["wohnen"], VERB["arbeiten"], VERB["warten"], VERB["schlafen"])


def _verbs_with_object(kinds: frozenset[str]) -> tuple[Verb, ...]:
    """The verbs that have one object, which may be of these kinds."""
    one_object = (verb for verb in _ACTIONS if ("acc" in verb.frame) != ("dat" in verb.frame) and verb.frame.get("tail") is None)
    return tuple(verb for verb in one_object if kinds & set(verb.frame.get("acc", verb.frame.get("dat", "")).split(",")))


ACTIONS_ON = {noun: _verbs_with_object(noun.kinds) for nouns in NOUNS_OF.values() for noun in nouns}

FREQUENCIES = (
    Text("often", "oft"),
    Text("always", "immer"),
    Text("sometimes", "manchmal"),
    Text("never", "nie"),
)
_ALREADY, _YET = Text("already", "schon"), Text("yet", "noch")
_WEEKDAYS = (Text("on Monday", "am Montag"), Text("on Friday", "am Freitag"), Text("on Sunday", "am Sonntag"))
_NOW = (Text("now", "jetzt"), Text("today", "heute"))
_HABITUAL = (
    Text("every day", "jeden Tag"),
    Text("every week", "jede Woche"),
    Text("every year", "jedes Jahr"),
)
_BEFORE = (
    Text("yesterday", "gestern"),
    Text("last week", "letzte Woche"),
    Text("last year", "letztes Jahr"),
    *_WEEKDAYS,
)
_LATER = (Text("tomorrow", "morgen"), Text("next week", "nächste Woche"), Text("today", "heute"), *_WEEKDAYS)
_AGO = (("days", "Tagen"), ("weeks", "Wochen"), ("years", "Jahren"))

_AT_HOME = Text("at home", "zu Hause")


def _at_the_station() -> Text:
    return linked("at the station", "am Bahnhof", "0-0 1-0 2-1")


_MANNERS = (Text("fast", "schnell"), Text("slowly", "langsam"))

PRESENT_MODALS = (WILL, WILL, CAN, HAVE_TO, WANT_TO, SHOULD, WOULD_LIKE)
_PAST_MODALS = (COULD, HAD_TO, WANTED_TO)


class Author:
    """Chooses at random words that fit together.

    `people` are those whom pronouns and possessives may mean, `names` those who may be named.
    """

    def __init__(self, dice: Dice, people: Sequence[Person] = PEOPLE, names: Sequence[Name] = NAMES) -> None:
        self.dice = dice
        self.people = people
        self.names = names

    # --- noun phrases

    def definite(self, noun: Noun) -> Determiner:
        roll = self.dice.number(1, 10)
        if roll <= 6 or (roll <= 9 and noun.kinds & {"place", "goal", "unowned"}):
            return THE
        return possessive(self.dice.pick(self.people)) if roll <= 9 else THIS

    def phrase(self, kinds: str, *, indefinite: float = 0.0, adjective: float = 0.25, plural: float = 0.25) -> NounPhrase:
        """A noun of one of the `kinds`; the three numbers are probabilities."""
        noun = self.dice.pick(NOUNS_OF[self.dice.pick(kinds.split(","))])
        is_plural = noun.is_plural_sensible and self.dice.chance(plural)
        modifier = self.dice.pick(ADJECTIVES_FOR[noun]) if self.dice.chance(adjective) else None
        if self.dice.chance(indefinite):
            return NounPhrase(noun, BARE if is_plural or noun.is_mass else A, is_plural, modifier)
        return NounPhrase(noun, self.definite(noun), is_plural, modifier)

    def counted(self, kinds: str, most: int = 6) -> NounPhrase:
        """`three old books`"""
        noun = self.dice.pick([noun for noun in NOUNS_OF[self.dice.pick(kinds.split(","))] if noun.is_plural_sensible])
        modifier = self.dice.pick(ADJECTIVES_FOR[noun]) if self.dice.chance(0.2) else None
        return NounPhrase(noun, _NUMERALS[self.dice.number(2, most)], True, modifier)

    def owned(self, kinds: str) -> NounPhrase:
        """`the teacher's new book`, `Anna's new book`"""
        phrase = self.phrase(kinds, adjective=0.35, plural=0.2)
        if self.dice.chance(0.4):
            name = self.dice.pick(self.names).name
            return replace(phrase, determiner=Determiner(f"{name}'s", f"{name}'s", f"{name}s", "fixed"))
        return replace(phrase, determiner=THE, possessor=Author(self.dice).phrase("person", adjective=0.1, plural=0.0))

    def subject(self, kinds: str, is_denied: bool = False) -> Nominal:
        kind = self.dice.pick(kinds.split(","))
        roll = self.dice.number(1, 100)
        if kind == "person" and roll <= 40:
            return Pronoun(self.dice.pick(self.people)) if roll <= 25 else self.dice.pick(self.names)
        if kind == "person" and roll <= 45 and not is_denied:
            return NounPhrase(self.dice.pick(NOUNS_OF[kind]), EVERY)
        if roll <= 50 and not is_denied:
            return self.counted(kind)
        if roll <= 60 and kind in ("flat", "goods"):
            return self.owned(kind)
        return self.phrase(kind)

    def object(self, kinds: str, subject: Nominal, is_denied: bool = False) -> Nominal:
        kind = self.dice.pick(kinds.split(","))
        roll = self.dice.number(1, 100)
        if kind == "person" and roll <= 35:
            return self.other_person(subject) if roll <= 25 else self.other_name(subject)
        if kind == "person":
            return self.phrase(kind)
        if roll <= 8 and kind != "drink" and not is_denied:
            return self.counted(kind)
        if roll <= 14 and kind in ("goods", "flat"):
            return self.owned(kind)
        return self.phrase(kind, indefinite=0.5)

    def other_person(self, subject: Nominal) -> Pronoun:
        """A pronoun for somebody else than the subject: not `I see me`, `we see me`, `he sees him`."""
        people = (HE, SHE, THEY) if subject.agreement in (0, 3) else (MYSELF, HE, SHE, WE, THEY)
        same = subject.person if isinstance(subject, Pronoun) else None
        return Pronoun(self.dice.pick([person for person in people if person is not same]))

    def other_name(self, subject: Nominal) -> Name:
        return self.dice.pick([name for name in (*self.names, *TITLED[:2]) if name is not subject])

    # --- adverbials

    def in_city(self) -> Text:
        english, german = self.dice.pick(CITIES)
        return Text(f"in {english}", f"in {german}")

    def place(self) -> Text:
        roll = self.dice.number(1, 10)
        if roll <= 4:
            return (self.in_city(), self.in_city(), _AT_HOME, _at_the_station())[roll - 1]
        return prepositional("in", "in", DATIVE, self.phrase("place", adjective=0.2, plural=0.0))

    def home(self) -> Text:
        if self.dice.chance(0.5):
            return self.in_city()
        return prepositional("in", "in", DATIVE, self.phrase("building", plural=0.0, indefinite=0.3))

    def arrival(self) -> Text:
        return self.dice.pick((self.in_city(), _AT_HOME, _at_the_station()))

    def direction(self) -> Text:
        roll = self.dice.number(1, 10)
        if roll == 1:
            return linked("home", "nach Hause", "0p0 0-1")
        if roll <= 3:
            english, german = self.dice.pick(CITIES)
            return Text(f"to {english}", f"nach {german}")
        if roll <= 6:
            return prepositional("to", "zu", DATIVE, self.phrase("goal,job", adjective=0.15, plural=0.0))
        return prepositional("into", "in", ACCUSATIVE, self.phrase("place", adjective=0.15, plural=0.0))

    def origin(self) -> Text:
        if self.dice.chance(0.3):
            english, german = self.dice.pick(CITIES)
            return Text(f"from {english}", f"aus {german}")
        return prepositional("out of", "aus", DATIVE, self.phrase("place", adjective=0.15, plural=0.0))

    def _spot(self, case: int, inside: str) -> Text:
        english, german, kinds = self.dice.pick(
            (
                ("on", "auf", "surface"),
                ("under", "unter", "surface"),
                (inside, "in", "container,place"),
                ("next to", "neben", "goods"),
                ("behind", "hinter", "opening"),
            )
        )
        return prepositional(english, german, case, self.phrase(kinds, adjective=0.15, plural=0.0))

    def spot(self) -> Text:
        return self._spot(DATIVE, "in")

    def put(self) -> Text:
        return self._spot(ACCUSATIVE, "into")

    def wait(self) -> Text:
        return prepositional("for", "auf", ACCUSATIVE, self.phrase("person", adjective=0.15))

    def tail(self, verb: Verb, subject: Nominal, is_plain: bool) -> Text:
        """What the verb needs besides objects, or may have."""
        if needed := verb.frame.get("tail"):
            choices: dict[str, Callable[[], Text]] = {
                "arrival": self.arrival, "direction": self.direction, "home": self.home, "origin": self.origin, "put": self.put,
                "spot": self.spot, "wait": self.wait,
            }  # fmt: skip
            return choices[needed]()
        if "for" in verb.frame and self.dice.chance(0.15 if is_plain else 0.3):
            return prepositional("for", "für", ACCUSATIVE, self.object("person", subject))
        if "place" in verb.frame and self.dice.chance(0.15 if is_plain else 0.35):
            return self.place()
        return NOTHING

    def company(self, subject: Nominal) -> Text:
        if self.dice.chance(0.7):
            companion = self.object("person", subject) if self.dice.chance(0.6) else self.phrase("animal")
            return prepositional("with", "mit", DATIVE, companion)
        return prepositional("without", "ohne", ACCUSATIVE, self.object("person", subject))

    def clock(self) -> Text:
        english, german = number_words(self.dice.number(2, 12))
        if self.dice.chance(0.3):
            hour = self.dice.number(2, 11)
            words = f"at half past {number_words(hour)[0]}", f"um halb {number_words(hour + 1)[1]}"
            return linked(*words, "0-0 1-1 2p1 2p2 3p2")
        return Text(f"at {english} o'clock", f"um {german} Uhr")

    def past_time(self) -> Text:
        roll = self.dice.number(1, 10)
        if roll <= 6:
            return self.dice.pick(_BEFORE)
        if roll == 7:
            return self.clock()
        if roll == 8:
            year = self.dice.number(2001, 2012)
            return linked(f"in {year}", f"{year}", "0p0 1-0")
        english, german = self.dice.pick(_AGO)
        number = number_words(self.dice.number(2, 6))
        return linked(f"{number[0]} {english} ago", f"vor {number[1]} {german}", "0-1 1-2 2-0")

    def timing(self, verb: Verb, tense: Tense, is_denied: bool, is_plain: bool) -> tuple[Text, Text, Text]:
        """Frequency, aspect and time that go with the tense. English has the simple present of an action only with a habit."""
        has_time = self.dice.chance(0.15 if is_plain else 0.5)
        if tense == "since":
            english, german = self.dice.pick(_AGO)
            number = number_words(self.dice.number(2, 6))
            return NOTHING, NOTHING, Text(f"for {number[0]} {english}", f"seit {number[1]} {german}")
        if tense == "perfect":
            return NOTHING, _YET if is_denied else _ALREADY, NOTHING
        if tense == "simple":
            may_recur = has_time and not is_denied and not verb.frame.keys() & {"timeless", "constant"}
            is_habit = "simple" not in verb.frame or may_recur
            if is_habit and self.dice.chance(0.35):
                return NOTHING, NOTHING, self.dice.pick(_HABITUAL)
            return (self.dice.pick(FREQUENCIES) if is_habit else NOTHING), NOTHING, NOTHING
        if not has_time:
            return NOTHING, NOTHING, NOTHING
        if tense == "progressive":
            return NOTHING, NOTHING, self.dice.pick(_NOW)
        if tense == "past" or tense in _PAST_MODALS:
            return NOTHING, NOTHING, self.past_time()
        return NOTHING, NOTHING, self.clock() if self.dice.chance(0.2) else self.dice.pick(_LATER)

    # --- clauses

    def tense(self, verb: Verb) -> Tense:
        roll = self.dice.number(1, 100)
        if verb in _LASTING and roll <= 20:
            return "since"
        if "timeless" in verb.frame:
            return "simple"
        if "person" not in verb.frame["subject"]:
            return "progressive" if roll <= 60 else "past"
        if "simple" in verb.frame:
            return "simple" if roll <= 50 else "past" if roll <= 75 else self.dice.pick(PRESENT_MODALS)
        if roll <= 50:
            return "progressive" if roll <= 34 else "simple"
        if roll <= 75:
            return "past" if roll <= 66 else "perfect"
        return self.dice.pick(PRESENT_MODALS if roll <= 92 else _PAST_MODALS)

    def clause(
        self,
        *,
        subject: Nominal | None = None,
        verb: Verb | None = None,
        tense: Tense | None = None,
        gap: Literal["", "dative", "accusative"] = "",
        is_plain: bool = False,
        may_deny: bool = True,
    ) -> Clause:
        """Somebody does something; what is given is kept.

        Args:
            gap: the object that a question word or a relative pronoun stands for.
            is_plain: fewer adverbials, for a part of a longer sentence.
        """
        verb = verb or self.dice.pick(_ACTIONS)
        tense = tense or self.tense(verb)
        can_deny = may_deny and tense != "since" and not (tense == "simple" and "simple" not in verb.frame)
        is_denied = can_deny and self.dice.chance(0.18)
        subject = subject or self.subject(verb.frame["subject"], is_denied)
        frequency, aspect, time = self.timing(verb, tense, is_denied, is_plain)
        manner = self.dice.pick(_MANNERS) if "manner" in verb.frame and self.dice.chance(0.25) else NOTHING
        dative = accusative = None
        if "dat" in verb.frame:
            dative = Gap() if gap == "dative" else self.object(verb.frame["dat"], subject)
        if "acc" in verb.frame:
            accusative = Gap() if gap == "accusative" else self.object(verb.frame["acc"], subject, is_denied or tense == "perfect")
            if "dat" in verb.frame and isinstance(accusative, Pronoun | Name):
                accusative = self.phrase("gift")
        has_company = "company" in verb.frame and self.dice.chance(0.1 if is_plain else 0.25)
        return Clause(
            subject=subject,
            verb=verb,
            tense=tense,
            dative=dative,
            accusative=negated_object(accusative) if is_denied and accusative else accusative,
            is_negated=is_denied,
            frequency=frequency,
            aspect=aspect,
            time=time,
            manner=manner,
            company=self.company(subject) if has_company else NOTHING,
            tail=NOTHING if manner.english and "place" in verb.frame else self.tail(verb, subject, is_plain),
        )

    def property(self, subject: Nominal, too: float = 0.0) -> Text:
        """A predicate adjective that fits the subject and does not repeat its own adjective."""
        noun = subject.noun if isinstance(subject, NounPhrase) else None
        is_person = noun is None or "person" in noun.kinds
        if is_person and self.dice.chance(0.75):
            return Text(*self.dice.pick(STATES))
        known = subject.adjective if isinstance(subject, NounPhrase) else None
        options = ADJECTIVES_FOR[noun or NOUNS_OF["person"][0]]
        adjective = self.dice.pick([option for option in options if option is not known])
        if adjective.english_comparative and self.dice.chance(too):
            return Text(f"too {adjective.english}", f"zu {adjective.german}")
        return Text(adjective.english, adjective.german)

    def state(
        self,
        *,
        subject: Nominal | None = None,
        tense: Tense | None = None,
        is_plain: bool = False,
        may_deny: bool = True,
    ) -> Clause:
        """Somebody or something is somehow."""
        is_denied = may_deny and self.dice.chance(0.2)
        subject = subject or self.subject(self.dice.pick(("person", "person", "goods", "animal", "place")), is_denied)
        tense = tense or ("simple" if self.dice.chance(0.7) else "past")
        time = NOTHING
        tail = self.property(subject)
        if tail.english in {english for english, _ in STATES} and self.dice.chance(0.1 if is_plain else 0.4):
            time = self.dice.pick(_BEFORE) if tense == "past" else self.dice.pick(_NOW)
        return Clause(subject, BE, tense, is_negated=is_denied, time=time, tail=tail)

    def resumed(self, subject: Nominal) -> Nominal | None:
        """The pronoun that takes up the subject in the next clause.

        None for a thing, for `every ...`, and for a child or a girl, where German wavers between gender and sex.
        """
        if isinstance(subject, Pronoun):
            return subject
        if isinstance(subject, Name):
            return Pronoun(SHE if subject.name in WOMEN else HE)
        if not isinstance(subject, NounPhrase) or subject.determiner is EVERY or "person" not in subject.noun.kinds:
            return None
        person = {"m": HE, "f": SHE, "n": None, "p": THEY}[subject.column]
        return Pronoun(person) if person else None

    # --- relative clauses

    def relative(self, noun: Noun, plural: bool) -> Text:
        """A relative clause that fits the noun, in which the noun is subject, object, owner or company."""
        column: Literal["m", "f", "n", "p"] = "p" if plural else noun.gender
        is_person = "person" in noun.kinds
        roll = self.dice.number(1, 100)
        if is_person and roll <= 15:
            return self._relative_owner(column)
        if is_person and roll <= 25:
            clause = self.clause(verb=self.dice.pick(WITH_COMPANY), is_plain=True, may_deny=False)
            clause = replace(clause, company=NOTHING)
            return subordinate(Text("with whom", "mit " + RELATIVE_PRONOUN[column][DATIVE]), clause)
        if roll <= 60:
            clause = self._relative_subject(noun, plural)
            word = "who" if is_person else "that"
            return subordinate(Text(word, RELATIVE_PRONOUN[column][NOMINATIVE]), clause)
        verb = self.dice.pick(ACTIONS_ON[noun])
        gap: Literal["dative", "accusative"] = "accusative" if "acc" in verb.frame else "dative"
        clause = self.clause(verb=verb, gap=gap, is_plain=True)
        case = ACCUSATIVE if gap == "accusative" else DATIVE
        word = "whom" if is_person else "that"
        return subordinate(Text(word, RELATIVE_PRONOUN[column][case]), clause)

    def _relative_owner(self, column: Literal["m", "f", "n", "p"]) -> Text:
        owned = replace(self.phrase("goods,animal"), determiner=BARE, adjective=None)
        clause = self.state(subject=owned, is_plain=True, may_deny=False)
        return subordinate(Text("whose", RELATIVE_PRONOUN[column][GENITIVE]), clause)

    def _relative_subject(self, noun: Noun, plural: bool) -> Clause:
        gap = Gap(5 if plural else 2)
        for kind in ("person", "animal", "flat"):
            if kind in noun.kinds and self.dice.chance(0.7):
                return self.clause(subject=gap, verb=self.dice.pick(ACTIONS_OF[kind]), is_plain=True)
        adjective = self.property(NounPhrase(noun, THE, plural), too=0.3)
        return Clause(gap, BE, "simple" if self.dice.chance(0.6) else "past", tail=adjective)

    def described(self, kinds: str) -> NounPhrase:
        """A noun phrase with a relative clause."""
        phrase = self.phrase(kinds, adjective=0.15)
        determiner = THIS if self.dice.chance(0.1) else THE
        return replace(phrase, determiner=determiner, relative=self.relative(phrase.noun, phrase.plural))
