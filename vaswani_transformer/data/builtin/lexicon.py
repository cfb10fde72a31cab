"""The words of the built-in corpus with their inflection, English and German side by side.

Words stand in tables the way a dictionary lists them: a noun with genitive and plural, a verb with its er-form and participle. What follows
by rule from such an entry (endings of articles and adjectives, the dative plural, the n-declension, the present tense, the imperative) is
computed, so that a new word is one new line.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Column = Literal["m", "f", "n", "p"]
"""A column of a declension table: a gender in the singular, or the plural, which has no genders."""

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)


# --- Declension: endings by column, in the order nominative, accusative, dative, genitive -------------------------------------------------


def _endings(m: str, f: str, n: str, p: str) -> dict[Column, tuple[str, ...]]:
    rows: dict[Column, str] = {"m": m, "f": f, "n": n, "p": p}
    return {column: tuple(ending.strip("-") for ending in row.split()) for column, row in rows.items()}


DEFINITE_ARTICLE = _endings(m="der den dem des", f="die die der der", n="das das dem des", p="die die den der")
RELATIVE_PRONOUN = _endings(m="der den dem dessen", f="die die der deren", n="das das dem dessen", p="die die denen deren")

DETERMINER_ENDINGS = {
    "dieser": _endings(m="er en em es", f="e e er er", n="es es em es", p="e e en er"),
    "ein": _endings(m="- en em es", f="e e er er", n="- - em es", p="e e en er"),
}

WEAK_ENDINGS = _endings(m="e en en en", f="e e en en", n="e e en en", p="en en en en")
MIXED_ENDINGS = _endings(m="er en en en", f="e e en en", n="es es en en", p="en en en en")
STRONG_ENDINGS = _endings(m="er en em en", f="e e er er", n="es es em en", p="e e en er")


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """An article or a word in its place.

    `pattern` names its declension: `der` (the definite article itself), `dieser` (dieser, jeder, welcher), `ein` (ein, kein, mein) or
    `fixed` (numbers, `Annas`, nothing at all). The pattern decides how a following adjective is declined.
    """

    english: str
    english_plural: str
    german: str
    pattern: Literal["der", "dieser", "ein", "fixed"]

    def decline(self, case: int, column: Column) -> str:
        if self.pattern == "fixed":
            return self.german
        if self.pattern == "der":
            return DEFINITE_ARTICLE[column][case]
        ending = DETERMINER_ENDINGS[self.pattern][column][case]
        stem = "eur" if self.german == "euer" and ending else self.german
        return stem + ending

    @property
    def adjective_endings(self) -> dict[Column, tuple[str, ...]]:
        if self.pattern == "fixed":
            return STRONG_ENDINGS
        return MIXED_ENDINGS if self.pattern == "ein" else WEAK_ENDINGS


THE = Determiner("the", "the", "", "der")
A = Determiner("a", "", "ein", "ein")
BARE = Determiner("", "", "", "fixed")
NO = Determiner("a", "any", "kein", "ein")
NO_MASS = Determiner("any", "any", "kein", "ein")
THIS = Determiner("this", "these", "dies", "dieser")
EVERY = Determiner("every", "", "jed", "dieser")
WHICH = Determiner("which", "which", "welch", "dieser")
WHOSE = Determiner("whose", "whose", "wessen", "fixed")
HOW_MANY = Determiner("", "how many", "wie viele", "fixed")


# --- Nouns --------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun. A plural of `-` marks a substance (milk), which is used without an article."""

    english: str
    english_plural: str
    gender: Gender
    german: str
    genitive: str
    german_plural: str
    kinds: frozenset[str]

    @property
    def is_mass(self) -> bool:
        return self.german_plural == "-"

    @property
    def is_plural_sensible(self) -> bool:
        """Not milk; and not mothers, of whom people here have one."""
        return not self.is_mass and "single" not in self.kinds

    @property
    def is_weak(self) -> bool:
        """The n-declension: masculine nouns whose genitive is not formed with -s have that form in every case but the nominative."""
        return self.gender == "m" and not self.genitive.endswith("s")

    def decline(self, case: int, plural: bool) -> str:
        if plural:
            takes_n = case == DATIVE and self.german_plural[-1] not in "ns"
            return self.german_plural + "n" if takes_n else self.german_plural
        if case == GENITIVE or (self.is_weak and case != NOMINATIVE):
            return self.genitive
        return self.german


