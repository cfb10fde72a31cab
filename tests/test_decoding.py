"""The paper's search against exhaustive search, against itself in other batches, and against Hugging Face's."""

import inspect
import itertools
from typing import Any

import pytest
import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria
from transformers.generation import (
    GenerationMixin,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
)
from transformers.generation.streamers import BaseStreamer

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.decoder_step import DecoderStep
from vaswani_transformer.decoding import PAPER_SEARCH, EarliestEnd, PaperSearch, in_place, without_shortest_lengths
from vaswani_transformer.kept_settings import KeptSettings

PAD, BOS, EOS = 0, 1, 2
GNMT = {"length_penalty_type": "gnmt", "length_penalty": 0.6}
SOURCES = [[3, 4, 5, EOS], [6, EOS], [7, 3, 3, 8, 4, 5, 9, EOS], [5, 8, EOS], [9, 9, 4, 3, 6, EOS], [EOS]]


class DoNothing(LogitsProcessor):
    """A processor of the caller's: the search cannot know that it changes nothing, so it neither stops early nor shrinks the batch."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores


def build_model(seed: int = 0, vocab_size: int = 11, cls: type = VaswaniForConditionalGeneration, **settings: Any) -> Any:
    """A random model in float64 whose opinions are strong enough to differ between sentences."""
    config = VaswaniConfig(
        vocab_size=vocab_size,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        tie_word_embeddings=False,
        **settings,
    )
    torch.manual_seed(seed)
    model = cls(config).double().eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=1.0 if "lm_head" in name else 1.5)
    return model


def padded(sources: list[list[int]], side: str = "right") -> dict[str, torch.Tensor]:
    width = max(map(len, sources))
    fill = [[PAD] * (width - len(source)) for source in sources]
    rows = [source + gap if side == "right" else gap + source for source, gap in zip(sources, fill, strict=True)]
    masks = [
        [1] * len(source) + [0] * len(gap) if side == "right" else [0] * len(gap) + [1] * len(source)
        for source, gap in zip(sources, fill, strict=True)
    ]
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}


def generated(sequence: torch.Tensor) -> list[int]:
    """The tokens behind the start, without the end token and what pads the batch.

    Hugging Face's beam search pads with end tokens where PAD is 0.
    """
    tokens = sequence.tolist()[1:]
    while tokens and tokens[-1] in (PAD, EOS):
        tokens.pop()
    return tokens


def search(model: Any, sources: list[list[int]], side: str = "right", **settings: Any) -> list[list[tuple[list[int], float]]]:
    """For each source its hypotheses with their scores."""
    out = model.generate(**padded(sources, side), return_dict_in_generate=True, **{**GNMT, "num_beams": 4, **settings})
    lengths = (out.beam_indices >= 0).sum(-1).tolist()
    hypotheses = [
        (row[1 : 1 + length], score)
        for row, length, score in zip(out.sequences.tolist(), lengths, out.sequences_scores.tolist(), strict=True)
    ]
    wanted = len(hypotheses) // len(sources)
    return [hypotheses[i : i + wanted] for i in range(0, len(hypotheses), wanted)]


def assert_same(found: list, expected: list) -> None:
    assert [[tokens for tokens, _ in row] for row in found] == [[tokens for tokens, _ in row] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert [score for _, score in row] == pytest.approx([score for _, score in other], abs=1e-9)


def log_probability(model: Any, source: list[int], target: list[int]) -> float:
    logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[BOS, *target[:-1]]])).logits
    return logits.log_softmax(-1)[0, torch.arange(len(target)), torch.tensor(target)].sum().item()


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5, -0.7])
@torch.no_grad()
def test_equals_exhaustive_search(alpha: float) -> None:
    longest, source = 4, [3, 4, 3, EOS]
    others = (PAD, BOS, 3, 4)
    for seed in range(3):
        model = build_model(seed, vocab_size=5)
        ended = [[*tokens, EOS] for length in range(longest) for tokens in itertools.product(others, repeat=length)]
        scored = [(y, log_probability(model, source, y) / ((5 + len(y)) / 6) ** alpha) for y in ended]
        best = sorted(scored, key=lambda hypothesis: -hypothesis[1])[:6]
        found = search(
            model,
            [source],
            num_beams=4**3,
            num_return_sequences=6,
            max_new_tokens=longest,
            length_penalty=alpha,
        )
        assert_same(found, [best])


@pytest.mark.parametrize("seed", range(4))
def test_a_sentence_does_not_depend_on_its_batch(seed: int) -> None:
    model = build_model(seed)
    settings = {"extra_length": 6, "num_return_sequences": 3}
    alone = [search(model, [source], **settings)[0] for source in SOURCES]
    assert len({tuple(row[0][0]) for row in alone}) > 1
    assert_same(search(model, SOURCES, **settings), alone)
    assert_same(search(model, SOURCES[::-1], **settings), alone[::-1])
    assert_same(search(model, SOURCES, "left", **settings), alone)
    assert_same(search(model, SOURCES, use_cache=False, **settings), alone)
    assert_same(search(model, SOURCES, cache_implementation="static", **settings), alone)


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0, -1.0])
def test_the_early_stop_changes_nothing(alpha: float, wanted: int) -> None:
    for seed in (0, 2, 5):
        model = build_model(seed)
        settings = {"extra_length": 12, "num_return_sequences": wanted, "length_penalty": alpha}
        full = search(model, SOURCES, logits_processor=LogitsProcessorList([DoNothing()]), **settings)
        assert_same(search(model, SOURCES, **settings), full)


def test_the_early_stop_saves_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model(5)
    steps: list[int] = []
    step = DecoderStep.__call__
    monkeypatch.setattr(DecoderStep, "__call__", lambda self, tokens, *rest: steps.append(tokens.numel()) or step(self, tokens, *rest))
    search(model, SOURCES, extra_length=40)
    rows, few = list(steps), len(steps)
    steps.clear()
    search(model, SOURCES, extra_length=40, logits_processor=LogitsProcessorList([DoNothing()]))
    assert few < len(steps) == max(map(len, SOURCES)) + 40
    assert rows[0] == len(SOURCES), "the prompt is computed once a sentence"
    assert rows[-1] < max(rows) <= 4 * len(SOURCES), "finished sentences stay in the batch"


def test_hypotheses_come_best_first_and_differ() -> None:
    for hypotheses in search(build_model(1), SOURCES, num_beams=6, num_return_sequences=6, extra_length=10):
        scores = [score for tokens, score in hypotheses if tokens[-1] == EOS]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(tokens) for tokens, _ in hypotheses}) == 6


def test_scores_are_normalised_log_probabilities() -> None:
    model = build_model(2)
    for source, hypotheses in zip(SOURCES, search(model, SOURCES, num_return_sequences=3, extra_length=5), strict=True):
        for tokens, score in hypotheses:
            penalty = ((5 + len(tokens)) / 6) ** 0.6
            assert score == pytest.approx(log_probability(model, source, tokens) / penalty, abs=1e-9)


def test_transition_scores_add_up() -> None:
    model = build_model(3, attn_implementation="eager")
    out = model.generate(
        **padded(SOURCES),
        **GNMT,
        num_beams=4,
        num_return_sequences=2,
        extra_length=5,
        return_dict_in_generate=True,
        output_scores=True,
        output_logits=True,
        output_attentions=True,
        output_hidden_states=True,
    )
    steps = model.compute_transition_scores(out.sequences, out.scores, out.beam_indices)
    lengths = (out.beam_indices >= 0).sum(-1)
    assert torch.allclose(steps.sum(-1) / ((5 + lengths) / 6) ** 0.6, out.sequences_scores)
    assert len(out.scores) == len(out.logits) == len(out.cross_attentions) == len(out.decoder_hidden_states)
    assert len(out.encoder_attentions) == 2


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("penalty", ["gnmt", None])
@pytest.mark.parametrize("side", ["left", "right"])
def test_each_sentence_has_its_own_limit(beams: int, penalty: str | None, side: str) -> None:
    model = build_model()
    settings = {"num_beams": beams, "length_penalty_type": penalty, "suppress_tokens": [EOS, PAD]}
    out = model.generate(**padded(SOURCES, side), **settings, extra_length=3)
    assert [len(generated(row)) for row in out] == [len(source) + 3 for source in SOURCES]
    out = model.generate(**padded(SOURCES, side), **settings, extra_length=3, max_new_tokens=2)
    assert [len(generated(row)) for row in out] == [2] * len(SOURCES)
    out = model.generate(**padded(SOURCES, side), **settings, extra_length=3, max_length=5)
    assert [len(generated(row)) for row in out] == [4] * len(SOURCES)


def test_unfinished_hypotheses_rank_behind_finished_ones() -> None:
    model = build_model()
    model.lm_head.weight.data[EOS] = -model.lm_head.weight.data.sum(0)
    for hypotheses in search(model, SOURCES, num_return_sequences=4, max_new_tokens=2):
        ended = [tokens[-1] == EOS for tokens, _ in hypotheses]
        assert ended == sorted(ended, reverse=True)
        assert all(score > -torch.inf for _, score in hypotheses)


def test_learned_positions_bound_the_translation() -> None:
    model = build_model(position_embedding_type="learned", max_position_embeddings=10)
    out = model.generate(**padded(SOURCES), num_beams=2, suppress_tokens=[EOS], **GNMT, extra_length=50)
    assert out.shape[1] == 10


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
@pytest.mark.parametrize("beams", [1, 4])
def test_without_the_settings_it_is_hugging_faces_search(beams: int) -> None:
    class Plain(VaswaniForConditionalGeneration):
        _beam_search = GenerationMixin._beam_search
        _sample = GenerationMixin._sample
        _prepare_generation_config = GenerationMixin._prepare_generation_config
        _prepare_generated_length = GenerationMixin._prepare_generated_length
        _prepare_cache_for_generation = GenerationMixin._prepare_cache_for_generation

    ours, plain = build_model(), build_model(cls=Plain)
    for settings in (
        {},
        {"max_new_tokens": 9},
        {"max_length": 12, "length_penalty": 1.7, "no_repeat_ngram_size": 2},
    ):
        asked = {"num_beams": beams, "return_dict_in_generate": True, "output_scores": True, **settings}
        found, expected = (
            ours.generate(**padded(SOURCES), **asked),
            plain.generate(**padded(SOURCES), **asked),
        )
        assert torch.equal(found.sequences, expected.sequences)
        if beams > 1:
            assert torch.equal(found.sequences_scores, expected.sequences_scores)


def test_processors_and_prefixes_are_obeyed() -> None:
    model = build_model()
    settings = {"num_beams": 4, "extra_length": 10, **GNMT}
    for row in model.generate(**padded(SOURCES), **settings, bad_words_ids=[[5], [3, 4]]):
        tokens = generated(row)
        assert 5 not in tokens
        assert (3, 4) not in itertools.pairwise(tokens)
    for row in model.generate(**padded(SOURCES), **settings, no_repeat_ngram_size=1):
        tokens = generated(row)
        assert len(set(tokens)) == len(tokens)
    prefix = torch.tensor([[BOS, 7, 6]]).expand(len(SOURCES), -1)
    for row in model.generate(**padded(SOURCES), **settings, decoder_input_ids=prefix):
        assert row[:3].tolist() == [BOS, 7, 6]
    for row in model.generate(**padded(SOURCES), **settings, min_new_tokens=5):
        assert len(generated(row)) >= 5


@pytest.mark.parametrize("rule", [MinLengthLogitsProcessor(4, [EOS, 5]), MinNewTokensLengthLogitsProcessor(2, 2, EOS)])
@pytest.mark.parametrize("length", [3, 4])
def test_the_shortest_length_is_written_into_the_scores(rule: LogitsProcessor, length: int) -> None:
    (ours,) = in_place(LogitsProcessorList([rule]))
    assert isinstance(ours, EarliestEnd)
    ids, scores = torch.zeros((3, length), dtype=torch.long), torch.randn(3, 11)
    expected = rule(ids, scores)
    assert torch.isneginf(expected).any() == (length < 4)
    found = ours(ids, scores)
    assert torch.equal(found, expected)
    assert found is scores


def test_shortest_lengths_bar_end_tokens_unless_they_must_wait_for_their_turn() -> None:
    """At least 4 tokens, of which the prompt has 2; and 3 new ones, for the end that both rules name."""
    rules = [MinLengthLogitsProcessor(4, [EOS, 5]), MinNewTokensLengthLogitsProcessor(2, 3, EOS)]
    assert without_shortest_lengths(LogitsProcessorList(rules), 2) == ([], {EOS: 3, 5: 2})
    others, earliest = without_shortest_lengths(LogitsProcessorList([*rules, DoNothing()]), 2)
    assert [type(rule) for rule in others] == [EarliestEnd, EarliestEnd, DoNothing]
    assert earliest == {}


def test_a_misspelt_argument_is_refused() -> None:
    given = padded(SOURCES[:1])
    with pytest.raises(ValueError, match="atention_mask"):
        build_model().generate(given["input_ids"], atention_mask=given["attention_mask"])


def test_the_signature_that_transformers_reads_is_the_true_one() -> None:
    for method in (VaswaniForConditionalGeneration.forward, PaperSearch._sample, PaperSearch._beam_search):
        known = vars(method).pop("__signature__")
        try:
            assert known == inspect.signature(method)
        finally:
            method.__signature__ = known


def test_the_arguments_of_forward_are_those_of_each_model() -> None:
    def forward(self: Any, input_ids: torch.Tensor, logits_to_keep: int = 0) -> None:
        """The signature is all that is read."""

    model = build_model()
    other = build_model(cls=type("Other", (VaswaniForConditionalGeneration,), {"forward": forward}))
    assert not model._supports_logits_to_keep() and other._supports_logits_to_keep()
    model.forward = other.forward
    assert model._supports_logits_to_keep()


def test_other_rules_stay_as_they_are() -> None:
    rules = LogitsProcessorList([DoNothing()])
    assert in_place(rules) == rules


def test_a_processor_that_counts_rows_sees_the_right_sentence() -> None:
    model = build_model()
    allowed = [[EOS, 3 + i, 4 + i] for i in range(len(SOURCES))]
    out = model.generate(
        **padded(SOURCES),
        num_beams=3,
        extra_length=10,
        **GNMT,
        prefix_allowed_tokens_fn=lambda row, ids: allowed[row],
    )
    for row, tokens in zip(out, allowed, strict=True):
        assert set(generated(row)) <= set(tokens)


def test_a_callers_stopping_rule_ends_hypotheses() -> None:
    class EndOnFive(StoppingCriteria):
        def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
            return input_ids[:, -1] == 5

    for hypotheses in search(build_model(), SOURCES, extra_length=10, stopping_criteria=[EndOnFive()]):
        tokens = hypotheses[0][0]
        assert 5 not in tokens[:-1]


def test_streaming_is_for_greedy_search() -> None:
    class Collector(BaseStreamer):
        def __init__(self) -> None:
            self.tokens: list[int] = []

        def put(self, value: torch.Tensor) -> None:
            self.tokens += value.flatten().tolist()

        def end(self) -> None:
            pass

    model, streamer = build_model(), Collector()
    out = model.generate(**padded(SOURCES[:1]), streamer=streamer, extra_length=4, **GNMT)
    assert streamer.tokens == out[0].tolist()
    with pytest.raises(ValueError, match="num_beams"):
        model.generate(**padded(SOURCES[:1]), streamer=streamer, num_beams=2, **GNMT)


@pytest.mark.parametrize("penalty", ["gnmt", None])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("rules", [[], [DoNothing()]])
def test_a_forced_end_comes_at_each_sentences_limit(rules: list[LogitsProcessor], beams: int, penalty: str | None) -> None:
    model = build_model()
    settings = {"num_beams": beams, "length_penalty_type": penalty, "extra_length": 4, "forced_eos_token_id": 7, "suppress_tokens": [EOS]}
    settings |= {"logits_processor": LogitsProcessorList(rules)}
    together = model.generate(**padded(SOURCES), **settings)
    for source, row in zip(SOURCES, together.tolist(), strict=True):
        alone = model.generate(**padded([source]), **settings)[0].tolist()
        assert len(alone) == 1 + len(source) + 4 and alone[-1] == 7
        assert row[: len(alone)] == alone
        assert set(row[len(alone) :]) <= {PAD, EOS}


def test_a_forced_end_is_hugging_faces_where_the_limit_is_the_callers() -> None:
    model = build_model()
    settings = {"forced_eos_token_id": [7, EOS], "max_new_tokens": 4}
    expected = model.generate(**padded(SOURCES), **settings, logits_processor=LogitsProcessorList([DoNothing()]))
    assert set(expected[:, -1].tolist()) <= {EOS, PAD}
    assert torch.equal(model.generate(**padded(SOURCES), **settings), expected)


class RowCollector(BaseStreamer):
    def __init__(self) -> None:
        self.rows: list[list[int]] = []

    def put(self, value: torch.Tensor) -> None:
        self.rows.append(value.flatten().tolist())

    def end(self) -> None:
        self.rows.append([])


def test_a_streamer_gets_all_rows_in_their_order() -> None:
    model, ours, theirs = build_model(3), RowCollector(), RowCollector()
    out = model.generate(**padded(SOURCES), streamer=ours, extra_length=4)
    assert len({len(generated(row)) for row in out}) > 2, "sentences end at different steps"
    model.generate(**padded(SOURCES), streamer=theirs, extra_length=4, logits_processor=LogitsProcessorList([DoNothing()]))
    assert ours.rows == theirs.rows
    assert ours.rows == [*out.T.tolist(), []]


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3, **GNMT}, {"num_beams": 3}, {"do_sample": True}])
@pytest.mark.parametrize("cached", [True, False])
def test_scores_that_are_no_numbers_are_named(settings: dict[str, Any], cached: bool) -> None:
    model = build_model()
    model.lm_head.weight.data[6, 3] = torch.nan
    with pytest.raises(ValueError, match=r"scores for the next token are not numbers \(NaN\)"):
        model.generate(**padded(SOURCES), **settings, use_cache=cached, max_new_tokens=4)
    model.generate(**padded(SOURCES), **settings, use_cache=cached, max_new_tokens=4, remove_invalid_values=True)


ASSISTED: list[dict[str, Any]] = [{"prompt_lookup_num_tokens": 2}, {"assistant_model": build_model(1)}]


@pytest.mark.parametrize("draft", ASSISTED)
def test_a_draft_is_refused_where_several_hypotheses_are_searched(draft: dict[str, Any]) -> None:
    model = build_model()
    model.generation_config.update(**PAPER_SEARCH, allow_custom_entries=True)
    with pytest.raises(ValueError, match=f"`{next(iter(draft))}` speeds up greedy search .* num_beams is 4"):
        model.generate(**padded(SOURCES[:1]), **draft)


def test_a_draft_in_the_checkpoints_settings_is_refused_for_several_hypotheses() -> None:
    model = build_model()
    model.generation_config.update(**PAPER_SEARCH, prompt_lookup_num_tokens=2, allow_custom_entries=True)
    with pytest.raises(ValueError, match=r"`prompt_lookup_num_tokens` speeds up greedy search .* num_beams is 4"):
        model.generate(**padded(SOURCES[:1]))


@pytest.mark.parametrize("draft", ASSISTED)
@pytest.mark.parametrize(
    "settings",
    [
        {"extra_length": 5},
        {"extra_length": 1, "forced_eos_token_id": EOS},
        {"max_new_tokens": 9, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
        {"max_new_tokens": 6, "decoder_input_ids": torch.tensor([[BOS, 5, 6]])},
    ],
)
def test_transformers_assisted_decoding_of_one_sentence_changes_nothing(draft: dict[str, Any], settings: dict[str, Any]) -> None:
    model = build_model()
    for source in SOURCES:
        plain = model.generate(**padded([source]), **settings)
        assert torch.equal(model.generate(**padded([source]), **draft, **settings), plain)


@pytest.mark.parametrize(
    ("sentences", "draft", "message"),
    [
        (2, ASSISTED[0], "one sentence at a time and got 2; .* batch_size=1"),
        (2, ASSISTED[1], "one sentence at a time and got 2"),
        (1, {"assistant_early_exit": 1}, "always runs all of them"),
        (1, {"assistant_model": "some/name"}, "the name 'some/name'; load that model"),
    ],
)
def test_assisted_decoding_that_cannot_work_is_refused(sentences: int, draft: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_model().generate(**padded(SOURCES[:sentences]), **draft)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length_penalty_type": "GNMT"}, 'choose "gnmt"'),
        ({"extra_length": -1}, "0 or more"),
        ({"extra_length": True}, "0 or more"),
        ({"extra_length": 2.5}, "0 or more"),
        ({"do_sample": True}, "num_beams=1 to sample"),
        ({"early_stopping": True}, "leave early_stopping out"),
        ({"synced_gpus": True, "max_new_tokens": 3}, "synced_gpus"),
        ({"num_return_sequences": 5}, "num_return_sequences"),
    ],
)
def test_what_cannot_be_done_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_model().generate(**padded(SOURCES), **{"num_beams": 2, **GNMT, **settings})


@pytest.mark.parametrize("penalty", ["gnmt", None])
def test_flex_attention_on_a_cpu_is_refused_for_beams(penalty: str | None) -> None:
    with pytest.raises(ValueError, match=r'flex attention fails on a CPU .* attn_implementation="sdpa"'):
        build_model(attn_implementation="flex_attention").generate(**padded(SOURCES), num_beams=4, length_penalty_type=penalty)


def test_sampling_stays_possible() -> None:
    model = build_model()
    model.generation_config.update(**PAPER_SEARCH, allow_custom_entries=True)
    out = model.generate(**padded(SOURCES), do_sample=True, num_beams=1, num_return_sequences=2)
    assert len(out) == 2 * len(SOURCES)


def test_a_checkpoint_keeps_the_papers_settings(tmp_path: Any) -> None:
    model = build_model()
    expected = model.generate(**padded(SOURCES), **PAPER_SEARCH)
    model.generation_config.update(**PAPER_SEARCH, allow_custom_entries=True)
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert {name: getattr(loaded.generation_config, name) for name in PAPER_SEARCH} == PAPER_SEARCH
    assert torch.equal(loaded.generate(**padded(SOURCES)), expected)
    plain = loaded.generate(**padded(SOURCES), length_penalty_type=None, max_new_tokens=8)
    assert torch.equal(plain, model.generate(**padded(SOURCES), length_penalty_type=None, max_new_tokens=8))


class Keeper(LogitsProcessor):
    """A processor of the caller's that keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.seen += [input_ids, scores]
        return scores


