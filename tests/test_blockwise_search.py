"""Greedy search with drafts against greedy search without, whatever the drafts are worth."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import LogitsProcessorList
from transformers.generation import logits_process

from tests.processor import BFLOAT16
from tests.stand_in_heads import RandomHeads
from tests.test_decoding import BOS, EOS, PAD, SOURCES, DoNothing, RowCollector, build_model, padded
from vaswani_transformer import decoding
from vaswani_transformer.block_steps import BlockSteps, OneByOne, Proposing, bare_heads
from vaswani_transformer.blockwise_search import BlockwiseSearch, Choices
from vaswani_transformer.shortlist import Shortlist
from vaswani_transformer.stepping import closed_up

NEVER_RIGHT = 10
SETTINGS: list[dict[str, Any]] = [
    {"max_length": 14},
    {"extra_length": 3},
    {"extra_length": 50},
    {"max_new_tokens": 12, "repetition_penalty": 1.5},
    {"max_new_tokens": 9, "no_repeat_ngram_size": 2, "bad_words_ids": [[5], [6, 7]]},
    {"max_new_tokens": 9, "min_new_tokens": 4},
    {"max_new_tokens": 5, "forced_eos_token_id": EOS},
    {"extra_length": 1, "forced_eos_token_id": [7, EOS]},
    {"max_new_tokens": 6, "forced_bos_token_id": 5},
    {"max_new_tokens": 6, "begin_suppress_tokens": [EOS, 6], "suppress_tokens": [9]},
    {"max_new_tokens": 6, "renormalize_logits": True, "remove_invalid_values": True},
]


def model_with_heads(heads: int = 3, seed: int = 0, chained: bool = False, **architecture: Any) -> Any:
    if chained:
        return build_model(seed, parallel_heads=heads + 1, chained_heads=True, **architecture)
    model = build_model(seed, **architecture)
    model.config.parallel_heads = heads + 1
    model.parallel_heads = RandomHeads(heads, 16, seed).eval()
    return model


def assert_same(model: Any, sources: list[list[int]], draft: str, side: str = "right", **search: Any) -> torch.Tensor:
    plain = model.generate(**padded(sources, side), **search, draft="none")
    assert torch.equal(model.generate(**padded(sources, side), **search, draft=draft), plain)
    return plain


class Scripted:
    """Proposes what a search without drafts finds, or what it never finds, and counts the passes."""

    def __init__(self, truth: Sequence[Sequence[int]], length: int, is_right: bool) -> None:
        self.truth, self.length, self.is_right, self.passes = truth, length, is_right, 1

    def propose(self, steps: BlockSteps, sentences: Sequence[int], found: Sequence[Sequence[int]], rows: Sequence[int]) -> list[list[int]]:
        self.passes += 1
        starts = [len(found[sentence]) for sentence in sentences]
        right = [list(self.truth[sentence][start : start + self.length]) for sentence, start in zip(sentences, starts, strict=True)]
        return right if self.is_right else [[NEVER_RIGHT] * self.length for _ in sentences]


def scripted_search(
    monkeypatch: pytest.MonkeyPatch, model: Any, sources: list[list[int]], length: int, is_right: bool, **search: Any
) -> tuple[int, torch.Tensor]:
    """The number of passes with these drafts, and what they found, which is what a search without drafts finds."""
    plain = model.generate(**padded(sources), **search, draft="none")
    drafter = Scripted(plain[:, 1:].tolist(), length, is_right)
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "drafter_of", lambda *_: drafter)
        assert torch.equal(model.generate(**padded(sources), **search), plain)
    return drafter.passes, plain


@pytest.mark.parametrize("search", SETTINGS)
@pytest.mark.parametrize(("draft", "chained"), [("heads", False), ("heads", True), ("source", False), ("source+heads", True)])
def test_drafts_change_no_token(draft: str, chained: bool, search: dict[str, Any]) -> None:
    model = model_with_heads(3, 1, chained)
    assert_same(model, SOURCES, draft, **search)
    assert_same(model, SOURCES, draft, side="left", **search)
    for source in SOURCES[:3]:
        assert_same(model, [source], draft, **search)


@settings(max_examples=40)
@given(
    sources=st.lists(st.lists(st.integers(3, 10), max_size=9), min_size=1, max_size=19),
    seed=st.integers(0, 9),
    heads=st.integers(1, 6),
    draft=st.sampled_from(["heads", "source", "source+heads"]),
    prompt=st.integers(0, 3),
    limit=st.integers(1, 9),
    is_learned=st.booleans(),
    chained=st.booleans(),
)
def test_drafts_change_no_token_of_any_batch(
    sources: list[list[int]], seed: int, heads: int, draft: str, prompt: int, limit: int, is_learned: bool, chained: bool
) -> None:
    table = {"position_embedding_type": "learned", "max_position_embeddings": max(11, 1 + prompt + limit)} if is_learned else {}
    model = model_with_heads(heads, seed, chained, **table)
    prompts = torch.randint(3, 11, (len(sources), 1 + prompt))
    assert_same(model, [[*source, EOS] for source in sources], draft, decoder_input_ids=prompts, max_new_tokens=limit)


def test_a_table_of_positions_ends_for_all_searches_at_the_same_token() -> None:
    model = model_with_heads(3, 3, position_embedding_type="learned", max_position_embeddings=8)
    assert_same(model, SOURCES[:2], "heads", max_new_tokens=8)
    for draft in ("none", "heads"):
        with pytest.raises(ValueError, match="the position"):
            model.generate(**padded(SOURCES[:2]), max_new_tokens=9, min_new_tokens=9, draft=draft)


@pytest.mark.parametrize(("length", "passes"), [(1, 6), (3, 4), (5, 3), (40, 2)])
def test_right_drafts_save_passes(monkeypatch: pytest.MonkeyPatch, length: int, passes: int) -> None:
    """Of 11 tokens the first pass finds 1, and each later one a token and its drafts: 1 + 5 * 2, 1 + 4 + 4 + 2, 1 + 6 + 4, 1 + 10."""
    model = model_with_heads()
    search = {"max_new_tokens": 11, "min_new_tokens": 11}
    counted, plain = scripted_search(monkeypatch, model, SOURCES, length, True, **search)
    assert plain.shape == (len(SOURCES), 12)
    assert counted == passes


def test_wrong_drafts_cost_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    search = {"max_new_tokens": 11, "suppress_tokens": [NEVER_RIGHT]}
    for sources in ([SOURCES[0]], SOURCES):
        passes, plain = scripted_search(monkeypatch, model_with_heads(), sources, 4, False, **search)
        assert passes == plain.shape[1] - 1


def test_the_passes_of_a_batch_are_counted_by_its_slowest_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sentence has its own limit, so a batch ends with its longest one."""
    model = model_with_heads()
    search = {"extra_length": 2, "suppress_tokens": [EOS]}
    passes, plain = scripted_search(monkeypatch, model, SOURCES, 2, True, **search)
    longest = max(map(len, SOURCES)) + 2
    assert plain.shape[1] - 1 == longest
    assert passes == 1 + -(-(longest - 1) // 3)


@pytest.mark.parametrize("rules", [{}, {"repetition_penalty": 1.3}])
def test_a_streamer_gets_the_tokens_of_greedy_search(rules: dict[str, Any]) -> None:
    model, plain, drafted = model_with_heads(4, 3), RowCollector(), RowCollector()
    for streamer, draft in ((plain, "none"), (drafted, "source+heads")):
        model.generate(**padded(SOURCES), streamer=streamer, extra_length=4, draft=draft, **rules)
    assert plain.rows == drafted.rows


def test_only_scores_on_the_way_must_be_numbers() -> None:
    model = model_with_heads()
    model.lm_head.weight.data[6, 3] = torch.nan
    for draft in ("heads", "source"):
        with pytest.raises(ValueError, match=r"scores for the next token are not numbers \(NaN\)"):
            model.generate(**padded(SOURCES), max_new_tokens=4, draft=draft)
    choices = Choices(torch.tensor([[[0.0, 2.0], [torch.nan, 1.0]]]))
    assert choices.token(0, 0) == 1
    with pytest.raises(ValueError, match="not numbers"):
        choices.token(0, 1)


def test_heads_as_functions_propose_what_the_module_proposes() -> None:
    model = build_model(2, parallel_heads=4)
    states = torch.randn(5, 16, dtype=torch.float64)
    assert torch.equal(bare_heads(model.parallel_heads)(states), model.parallel_heads(states))


@pytest.mark.parametrize("sources", [SOURCES[:1], SOURCES])
def test_chained_heads_as_functions_propose_what_the_module_proposes(sources: list[list[int]]) -> None:
    """Also after some sentences ended; the module reads what the functions proposed."""
    model, given = build_model(2, parallel_heads=4, chained_heads=True), padded(sources)
    source = model.get_encoder()(**given)[0]
    arguments = {"encoder_outputs": (source,), "attention_mask": given["attention_mask"]}
    steps = BlockSteps(model, torch.full((len(sources), 1), BOS), arguments, Proposing(3))
    kept = closed_up(range(0, len(sources), 2))
    with torch.no_grad():
        steps.first()
        steps.keep(kept)
        newest = [3 + sentence % 5 for sentence in kept]
        drafts = steps.guesses([0] * len(kept), newest)
        tokens = torch.tensor([[token, *draft] for token, draft in zip(newest, drafts, strict=True)])
        following = model.get_decoder().embed(tokens, None)
        states = steps.states.expand(-1, 4, -1)
        for number in range(3):
            proposed = model.parallel_heads(states, following, source[kept], given["attention_mask"][kept])[number][:, 0]
            scores = model.lm_head(proposed)
            chosen = scores.gather(1, tokens[:, number + 1 : number + 2])
            torch.testing.assert_close(chosen, scores.amax(1, keepdim=True), rtol=0, atol=1e-12)  # two tokens may have one score


@pytest.mark.parametrize("chained", [False, True])
def test_heads_propose_as_many_tokens_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch, chained: bool) -> None:
    model, given = build_model(2, parallel_heads=4, chained_heads=chained), padded(SOURCES)
    arguments = {"encoder_outputs": (model.get_encoder()(**given)[0],), "attention_mask": given["attention_mask"]}
    prompts, newest = torch.full((len(SOURCES), 1), BOS), [3 + sentence % 5 for sentence in range(len(SOURCES))]
    proposed = {}
    for tokens in (1, 2, 3, 7 if chained else 3):
        steps = BlockSteps(model, prompts, arguments, Proposing(tokens))
        with torch.no_grad():
            steps.first()
            proposed[tokens] = steps.guesses([0] * len(SOURCES), newest)
    longest = proposed[max(proposed)]
    for tokens, drafts in proposed.items():
        assert drafts == [draft[:tokens] for draft in longest] and all(len(draft) == tokens for draft in drafts)
    asked: list[int | None] = []
    begin = BlockSteps.__init__
    monkeypatch.setattr(BlockSteps, "__init__", lambda self, *given: asked.append(given[3] and given[3].tokens) or begin(self, *given))
    for tokens in (None, 1, 2, 7 if chained else 3):
        model.generation_config.update(draft_tokens=tokens, allow_custom_entries=True)
        assert_same(model, SOURCES, "heads", max_new_tokens=9)
        assert_same(model, SOURCES, "source+heads", max_new_tokens=9)
        assert asked == [tokens or 3] * 2
        asked.clear()
    assert_same(model, SOURCES, "source", max_new_tokens=9)
    assert asked == [None]


