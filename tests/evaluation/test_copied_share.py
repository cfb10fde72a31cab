"""Counts that a person can check: what a source has, what the reference copies, and what the model copies."""

import pytest

from vaswani_transformer.evaluation.copied_share import Copied, copied_facts, count_copied, together

SOURCES = ["Set max_a to 5, then max_a to 1,000.", "Run --all.", "A dog sleeps."]
REFERENCES = ["max_a auf 5 setzen, dann auf 1.000.", "--all ausführen.", "Ein Hund schläft 5."]
HYPOTHESES = ["max_a, max_a, max_a auf 5 und 1.000 setzen.", "alles ausführen.", "Ein Hund schläft."]


def test_counts_are_those_on_paper() -> None:
    counts = count_copied(SOURCES, REFERENCES, HYPOTHESES)
    assert counts == {
        "option": Copied(1, 1, 0, 0),
        "identifier": Copied(2, 1, 2, 1),
        "number": Copied(1, 1, 1, 1),
        "formatted_number": Copied(1, 0, 0, 0),
    }
    assert list(counts) == ["option", "identifier", "number", "formatted_number"]
    assert together(counts) == Copied(4, 3, 3, 2)


def test_shares_are_of_all_and_of_what_the_reference_copies() -> None:
    facts = copied_facts(SOURCES, REFERENCES, HYPOTHESES)
    assert (facts["together"]["share"], facts["together"]["share_of_reference"]) == (3 / 4, 2 / 3)
    assert facts["classes"]["formatted_number"] == {
        "items_in_source": 1, "by_reference": 0, "by_model": 0, "by_both": 0, "share": 0, "share_of_reference": None,
    }  # fmt: skip
    assert copied_facts(["A dog."], ["Ein Hund."], ["Ein Hund."])["together"]["share"] is None
    with pytest.raises(ValueError, match="shorter"):
        count_copied(SOURCES, REFERENCES, [])
