"""The gender that a German noun phrase gives a person: by the noun's form and the word before it.

A small grammar and no library, because none that is kept up answers this question without a download: spaCy's German model, which
Stanovsky et al. use, is no package of PyPI; DWDSmor fetches its automata; a list of nouns (german-nouns) has the gender of a lemma, so it
knows that *Lehrerin* is feminine, but not who *der Angestellten* is. German marks the gender of a person in a few closed classes:

- the noun ends in *-in* (*Lehrerin*, *Ärztin*), *-frau*, *-schwester*, *-dame*: female; in *-mann*, *-herr*, *-bruder*: male;
- *Junge* is a man, *junge* before a noun an adjective; in lower case, a feminine determiner or the noun's own form tells which;
- else the determiner or the contracted preposition before the noun, with adjectives between them, says it: *eine*, *zur*: female; *den*,
  *dem*, *ein*, *zum*: male, because a noun for a person is hardly ever neuter; *der* before a noun in a masculine form: male;
- an adjective as a noun (*Angestellte*, *Vorsitzende*) has its gender from the determiner and its ending together;
- nouns that mean a person of any gender (*Person*, *Kind*, *Kraft*, *Wache*), and *jemand*: neutral.

Where these do not decide (*die Lehrer*, a plural; a noun alone) the answer is None, and whoever asks must count it.
"""

from collections.abc import Sequence
from typing import Literal

Gender = Literal["male", "female", "neutral"]

_FEMALE_ENDS = ("frau", "schwester", "dame", "mutter", "tochter", "hebamme")
_MALE_ENDS = ("mann", "herr", "herrn", "bruder", "vater", "sohn", "junge", "jungen")
_ANY_ENDS = (
    "person", "kind", "kraft", "wache", "hilfe", "mitglied", "opfer", "mensch", "menschen", "gast", "leute", "jemand", "jemanden",
    "jemandem", "mädchen", "baby",
)  # fmt: skip
_NO_FEMALES = (
    "termin", "kamin", "medizin", "benzin", "magazin", "disziplin", "delfin", "delphin", "cousin", "berlin", "harlekin", "rubin", "admin",
)  # fmt: skip
_PRONOUN_STEMS = ("dies", "jen", "jed", "welch", "manch")
_EIN_STEMS = ("ein", "kein", "mein", "dein", "sein", "ihr", "unser", "unsr", "euer", "eur")
_FEMALE = frozenset({"eine", "einer", "zur"})
_MALE = frozenset({"ein", "einen", "einem", "eines", "den", "dem", "des", "zum", "vom", "beim"})
_DATIVE_OR_GENITIVE = frozenset({
    "mit", "von", "bei", "nach", "aus", "zu", "seit", "gegenüber", "wegen", "während", "trotz", "statt", "anstatt", "außer", "dank", "laut",
})  # fmt: skip
_ADJECTIVE_ENDS = ("e", "en", "er", "es", "em")
_MOST_ADJECTIVES = 3


def gender_of(words: Sequence[str], place: int) -> Gender | None:
    """The gender of the person whom `words[place]` names, in either case of letters.

    Args:
        words: a German sentence, punctuation apart.
        place: of the noun; a determiner or an adjective there stands for the noun behind it.

    Returns:
        None where the form does not say.
    """
    lower = [word.lower() for word in words]
    place = _noun(lower, place)
    if _is_young(words, lower, place):
        place += 1
    noun = lower[place]
    if by_form := _by_form(noun):
        return by_form
    found = _determiner(lower, place)
    return None if found is None else _by_determiner(lower[found], noun, lower[found - 1] if found else "")


def is_determiner(word: str) -> bool:
    """Whether a word in lower case is one of the determiners, or prepositions with one in them, that this grammar reads."""
    return _form(word) is not None