@pytest.mark.parametrize("beams", [1, 3])
def test_what_a_caller_gets_may_take_part_in_training(beams: int) -> None:
    """A search runs in inference mode, whose tensors must not: neither its results nor what others see on the way are such."""
    model, keeper, modes = build_model(), Keeper(), []

    def note_mode(*_: Any) -> None:
        modes.append(torch.is_inference_mode_enabled())

    asked = {**padded(SOURCES), **GNMT, "num_beams": beams, "extra_length": 4}
    for rules in ([], [keeper]):
        out = model.generate(**asked, logits_processor=LogitsProcessorList(rules), return_dict_in_generate=beams > 1)
        found = list(out.values()) if beams > 1 else [out]
        assert not any(tensor.is_inference() for tensor in found)
    assert keeper.seen and not any(tensor.is_inference() for tensor in keeper.seen)
    model.generate(**asked, custom_generate=lambda model, *_, **given: keeper.seen.append(given["encoder_outputs"][0]))
    assert not keeper.seen[-1].is_inference()
    model.lm_head.register_forward_hook(note_mode)
    model.generate(**asked)
    assert modes and not any(modes)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_search_that_nobody_sees_runs_in_inference_mode(beams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    own = DecoderStep.__call__
    monkeypatch.setattr(DecoderStep, "__call__", lambda *given: modes.append(torch.is_inference_mode_enabled()) or own(*given))
    build_model().generate(**padded(SOURCES), **GNMT, num_beams=beams, extra_length=4)
    assert modes and all(modes)


def test_settings_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    own = KeptSettings.keep
    monkeypatch.setattr(KeptSettings, "keep", lambda *given: made.append(given) or own(*given))
    model = build_model()
    results = [model.generate(**padded(SOURCES[:1]), **GNMT, num_beams=3, max_new_tokens=limit) for limit in (4, 4, 6, 4, 6)]
    assert len(made) == 2
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[3]) and torch.equal(results[2], results[4])
    for limit in range(10, 10 + KeptSettings.MOST):
        model._prepare_generation_config(None, max_new_tokens=limit)
    assert len(model._kept_settings._kept) < KeptSettings.MOST