_NOUN_TABLE = """
man         men         m  Mann          Mannes         Männer         person unowned
woman       women       f  Frau          Frau           Frauen         person unowned
child       children    n  Kind          Kindes         Kinder         person
girl        girls       n  Mädchen       Mädchens       Mädchen        person unowned
boy         boys        m  Junge         Jungen         Jungen         person unowned
student     students    m  Student       Studenten      Studenten      person job
neighbour   neighbours  m  Nachbar       Nachbarn       Nachbarn       person
teacher     teachers    m  Lehrer        Lehrers        Lehrer         person job
doctor      doctors     m  Arzt          Arztes         Ärzte          person job
friend      friends     m  Freund        Freundes       Freunde        person
brother     brothers    m  Bruder        Bruders        Brüder         person
sister      sisters     f  Schwester     Schwester      Schwestern     person
mother      mothers     f  Mutter        Mutter         Mütter         person single
dog         dogs        m  Hund          Hundes         Hunde          animal
cat         cats        f  Katze         Katze          Katzen         animal
horse       horses      n  Pferd         Pferdes        Pferde         animal
book        books       n  Buch          Buches         Bücher         goods text written flat gift
letter      letters     m  Brief         Briefes        Briefe         text written flat gift
newspaper   newspapers  f  Zeitung       Zeitung        Zeitungen      text flat goods
apple       apples      m  Apfel         Apfels         Äpfel          food gift
egg         eggs        n  Ei            Eies           Eier           food
cake        cakes       m  Kuchen        Kuchens        Kuchen         food gift
bread       -           n  Brot          Brotes         -              food
milk        -           f  Milch         Milch          -              drink
coffee      -           m  Kaffee        Kaffees        -              drink
water       -           n  Wasser        Wassers        -              drink
car         cars        n  Auto          Autos          Autos          goods machine
bicycle     bicycles    n  Fahrrad       Fahrrads       Fahrräder      goods machine
lamp        lamps       f  Lampe         Lampe          Lampen         goods machine
coat        coats       m  Mantel        Mantels        Mäntel         goods flat
picture     pictures    n  Bild          Bildes         Bilder         goods flat gift
bag         bags        f  Tasche        Tasche         Taschen        goods container
table       tables      m  Tisch         Tisches        Tische         goods surface
chair       chairs      m  Stuhl         Stuhls         Stühle         goods surface
door        doors       f  Tür           Tür            Türen          opening
window      windows     n  Fenster       Fensters       Fenster        opening
garden      gardens     m  Garten        Gartens        Gärten         place
kitchen     kitchens    f  Küche         Küche          Küchen         place
school      schools     f  Schule        Schule         Schulen        place goal
city        cities      f  Stadt         Stadt          Städte         place known
park        parks       m  Park          Parks          Parks          place goal
room        rooms       n  Zimmer        Zimmers        Zimmer         place
house       houses      n  Haus          Hauses         Häuser         place building
hotel       hotels      n  Hotel         Hotels         Hotels         place goal building
station     stations    m  Bahnhof       Bahnhofs       Bahnhöfe       goal
"""


def _rows(table: str) -> Iterator[str]:
    return (line for line in table.strip().splitlines() if line.strip())


def _read_noun(row: str) -> Noun:
    english, english_plural, gender, german, genitive, german_plural, *kinds = row.split()
    return Noun(english, english_plural, gender, german, genitive, german_plural, frozenset(kinds))  # type: ignore[arg-type]