def test_heads_that_propose_all_at_once_have_no_more() -> None:
    with pytest.raises(ValueError, match="draft_tokens is 3, and this model's heads propose 2 at once; ask for at most as many"):
        model_with_heads(2).generate(**padded(SOURCES), draft="heads", draft_tokens=3)


def listing(allowed: Sequence[int]) -> Shortlist:
    """A shortlist that has these tokens for every source token, of the 11 that the models here know."""
    return Shortlist(torch.tensor([list(allowed)] * 11), torch.tensor([EOS]), 11)


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("kind", [None, "float32", BFLOAT16, "int8"])
@pytest.mark.parametrize("sources", [SOURCES[:1], SOURCES])
def test_within_a_shortlist_heads_propose_its_likeliest_tokens(sources: list[list[int]], kind: str | None, chained: bool) -> None:
    """A list of all tokens changes no proposal, and one of three leaves the likeliest of these."""
    model, given = build_model(2, parallel_heads=4, chained_heads=chained).float(), padded(sources)
    source = model.get_encoder()(**given)[0]
    if kind is not None:
        model.pack_weights(kind)
        del model.parallel_heads.to_vocabulary  # which rounds to 8 bits, as rows of the map do not
    arguments = {"encoder_outputs": (source,), "attention_mask": given["attention_mask"]}
    mask, newest = given["attention_mask"], [3 + sentence % 5 for sentence in range(len(sources))]
    proposed: list[list[list[int]]] = []
    for columns in (
        None,
        listing(range(11)).choose(given["input_ids"], mask).columns,
        listing([5, 9]).choose(given["input_ids"], mask).columns,
    ):
        steps = BlockSteps(model, torch.full((len(sources), 1), BOS), arguments, Proposing(3, among=columns))
        with torch.no_grad():
            steps.first()
            proposed.append(steps.guesses([0] * len(sources), newest))
            if columns is not None and len(set(columns.tolist())) < 11:
                scores = steps.step.to_vocabulary(ahead_of(steps, newest))
                listed = sorted(set(columns.tolist()))
                assert [draft[0] for draft in proposed[-1]] == [listed[best] for best in scores[:, listed].argmax(-1).tolist()]
    assert proposed[0] == proposed[1]
    assert {token for draft in proposed[2] for token in draft} <= {PAD, EOS, 5, 9}


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("kind", [None, "float32", BFLOAT16])
def test_chained_heads_propose_from_the_states_of_their_module(kind: str | None, scaled: bool) -> None:
    """Packed ones look up what their projection makes of a token."""
    model, given = build_model(parallel_heads=4, chained_heads=True, scale_embedding=scaled).float(), padded(SOURCES)
    heads, source = model.parallel_heads, model.get_encoder()(**given)[0]
    nn.init.normal_(heads.token_proj.bias)
    states, tokens = torch.randn(len(SOURCES), 16), torch.arange(3, 3 + len(SOURCES))
    following = model.get_decoder().embed_tokens(tokens) * (4.0 if scaled else 1.0)
    with torch.no_grad():
        expected = heads._one(states.unsqueeze(1), following.unsqueeze(1), source, given["attention_mask"]).squeeze(1)
    if kind is not None:
        model.pack_weights(kind)
    arguments = {"encoder_outputs": (source,), "attention_mask": given["attention_mask"]}
    steps = BlockSteps(model, torch.full((len(SOURCES), 1), BOS), arguments, Proposing(3))
    assert isinstance(steps.proposals, OneByOne)
    with torch.no_grad():
        assert torch.allclose(steps.proposals.next(states, tokens), expected, atol=1e-5 if kind is None else 0.1)


