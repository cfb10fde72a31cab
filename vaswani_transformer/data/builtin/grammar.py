"""The grammar of the built-in corpus: a `Clause` holds what is said, and one function for each kind of clause says it in one language.

Nothing here is random. English and German are written from the same `Clause`, so that a sentence and its translation cannot drift
apart. German word order follows one fixed plan (`_middle_field`); a piece that is missing is an empty string.

Where it is asked for, every word says to which word of the other language it belongs (`marks`). The rule: a word is surely linked to the
word that says the same, a content word to a content word and a function word to the one with the same task. A word that is two words of
the other language in one (im, anzurufen, kein; isn't) is surely linked to both. A word that has no counterpart is possibly linked to what
it helps to say: an auxiliary or a `to` that only one language needs, the particle of a phrasal or separable verb (look for, ruft ... an),
the further words of a preposition (next to), the comma that only German puts before a clause. The comma that only German puts after a
clause has no link.
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
from .marks import inside, is_marked, is_marking, mark, mark_each, mark_first, mark_linked, word_and_marks


class Text(NamedTuple):
    """The same piece of language in English and in German."""

    english: str
    german: str


NOTHING = Text("", "")


def join(*pieces: str) -> str:
    """Put the pieces that are not empty side by side."""
    return " ".join(filter(None, pieces))


def part(text: Text, name: str) -> Text:
    """`text` as the part `name` of what is said. Where it is a fixed expression, its words belong together one by one."""
    if not is_marking():
        return text
    sides = text if is_marked(text.english + text.german) else Text(*(mark_each(side, "word") for side in text))
    return Text(*(inside(side, name) for side in sides))


def linked(english: str, german: str, links: str) -> Text:
    """A fixed expression whose words do not belong together one by one: `0-1` is a sure link, `0p1` a possible one."""
    return Text(*mark_linked(english, german, links))


def sentence(text: str, mark: str = ".") -> str:
    """A capital at the beginning, the mark at the end, and no comma doubled, detached or left before the mark."""
    text = text.replace(" ,", ",").replace(",,", ",").rstrip(", ")
    return text[0].upper() + text[1:] + mark


_OPENING = "opening"


def opening_comma() -> str:
    """The comma that only German puts before a clause; it belongs to the clause's first word (see `subordinate`)."""
    return mark(",", f"?{_OPENING}.word.0")


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
        return mark(self.person.object if is_object else self.person.subject, "pronoun")

    def german(self, case: int) -> str:
        return mark(self.person.german[case], "pronoun")


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A person's name: Anna, or with a title, of which `Herr` follows the n-declension (mit Herrn Weber)."""

    name: str
    title: Literal["", "Mr", "Mrs"] = ""

    @property
    def agreement(self) -> int:
        return 2

    def english(self, is_object: bool = False) -> str:
        return join(mark(self.title, "title"), mark(self.name, "name"))

    def german(self, case: int) -> str:
        title = {"Mr": "Herr" if case == NOMINATIVE else "Herrn", "Mrs": "Frau", "": ""}[self.title]
        return join(mark(title, "title"), mark(self.name, "name"))


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
        adjective = mark(self.adjective.english, "adjective") if self.adjective else ""
        rest = join(adjective, mark(self.noun.english_plural if self.plural else self.noun.english, "noun"))
        if self.possessor:
            determiner = mark(inside(self.possessor.english(), "possessor") + "'s", "?determiner.0")
        else:
            determiner = self.determiner.english_plural if self.plural else self.determiner.english
            if determiner == "a" and rest[0] in "aeio":
                determiner = "an"
            determiner = mark_each(determiner, "determiner")
        return join(determiner, rest, inside(self.relative.english, "relative"))

    def german(self, case: int) -> str:
        adjective = self.adjective.stem + self.determiner.adjective_endings[self.column][case] if self.adjective else ""
        determiner = mark_each(self.determiner.decline(case, self.column), "determiner")
        if self.determiner in (NO, NO_MASS):
            determiner = mark(determiner, "negation")
        possessor = inside(self.possessor.german(GENITIVE), "possessor") if self.possessor else ""
        relative = f"{opening_comma()} {self.relative.german}," if self.relative.german else ""
        noun = mark(self.noun.decline(case, self.plural), "noun")
        return join(determiner, mark(adjective, "adjective"), noun, possessor, inside(relative, "relative"))


def negated_object(phrase: Nominal) -> Nominal:
    """`a book` and `books` are denied by kein; every other object stays as it is, and nicht is needed."""
    if isinstance(phrase, NounPhrase) and phrase.determiner in (A, BARE):
        determiner = NO_MASS if phrase.noun.is_mass else NO
        return NounPhrase(phrase.noun, determiner, phrase.plural, phrase.adjective)
    return phrase


_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