NOUNS = tuple(_read_noun(row) for row in _rows(_NOUN_TABLE))


def _nouns_by_kind() -> dict[str, tuple[Noun, ...]]:
    groups: dict[str, list[Noun]] = defaultdict(list)
    for noun in NOUNS:
        for kind in sorted(noun.kinds):
            groups[kind].append(noun)
    return {kind: tuple(nouns) for kind, nouns in groups.items()}


NOUNS_OF = _nouns_by_kind()


# --- Adjectives ---------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """`german` as a predicate, `stem` before endings (teuer, ein teures Auto); an empty comparative: not compared."""

    english: str
    german: str
    stem: str
    english_comparative: str
    german_comparative: str
    kinds: frozenset[str]


_ADJECTIVE_TABLE = """
old         alt        alt        older           älter        person animal thing place
young       jung       jung       younger         jünger       person animal
tall        groß       groß       taller          größer       person
big         groß       groß       bigger          größer       animal thing place food
small       klein      klein      smaller         kleiner      person animal thing place food
new         neu        neu        newer           neuer        thing place
good        gut        gut        better          besser       job thing food drink
beautiful   schön      schön      more_beautiful  schöner      thing place animal
expensive   teuer      teur       more_expensive  teurer       thing
friendly    freundlich freundlich friendlier      freundlicher person animal
red         rot        rot        -               -            thing
black       schwarz    schwarz    -               -            thing animal
cold        kalt       kalt       -               -            drink
fresh       frisch     frisch     -               -            food drink
"""


def _read_adjective(row: str) -> Adjective:
    english, german, stem, english_comparative, german_comparative, *kinds = row.split()
    comparative = english_comparative.strip("-").replace("_", " ")
    return Adjective(english, german, stem, comparative, german_comparative.strip("-"), frozenset(kinds))


ADJECTIVES = tuple(_read_adjective(row) for row in _rows(_ADJECTIVE_TABLE))
STATES = (("tired", "müde"), ("sick", "krank"), ("happy", "glücklich"), ("at home", "zu Hause"))
"""What a person is for a while: predicates that never stand before a noun here."""

_WORLDS = {
    "person": "person", "job": "job", "animal": "animal", "food": "food", "drink": "drink", "place": "place", "goal": "place",
    "goods": "thing", "flat": "thing", "opening": "thing",
}  # fmt: skip


def _adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    worlds = {_WORLDS[kind] for kind in noun.kinds if kind in _WORLDS}
    fitting = (adjective for adjective in ADJECTIVES if adjective.kinds & worlds)
    return tuple(adjective for adjective in fitting if not (noun.is_mass and adjective.english in ("big", "small")))


ADJECTIVES_FOR = {noun: _adjectives_for(noun) for noun in NOUNS}