def ahead_of(steps: BlockSteps, newest: Sequence[int]) -> torch.Tensor:
    """The states from which the heads make their first proposals."""
    if isinstance(steps.proposals, OneByOne):
        return steps.proposals.next(steps.states[:, 0], torch.tensor(newest))
    return steps.proposals.heads(steps.states[:, 0])[:, 0]  # type: ignore[union-attr]


@pytest.mark.parametrize("draft", ["heads", "source+heads"])
@pytest.mark.parametrize("allowed", [[5, 9], range(11)])
def test_proposals_within_a_shortlist_change_no_token(monkeypatch: pytest.MonkeyPatch, allowed: Sequence[int], draft: str) -> None:
    model = model_with_heads(3, 1, chained=True)
    model.shortlist = listing(allowed)
    limits: list[Any] = []
    begin = BlockSteps.__init__
    monkeypatch.setattr(BlockSteps, "__init__", lambda self, *given: limits.append(given[3] and given[3].among) or begin(self, *given))
    model.generation_config.update(draft=draft, draft_shortlist=True, allow_custom_entries=True)
    for search in SETTINGS:
        assert_same(model, SOURCES, draft, **search)
        assert_same(model, SOURCES[:1], draft, **search)
    assert all(set(columns.tolist()) == {PAD, EOS, *allowed} for columns in limits)
    limits.clear()
    model.generate(**padded(SOURCES), max_new_tokens=3)
    model.generate(**padded(SOURCES), max_new_tokens=3, draft_shortlist=False)
    assert [columns is None for columns in limits] == [False, True]
    for unused in ({"num_beams": 2}, {"draft": "none"}, {"shortlist": True}):
        model.generate(**padded(SOURCES), max_new_tokens=3, **unused)
    assert len(limits) == 2


