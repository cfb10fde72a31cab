"""What is counted in a corpus, by hand."""

from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.data.survey import survey


def pair(source: str, target: str, line: int = 1) -> SentencePair:
    return SentencePair(source, target, "t", line)


PAIRS = [
    pair("One two three .", "Раз два три ."),
    pair("One two three .", "Раз два три ."),
    pair("Yes ,", "Да ,"),
    pair("", "ничего"),
    pair("A longer sentence of seven words .", "Предложение из семи слов ."),
]


def test_what_cleaning_keeps_is_counted() -> None:
    found = survey(PAIRS)
    assert (found.pairs, found.cleaning.dropped["duplicate"], found.cleaning.dropped["empty_side"], found.held_out) == (3, 1, 1, [])
    assert found.source.lengths == {4: 1, 2: 1, 7: 1}
    assert (found.source.total_words, found.source.quantile(0.5), found.source.quantile(1)) == (13, 4, 7)
    assert (found.source.script, found.target.script) == ("LATIN", "CYRILLIC")
    assert found.source.words >= {"One", "seven", "."}
    assert found.source.is_tokenized


def test_plain_text_is_not_taken_for_tokens() -> None:
    found = survey([pair("Well, yes. No.", "Ja, nun. Nein."), pair("Yes.", "Ja.")])
    assert not found.source.is_tokenized


def test_pairs_of_a_test_set_are_not_trained_on() -> None:
    found = survey(PAIRS, [pair("Yes  ,", "anything")])
    assert (found.pairs, found.cleaning.dropped["held_out"]) == (2, 1)


def test_chosen_pairs_depend_on_sources_and_seed_alone() -> None:
    pairs = [pair(f"sentence {number}", f"Satz {number}", number) for number in range(200)]
    chosen = survey(pairs, choose=20).held_out
    assert len({found.source for found in chosen}) == 20
    assert chosen == survey(pairs[::-1], choose=20).held_out
    repeated = [pair(f"sentence {number}", f"anderer Satz {number}", number) for number in range(200)]
    assert chosen == survey([*pairs, *repeated, *pairs], choose=20).held_out
    assert chosen != survey(pairs, choose=20, seed=2).held_out
    assert chosen[:10] == survey(pairs, choose=10).held_out