# --- Verbs --------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with all its forms. Present forms are in the order ich, du, er, wir, ihr, sie and stand without the separable `particle`.

    `frame` says what the verb is used with: `acc` and `dat` name kinds of objects, `tail` what else it needs, `subject` who does it, and
    flags such as `place` what it may have besides (see `builtin_corpus`).
    """

    english: str
    ing: str
    past: str
    past_participle: str
    english_particle: str
    particle_is_movable: bool
    stem_infinitive: str
    particle: str
    participle: str
    auxiliary: str
    present: tuple[str, ...]
    imperative: str
    preterite: tuple[str, ...]
    frame: dict[str, str]

    @property
    def infinitive(self) -> str:
        return self.particle + self.stem_infinitive

    @property
    def zu_infinitive(self) -> str:
        return f"{self.particle}zu{self.stem_infinitive}" if self.particle else f"zu {self.stem_infinitive}"

    @property
    def english_third_person(self) -> str:
        return third_person(self.english)


def third_person(english: str) -> str:
    """The s-form: goes, pushes, carries, has."""
    if english == "have":
        return "has"
    return english + ("es" if english.endswith(("o", "s", "sh", "ch", "x")) else "s")


def present_forms(infinitive: str, er_form: str) -> tuple[str, ...]:
    """The six present forms, from the two that a dictionary lists: lesen, er liest -> lese, liest, liest, lesen, lest, lesen."""
    stem, er_stem = infinitive.removesuffix("en"), er_form.removesuffix("t")
    du_form = er_stem + ("t" if er_stem.endswith(("s", "ß", "z", "x")) else "st")
    regular_ihr_form = stem + ("et" if stem.endswith(("d", "t")) else "t")
    ihr_form = er_form if er_form.startswith(stem) else regular_ihr_form
    return (stem + "e", du_form, er_form, infinitive, ihr_form, infinitive)


def du_imperative(infinitive: str, er_form: str) -> str:
    """The stem of the er-form where e turns into i (lies), else the plain stem (schlaf), with -e after d, t, fn, ier (warte, öffne)."""
    stem, er_stem = infinitive.removesuffix("en"), er_form.removesuffix("t")
    if not er_form.startswith(stem) and "ä" not in er_form:
        return er_stem
    return stem + "e" if stem.endswith(("d", "t", "fn", "ier")) else stem


# English: + before a particle that moves (picks him up), _ before one that stays (looks for him). German: · after one that separates.
_VERB_TABLE = """
buy buying bought bought                 | kaufen kauft hat gekauft                 | acc=goods,food for
sell selling sold sold                   | verkaufen verkauft hat verkauft          | acc=goods
read reading read read                   | lesen liest hat gelesen                  | acc=text place
write writing wrote written              | schreiben schreibt hat geschrieben       | acc=written for
eat eating ate eaten                     | essen isst hat gegessen                  | acc=food place
drink drinking drank drunk               | trinken trinkt hat getrunken             | acc=drink place
look_for looking looked looked           | suchen sucht hat gesucht                 | acc=goods,person,animal,flat
see seeing saw seen                      | sehen sieht hat gesehen                  | acc=person,animal,machine simple place
repair repairing repaired repaired       | reparieren repariert hat repariert       | acc=machine,opening for
open opening opened opened               | öffnen öffnet hat geöffnet               | acc=opening
close closing closed closed              | schließen schließt hat geschlossen       | acc=opening
need needing needed needed               | brauchen braucht hat gebraucht           | acc=goods simple timeless
love loving loved loved                  | lieben liebt hat geliebt                 | acc=person,animal simple timeless
know knowing knew known                  | kennen kennt hat gekannt                 | acc=person,known simple timeless
call calling called called               | an·rufen ruft hat angerufen              | acc=person
invite inviting invited invited          | ein·laden lädt hat eingeladen            | acc=person
pick+up picking picked picked            | ab·holen holt hat abgeholt               | acc=person
bring+along bringing brought brought     | mit·bringen bringt hat mitgebracht       | acc=gift,food for
get+up getting got got                   | auf·stehen steht ist aufgestanden        | subject=person
arrive arriving arrived arrived          | an·kommen kommt ist angekommen           | tail=arrival
help helping helped helped               | helfen hilft hat geholfen                | dat=person place
give giving gave given                   | geben gibt hat gegeben                   | dat=person acc=gift
show showing showed shown                | zeigen zeigt hat gezeigt                 | dat=person acc=gift,machine
bring bringing brought brought           | bringen bringt hat gebracht              | dat=person acc=gift,drink
sleep sleeping slept slept               | schlafen schläft hat geschlafen          | subject=person,animal place
work working worked worked               | arbeiten arbeitet hat gearbeitet         | place company manner
play playing played played               | spielen spielt hat gespielt              | subject=person,animal place company
wait waiting waited waited               | warten wartet hat gewartet               | tail=wait
live living lived lived                  | wohnen wohnt hat gewohnt                 | tail=home simple timeless
go going went gone                       | gehen geht ist gegangen                  | tail=direction company
drive driving drove driven               | fahren fährt ist gefahren                | tail=direction company manner
run running ran run                      | laufen läuft ist gelaufen                | subject=person,animal tail=direction
come coming came come                    | kommen kommt ist gekommen                | tail=origin
lie lying lay lain                       | liegen liegt hat gelegen                 | subject=flat tail=spot
put putting put put                      | legen legt hat gelegt                    | acc=flat tail=put
belong_to belonging belonged belonged    | gehören gehört hat gehört                | subject=goods,animal,flat dat=person simple timeless
have having had had                      | haben hat hat gehabt                     | acc=goods,animal,gift simple constant
like liking liked liked                  | mögen mag hat gemocht                    | acc=person,animal,food,drink,known simple timeless
cost costing cost cost                   | kosten kostet hat gekostet               | subject=goods special
be being was been                        | sein ist ist gewesen                     | special
know knowing knew known                  | wissen weiß hat gewusst                  | special
say saying said said                     | sagen sagt hat gesagt                    | special
hope hoping hoped hoped                  | hoffen hofft hat gehofft                 | special
think thinking thought thought           | glauben glaubt hat geglaubt              | special
try trying tried tried                   | versuchen versucht hat versucht          | special
"""


_IRREGULAR_PRESENT = {
    "sein": ("bin", "bist", "ist", "sind", "seid", "sind"),
    "haben": ("habe", "hast", "hat", "haben", "habt", "haben"),
    "mögen": ("mag", "magst", "mag", "mögen", "mögt", "mögen"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wisst", "wissen"),
}
_PRETERITE = {
    "sein": ("war", "warst", "war", "waren", "wart", "waren"),
    "haben": ("hatte", "hattest", "hatte", "hatten", "hattet", "hatten"),
}
"""The two verbs whose spoken past is not the perfect."""


def _read_frame(text: str) -> dict[str, str]:
    frame = {"subject": "person"}
    for item in text.split():
        name, _, value = item.partition("=")
        frame[name] = value or "yes"
    return frame


def _read_verb(row: str) -> Verb:
    english, german, frame = (part.strip() for part in row.split("|"))
    base, ing, past, past_participle = english.split()
    base, movable, moved = base.partition("+")
    base, _, fixed = base.partition("_")
    infinitive, er_form, has_or_is, participle = german.split()
    particle, _, stem_infinitive = infinitive.rpartition("·")
    return Verb(
        english=base,
        ing=ing,
        past=past,
        past_participle=past_participle,
        english_particle=moved or fixed,
        particle_is_movable=bool(movable),
        stem_infinitive=stem_infinitive,
        particle=particle,
        participle=participle,
        auxiliary="sein" if has_or_is == "ist" else "haben",
        present=_IRREGULAR_PRESENT.get(stem_infinitive) or present_forms(stem_infinitive, er_form),
        imperative=du_imperative(stem_infinitive, er_form),
        preterite=_PRETERITE.get(stem_infinitive, ()),
        frame=_read_frame(frame),
    )


VERBS = tuple(_read_verb(row) for row in _rows(_VERB_TABLE))

VERB = {verb.infinitive: verb for verb in VERBS}
BE, HAVE, COST = VERB["sein"], VERB["haben"], VERB["kosten"]


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb, or the future: its finite German forms, and in English an auxiliary before the rest (`does` + `have to buy`).

    `plain` and `plain_third` replace auxiliary and rest where English needs no auxiliary (`has to buy`); empty means it always does.
    """

    auxiliary: str
    rest: str
    plain: str
    plain_third: str
    german: tuple[str, ...]


