"""The small German grammar, on phrases whose gender every speaker knows."""

import pytest

from benchmarks.limits.german_gender import gender_of

PHRASES = {
    "male": [
        "der [Lehrer] schläft", "ein junger [Koch] lacht", "sie sieht den alten [Bäcker]", "mit dem [Arzt]", "das Haus des [Arztes]",
        "der [Angestellte] kam", "ein [Angestellter] kam", "den [Angestellten] fragen", "der [Kaufmann]", "zum [Friseur]", "ihr [Anwalt]",
        "dieser [Student]", "[der] freundliche Arzt", "jeder [Beamte]", "einen großen starken [Handwerker]",
        "der [Junge] lacht", "dem [Jungen]", "der [junge] Arzt", "[Junge] und Mädchen",
    ],
    "female": [
        "die [Lehrerin] schläft", "eine junge [Köchin]", "mit der [Ärztin]", "[Bäckerin] und Mutter", "zwei [Freundinnen]",
        "zur [Anwältin]",
        "die [junge] Ärztin lacht", "der [jungen] Ärztin", "eine [junge] Angestellte", "zur [jungen] Angestellten",
        "die [Angestellte] kam", "mit der [Angestellten]", "eine [Vorsitzende]", "die [Putzfrau]",
        "der [Krankenschwester]", "eine [Mechaniker]", "meine [Assistentin]",
        "[Friseurin] und [Ingenieurin]",
    ],
    "neutral": ["die [Person]", "das [Kind]", "eine [Lehrkraft]", "[jemand] ruft", "das neue [Mitglied]", "eine [junge] Person"],
    None: ["die [Lehrer] schlafen", "[Lehrer] schlafen", "und [Koch]", "mit der [Lehrer]", "die [Könige] kommen"],
}  # fmt: skip


@pytest.mark.parametrize("lowercase", [False, True])
def test_phrases_have_their_gender_with_and_without_capitals(lowercase: bool) -> None:
    wrong = []
    for gender, phrases in PHRASES.items():
        for phrase in phrases:
            words = (phrase.lower() if lowercase else phrase).split()
            place = next(number for number, word in enumerate(words) if word.startswith("["))
            found = gender_of([word.strip("[]") for word in words], place)
            if found != gender:
                wrong.append((phrase, found))
    assert not wrong


@pytest.mark.parametrize("word", ["Termin", "Medizin", "Verein", "Cousin", "Benzin", "Wein", "hin"])
def test_not_every_word_that_ends_so_is_a_woman(word: str) -> None:
    assert gender_of(["den", word], 1) == "male"
