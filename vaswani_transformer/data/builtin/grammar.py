"""The grammar of the built-in corpus: a `Clause` holds what is said, and one function for each kind of clause says it in one language.

Nothing here is random. English and German are written from the same `Clause`, so that a sentence and its translation cannot drift
apart. German word order follows one fixed plan (`_middle_field`); a piece that is missing is an empty string.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from .lexicon import (
    ACCUSATIVE,
    BARE,
    BE,
    DATIVE,
    GENITIVE,
    HAVE,
    NO,
    NO_MASS,
    NOMINATIVE,
    A,
    Adjective,
    Column,
    Determiner,
    Modal,
    Noun,
    Person,
    Verb,
)


class Text(NamedTuple):
    """The same piece of language in English and in German."""

    english: str
    german: str


NOTHING = Text("", "")


def join(*pieces: str) -> str:
    """Put the pieces that are not empty side by side."""
    return " ".join(filter(None, pieces))


def sentence(text: str, mark: str = ".") -> str:
    """A capital at the beginning, the mark at the end, and no comma doubled, detached or left before the mark."""
    text = text.replace(" ,", ",").replace(",,", ",").rstrip(", ")
    return text[0].upper() + text[1:] + mark


# --- Noun phrases -------------------------------------------------------------------------------------------------------------------------


class Nominal(Protocol):
    """What can be subject or object. `agreement` is the position in a table of finite forms: 0 ich, 1 du, 2 er, 3 wir, 4 ihr, 5 sie."""

    @property
    def agreement(self) -> int: ...

    def english(self, is_object: bool = False) -> str: ...

    def german(self, case: int) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    person: Person

    @property
    def agreement(self) -> int:
        return self.person.agreement

    def english(self, is_object: bool = False) -> str:
        return self.person.object if is_object else self.person.subject

    def german(self, case: int) -> str:
        return self.person.german[case]


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A person's name: Anna, or with a title, of which `Herr` follows the n-declension (mit Herrn Weber)."""

    name: str
    title: Literal["", "Mr", "Mrs"] = ""

    @property
    def agreement(self) -> int:
        return 2

    def english(self, is_object: bool = False) -> str:
        return join(self.title, self.name)

    def german(self, case: int) -> str:
        if self.title == "Mr":
            return join("Herr" if case == NOMINATIVE else "Herrn", self.name)
        return join("Frau" if self.title else "", self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """The place from which a question word or a relative pronoun has moved to the front."""

    agreement: int = 2

    def english(self, is_object: bool = False) -> str:
        return ""

    def german(self, case: int) -> str:
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class NounPhrase:
    """A noun with what stands around it: determiner, adjective, a possessor (the teacher's, des Lehrers) and a relative clause."""

    noun: Noun
    determiner: Determiner
    plural: bool = False
    adjective: Adjective | None = None
    possessor: "NounPhrase | None" = None
    relative: Text = NOTHING

    @property
    def agreement(self) -> int:
        return 5 if self.plural else 2

    @property
    def column(self) -> Column:
        return "p" if self.plural else self.noun.gender

    @property
    def is_indefinite(self) -> bool:
        return self.determiner in (A, BARE, NO, NO_MASS)

    def english(self, is_object: bool = False) -> str:
        if self.possessor:
            determiner = self.possessor.english() + "'s"
        else:
            determiner = self.determiner.english_plural if self.plural else self.determiner.english
        adjective = self.adjective.english if self.adjective else ""
        rest = join(adjective, self.noun.english_plural if self.plural else self.noun.english)
        if determiner == "a" and rest[0] in "aeio":
            determiner = "an"
        return join(determiner, rest, self.relative.english)

    def german(self, case: int) -> str:
        adjective = self.adjective.stem + self.determiner.adjective_endings[self.column][case] if self.adjective else ""
        determiner = self.determiner.decline(case, self.column)
        possessor = self.possessor.german(GENITIVE) if self.possessor else ""
        relative = f", {self.relative.german}," if self.relative.german else ""
        return join(determiner, adjective, self.noun.decline(case, self.plural), possessor, relative)


def negated_object(phrase: Nominal) -> Nominal:
    """`a book` and `books` are denied by kein; every other object stays as it is, and nicht is needed."""
    if isinstance(phrase, NounPhrase) and phrase.determiner in (A, BARE):
        determiner = NO_MASS if phrase.noun.is_mass else NO
        return NounPhrase(phrase.noun, determiner, phrase.plural, phrase.adjective)
    return phrase


_CONTRACTIONS = (
    ("in dem ", "im "),
    ("in das ", "ins "),
    ("an dem ", "am "),
    ("zu dem ", "zum "),
    ("zu der ", "zur "),
)


def prepositional(english: str, german: str, case: int, phrase: Nominal) -> Text:
    """A prepositional phrase; German contracts the preposition with the article (im, ins, am, zum, zur)."""
    german = f"{german} {phrase.german(case)}"
    for long, short in _CONTRACTIONS:
        if german.startswith(long):
            german = short + german.removeprefix(long)
    return Text(join(english, phrase.english(is_object=True)), german)


def possessive(person: Person) -> Determiner:
    return Determiner(person.possessive, person.possessive, person.german_possessive, "ein")


# --- Clauses ------------------------------------------------------------------------------------------------------------------------------

Tense = Literal["progressive", "simple", "past", "perfect", "since"] | Modal
"""How English says it. German: present for `progressive`, `simple` and `since` (has lived for years: wohnt seit Jahren), perfect for `past`
and `perfect` (haben and sein: preterite for `past`), finite form and infinitive for a modal verb."""


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """What one clause says.

    Attributes:
        frequency: often, never ...: before the verb in English, with the time in German.
        aspect: already, yet: `Text` of which German stands where nicht stands.
        tail: what belongs closest to the verb: a place, a direction, a predicate adjective.
        front: which part stands before the finite verb instead of the subject.
    """

    subject: Nominal
    verb: Verb
    tense: Tense
    dative: Nominal | None = None
    accusative: Nominal | None = None
    is_negated: bool = False
    frequency: Text = NOTHING
    aspect: Text = NOTHING
    time: Text = NOTHING
    manner: Text = NOTHING
    company: Text = NOTHING
    tail: Text = NOTHING
    front: Literal["subject", "time", "tail"] = "subject"


_BE_PRESENT = ("am", "are", "is", "are", "are", "are")
_BE_PAST = ("was", "were", "was", "were", "were", "were")
_NOT = {
    "am": "am not", "are": "aren't", "is": "isn't", "was": "wasn't", "were": "weren't", "do": "don't", "does": "doesn't", "did": "didn't",
    "have": "haven't", "has": "hasn't", "will": "won't", "can": "can't", "should": "shouldn't", "would": "wouldn't", "could": "couldn't",
}  # fmt: skip


class EnglishVerb(NamedTuple):
    """`auxiliary` + `rest` in questions and denials, `plain` in statements when English needs no auxiliary there (else empty)."""

    auxiliary: str
    rest: str
    plain: str = ""


def english_verb(verb: Verb, tense: Tense, agreement: int) -> EnglishVerb:
    third = agreement == 2
    if isinstance(tense, Modal):
        auxiliary = "does" if tense.auxiliary == "do" and third else tense.auxiliary
        plain = tense.plain_third if third else tense.plain
        return EnglishVerb(auxiliary, tense.rest + verb.english, plain + verb.english if plain else "")
    if tense in ("perfect", "since"):
        return EnglishVerb("has" if third else "have", verb.past_participle)
    if tense == "progressive":
        return EnglishVerb(_BE_PRESENT[agreement], verb.ing)
    if verb is BE:
        return EnglishVerb((_BE_PAST if tense == "past" else _BE_PRESENT)[agreement], "")
    if tense == "past":
        return EnglishVerb("did", verb.english, verb.past)
    return EnglishVerb("does" if third else "do", verb.english, verb.english_third_person if third else verb.english)


def english_predicate(clause: Clause) -> str:
    """Everything after the (last) verb: particle, objects, adverbials in the order manner, tail, company, time."""
    verb = clause.verb
    accusative = clause.accusative
    particle_after = ""
    particle_before = verb.english_particle
    if verb.particle_is_movable and isinstance(accusative, Pronoun):
        particle_before, particle_after = "", particle_before
    return join(
        particle_before,
        clause.dative.english(is_object=True) if clause.dative else "",
        accusative.english(is_object=True) if accusative else "",
        particle_after,
        clause.manner.english,
        clause.tail.english if clause.front != "tail" else "",
        clause.company.english,
        clause.time.english if clause.front != "time" else "",
        clause.aspect.english if clause.is_negated else "",
    )


def english_statement(clause: Clause) -> str:
    """`Today the teacher isn't reading the book.` Also the form after a conjunction, and questions for the subject."""
    form = english_verb(clause.verb, clause.tense, clause.subject.agreement)
    before = join(clause.frequency.english, "" if clause.is_negated else clause.aspect.english)
    if clause.is_negated:
        verb = join(_NOT[form.auxiliary], before, form.rest)
    elif form.plain:
        verb = join(before, form.plain)
    else:
        verb = join(form.auxiliary, before, form.rest)
    front = {"subject": "", "time": clause.time.english, "tail": clause.tail.english}[clause.front]
    return join(front, clause.subject.english(), verb, english_predicate(clause))


def english_question(clause: Clause, word: str = "") -> str:
    """`Is the teacher reading the book`, `Why does he sleep`: do-support wherever there is no other auxiliary."""
    form = english_verb(clause.verb, clause.tense, clause.subject.agreement)
    auxiliary = _NOT[form.auxiliary] if clause.is_negated else form.auxiliary
    before = join(clause.frequency.english, "" if clause.is_negated else clause.aspect.english)
    return join(word, auxiliary, clause.subject.english(), before, form.rest, english_predicate(clause))


def english_infinitive(clause: Clause) -> str:
    """`to call the doctor`"""
    return join("to", clause.verb.english, english_predicate(clause))


class GermanVerb(NamedTuple):
    """The finite form, and what closes the clause after it: a particle, a participle or an infinitive."""

    finite: str
    closing: str
    closing_is_particle: bool = False


def german_verb(verb: Verb, tense: Tense, agreement: int) -> GermanVerb:
    if isinstance(tense, Modal):
        return GermanVerb(tense.german[agreement], verb.infinitive)
    if tense == "past" and verb.preterite:
        return GermanVerb(verb.preterite[agreement], "")
    if tense in ("past", "perfect"):
        auxiliary = BE if verb.auxiliary == "sein" else HAVE
        return GermanVerb(auxiliary.present[agreement], verb.participle)
    return GermanVerb(verb.present[agreement], verb.particle, bool(verb.particle))


def _middle_field(clause: Clause) -> str:
    """Between the finite verb (or the conjunction and the subject) and the closing verb forms.

    The order: pronouns, time, objects (dative first), negation, manner, company, tail. The negation, or schon, stands before an indefinite
    object and after a definite one; an indefinite object is denied by kein instead (see `negated_object`).
    """
    light, heavy = "", ""
    indefinite = False
    for case, phrase in ((DATIVE, clause.dative), (ACCUSATIVE, clause.accusative)):
        if isinstance(phrase, Pronoun):
            light = join(light, phrase.german(case))
        elif phrase is not None:
            heavy = join(heavy, phrase.german(case))
            indefinite = indefinite or (isinstance(phrase, NounPhrase) and phrase.is_indefinite)
    has_kein = any(isinstance(phrase, NounPhrase) and phrase.determiner in (NO, NO_MASS) for phrase in (clause.dative, clause.accusative))
    particle = join(clause.aspect.german, "nicht" if clause.is_negated and not has_kein else "")
    return join(
        light,
        clause.frequency.german,
        clause.time.german if clause.front != "time" else "",
        particle if indefinite else "",
        heavy,
        "" if indefinite else particle,
        clause.manner.german,
        clause.company.german,
        clause.tail.german if clause.front != "tail" else "",
    )


def german_statement(clause: Clause) -> str:
    """The finite verb second: `Heute liest der Lehrer das Buch nicht`, `Er ruft den Arzt an`."""
    finite, closing, _ = german_verb(clause.verb, clause.tense, clause.subject.agreement)
    subject = clause.subject.german(NOMINATIVE)
    if clause.front == "subject":
        return join(subject, finite, _middle_field(clause), closing)
    front = clause.time.german if clause.front == "time" else clause.tail.german
    return join(front, finite, subject, _middle_field(clause), closing)


def german_inverted(clause: Clause, word: str = "") -> str:
    """The finite verb first, or after a question word or whatever else stands in front."""
    finite, closing, _ = german_verb(clause.verb, clause.tense, clause.subject.agreement)
    return join(word, finite, clause.subject.german(NOMINATIVE), _middle_field(clause), closing)


def german_subordinate(clause: Clause, word: str) -> str:
    """The finite verb last: `weil er den Arzt anruft`, `dass sie gekommen ist`, `den ich gesehen habe`."""
    finite, closing, closing_is_particle = german_verb(clause.verb, clause.tense, clause.subject.agreement)
    cluster = closing + finite if closing_is_particle else join(closing, finite)
    return join(word, clause.subject.german(NOMINATIVE), _middle_field(clause), cluster)


def german_infinitive(clause: Clause) -> str:
    """`den Arzt anzurufen`"""
    return join(_middle_field(clause), clause.verb.zu_infinitive)


def english_imperative(clause: Clause) -> str:
    return join("please", clause.verb.english, english_predicate(clause))


def german_imperative(clause: Clause) -> str:
    """`ruf bitte den Arzt an`, `ruft ...`, `rufen Sie ...`, by the agreement of the subject."""
    agreement = clause.subject.agreement
    verb = clause.verb
    finite = {1: verb.imperative, 4: verb.present[4], 5: f"{verb.present[5]} Sie"}[agreement]
    return join(finite, _middle_field(clause), verb.particle)


def subordinate(conjunction: Text, clause: Clause) -> Text:
    """The clause after a conjunction in both languages, without commas."""
    return Text(join(conjunction.english, english_statement(clause)), german_subordinate(clause, conjunction.german))