def _modal(auxiliary: str, rest: str, plain: str, plain_third: str, german: str) -> Modal:
    return Modal(auxiliary, rest, plain, plain_third, tuple(german.split()))


WILL = _modal("will", "", "", "", "werde wirst wird werden werdet werden")
CAN = _modal("can", "", "", "", "kann kannst kann können könnt können")
SHOULD = _modal("should", "", "", "", "sollte solltest sollte sollten solltet sollten")
WOULD_LIKE = _modal("would", "like to ", "", "", "möchte möchtest möchte möchten möchtet möchten")
HAVE_TO = _modal("do", "have to ", "have to ", "has to ", "muss musst muss müssen müsst müssen")
WANT_TO = _modal("do", "want to ", "want to ", "wants to ", "will willst will wollen wollt wollen")
COULD = _modal("could", "", "", "", "konnte konntest konnte konnten konntet konnten")
HAD_TO = _modal("did", "have to ", "had to ", "had to ", "musste musstest musste mussten musstet mussten")
WANTED_TO = _modal("did", "want to ", "wanted to ", "wanted to ", "wollte wolltest wollte wollten wolltet wollten")


# --- Pronouns, names, numbers -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """A personal pronoun with its possessive; `agreement` is the position in a table of finite forms (0 ich ... 5 sie)."""

    subject: str
    object: str
    possessive: str
    german: tuple[str, ...]
    german_possessive: str
    agreement: int