def prepositional(english: str, german: str, case: int, phrase: Nominal) -> Text:
    """A prepositional phrase; German contracts the preposition with the article (im, ins, am, zum, zur)."""
    preposition = mark(german, "preposition")
    object_ = inside(phrase.german(case), "object")
    first, _, rest = object_.partition(" ")
    article, marks = word_and_marks(first)
    short = _CONTRACTIONS.get((german, article))
    if short and rest:
        preposition, object_ = mark(short, "preposition") + marks, rest
    return Text(
        join(mark_first(english, "preposition"), inside(phrase.english(is_object=True), "object")),
        join(preposition, object_),
    )


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


def _said_english(clause: Clause) -> EnglishVerb:
    """The verb of a clause, denied where the clause is."""
    form = english_verb(clause.verb, clause.tense, clause.subject.agreement)
    auxiliary = _NOT[form.auxiliary] if clause.is_negated else form.auxiliary
    if not is_marking():
        return EnglishVerb(auxiliary, form.rest, form.plain)
    verb, *denial = auxiliary.split(" ")
    helps: tuple[str, ...] = ("auxiliary", "?verb")
    if isinstance(clause.tense, Modal):
        helps = ("?modal",) if clause.tense.rest else ("modal",)
    verb = mark(verb, *(helps if form.rest else ("verb",)))
    if clause.is_negated:
        denies = _kein(clause) or "negation"
        verb = join(verb, mark(denial[0], denies)) if denial else mark(verb, denies)
    return EnglishVerb(verb, _after_modal(form.rest), _after_modal(form.plain))


def _after_modal(text: str) -> str:
    """`want to buy`: the verb is last; what is before it belongs to the modal verb."""
    *modal, verb = text.split(" ")
    first, others = modal[:1], modal[1:]
    return join(*(mark(word, "modal") for word in first), *(mark(word, "?modal", "?verb") for word in others), mark(verb, "verb"))


def english_predicate(clause: Clause) -> str:
    """Everything after the (last) verb: particle, objects, adverbials in the order manner, tail, company, time."""
    verb = clause.verb
    accusative = clause.accusative
    particle_after = ""
    particle_before = mark(verb.english_particle, "particle", "?verb")
    if verb.particle_is_movable and isinstance(accusative, Pronoun):
        particle_before, particle_after = "", particle_before
    return join(
        particle_before,
        inside(clause.dative.english(is_object=True), "dative") if clause.dative else "",
        inside(accusative.english(is_object=True), "accusative") if accusative else "",
        particle_after,
        part(clause.manner, "manner").english,
        part(clause.tail, "tail").english if clause.front != "tail" else "",
        part(clause.company, "company").english,
        part(clause.time, "time").english if clause.front != "time" else "",
        part(clause.aspect, "aspect").english if clause.is_negated else "",
    )


def english_statement(clause: Clause) -> str:
    """`Today the teacher isn't reading the book.` Also the form after a conjunction, and questions for the subject."""
    form = _said_english(clause)
    subject = inside(clause.subject.english(), "subject")
    before = _before_verb(clause)
    if clause.is_negated:
        verb = join(form.auxiliary, before, form.rest)
    elif form.plain:
        verb = join(before, form.plain)
    else:
        verb = join(form.auxiliary, before, form.rest)
    return join(_front(clause).english, subject, verb, english_predicate(clause))


def _before_verb(clause: Clause) -> str:
    aspect = NOTHING if clause.is_negated else part(clause.aspect, "aspect")
    return join(part(clause.frequency, "frequency").english, aspect.english)


def _front(clause: Clause) -> Text:
    if clause.front == "subject":
        return NOTHING
    return part(clause.time, "time") if clause.front == "time" else part(clause.tail, "tail")


def english_question(clause: Clause, word: str = "") -> str:
    """`Is the teacher reading the book`, `Why does he sleep`: do-support wherever there is no other auxiliary."""
    form = _said_english(clause)
    subject = inside(clause.subject.english(), "subject")
    return join(word, form.auxiliary, subject, _before_verb(clause), form.rest, english_predicate(clause))


def english_infinitive(clause: Clause) -> str:
    """`to call the doctor`"""
    return join(mark("to", "to", "?verb"), mark(clause.verb.english, "verb"), english_predicate(clause))


class GermanVerb(NamedTuple):
    """The finite form, and what closes the clause after it: a particle, a participle or an infinitive."""

    finite: str
    closing: str
    closing_is_particle: bool = False


