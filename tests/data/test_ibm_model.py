"""IBM model 1, by hand."""

from fractions import Fraction

import numpy as np
import pytest

from vaswani_transformer.data import ibm_model
from vaswani_transformer.data.encoding import TokenSequences
from vaswani_transformer.data.ibm_model import Lexicon, ibm_model_1

THE, HOUSE, BOOK = 0, 1, 2
DAS, HAUS, BUCH = 0, 1, 2


def sequences(*sentences: list[int]) -> TokenSequences:
    lengths = [len(sentence) for sentence in sentences]
    return TokenSequences(
        np.array([token for sentence in sentences for token in sentence], dtype=np.uint16), np.cumsum([0, *lengths]).astype(np.int64)
    )


def as_dict(found: Lexicon) -> dict[tuple[int, int], float]:
    return {(int(s), int(t)): float(p) for s, t, p in zip(*found, strict=True)}


@pytest.fixture(params=[2**28, 0], ids=["table", "sorted"])
def places(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ibm_model, "_DENSE", request.param)
    monkeypatch.setattr(ibm_model, "_LINKS_AT_ONCE", 3)


@pytest.mark.usefixtures("places")
def test_two_sentences_by_hand() -> None:
    source, target = sequences([THE, HOUSE], [THE, BOOK]), sequences([DAS, HAUS], [DAS, BUCH])
    # At first each target word comes from either source word by half: "das" from "the" 1/2 + 1/2 times, "Haus" and "Buch" 1/2 each.
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    expected = {(THE, DAS): half, (THE, HAUS): quarter, (THE, BUCH): quarter, (HOUSE, DAS): half, (HOUSE, HAUS): half}
    expected |= {(BOOK, DAS): half, (BOOK, BUCH): half}
    assert as_dict(ibm_model_1(source, target, 3, iterations=1)) == pytest.approx({k: float(v) for k, v in expected.items()})
    # Then "Haus" comes from "the" by 1/4 : 1/2, so 1/3 times, and from "house" 2/3 times; "das" from each by half again.
    # "the": 1 + 1/3 + 1/3 = 5/3. "house": 1/2 + 2/3 = 7/6.
    fifth, sevenths = Fraction(1, 5), Fraction(3, 7)
    expected = {(THE, DAS): 3 * fifth, (THE, HAUS): fifth, (THE, BUCH): fifth, (HOUSE, DAS): sevenths, (HOUSE, HAUS): 1 - sevenths}
    expected |= {(BOOK, DAS): sevenths, (BOOK, BUCH): 1 - sevenths}
    assert as_dict(ibm_model_1(source, target, 3, iterations=2)) == pytest.approx({k: float(v) for k, v in expected.items()})


def test_in_the_end_each_word_has_its_own() -> None:
    source, target = sequences([THE, HOUSE], [THE, BOOK]), sequences([DAS, HAUS], [DAS, BUCH])
    found = ibm_model_1(source, target, 3, iterations=50)
    assert found.best(4, 1).tolist() == [[DAS], [HAUS], [BUCH], [-1]]
    assert found.best(3, 4)[THE].tolist() == [DAS, HAUS, BUCH, -1]  # equals in the order of their ids


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="1 sources and 2 targets"):
        ibm_model_1(sequences([1]), sequences([1], [2]), 3)
    with pytest.raises(ValueError, match="0 sources"):
        ibm_model_1(sequences(), sequences(), 3)