def _person(english: str, german: str, agreement: int) -> Person:
    subject, object_, possessive = english.split()
    *cases, german_possessive = german.split()
    return Person(subject, object_, possessive, tuple(cases), german_possessive, agreement)


MYSELF = _person("I me my", "ich mich mir mein", 0)
HE = _person("he him his", "er ihn ihm sein", 2)
SHE = _person("she her her", "sie sie ihr ihr", 2)
WE = _person("we us our", "wir uns uns unser", 3)
THEY = _person("they them their", "sie sie ihnen ihr", 5)
YOU_FRIEND = _person("you you your", "du dich dir dein", 1)
YOU_FRIENDS = _person("you you your", "ihr euch euch euer", 4)
YOU_POLITE = _person("you you your", "Sie Sie Ihnen Ihr", 5)
IT = {
    "m": _person("it it its", "er ihn ihm sein", 2),
    "f": _person("it it its", "sie sie ihr ihr", 2),
    "n": _person("it it its", "es es ihm sein", 2),
}

MEN = ("Paul", "Peter", "Martin")
WOMEN = ("Anna", "Maria", "Julia")
FAMILIES = ("Weber", "Schmidt", "Keller")
CITIES = (
    ("Berlin", "Berlin"),
    ("Hamburg", "Hamburg"),
    ("Vienna", "Wien"),
    ("Munich", "München"),
    ("Cologne", "Köln"),
)

_UNITS = (
    ("one", "ein"), ("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("six", "sechs"), ("seven", "sieben"),
    ("eight", "acht"), ("nine", "neun"), ("ten", "zehn"), ("eleven", "elf"), ("twelve", "zwölf"), ("thirteen", "dreizehn"),
    ("fourteen", "vierzehn"), ("fifteen", "fünfzehn"), ("sixteen", "sechzehn"), ("seventeen", "siebzehn"), ("eighteen", "achtzehn"),
    ("nineteen", "neunzehn"),
)  # fmt: skip
_TENS = (
    ("twenty", "zwanzig"), ("thirty", "dreißig"), ("forty", "vierzig"), ("fifty", "fünfzig"), ("sixty", "sechzig"), ("seventy", "siebzig"),
    ("eighty", "achtzig"), ("ninety", "neunzig"),
)  # fmt: skip


def number_words(number: int) -> tuple[str, str]:
    """English and German for 2 to 99; German says the unit first: twenty-one, einundzwanzig."""
    if not 2 <= number <= 99:
        raise ValueError(f"Only the numbers 2 to 99 have words here, not {number}.")
    if number < 20:
        return _UNITS[number - 1]
    english, german = _TENS[number // 10 - 2]
    if number % 10 == 0:
        return english, german
    unit_english, unit_german = _UNITS[number % 10 - 1]
    return f"{english}-{unit_english}", f"{unit_german}und{german}"