def test_without_tokens_of_the_source_heads_propose_any_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(decoding.logger, "warning_once", said.append)
    model, search = model_with_heads(3, 1, chained=True), {"max_new_tokens": 4, "draft": "heads", "draft_shortlist": True}
    model.shortlist = listing([5, 9])
    inputs = padded(SOURCES[:2])
    given = {"encoder_outputs": model.get_encoder()(**inputs), "attention_mask": inputs["attention_mask"]}
    assert torch.equal(model.generate(**given, **search), model.generate(**inputs, **search))
    assert len(said) == 1 and "draft_shortlist=True is not used" in said[0]


def test_only_a_search_whose_tensors_nobody_sees_runs_in_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[bool] = []
    following = BlockSteps.next
    monkeypatch.setattr(BlockSteps, "next", lambda *given: modes.append(torch.is_inference_mode_enabled()) or following(*given))
    model, search = model_with_heads(), {"max_new_tokens": 4, "min_new_tokens": 0, "suppress_tokens": [EOS], "draft": "heads"}
    model.generate(**padded(SOURCES[:1]), **search)
    model.generate(**padded(SOURCES[:1]), draft="heads", max_new_tokens=9, streamer=RowCollector())
    assert modes and not any(modes)
    modes.clear()
    model.generate(**padded(SOURCES[:1]), draft="heads", max_new_tokens=9)
    assert all(modes)


