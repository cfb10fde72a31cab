"""What heads do: by hand on small maps, and through a model, in batches or one by one."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import MarianMTModel, PreTrainedModel, PreTrainedTokenizerBase

from tests.inspection.test_head_worth import bart, t5, vaswani
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.inspection import heads as heads_module
from vaswani_transformer.inspection.figures import Kind
from vaswani_transformer.inspection.head_worth import head_names
from vaswani_transformer.inspection.heads import (
    KINDS,
    MEASURES,
    SHARES,
    HeadName,
    MeasuredHeads,
    Scene,
    _Sums,
    marks_of,
    measure_heads,
    outstanding,
)

END = 2
PAIRS = [
    ("The house is old.", "Yes."),
    ("Two small dogs run along the beach while the children watch them from the boat.", "A man reads. A man reads."),
    ("Yes.", "The dogs that the man sees are running."),
    ("A woman in a red coat reads a book.", "A woman in a red coat reads a book."),
]


def scene(kind: Kind, queries: list[int], keys: list[int], sink: list[int], counts: list[float]) -> Scene:
    """One sentence; `sink` are places."""
    visible = torch.ones(1, len(queries), len(keys), dtype=torch.bool)
    marked = torch.zeros(1, len(keys), dtype=torch.bool)
    marked[0, sink] = True
    visible = visible.tril() if kind == "decoder" else visible
    return Scene(kind, visible, torch.tensor([queries]), torch.tensor([keys]), marked, torch.tensor([counts]))


def measured(found: Scene, *heads: Tensor) -> list[dict[str, float | None]]:
    """Measures of `heads` `[Q, K]`, then of even attention."""
    sums = _Sums()
    sums.add([torch.stack(heads)[None]], found)
    return [*sums.means()[0], sums.chance()]


ENCODER = scene("encoder", [7, 8, 7, 9, END], [7, 8, 7, 9, END], [4], [50, 3, 50, 3, math.inf])
"""Five tokens, the first and the third of which are the same; the second and the fourth are equally rare."""


def test_a_head_that_always_looks_at_one_position_has_1() -> None:
    """The first token has no previous one and looks at the last; the last has no next one and looks at the first."""
    for name, places in (("previous", [4, 0, 1, 2, 3]), ("next", [1, 2, 3, 4, 0])):
        values, _ = measured(ENCODER, torch.eye(5)[places])
        assert values[name] == 1 and values["same"] == 0 and values["entropy"] == 0
        assert values["distance"] == pytest.approx((4 * 1 + 4) / 5)
    values, chance = measured(ENCODER, torch.eye(5))
    assert (values["same"], values["diagonal"], values["distance"], values["previous"], values["token"]) == (1, 1, 0, 0, 0)
    assert (chance["same"], chance["previous"], chance["next"]) == pytest.approx((1 / 5, 1 / 5, 1 / 5))


def test_the_other_shares_by_hand() -> None:
    token = torch.eye(5)[[2, 0, 0, 0, 0]]
    sink = torch.eye(5)[[4, 4, 4, 4, 0]]  # the end itself looks elsewhere, which is not counted
    rare = torch.tensor([[0, 0.25, 0, 0.75, 0]]).expand(5, 5)
    of_token, of_sink, of_rare, chance = measured(ENCODER, token, sink, rare)
    assert (of_token["token"], of_sink["sink"], of_rare["rare"]) == (1, 1, 1)
    assert of_rare["entropy"] == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    assert (chance["token"], chance["sink"], chance["rare"]) == pytest.approx((1 / 5, 1 / 5, 2 / 5))
    assert chance["diagonal"] == pytest.approx((2 + 3 + 3 + 3 + 2) / 25)
    assert chance["entropy"] == pytest.approx(math.log(5))
    assert chance["distance"] == pytest.approx(sum(abs(q - k) for q in range(5) for k in range(5)) / 25)


def test_even_attention_is_chance() -> None:
    for kind in KINDS:
        found = scene(kind, [7, 8, 7, 9, END], [7, 8, 7, 9, END], [4], [50, 3, 50, 3, math.inf])
        even = found.visible[0] / found.visible[0].sum(-1, keepdim=True)
        values, chance = measured(found, even.double())
        for name in MEASURES:
            assert values[name] == pytest.approx(chance[name])


def test_the_decoder_sees_no_future_and_its_first_query_has_no_choice() -> None:
    found = scene("decoder", [1, 7, 8, 7], [1, 7, 8, 7], [0], [math.inf, 5, 6, 5])
    first = torch.eye(4)[[0, 0, 0, 0]].double()
    values, chance = measured(found, first)
    assert values["next"] is None and chance["next"] is None
    assert values["sink"] == 1 and values["distance"] == pytest.approx((1 + 2 + 3) / 3)
    assert chance["sink"] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert values["previous"] == pytest.approx(1 / 3)  # from the second query
    # the last query sees the token 7 twice, once elsewhere; both are the rarest
    assert chance["token"] == pytest.approx(1 / 4)
    assert chance["rare"] == pytest.approx((1 / 2 + 1 / 3 + 2 / 4) / 3)


def test_the_diagonal_of_cross_attention_is_scaled() -> None:
    found = scene("cross", [5, 6, END], [5, 3, 4, 6, END], [4], [9, 9, 1, 9, math.inf])
    looks = torch.eye(5)[[0, 2, 4]].double()
    values, chance = measured(found, looks)
    assert values["diagonal"] == 1 and values["distance"] == 0
    assert values["previous"] is None and values["same"] is None
    assert chance["diagonal"] == pytest.approx((2 + 3 + 2) / 15)
    assert chance["distance"] == pytest.approx((10 + 6 + 10) / 15)
    assert values["token"] == pytest.approx(2 / 3)  # 5 and </s> are found where they are written, 6 is not
    assert values["sink"] == pytest.approx(1 / 3) and values["rare"] == pytest.approx(1 / 3)


def test_masks_lie_inside_what_is_seen() -> None:
    visible = torch.ones(2, 4, 4, dtype=torch.bool).tril()
    visible[1, 3:] = False
    visible[1, :, 3:] = False
    tokens = torch.tensor([[1, 5, 5, 5], [1, 5, 6, 0]])
    marks, _, choice = marks_of(Scene("decoder", visible, tokens, tokens, tokens == 1, torch.ones(2, 4)))
    assert set(marks) == set(SHARES)
    assert choice.tolist() == [[False, True, True, True], [False, True, True, False]]
    assert all(not (mask & ~visible).any() and not mask[~choice].any() for mask in marks.values())


@pytest.mark.parametrize(("window", "before"), [(3, 1), (2, 1), (1, 0)])
def test_a_window_limits_what_a_query_sees(window: int, before: int, tokenizer: PreTrainedTokenizerBase) -> None:
    torch.manual_seed(5)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = VaswaniConfig(vocab_size=len(tokenizer), **sizes, encoder_ffn_dim=16, decoder_ffn_dim=16, attention_window=window)
    found = measure_heads(VaswaniForConditionalGeneration(config).eval(), tokenizer, PAIRS)
    lengths = [len(tokenizer(source).input_ids) for source, _ in PAIRS]
    places = [(place, length - 1 - place) for length in lengths for place in range(length)]
    keys = [1 + min(before, earlier) + min((window - 1) // 2, later) for earlier, later in places]
    seeing = [number for number in keys if number > 1]
    chance, queries = found.chance["encoder"], found.queries["encoder"]
    assert queries["same"] == queries["entropy"] == len(seeing)
    assert chance["same"] == (pytest.approx(sum(1 / number for number in seeing) / len(seeing)) if seeing else None)
    assert chance["entropy"] == (pytest.approx(sum(map(math.log, seeing)) / len(seeing)) if seeing else None)
    assert queries["previous"] == (sum(length - 1 for length in lengths) if before else 0)
    assert queries["next"] == (sum(length - 1 for length in lengths) if window == 3 else 0)
    written = [len(tokenizer(target).input_ids) for _, target in PAIRS]
    assert found.queries["decoder"]["previous"] == (sum(length - 1 for length in written) if window > 1 else 0)
    assert found.queries["cross"]["entropy"] == sum(written)


def test_batches_and_padding_change_nothing(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = measure_heads(model, tokenizer, PAIRS)
    monkeypatch.setattr(heads_module, "_PAIRS_AT_ONCE", 1)
    alone = measure_heads(model, tokenizer, PAIRS)
    assert list(together.heads) == [HeadName(kind, 0, head) for kind in KINDS for head in range(2)]
    assert together.queries == alone.queries and together.queries["cross"]["previous"] == 0
    for name, values in together.heads.items():
        assert values == pytest.approx(alone.heads[name], abs=1e-12)
        assert all(value is None or value >= 0 for value in values.values())
    for kind in KINDS:
        assert together.chance[kind] == pytest.approx(alone.chance[kind], abs=1e-12)
    assert (together.sentences, together.source_tokens) == (4, sum(len(tokenizer(source).input_ids) for source, _ in PAIRS))
    assert model.config._attn_implementation == "sdpa" and not model.training


@pytest.mark.parametrize("make", [vaswani, bart, t5])
def test_other_models_are_measured(make: Callable[[int], PreTrainedModel], tokenizer: PreTrainedTokenizerBase) -> None:
    model = make(len(tokenizer)).double()
    model.generation_config.decoder_start_token_id = 1
    found = measure_heads(model, tokenizer, PAIRS[:2])
    assert list(found.heads) == head_names(model)
    for name, values in found.heads.items():
        assert all((values[share] is None) == (found.chance[name.kind][share] is None) for share in SHARES)
        assert 0 < (values["entropy"] or 0) <= (found.chance[name.kind]["entropy"] or 0) + 1e-12


def test_a_models_means_are_those_of_its_maps(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """One sentence, against its weights as transformers returns them."""
    source, target = PAIRS[0]
    found = measure_heads(model, tokenizer, [PAIRS[0]])
    ids, written = (torch.tensor([tokenizer(text).input_ids]) for text in (source, target))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(input_ids=ids, labels=written, output_attentions=True)
    weights, cross = outputs.encoder_attentions[0][0], outputs.cross_attentions[0][0]
    for head in range(2):
        values = found.heads[HeadName("encoder", 0, head)]
        assert values["previous"] == pytest.approx(float(weights[head].diagonal(-1).mean()), abs=1e-12)
        assert values["next"] == pytest.approx(float(weights[head].diagonal(1).mean()), abs=1e-12)
        assert values["sink"] == pytest.approx(float(weights[head][:-1, -1].mean()), abs=1e-12)
        entropy = float(torch.distributions.Categorical(cross[head]).entropy().mean())
        assert found.heads[HeadName("cross", 0, head)]["entropy"] == pytest.approx(entropy, abs=1e-9)


def test_the_rarest_token_is_that_of_the_given_frequencies(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    ids = tokenizer("A man reads.").input_ids
    counts = torch.full((len(tokenizer),), 100)
    counts[ids[1]] = 1
    pair = ("A man reads.", "A man reads.")
    found = measure_heads(model, tokenizer, [pair], frequencies={"source": counts, "target": counts})
    assert found.chance["cross"]["rare"] == pytest.approx(1 / len(ids))
    assert measure_heads(model, tokenizer, [pair]).chance["cross"]["rare"] == pytest.approx((len(ids) - 1) / len(ids))


def test_what_stands_out_is_the_furthest_above_chance() -> None:
    chance = dict.fromkeys(MEASURES, 0.1)
    values: dict[str, float | None] = {**chance, "same": 0.3, "sink": 0.2, "diagonal": 0.9}
    assert outstanding(values, chance) == "same"
    assert outstanding({**values, "same": None}, chance) == "diagonal"
    assert outstanding(chance, chance) is None
    found = MeasuredHeads({HeadName("encoder", 0, 0): values}, dict.fromkeys(KINDS, chance), {}, 1, 1, 1)
    assert found.outstanding(HeadName("encoder", 0, 0)) == "same"


def test_what_cannot_be_measured_is_told(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ValueError, match="no sentence pairs"):
        measure_heads(model, tokenizer, [])
    with pytest.raises(ValueError, match=r"Sentence pair 2 cannot be measured: The target is only white space"):
        measure_heads(model, tokenizer, [PAIRS[0], ("Yes.", " ")])
    with pytest.raises(
        ValueError, match=r"Sentence pair 1 cannot be measured: The source has \d+ tokens, and the model has positions for 128"
    ):
        measure_heads(model, tokenizer, [("dog " * 200, "Yes.")])
    model.config.is_encoder_decoder = False
    with pytest.raises(ValueError, match="has no encoder and decoder"):
        measure_heads(model, tokenizer, PAIRS)