@pytest.mark.parametrize(
    ("name", "values"),
    [("num_beams", (3, 1)), ("length_penalty", (0.0, 1.5)), ("extra_length", (1, 9)), ("num_return_sequences", (1, 2)),
     ("use_cache", (True, False)), ("use_cache", (True, 1)), ("bad_words_ids", ([[3]], [[4]])), ("own", (1, 2))],
)  # fmt: skip
def test_settings_changed_between_two_calls_are_obeyed(name: str, values: tuple[Any, Any]) -> None:
    model = build_model()
    model.generation_config.update(**PAPER_SEARCH, allow_custom_entries=True)
    for value in values * 2:
        setattr(model.generation_config, name, value)
        settings, others = model._prepare_generation_config(None, attention_mask=torch.ones(1, 1))
        assert getattr(settings, name) == value and type(getattr(settings, name)) is type(value)
        assert list(others) == ["attention_mask"]
        setattr(settings, name, "what one search changes is not the next one's")


def test_a_list_that_changes_in_its_place_is_obeyed() -> None:
    model, forbidden = build_model(), [[3]]
    for ids in ([3], [4], [5]):
        forbidden[0][:] = ids
        assert model._prepare_generation_config(None, bad_words_ids=forbidden)[0].bad_words_ids == [ids]
        model.generation_config.suppress_tokens = forbidden[0]
        assert model._prepare_generation_config(None)[0].suppress_tokens == ids