def used(monkeypatch: pytest.MonkeyPatch, model: Any, **search: Any) -> bool:
    """Whether `generate` takes the search with drafts."""
    taken = []
    run = BlockwiseSearch.run
    with monkeypatch.context() as patch:
        patch.setattr(BlockwiseSearch, "run", lambda self: taken.append(self) or run(self))
        model.generate(**padded(SOURCES[:2]), max_new_tokens=4, **search)
    return bool(taken)


def test_nobody_drafts_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_with_heads()
    assert not used(monkeypatch, model)
    assert not used(monkeypatch, model, draft="none")
    assert used(monkeypatch, model, draft="heads")
    assert used(monkeypatch, build_model(), draft="source")
    packed = build_model(parallel_heads=3).float().pack_weights("int8")
    assert not used(monkeypatch, packed)
    assert used(monkeypatch, packed, draft="heads")
    model.generation_config.update(draft="heads", allow_custom_entries=True)
    assert used(monkeypatch, model)
    assert not used(monkeypatch, model, num_beams=2)


@pytest.mark.parametrize("draft", ["source", "source+heads"])
def test_without_tokens_of_the_source_nothing_is_copied_and_that_is_said(monkeypatch: pytest.MonkeyPatch, draft: str) -> None:
    said: list[str] = []
    monkeypatch.setattr(decoding.logger, "warning_once", said.append)
    model, search = model_with_heads(), {"max_new_tokens": 4, "draft": draft}
    inputs = padded(SOURCES[:2])
    encoded = model.get_encoder()(**inputs)
    given = {"encoder_outputs": encoded, "attention_mask": inputs["attention_mask"]}
    assert torch.equal(model.generate(**given, **search), model.generate(**inputs, **search))
    assert len(said) == 1
    assert f"draft={draft!r} copies nothing" in said[0]
    # Given both, the tokens are known
    model.generate(**given, input_ids=inputs["input_ids"], **search)
    assert len(said) == 1


@pytest.mark.parametrize("kind", ["float32", "float16", BFLOAT16])
def test_packed_weights_change_no_token_either(kind: str) -> None:
    model = build_model(5, parallel_heads=4).float().pack_weights(kind)
    for source in SOURCES:
        for draft in ("heads", "source"):
            assert_same(model, [source], draft, max_new_tokens=12)


def test_what_users_change_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not used(monkeypatch, model_with_heads(), logits_processor=LogitsProcessorList([DoNothing()]))
    assert not used(monkeypatch, model_with_heads(), return_dict_in_generate=True, output_scores=True)
    for change in ("hook", "heads", "training"):
        model = model_with_heads()
        if change == "hook":
            model.model.decoder.layers[0].fc1.register_forward_hook(lambda module, inputs, output: 2 * output)
        elif change == "heads":
            model.parallel_heads.forward = lambda states: states.unsqueeze(-2)
        else:
            model.train()
        assert not used(monkeypatch, model), change