def german_verb(verb: Verb, tense: Tense, agreement: int) -> GermanVerb:
    closed = ("verb", "particle") if verb.particle else ("verb",)
    if isinstance(tense, Modal):
        return GermanVerb(mark(tense.german[agreement], "modal"), mark(verb.infinitive, *closed))
    if tense == "past" and verb.preterite:
        return GermanVerb(mark(verb.preterite[agreement], "verb"), "")
    if tense in ("past", "perfect"):
        auxiliary = BE if verb.auxiliary == "sein" else HAVE
        return GermanVerb(mark(auxiliary.present[agreement], "auxiliary", "?verb"), mark(verb.participle, *closed))
    return GermanVerb(mark(verb.present[agreement], "verb"), mark(verb.particle, "particle", "?verb"), bool(verb.particle))


def _kein(clause: Clause) -> str:
    """Which kein denies the clause: the mark that it carries, or nothing."""
    for name, phrase in (("dative", clause.dative), ("accusative", clause.accusative)):
        if isinstance(phrase, NounPhrase) and phrase.determiner in (NO, NO_MASS):
            return f"{name}.negation"
    return ""


def _middle_field(clause: Clause) -> str:
    """Between the finite verb (or the conjunction and the subject) and the closing verb forms.

    The order: pronouns, time, objects (dative first), negation, manner, company, tail. The negation, or schon, stands before an indefinite
    object and after a definite one; an indefinite object is denied by kein instead (see `negated_object`).
    """
    light, heavy = "", ""
    indefinite = False
    for name, case, phrase in (("dative", DATIVE, clause.dative), ("accusative", ACCUSATIVE, clause.accusative)):
        if isinstance(phrase, Pronoun):
            light = join(light, inside(phrase.german(case), name))
        elif phrase is not None:
            heavy = join(heavy, inside(phrase.german(case), name))
            indefinite = indefinite or (isinstance(phrase, NounPhrase) and phrase.is_indefinite)
    is_nicht = clause.is_negated and not _kein(clause)
    particle = join(part(clause.aspect, "aspect").german, mark("nicht", "negation") if is_nicht else "")
    return join(
        light,
        part(clause.frequency, "frequency").german,
        part(clause.time, "time").german if clause.front != "time" else "",
        particle if indefinite else "",
        heavy,
        "" if indefinite else particle,
        part(clause.manner, "manner").german,
        part(clause.company, "company").german,
        part(clause.tail, "tail").german if clause.front != "tail" else "",
    )


def _german_subject(clause: Clause) -> str:
    return inside(clause.subject.german(NOMINATIVE), "subject")


def german_statement(clause: Clause) -> str:
    """The finite verb second: `Heute liest der Lehrer das Buch nicht`, `Er ruft den Arzt an`."""
    finite, closing, _ = german_verb(clause.verb, clause.tense, clause.subject.agreement)
    if clause.front == "subject":
        return join(_german_subject(clause), finite, _middle_field(clause), closing)
    return join(_front(clause).german, finite, _german_subject(clause), _middle_field(clause), closing)


def german_inverted(clause: Clause, word: str = "") -> str:
    """The finite verb first, or after a question word or whatever else stands in front."""
    finite, closing, _ = german_verb(clause.verb, clause.tense, clause.subject.agreement)
    return join(word, finite, _german_subject(clause), _middle_field(clause), closing)


def german_subordinate(clause: Clause, word: str) -> str:
    """The finite verb last: `weil er den Arzt anruft`, `dass sie gekommen ist`, `den ich gesehen habe`."""
    finite, closing, closing_is_particle = german_verb(clause.verb, clause.tense, clause.subject.agreement)
    cluster = closing + finite if closing_is_particle else join(closing, finite)
    return join(word, _german_subject(clause), _middle_field(clause), cluster)


def german_infinitive(clause: Clause) -> str:
    """`den Arzt anzurufen`"""
    zu, _, verb = clause.verb.zu_infinitive.rpartition(" ")
    names = ("verb",) if zu else ("verb", "particle", "to")
    return join(_middle_field(clause), mark(zu, "to", "?verb"), mark(verb, *names))


def english_imperative(clause: Clause) -> str:
    return join(mark("please", "time.word.0"), mark(clause.verb.english, "verb"), english_predicate(clause))


def german_imperative(clause: Clause) -> str:
    """`ruf bitte den Arzt an`, `ruft ...`, `rufen Sie ...`, by the agreement of the subject."""
    agreement = clause.subject.agreement
    verb = clause.verb
    finite = {1: verb.imperative, 4: verb.present[4], 5: verb.present[5]}[agreement]
    sie = mark("Sie", "?verb") if agreement == 5 else ""
    return join(mark(finite, "verb"), sie, _middle_field(clause), mark(verb.particle, "particle", "?verb"))


def subordinate(conjunction: Text, clause: Clause) -> Text:
    """The clause after a conjunction, or after a relative pronoun, in both languages, without commas."""
    word = part(conjunction, _OPENING)
    return Text(join(word.english, english_statement(clause)), german_subordinate(clause, word.german))
