"""The grid against all translations there are, and the rules by which an item stands apart."""

import itertools
from collections import Counter
from typing import Any

import pytest
import torch

from tests.test_decoding import EOS, GNMT, build_model, padded
from vaswani_transformer import constrained_search
from vaswani_transformer.constrained_search import ConstrainedSearch, SentenceGrid, Vocabulary
from vaswani_transformer.copied_items import lost_items

TOKENS = ["<pad>", "<s>", "</s>", "Ġ", "a", "_", "b"]
ITEMS = [{"a_b": 1}, {"_": 2}, {"a": 1, "b": 1}, {"a_": 1}]
SOURCES = [[3, 4, 5, EOS], [6, EOS], [4, 4, 6, 3, EOS], [5, EOS]]


class Letters:
    """A tokenizer of one token a character."""

    all_special_ids = (0, 1, 2)

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [TOKENS.index(character.replace(" ", "Ġ")) for character in text if character != "("]}

    def convert_ids_to_tokens(self, token: int) -> str:
        return TOKENS[token]

    def decode(self, tokens: Any, skip_special_tokens: bool = True) -> str:
        return "".join(TOKENS[token] for token in tokens if token > 2).replace("Ġ", " ")


def best_of_all(model: Any, source: list[int], items: dict[str, int], limit: int) -> tuple[float, tuple[int, ...]]:
    """The best finished translation of at most `limit` tokens that has the items, by looking at every one."""
    found = []
    for length in range(limit):
        bodies = list(itertools.product(range(3, 7), repeat=length))
        bodies = [body for body in bodies if not lost_items(Counter(items), Letters().decode(body))]
        if not bodies:
            continue
        rows = torch.tensor([[1, *body, EOS] for body in bodies])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([source] * len(rows)), decoder_input_ids=rows[:, :-1]).logits
        said = logits.log_softmax(-1).gather(2, rows[:, 1:, None]).squeeze(2).sum(1) / ((5 + length + 1) / 6) ** 0.6
        found += [(worth, (*body, EOS)) for worth, body in zip(said.tolist(), bodies, strict=True)]
    return max(found)


def searched(model: Any, sources: list[list[int]], items: list[dict[str, int]], width: int, **settings: Any) -> ConstrainedSearch:
    search = ConstrainedSearch(Vocabulary(Letters()), [Counter(each) for each in items], width, settings.pop("wanted", 1))
    asked = {"suppress_tokens": [0, 1], **GNMT, **settings}
    model.generate(**padded(sources), num_beams=search.rows, custom_generate=search, **asked)
    return search


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_grid_finds_the_best_translation_with_the_items(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained_search, "IN_AN_ITEM", 120)
    model = build_model(seed, vocab_size=len(TOKENS))
    found = searched(model, SOURCES, ITEMS, 120, max_new_tokens=5).found
    for source, items, hypotheses in zip(SOURCES, ITEMS, found, strict=True):
        worth, tokens = best_of_all(model, source, items, 5)
        assert hypotheses[0].tokens == tokens
        assert hypotheses[0].worth == pytest.approx(worth, abs=1e-5)


@pytest.mark.parametrize("settings", [{}, {"length_penalty_type": None, "length_penalty": 1.0}, {"no_repeat_ngram_size": 3}])
def test_a_narrow_grid_has_all_items_alone_and_in_a_batch(settings: dict[str, Any]) -> None:
    model = build_model(5, vocab_size=len(TOKENS))
    together = searched(model, SOURCES, ITEMS, 2, max_new_tokens=9, wanted=2, **settings).found
    for number, (source, items) in enumerate(zip(SOURCES, ITEMS, strict=True)):
        assert [found.tokens for found in together[number]] == [
            found.tokens for found in searched(model, [source], [items], 2, max_new_tokens=9, wanted=2, **settings).found[0]
        ]
        worths = [found.worth for found in together[number]]
        assert worths == sorted(worths, reverse=True) and len(set(together[number])) == 2
        for found in together[number]:
            assert found.tokens[-1] == EOS and not lost_items(Counter(items), Letters().decode(found.tokens))


def test_nothing_is_found_where_the_limit_or_a_rule_forbids_it() -> None:
    model = build_model(5, vocab_size=len(TOKENS))
    assert searched(model, SOURCES[:1], [{"a_b": 2}], 3, max_new_tokens=6).found == [[]]
    assert searched(model, SOURCES[:1], [{"a": 1}], 3, max_new_tokens=6, bad_words_ids=[[4]]).found == [[]]
    (one,) = searched(model, SOURCES[:1], [{"a_b": 1}], 3, max_new_tokens=4).found
    assert one[0].tokens == (4, 5, 6, EOS)


def test_many_items_share_banks() -> None:
    model = build_model(5, vocab_size=len(TOKENS))
    items = Counter({"_": constrained_search.MOST_BANKS + 8})
    search = searched(model, SOURCES[:1], [items], 2, max_new_tokens=70)
    assert search.rows == 2 + constrained_search.MOST_BANKS * (2 + constrained_search.IN_AN_ITEM)
    assert not lost_items(items, Letters().decode(search.found[0][0].tokens))


def grid(**items: int) -> SentenceGrid:
    return SentenceGrid(Counter(items), Vocabulary(Letters()), 20, 4, 1, float)


def test_an_item_glued_to_a_word_is_none() -> None:
    search = grid(a=1)
    follow = search._appended
    start = search.open[0]
    apart, glued = follow(follow(start, 4, -1), 3, -2), follow(follow(start, 4, -1), 6, -2)
    assert (apart.missing, glued.missing) == ((0,), (1,))
    assert search.demanded(follow(start, 6, -1)) == [3], "after a letter, only the spelling with a space may begin"
    assert follow(follow(start, 6, -1), 4, -2).missing == (1,)


def test_a_hypothesis_may_give_an_item_up_and_begin_it_again() -> None:
    search = grid(a_b=1)
    begun = search._appended(search._appended(search.open[0], 4, -1), 5, -2)
    assert search._bank(begun) == (0, 2) and 6 in search.demanded(begun)
    given_up = search._appended(begun, 3, -3)
    assert search._bank(given_up)[0] == 0 and given_up.missing == (1,)
    done = search._appended(begun, 6, -3)
    assert search._bank(done) == (1, 0) and not search.demanded(done)