def test_the_checkpoints_own_setting_is_for_greedy_search(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model()
    model.generation_config.update(draft="source", allow_custom_entries=True)
    assert used(monkeypatch, model)
    assert not used(monkeypatch, model, num_beams=2)
    assert not used(monkeypatch, model, draft="none")
    for draft, changes, drafts in (("heads", {}, False), ("source+heads", {}, True), ("source", {"target_vocab_size": 12}, False)):
        model = build_model(**changes)
        model.generation_config.update(draft=draft, allow_custom_entries=True)
        assert used(monkeypatch, model) is drafts, draft
        assert not used(monkeypatch, model, num_beams=2)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"draft": "tree"}, "draft is 'tree'; choose one of none, heads, source, source.heads"),
        ({"draft": True}, "draft is True; choose"),
        ({"draft": "heads"}, 'needs parallel heads, and this model has none; .* draft="source"'),
        ({"draft": "source+heads"}, "needs parallel heads"),
        ({"draft": "source", "num_beams": 2}, "here num_beams is 2; pass num_beams=1"),
        ({"draft": "source", "do_sample": True}, "here do_sample is True"),
        ({"draft_shortlist": "yes"}, "draft_shortlist is 'yes'; it is True for parallel heads"),
        ({"draft_shortlist": True}, 'draft_shortlist=True is for what parallel heads propose; pass draft="heads" with it'),
        ({"draft_tokens": 2, "draft": "source"}, 'draft_tokens=2 is for what parallel heads propose; pass draft="heads" with it'),
        ({"draft_tokens": 0}, "`draft_tokens` is 0; it must be a whole number from 1"),
    ],
)
def test_drafts_that_cannot_be_are_refused(search: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_model().generate(**padded(SOURCES), **search)


def test_two_vocabularies_have_nothing_to_copy() -> None:
    with pytest.raises(ValueError, match="vocabularies of their own"):
        build_model(target_vocab_size=12).generate(**padded(SOURCES), draft="source")


def test_drafts_that_are_asked_for_and_not_used_are_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(decoding.logger, "warning_once", said.append)
    model = build_model()
    model.generate(**padded(SOURCES), draft="source", max_new_tokens=2, logits_processor=LogitsProcessorList([DoNothing()]))
    assert len(said) == 1
    assert "draft='source' is not used" in said[0]
    model.generate(inputs_embeds=torch.randn(1, 3, 16).double(), draft="source", max_new_tokens=2)
    assert len(said) == 2


def test_every_predictable_rule_is_obeyed() -> None:
    """The list of rules that the fast searches obey is the one that `SETTINGS` tries, but for those for prompts in the source."""
    tried = {name for search in SETTINGS for name in search}
    assert len(decoding.PREDICTABLE_PROCESSORS) == 11
    assert {"repetition_penalty", "no_repeat_ngram_size", "bad_words_ids", "min_new_tokens", "forced_eos_token_id", "forced_bos_token_id",
            "begin_suppress_tokens", "suppress_tokens", "renormalize_logits", "remove_invalid_values"} <= tried  # fmt: skip
    assert logits_process.MinLengthLogitsProcessor in decoding.PREDICTABLE_PROCESSORS


def test_padding_in_the_source_is_never_copied() -> None:
    assert_same(model_with_heads(), [[3, 4, EOS], [3, 4, 5, 6, EOS]], "source", max_new_tokens=9, forced_bos_token_id=4, min_new_tokens=9)
    assert PAD == 0 and BOS == 1


@pytest.mark.parametrize("search", [{"draft": "none"}, {"draft": "heads"}, {"num_beams": 3, "draft": "none"}])
def test_a_prompt_of_another_vocabulary_is_refused(search: dict[str, Any]) -> None:
    prompt = torch.tensor([[BOS, 11]])
    with pytest.raises(
        ValueError, match="VaswaniDecoder got the token id 11, which is outside of 0 to 10; the tokenizer is another model's"
    ):
        model_with_heads().generate(**padded(SOURCES[:1]), decoder_input_ids=prompt, max_new_tokens=3, **search)