class Doubling(GenerationMixin):
    """Makes a search's settings in its own way."""

    beams = 1

    def _prepare_generation_config(self, *args: Any, **kwargs: Any) -> Any:
        self.beams *= 2
        settings, others = super()._prepare_generation_config(*args, **kwargs)
        settings.num_beams = self.beams
        return settings, others


def test_settings_that_another_class_makes_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model(cls=type("Both", (VaswaniForConditionalGeneration, Doubling), {}))
    assert [model._prepare_generation_config(None)[0].num_beams for _ in range(3)] == [2, 4, 8]
    plain, own = build_model(), GenerationMixin._prepare_generation_config
    assert plain._prepare_generation_config(None, num_beams=3)[0].num_beams == 3
    monkeypatch.setattr(GenerationMixin, "_prepare_generation_config", lambda self, *_, **given: own(self, None, **given, top_k=7))
    assert plain._prepare_generation_config(None, num_beams=3)[0].top_k == 7


def test_arguments_are_not_kept() -> None:
    model = build_model()
    for mask in (torch.ones(1, 2), torch.zeros(1, 2)):
        assert model._prepare_generation_config(None, attention_mask=mask, num_beams=2)[1]["attention_mask"] is mask
    for penalty in (torch.tensor(0.5), torch.tensor(1.5)):
        assert model._prepare_generation_config(None, length_penalty=penalty)[0].length_penalty is penalty


def test_settings_of_a_search_in_the_models_own_are_still_refused() -> None:
    model = build_model()
    model.generate(**padded(SOURCES[:1]), max_new_tokens=2)
    model.config.num_beams = 3
    with pytest.raises(ValueError, match="modified the pretrained model configuration"):
        model.generate(**padded(SOURCES[:1]), max_new_tokens=2)
