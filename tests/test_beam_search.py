"""One sentence's search by hand, the largest entries of a row, and greedy search against Hugging Face's."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
)
from transformers.generation import GenerationMixin

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.beam_search import Penalty, SentenceSearch, bar, block_width, columns_of, first_largest, greedy_search, largest

END = 2


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize("width", [1, 7, 97, 300, 1_000, 1_021, 4_096])
def test_the_largest_sums(width: int, hypotheses: int) -> None:
    rows, shift = torch.randn(5, hypotheses, width), torch.randn(5, hypotheses)
    shift[1, -1] = -torch.inf
    sums = rows + shift.unsqueeze(-1)
    best, *on_host = largest(sums, 6)
    values, places = map(torch.tensor, on_host)
    expected = sums.flatten(1).topk(min(6, hypotheses * width))
    assert torch.equal(values, expected.values)
    assert torch.equal(best, expected.values)
    is_there = values > -torch.inf
    assert torch.equal(places[is_there], expected.indices[is_there])


def test_an_end_is_barred_until_enough_tokens_stand_before_it() -> None:
    scores = torch.zeros(2, 3, 5)
    by_column = columns_of({2: 4, 9: 1, 7: 3}, [0, 2, 3, 7, 0])
    assert by_column == {1: 4, 3: 3}
    bar(scores, by_column, 3)
    assert scores[..., 1].isneginf().all()
    assert (scores[..., [0, 2, 3, 4]] == 0).all()
    bar(scores, columns_of({4: 1}, None), 0)
    assert scores[..., 4].isneginf().all()


@pytest.mark.parametrize("width", [1, 7, 97, 300, 1_021, 4_096])
def test_the_first_of_the_largest_entries(width: int) -> None:
    rows = torch.randint(-9, 9, (5, width)).double()
    rows[1] = -torch.inf
    rows[2, width // 2] = torch.nan
    assert torch.equal(first_largest(rows), rows.argmax(-1))


def test_blocks_are_cut_without_a_rest() -> None:
    """Multiples of 32 where the vocabulary is one, otherwise blocks of little beyond one."""
    assert {width: block_width(width) for width in (1, 7, 1_021, 10_000, 32_000, 37_000)} == {
        1: 1, 7: 7, 1_021: 1, 10_000: 200, 32_000: 256, 37_000: 200,
    }  # fmt: skip


def test_penalty() -> None:
    assert Penalty(1.0)(7) == 2
    assert Penalty(0.5)(19) == 2
    assert Penalty(0.0)(19) == 1


def extend(search: SentenceSearch, *candidates: tuple[float, int, int]) -> None:
    scores, beams, tokens = zip(*candidates, strict=True)
    search.extend(scores, beams, tokens, [token == END for token in tokens])


def test_a_sentence_by_hand() -> None:
    """Penalty 1 for one token, 7/6 for two, 8/6 for three; the bound divides by 10/6, the penalty at the limit of 5."""
    search = SentenceSearch(number=1, limit=5, beams=2, wanted=1, penalty=Penalty(1.0), is_predictable=True)
    extend(search, (-1.0, 0, 7), (-1.5, 0, END), (-2.0, 0, 8), (-9.0, 0, 9))
    assert [hypothesis.tokens for hypothesis in search.open] == [(7,), (8,)]
    assert search.origins == [0, 0]
    assert not search.is_done  # -1 / (10/6) = -0.6 > -1.5
    extend(search, (-1.6, 0, END), (-2.2, 1, 5), (-2.4, 0, 6), (-3.0, 1, END))
    ((worth, best),) = search.results()
    assert (worth, best.tokens, best.rows) == (-1.6 / (7 / 6), (7, END), (2, 2))
    # -2.2 / (10/6) = -1.32 may still beat -1.37, -2.4 / (10/6) = -1.44 cannot.
    assert [hypothesis.tokens for hypothesis in search.open] == [(8, 5)]
    assert search.origins == [1]
    assert search.open[0].rows == (2, 3)
    assert not search.is_done
    extend(search, (-2.3, 0, 6), (-2.4, 0, 7))
    assert search.is_done
    assert search.results() == [(worth, best)]


def test_ties_go_to_who_came_first() -> None:
    search = SentenceSearch(number=0, limit=9, beams=2, wanted=1, penalty=Penalty(0.0), is_predictable=False)
    extend(search, (-1.0, 0, END), (-1.0, 0, 5), (-2.0, 0, 6), (-3.0, 0, 7))
    extend(search, (-1.0, 0, END), (-2.0, 0, 5), (-2.0, 1, 6), (-3.0, 1, 7))
    assert search.results()[0][1].tokens == (END,)


def test_open_hypotheses_stand_in_at_the_limit() -> None:
    search = SentenceSearch(number=0, limit=1, beams=2, wanted=2, penalty=Penalty(1.0), is_predictable=True)
    extend(search, (-1.0, 0, 5), (-1.5, 0, END), (-2.0, 0, 6), (-3.0, 0, 7))
    assert search.is_done
    assert [hypothesis.tokens for _, hypothesis in search.results()] == [(END,), (5,)]


def test_greedy_rules_see_whole_logits() -> None:
    """A repeated token's logit, 3, is halved, and then 1.9 is more; of what is left by an offset of 4 it would be doubled."""
    logits = torch.tensor([[[0.0, 0.0, 0.0, 3.0, 1.9]]])
    steps: Any = SimpleNamespace(first=lambda: logits - 4, offset=4.0, columns=None)
    config = GenerationConfig()
    config._eos_token_tensor = config._pad_token_tensor = None
    rules = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(2.0)])
    found = greedy_search(steps, torch.tensor([[3]]), rules, [1], config)
    assert found.tolist() == [[3, 4]]


class OwnRule(LogitsProcessor):
    """A rule of a caller's own, which sends greedy search back to Hugging Face's."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores - (input_ids[:, -1:] == torch.arange(scores.shape[-1])).to(scores)


PROCESSED = {"min_new_tokens": 4, "no_repeat_ngram_size": 2, "bad_words_ids": [[5], [3, 4]]}


@pytest.mark.parametrize("asked", [{}, PROCESSED, {"logits_processor": LogitsProcessorList([OwnRule()])}])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("variant", [{}, {"attention_score": "additive"}, {"attention_score": "dot_product"}, {"attention_window": 2}])
def test_greedy_search_is_hugging_faces(variant: dict[str, Any], side: str, asked: dict[str, Any]) -> None:
    class Plain(VaswaniForConditionalGeneration):
        _sample = GenerationMixin._sample
        _prepare_cache_for_generation = GenerationMixin._prepare_cache_for_generation

    config = VaswaniConfig(vocab_size=9, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                           decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, tie_word_embeddings=False,
                           **variant)  # fmt: skip
    sources = [[3, 4, 5, 6, 2], [7, 2], [8, 3, 2], [5, 5, 5, 2]]
    rows = [[0] * (5 - len(s)) + s if side == "left" else s + [0] * (5 - len(s)) for s in sources]
    ids = torch.tensor(rows)
    lengths = set()
    for seed in range(12):
        models: list[Any] = []
        for cls in (VaswaniForConditionalGeneration, Plain):
            torch.manual_seed(seed)
            models.append(cls(config).double().eval())
            for parameter in models[-1].parameters():
                if parameter.ndim == 2:
                    torch.nn.init.normal_(parameter)
        settings = {"attention_mask": (ids != 0).long(), "max_new_tokens": 12, **asked}
        found, expected = (model.generate(ids, **settings) for model in models)
        assert torch.equal(found, expected)
        lengths |= set((found != 0).sum(1).tolist())
    assert len(lengths) > 3