def _by_form(noun: str) -> Gender | None:
    """The gender that the noun's own ending says."""
    if noun.endswith(_ANY_ENDS):
        return "neutral"
    if noun.endswith(_FEMALE_ENDS) or _ends_in_in(noun):
        return "female"
    return "male" if noun.endswith(_MALE_ENDS) else None


def _is_young(words: Sequence[str], lower: Sequence[str], place: int) -> bool:
    """Whether *junge* or *jungen* is an adjective: the noun follows."""
    if lower[place] not in ("junge", "jungen") or not lower[place + 1 : place + 2] or not _may_be_noun(lower[place + 1]):
        return False
    is_cased = words[place].islower() and words[place + 1][0].isupper()
    feminine = {"junge": ("die", "eine"), "jungen": ("einer", "zur")}[lower[place]]
    return is_cased or _by_form(lower[place + 1]) is not None or (place > 0 and _form(lower[place - 1]) in feminine)


def _noun(words: Sequence[str], place: int) -> int:
    """Behind a determiner, and an adjective that a noun follows, stands the noun."""
    if not is_determiner(words[place]):
        return place
    last = min(len(words), place + 2 + _MOST_ADJECTIVES)
    for number in range(place + 1, last):
        is_last = number + 1 >= len(words) or not _may_be_noun(words[number + 1])
        if is_last or not words[number].endswith(_ADJECTIVE_ENDS) or words[number].endswith("er"):
            return number
    return place


def _may_be_noun(word: str) -> bool:
    return word.isalpha() and len(word) > 3 and not is_determiner(word)


def _ends_in_in(noun: str) -> bool:
    """-in or -innen after a consonant, but for words that just end so."""
    stem = noun.removesuffix("nen") if noun.endswith("innen") else noun
    return len(stem) > 4 and stem.endswith("in") and stem[-3] not in "aeiouäöü" and not stem.endswith(_NO_FEMALES)


def _determiner(words: Sequence[str], place: int) -> int | None:
    """The place of the determiner before the noun, across adjectives."""
    for number in range(place - 1, max(-1, place - 2 - _MOST_ADJECTIVES), -1):
        if is_determiner(words[number]):
            return number
        if not (words[number].isalpha() and words[number].endswith(_ADJECTIVE_ENDS)):
            return None
    return None


def _form(word: str) -> str | None:
    """Which of der, die, das, den, dem, des, ein, eine, einen, einem, einer, eines, or a contraction, a determiner is declined like."""
    if word in ("der", "die", "das", "den", "dem", "des", "zur", "zum", "vom", "beim"):
        return word
    for stem in _EIN_STEMS:
        if word.startswith(stem) and word[len(stem) :] in ("", "e", "en", "em", "er", "es"):
            return f"ein{word[len(stem) :]}"
    articles = {"er": "der", "e": "die", "es": "das", "en": "den", "em": "dem"}
    return next((articles[word[len(stem) :]] for stem in _PRONOUN_STEMS if word.startswith(stem) and word[len(stem) :] in articles), None)


def _by_determiner(determiner: str, noun: str, before: str) -> Gender | None:
    form = _form(determiner)
    if form == "das":
        return "neutral"
    if form in _FEMALE:
        return "female"
    if form in _MALE:
        return "male"
    if form == "die":  # a masculine noun behind it is a plural
        return "female" if _is_adjective(noun) and noun.endswith("e") else None
    if _is_adjective(noun):  # der Angestellte is a man; der Angestellten is a woman, in the dative or genitive
        return "female" if noun.endswith("en") else "male"
    return None if before in _DATIVE_OR_GENITIVE else "male"


def _is_adjective(noun: str) -> bool:
    """A noun that is declined as an adjective: der Angestellte, ein Angestellter."""
    stem = next((noun.removesuffix(end) for end in ("en", "er", "em", "es", "e") if noun.endswith(end)), "")
    ends = ("end", "llt", "lich", "los", "ig", "wandt", "kannt", "tzt", "amt", "fremd", "iert", "tigt")
    return stem.endswith(ends) and not stem.endswith("könig")
