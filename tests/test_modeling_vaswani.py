"""The model by itself: sizes, positions, masks, caches, precision, files, and use by peft and the Trainer."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, StaticCache
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from tests.conftest import BEAM_SEARCH_KNOWS_TARGETS
from vaswani_transformer import modeling_vaswani
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel, sinusoids

TINY: dict[str, Any] = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
}
SOURCE = torch.tensor([[5, 9, 3, 17, 2], [8, 4, 2, 0, 0], [31, 2, 0, 0, 0]])
SOURCE_MASK = (SOURCE != 0).long()
TARGET = torch.tensor([[1, 6, 6, 10], [1, 3, 12, 4], [1, 9, 30, 7]])
LABELS = torch.tensor([[6, 6, 10, 2], [3, 12, 2, -100], [9, 2, -100, -100]])

Model = VaswaniForConditionalGeneration


def tiny_model(implementation: str = "sdpa", **settings: Any) -> Model:
    """The same every time, in evaluation mode; its weights are enlarged so that all of them matter."""
    torch.manual_seed(0)
    model = Model._from_config(VaswaniConfig(**{**TINY, **settings}), attn_implementation=implementation).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def logits_of(model: Model, **changes: Any) -> torch.Tensor:
    inputs = {"input_ids": SOURCE, "attention_mask": SOURCE_MASK, "decoder_input_ids": TARGET, **changes}
    return model(**inputs).logits


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def differ(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one - other).abs().max() > 1e-3)


# Table 3


def closed_form(config: VaswaniConfig) -> int:
    """The number of parameters, from the paper's equations."""
    d, d_k, d_v = config.d_model, config.head_dim, config.value_head_dim

    def attention(heads: int) -> int:
        return 2 * d * heads * d_k + 2 * d * heads * d_v

    def feed_forward(inner: int) -> int:
        return d * inner + inner + inner * d + d

    norm = 2 * d
    encoder_layer = attention(config.encoder_attention_heads) + feed_forward(config.encoder_ffn_dim) + 2 * norm
    decoder_layer = 2 * attention(config.decoder_attention_heads) + feed_forward(config.decoder_ffn_dim) + 3 * norm
    positions = 2 * config.max_position_embeddings * d if config.position_embedding_type == "learned" else 0
    layers = config.encoder_layers * encoder_layer + config.decoder_layers * decoder_layer
    return config.vocab_size * d + layers + positions


def heads(number: int) -> dict[str, int]:
    return {"encoder_attention_heads": number, "decoder_attention_heads": number}


def layers(number: int) -> dict[str, int]:
    return {"encoder_layers": number, "decoder_layers": number}


def inner(width: int) -> dict[str, int]:
    return {"encoder_ffn_dim": width, "decoder_ffn_dim": width}


TABLE_3: list[tuple[str, dict[str, Any], int | None]] = [
    ("base", {}, 65),
    ("A, 1 head", {**heads(1), "head_dim": 512}, 65),
    ("A, 4 heads", {**heads(4), "head_dim": 128}, 65),
    ("A, 16 heads", {**heads(16), "head_dim": 32}, 65),
    ("A, 32 heads", {**heads(32), "head_dim": 16}, 65),
    ("B, d_k 16", {"head_dim": 16, "value_head_dim": 64}, 58),
    ("B, d_k 32", {"head_dim": 32, "value_head_dim": 64}, 60),
    ("C, 2 layers", layers(2), 36),
    ("C, 4 layers", layers(4), 50),
    ("C, 8 layers", layers(8), 80),
    ("C, d_model 256", {"d_model": 256, "head_dim": 32}, 28),
    ("C, d_model 1024", {"d_model": 1024, "head_dim": 128}, 168),
    ("C, d_ff 1024", inner(1024), 53),
    ("C, d_ff 4096", inner(4096), 90),
    ("D, no dropout", {"dropout": 0.0}, 65),
    ("E, learned positions", {"position_embedding_type": "learned"}, None),
    ("big", {**heads(16), **inner(4096), "d_model": 1024}, 213),
]


@pytest.mark.parametrize(("settings", "printed_millions"), [row[1:] for row in TABLE_3], ids=[row[0] for row in TABLE_3])
def test_the_rows_of_table_3_have_their_sizes(settings: dict[str, Any], printed_millions: int | None) -> None:
    config = VaswaniConfig(**settings)
    with torch.device("meta"):
        model = Model(config)
    assert model.num_parameters() == closed_form(config)
    if printed_millions is not None:
        assert closed_form(config) / 1e6 == pytest.approx(printed_millions, rel=0.07)


# Initial weights


def test_embeddings_begin_with_variance_one_once_they_are_scaled() -> None:
    torch.manual_seed(0)
    model = Model(VaswaniConfig(**{**TINY, "d_model": 64, "vocab_size": 2000}))
    assert model.model.shared.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert abs(model.model.shared.weight.mean().item()) < 1e-3
    untied = Model(VaswaniConfig(**{**TINY, "d_model": 64, "vocab_size": 2000}, tie_word_embeddings=False))
    for table in (untied.model.encoder.embed_tokens, untied.model.decoder.embed_tokens, untied.lm_head):
        assert table.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


def test_initial_weights_depend_on_the_seed_alone() -> None:
    models = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        models.append(Model(VaswaniConfig(**TINY)).state_dict())
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert not torch.equal(models[0]["lm_head.weight"], models[2]["lm_head.weight"])


# Positions (section 3.5)


@pytest.mark.parametrize(
    ("layout", "of_position_3"),
    [
        ("interleaved", [math.sin(3), math.cos(3), math.sin(3 / 100), math.cos(3 / 100)]),
        ("concatenated", [math.sin(3), math.sin(3 / 100), math.cos(3), math.cos(3 / 100)]),
        ("tensor2tensor", [math.sin(3), math.sin(3 / 10_000), math.cos(3), math.cos(3 / 10_000)]),
    ],
)
def test_sinusoids_by_hand(layout: str, of_position_3: list[float]) -> None:
    table = sinusoids(torch.tensor([0, 3]), 4, layout)
    torch.testing.assert_close(table[1], torch.tensor(of_position_3, dtype=torch.float64), rtol=1e-14, atol=1e-14)
    assert sorted(table[0].tolist()) == [0, 0, 1, 1]


def test_sinusoids_far_out_are_exact_to_the_last_bit_of_a_float32_model() -> None:
    model = tiny_model(encoder_layers=1)
    length = 5001
    vectors = model.model.encoder.add_positions(torch.zeros(1, length, 16), mask=None)[0, 5000]
    angles = [5000 / 10_000 ** (2 * i / 16) for i in range(8)]
    expected = [value for angle in angles for value in (math.sin(angle), math.cos(angle))]
    torch.testing.assert_close(vectors, torch.tensor(expected, dtype=torch.float64).float(), rtol=6e-8, atol=1e-9)


def test_the_first_position_can_be_numbered_otherwise() -> None:
    zeros = torch.zeros(1, 3, 16)
    plain, shifted = (tiny_model(position_offset=offset).model.encoder for offset in (0, 2))
    assert_close(shifted.add_positions(zeros, None)[0, 0], plain.add_positions(zeros, None)[0, 2])


def test_sinusoids_put_no_limit_on_a_source() -> None:
    model = tiny_model(max_position_embeddings=4)
    source = torch.arange(3, 33).repeat(2).unsqueeze(0)
    assert logits_of(model, input_ids=source, attention_mask=None, decoder_input_ids=TARGET[:1]).isfinite().all()
    assert model.generate(source, max_new_tokens=10, min_new_tokens=10).shape == (1, 11)


def test_learned_positions_end_with_a_sentence() -> None:
    model = tiny_model(position_embedding_type="learned", max_position_embeddings=5)
    assert logits_of(model).isfinite().all()
    sentence = "position 5, which is outside of 0 to 4; shorten it, or use a model with sinusoidal"
    with pytest.raises(ValueError, match=f"VaswaniEncoder .* {sentence}"):
        model(input_ids=torch.full((1, 6), 3), decoder_input_ids=TARGET[:1])
    with pytest.raises(ValueError, match=f"VaswaniDecoder .* {sentence}"):
        model.generate(SOURCE, attention_mask=SOURCE_MASK, max_new_tokens=9, min_new_tokens=9)


def test_padding_takes_no_learned_position() -> None:
    model = tiny_model(position_embedding_type="learned", max_position_embeddings=5)
    padding = torch.zeros(3, 4, dtype=torch.long)
    padded = {
        "input_ids": torch.cat((padding, SOURCE), 1),
        "attention_mask": torch.cat((padding, SOURCE_MASK), 1),
    }
    assert_close(logits_of(model, **padded), logits_of(model))


# Padding, batches and the future never change a result

EVERY_KIND = pytest.mark.parametrize("implementation", ["eager", "sdpa"])  # flex is compared with them below
POSITIONS = pytest.mark.parametrize("positions", ["sinusoidal", "learned"])


@EVERY_KIND
@POSITIONS
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_the_source_changes_nothing(implementation: str, positions: str, side: str) -> None:
    model = tiny_model(implementation, position_embedding_type=positions)
    padding = torch.zeros(3, 2, dtype=torch.long)
    parts = [(padding, SOURCE), (padding, SOURCE_MASK)]
    padded, mask = (torch.cat(part if side == "left" else part[::-1], dim=1) for part in parts)
    noise = torch.where(mask == 0, 39, padded)  # whatever stands there
    assert_close(logits_of(model, input_ids=noise, attention_mask=mask), logits_of(model))


@EVERY_KIND
def test_padding_left_of_the_target_changes_nothing(implementation: str) -> None:
    model = tiny_model(implementation)
    padded = torch.cat((torch.full((3, 2), 39), TARGET), dim=1)
    mask = torch.cat((torch.zeros(3, 2), torch.ones(3, 4)), dim=1).long()
    logits = logits_of(model, decoder_input_ids=padded, decoder_attention_mask=mask)
    assert_close(logits[:, 2:], logits_of(model))


@EVERY_KIND
def test_a_sentence_does_not_depend_on_its_batch(implementation: str) -> None:
    model = tiny_model(implementation)
    together = logits_of(model)
    for i, length in enumerate(SOURCE_MASK.sum(-1).tolist()):
        alone = logits_of(
            model,
            input_ids=SOURCE[i : i + 1, :length],
            attention_mask=None,
            decoder_input_ids=TARGET[i : i + 1],
        )
        assert_close(together[i : i + 1], alone)


@EVERY_KIND
def test_the_future_changes_nothing(implementation: str) -> None:
    model = tiny_model(implementation)
    before = logits_of(model)
    for position in range(1, TARGET.shape[1]):
        changed = TARGET.clone()
        changed[:, position:] = 20
        after = logits_of(model, decoder_input_ids=changed)
        assert_close(after[:, :position], before[:, :position])
        assert differ(after[:, position], before[:, position])


@pytest.mark.parametrize("dropped", ["encoder", "source", "causal"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_each_mask_is_needed(dropped: str, implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: without any one mask the very same comparisons come out unequal."""
    model = tiny_model(implementation)
    expected = logits_of(model)
    bidirectional = modeling_vaswani.create_bidirectional_mask

    def without_one(*arguments: Any, **keywords: Any) -> torch.Tensor | None:
        drop = ("encoder_hidden_states" in keywords) == (dropped == "source")
        return None if drop else bidirectional(*arguments, **keywords)

    if dropped == "causal":
        monkeypatch.setattr(modeling_vaswani, "create_causal_mask", lambda *_, **__: None)
        for layer in model.model.decoder.layers:
            layer.self_attn.is_causal = False
        changed = TARGET.clone()
        changed[:, 3] = 20
        one, other = logits_of(model), logits_of(model, decoder_input_ids=changed)
        assert differ(one[:, :3], other[:, :3])
    else:
        monkeypatch.setattr(modeling_vaswani, "create_bidirectional_mask", without_one)
        assert differ(logits_of(model)[1:], expected[1:])
        assert_close(logits_of(model)[:1], expected[:1])  # a sentence without padding


WIDTHS = pytest.mark.parametrize("settings", [{}, {"value_head_dim": 8}, {"head_dim": 8, **heads(3)}])


def logits_under_every_mask(model: Model) -> torch.Tensor:
    """With padding on either side, of source and target; only of what is real."""
    padded = torch.cat((torch.full((3, 2), 39), TARGET), dim=1)
    mask = torch.cat((torch.zeros(3, 2), torch.ones(3, 4)), dim=1).long()
    logits = logits_of(model, decoder_input_ids=padded, decoder_attention_mask=mask, use_cache=False)
    return logits[:, 2:]


@WIDTHS
def test_sdpa_equals_eager_attention(settings: dict[str, Any]) -> None:
    eager, sdpa = (logits_under_every_mask(tiny_model(name, **settings)) for name in ("eager", "sdpa"))
    assert_close(sdpa, eager)


@pytest.mark.parametrize("settings", [{}, {"value_head_dim": 8}, {"head_dim": 8, **heads(3)}, {"attention_window": 2}])
def test_flex_equals_eager_attention(settings: dict[str, Any]) -> None:
    expected = logits_under_every_mask(tiny_model("eager", **settings))
    with torch.compiler.set_stance("force_eager"):  # compiling it takes a minute on a CPU
        assert_close(logits_under_every_mask(tiny_model("flex_attention", **settings)), expected)


def test_without_residual_connections_a_layer_adds_nothing() -> None:
    layer, x = tiny_model(residual_connections=False).model.encoder.layers[0], torch.randn(2, 3, TINY["d_model"])
    with torch.no_grad():
        normed = layer.self_attn_layer_norm(layer.self_attn(x)[0])
        expected = layer.final_layer_norm(layer.fc2(torch.relu(layer.fc1(normed))))
        assert_close(layer(x), expected)
        assert differ(layer(x), tiny_model().model.encoder.layers[0](x))


# Caches


def empty_cache(kind: str, model: Model) -> EncoderDecoderCache:
    if kind == "dynamic":
        return EncoderDecoderCache(DynamicCache(), DynamicCache())
    return EncoderDecoderCache(
        StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=6),
        StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=SOURCE.shape[1]),
    )


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("steps", [[1, 1, 1, 1], [2, 1, 1], [1, 3], [4]])
@pytest.mark.parametrize("settings", [{}, {"value_head_dim": 8, "encoder_layers": 1, "decoder_layers": 3, "residual_connections": False}])
def test_decoding_with_a_cache_equals_decoding_without(kind: str, steps: list[int], settings: dict[str, Any]) -> None:
    model = tiny_model(**settings)
    cache, logits = empty_cache(kind, model), []
    for ids in TARGET.split(steps, dim=1):
        with torch.no_grad():
            encoder_outputs = model.model.encoder(SOURCE, attention_mask=SOURCE_MASK)
            outputs = model(
                encoder_outputs=encoder_outputs,
                attention_mask=SOURCE_MASK,
                decoder_input_ids=ids,
                past_key_values=cache,
                use_cache=True,
            )
        cache = outputs.past_key_values
        logits.append(outputs.logits)
    assert_close(torch.cat(logits, dim=1), logits_of(model, use_cache=False))


@pytest.mark.parametrize("settings", [{}, {"cache_implementation": "static"}, {"use_cache": False}])
def test_generation_from_prompts_of_different_lengths(settings: dict[str, Any]) -> None:
    """Padding on the left of a decoder's prompt takes no position, whatever the cache."""
    model = tiny_model()
    settings = {**settings, "max_new_tokens": 5, "min_new_tokens": 5, "disable_compile": True}
    prompts = torch.tensor([[1, 6, 7], [0, 1, 9], [0, 0, 1]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1], [0, 0, 1]])
    together = model.generate(SOURCE, attention_mask=SOURCE_MASK, decoder_input_ids=prompts, decoder_attention_mask=mask, **settings)
    for i, length in enumerate((3, 2, 1)):
        alone = model.generate(
            SOURCE[i : i + 1],
            attention_mask=SOURCE_MASK[i : i + 1],
            decoder_input_ids=prompts[i : i + 1, 3 - length :],
            **settings,
        )
        assert together[i, 3 - length :].tolist() == alone[0].tolist()


def test_the_cross_attention_projects_a_source_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    projected: list[tuple[int, ...]] = []
    model.model.decoder.layers[0].encoder_attn.k_proj.register_forward_hook(
        lambda _module, inputs, _output: projected.append(tuple(inputs[0].shape))
    )
    model.generate(SOURCE, attention_mask=SOURCE_MASK, max_new_tokens=6, min_new_tokens=6)
    assert projected == [(3, 5, 16)]


# What a forward can give back


def test_attentions_are_distributions_over_what_may_be_seen() -> None:
    model = tiny_model("eager", encoder_layers=1, decoder_layers=3)
    outputs = model(input_ids=SOURCE, attention_mask=SOURCE_MASK, decoder_input_ids=TARGET, output_attentions=True)
    shapes = {"encoder_attentions": (1, 5, 5), "decoder_attentions": (3, 4, 4), "cross_attentions": (3, 4, 5)}
    for name, (count, queries, keys) in shapes.items():
        assert [tuple(weights.shape) for weights in outputs[name]] == [(3, 4, queries, keys)] * count
        for weights in outputs[name]:
            assert_close(weights.sum(-1), torch.ones(3, 4, queries))
    assert not outputs.cross_attentions[0][1, :, :, 3:].any()
    assert not outputs.encoder_attentions[0][2, :, :, 2:].any()
    assert not outputs.decoder_attentions[0].triu(1).any()


@pytest.mark.parametrize("masks", [{"attention_mask": SOURCE_MASK}, {}])
@pytest.mark.parametrize("implementation", ["sdpa", "flex_attention"])
@torch.no_grad()
def test_whoever_asks_for_attention_gets_equation_1(implementation: str, masks: dict[str, Any]) -> None:
    """No other implementation returns weights; there the tuples were empty."""
    eager, other = tiny_model("eager"), tiny_model(implementation)
    inputs = {"input_ids": SOURCE, "decoder_input_ids": TARGET, **masks}
    expected, found = (model(**inputs, output_attentions=True) for model in (eager, other))
    assert torch.equal(found.logits, expected.logits)
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        assert len(found[name]) == 2
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(found[name], expected[name], strict=True))
    assert other.config._attn_implementation == implementation


@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static"}, {"use_cache": False}])
@pytest.mark.parametrize("beams", [1, 3])
def test_generated_attention_is_the_same_under_every_implementation(beams: int, cache: dict[str, Any]) -> None:
    asked = {"num_beams": beams, "max_new_tokens": 3, "return_dict_in_generate": True, "output_attentions": True, **cache}
    outputs = [
        tiny_model(implementation).generate(SOURCE, attention_mask=SOURCE_MASK, length_penalty_type="gnmt", **asked)
        for implementation in ("eager", "sdpa")
    ]
    expected, found = ([*output.encoder_attentions, *sum(output.decoder_attentions + output.cross_attentions, ())] for output in outputs)
    assert len(found) == 2 + 3 * 4
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)


@torch.no_grad()
def test_outputs_are_tuples_where_the_configuration_says_so() -> None:
    expected, model = logits_of(tiny_model()), tiny_model(return_dict=False)
    inputs = {"input_ids": SOURCE, "attention_mask": SOURCE_MASK, "decoder_input_ids": TARGET}
    assert torch.equal(model(**inputs)[0], expected)
    assert torch.equal(model(**inputs, return_dict=True).logits, expected)
    assert isinstance(model.model(**inputs), tuple)
    for beams in (1, 3):
        asked = {"num_beams": beams, "length_penalty_type": "gnmt", "max_new_tokens": 4, "use_cache": False}
        assert torch.equal(model.generate(SOURCE, **asked), tiny_model().generate(SOURCE, **asked))


def test_hidden_states_are_the_embeddings_and_every_layers_output() -> None:
    model = tiny_model(encoder_layers=1, decoder_layers=3)
    outputs = model(input_ids=SOURCE, attention_mask=SOURCE_MASK, decoder_input_ids=TARGET, output_hidden_states=True)
    assert len(outputs.encoder_hidden_states) == 2 and len(outputs.decoder_hidden_states) == 4
    decoder = model.model.decoder
    assert_close(outputs.decoder_hidden_states[0], decoder.add_positions(decoder.embed_tokens(TARGET), None))
    assert_close(model.lm_head(outputs.decoder_hidden_states[-1]), outputs.logits)
    assert torch.equal(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)


def test_tuples_instead_of_outputs() -> None:
    model = tiny_model()
    inputs = {"input_ids": SOURCE, "attention_mask": SOURCE_MASK, "labels": LABELS}
    loss, logits, *_ = model(**inputs, return_dict=False)
    assert torch.equal(loss, model(**inputs).loss) and logits.shape == (3, 4, 40)


def test_embeddings_can_be_given_in_place_of_ids() -> None:
    model = tiny_model()
    embed = model.get_input_embeddings()
    given = logits_of(
        model,
        input_ids=None,
        inputs_embeds=embed(SOURCE),
        decoder_input_ids=None,
        decoder_inputs_embeds=embed(TARGET),
    )
    assert_close(given, logits_of(model))


# The loss


def test_the_loss_is_the_mean_over_real_tokens() -> None:
    model = tiny_model()
    outputs = model(input_ids=SOURCE, attention_mask=SOURCE_MASK, labels=LABELS)
    log_probs = outputs.logits.log_softmax(-1)
    picked = [log_probs[i, j, LABELS[i, j]] for i in range(3) for j in range(4) if LABELS[i, j] != -100]
    assert len(picked) == 9
    assert_close(outputs.loss, -torch.stack(picked).mean())
    halved = model(input_ids=SOURCE, attention_mask=SOURCE_MASK, labels=LABELS, num_items_in_batch=torch.tensor(18))
    assert_close(halved.loss, outputs.loss / 2)


def test_the_decoder_reads_the_labels_one_position_later() -> None:
    shifted = tiny_model().prepare_decoder_input_ids_from_labels(LABELS)
    assert shifted.tolist() == [[1, 6, 6, 10], [1, 3, 12, 2], [1, 9, 2, 0]]
    assert LABELS[1, 3] == -100  # its argument is left alone


# Training


def gradients_of(model: Model) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(1)
    model(input_ids=SOURCE, attention_mask=SOURCE_MASK, labels=LABELS).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing_changes_no_gradient(use_reentrant: bool) -> None:
    model = tiny_model(dropout=0.3).train()
    expected = gradients_of(model)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": use_reentrant})
    for name, gradient in gradients_of(model).items():
        assert_close(gradient, expected[name])


def test_every_rate_of_dropout_is_at_work() -> None:
    for rate in ("dropout", "attention_dropout", "activation_dropout"):
        model = tiny_model(**{"dropout": 0.0, rate: 0.5}).train()
        one, other = logits_of(model), logits_of(model)
        assert differ(one, other), rate
    model = tiny_model(dropout=0.0).train()
    assert torch.equal(logits_of(model), logits_of(model))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_half_precision_stays_finite(dtype: torch.dtype, implementation: str) -> None:
    model = tiny_model(implementation).to(dtype).train()
    # A source of padding alone, and a target that begins with padding: rows that see nothing.
    mask = SOURCE_MASK * torch.tensor([[1], [1], [0]])
    target_mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]])
    outputs = model(
        input_ids=SOURCE,
        attention_mask=mask,
        decoder_input_ids=TARGET,
        decoder_attention_mask=target_mask,
        labels=LABELS,
    )
    outputs.loss.backward()
    assert outputs.logits.dtype == dtype and outputs.logits.isfinite().all()
    assert outputs.loss.dtype == torch.float32
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_eager_attention_survives_a_row_that_sees_nothing_in_float16() -> None:
    attention = tiny_model("eager").model.decoder.layers[0].self_attn
    query = torch.full((1, 1, 2, 4), 16.0, dtype=torch.float16)
    hidden = torch.full((1, 1, 2, 2), torch.finfo(torch.float16).min, dtype=torch.float16)
    heads, weights = modeling_vaswani.scaled_dot_product_attention(attention, query, -query, query, hidden, scaling=0.5)
    assert heads.isfinite().all() and weights.sum(-1).tolist() == [[[1, 1]]]


def test_traced_whole_it_gives_the_same() -> None:
    """`fullgraph=True`: nothing in a training step falls back to Python."""
    model = tiny_model()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    inputs = {"input_ids": SOURCE, "attention_mask": SOURCE_MASK, "labels": LABELS}
    gradients = []
    for forward in (model, compiled):
        outputs = forward(**inputs)
        model.zero_grad()
        outputs.loss.backward()
        gradients.append((outputs.logits.detach(), model.model.shared.weight.grad.clone()))
    for eager, traced in zip(*gradients, strict=True):
        assert_close(traced, eager)


@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler on the CPU")
def test_compiled_it_gives_the_same() -> None:
    model = tiny_model(encoder_layers=1, decoder_layers=1)
    expected = logits_of(model, use_cache=False)
    model.compile(fullgraph=True)
    assert_close(logits_of(model, use_cache=False), expected)


def test_it_can_be_exported_with_lengths_left_open() -> None:
    model = tiny_model()
    batch, source, target = (torch.export.Dim(name, min=2, max=64) for name in ("batch", "source", "target"))
    inputs = {"input_ids": SOURCE, "attention_mask": SOURCE_MASK, "decoder_input_ids": TARGET}
    shapes = {
        "input_ids": {0: batch, 1: source},
        "attention_mask": {0: batch, 1: source},
        "decoder_input_ids": {0: batch, 1: target},
    }

    class Logits(torch.nn.Module):
        """The one output that an application needs."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor) -> torch.Tensor:
            return self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                decoder_input_ids=decoder_input_ids,
                use_cache=False,
            ).logits

    exported = torch.export.export(Logits().eval(), (), inputs, dynamic_shapes=shapes).module()
    longer = {name: ids.repeat(2, 2) for name, ids in inputs.items()}
    assert_close(exported(**longer), logits_of(model, **longer))


# Vocabulary


def test_resizing_keeps_the_one_matrix_one(tmp_path: Path) -> None:
    model = tiny_model()
    before = logits_of(model)
    model.resize_token_embeddings(45)
    model.save_pretrained(tmp_path)
    for resized in (model, Model.from_pretrained(tmp_path)):
        tables = (resized.model.encoder.embed_tokens, resized.model.decoder.embed_tokens, resized.lm_head)
        assert all(table.weight is resized.model.shared.weight for table in tables)
        assert resized.config.vocab_size == resized.lm_head.out_features == len(resized.lm_head.weight) == 45
        assert_close(logits_of(resized)[..., :40], before)
        assert logits_of(resized, input_ids=SOURCE + 5).shape[-1] == 45


@pytest.mark.parametrize("tied", [True, False])
def test_the_target_may_have_a_vocabulary_of_its_own(tied: bool, tmp_path: Path) -> None:
    """And a bias before the softmax; both come back, and with the tie the decoder's matrix is stored once."""
    model = tiny_model(target_vocab_size=23, tie_word_embeddings=tied, lm_head_bias=True)
    torch.nn.init.normal_(model.lm_head.bias)
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    again = Model.from_pretrained(tmp_path).eval()
    assert sum("embed_tokens" in name or name == "lm_head.weight" for name in stored) == (2 if tied else 3)
    source, target = torch.tensor([[5, 39, 2]]), torch.tensor([[1, 22, 4]])
    logits = model(input_ids=source, decoder_input_ids=target).logits
    assert logits.shape == (1, 3, 23)
    assert_close(again(input_ids=source, decoder_input_ids=target).logits, logits)
    assert (again.lm_head.weight is again.model.decoder.embed_tokens.weight) == tied
    searches: list[dict[str, Any]] = [{"num_beams": 1}, {"num_beams": 3, "length_penalty_type": "gnmt"}]
    for search in searches + [{"num_beams": 3}] * BEAM_SEARCH_KNOWS_TARGETS:
        assert model.generate(source, max_new_tokens=6, **search).max() < 23
    with pytest.raises(ValueError, match="vocabularies of their own here"):
        model.resize_token_embeddings(50)


def test_resizing_reaches_all_three_matrices_where_they_are_apart(tmp_path: Path) -> None:
    model = tiny_model(tie_word_embeddings=False)
    names = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
    assert names < model.state_dict().keys() and "model.shared.weight" not in model.state_dict()
    assert len({model.get_parameter(name).data_ptr() for name in names}) == 3
    before = logits_of(model)
    model.resize_token_embeddings(45)
    model.save_pretrained(tmp_path)
    for resized in (model, Model.from_pretrained(tmp_path)):
        assert all(len(resized.get_parameter(name)) == 45 for name in names)
        assert_close(logits_of(resized)[..., :40], before)
        assert logits_of(resized, decoder_input_ids=TARGET + 5).shape[-1] == 45


# On disk


@pytest.mark.parametrize(
    "settings",
    [{}, {"tie_word_embeddings": False}, {"position_embedding_type": "learned"}, {"attention_bias": True}],
)
def test_a_saved_model_comes_back_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    model = tiny_model(**settings)
    model.save_pretrained(tmp_path)
    loaded, report = Model.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(logits_of(loaded), logits_of(model))
    bare = VaswaniModel.from_pretrained(tmp_path)
    assert torch.equal(bare.encoder(SOURCE).last_hidden_state, model.model.encoder(SOURCE).last_hidden_state)


def test_a_checkpoint_holds_each_weight_once_and_no_sinusoid(tmp_path: Path) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.numel() for tensor in saved.values()) == closed_form(model.config)
    assert not list(model.buffers())
    assert "model.shared.weight" in saved
    assert {name.split(".", 4)[-1] for name in saved if name.startswith("model.decoder.layers.1.")} == {
        *(f"{kind}.{part}_proj.weight" for kind in ("self_attn", "encoder_attn") for part in ("q", "k", "v", "out")),
        *(f"{part}.weight" for part in ("fc1", "fc2", "final_layer_norm")),
        *(f"{part}.bias" for part in ("fc1", "fc2", "final_layer_norm")),
        *(f"{kind}_layer_norm.{part}" for kind in ("self_attn", "encoder_attn") for part in ("weight", "bias")),
    }


# peft and the Trainer


def test_lora_trains_and_merges() -> None:
    model = tiny_model()
    before = logits_of(model)
    adapted = get_peft_model(model, LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(4):
        loss = adapted(input_ids=SOURCE, attention_mask=SOURCE_MASK, labels=LABELS).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    adapted.eval()
    trained = logits_of(adapted)
    merged = adapted.merge_and_unload()
    assert isinstance(merged, Model)
    assert_close(logits_of(merged), trained)
    assert differ(trained, before)


PAIRS = [("a b c", "c b a"), ("b c", "c b"), ("a", "a"), ("c a b a b", "b a b a c")]


def trainer(model: Model, folder: Path, **settings: Any) -> Seq2SeqTrainer:
    """A Trainer for `PAIRS` on the CPU that writes and reports nothing."""
    tokenizer = train_tokenizer([text for pair in PAIRS for text in pair], vocab_size=262)
    examples = [dict(tokenizer(source), labels=tokenizer(target)["input_ids"]) for source, target in PAIRS]
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        per_device_train_batch_size=2,
        **settings,
    )
    return Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=examples,
        eval_dataset=examples,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_seq2seq_trainer_trains_and_predicts(smoothing: float, tmp_path: Path) -> None:
    model = tiny_model(vocab_size=262)
    learner = trainer(
        model,
        tmp_path,
        max_steps=3,
        learning_rate=1e-2,
        label_smoothing_factor=smoothing,
        gradient_accumulation_steps=2,
        predict_with_generate=True,
        generation_max_length=8,
        lr_scheduler_type="constant",
    )
    before = learner.evaluate()["eval_loss"]
    learner.train()
    assert learner.evaluate()["eval_loss"] < before
    predictions = learner.predict(learner.eval_dataset).predictions
    assert len(predictions) == 4 and (predictions != 0).sum(-1).max() <= 8


def test_the_trainer_divides_by_the_tokens_of_all_accumulated_batches(tmp_path: Path) -> None:
    model = tiny_model(vocab_size=262, dropout=0.0)
    learner = trainer(
        model,
        tmp_path,
        max_steps=1,
        gradient_accumulation_steps=2,
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
    )
    batch = learner.data_collator([dict(example) for example in learner.train_dataset])
    loss = model(**batch).loss  # all four pairs at once
    loss.backward()
    expected = {name: (p - p.grad).detach().clone() for name, p in model.named_parameters()}
    model.zero_grad()
    result = learner.train()
    assert result.training_loss == pytest.approx(loss.item(), rel=1e-5)
    for name, parameter in model.named_parameters():
        assert_close(parameter.detach(), expected[name])


# Wrong input


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"decoder_input_ids": TARGET}, "VaswaniEncoder takes either .* and got neither; pass exactly one"),
        ({"input_ids": SOURCE}, "got no target, neither `labels` nor `decoder_input_ids`; for classes .* VaswaniForSequenceClassification"),
        (
            {"input_ids": SOURCE, "inputs_embeds": torch.zeros(3, 5, 16), "decoder_input_ids": TARGET},
            "VaswaniEncoder takes either .* and got both",
        ),
        (
            {"input_ids": SOURCE + 10, "decoder_input_ids": TARGET},
            "VaswaniEncoder got the token id 41, which is outside of 0 to 39; the tokenizer is another",
        ),
        (
            {"input_ids": SOURCE, "decoder_input_ids": -TARGET},
            "VaswaniDecoder got the token id -30, which is outside",
        ),
        (
            {"input_ids": SOURCE, "decoder_input_ids": TARGET, "labels": LABELS + 100},
            r"`labels` has the token id 112, which is outside of 0 to 39; .* marked -100",
        ),
        (
            {"input_ids": SOURCE, "decoder_input_ids": TARGET, "labels": LABELS[:, :2]},
            r"`labels` has the shape \(3, 2\) and the decoder's input \(3, 4\); they must be equal",
        ),
    ],
)
def test_wrong_input_gives_one_sentence(inputs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        tiny_model()(**inputs)


def test_a_decoder_wants_a_source() -> None:
    with pytest.raises(ValueError, match=r"VaswaniDecoder attends .* got no `encoder_hidden_states`"):
        tiny_model().model.decoder(input_ids=TARGET)


def test_labels_need_a_start_and_padding() -> None:
    with pytest.raises(ValueError, match="needs `pad_token_id` and `decoder_start_token_id`"):
        tiny_model(pad_token_id=None)(input_ids=SOURCE, labels=LABELS)


def test_an_unknown_nonlinearity_is_refused() -> None:
    with pytest.raises(ValueError, match=r"There is no `activation_function` 'rulu'; choose one of .*relu"):
        tiny_model(activation_function="rulu")


def test_flash_attention_is_refused_where_it_cannot_work() -> None:
    with pytest.raises(ValueError, match='`head_dim` is 4 and `value_head_dim` 8; use attn_implementation="sdpa"'):
        tiny_model("flash_attention_2", value_head_dim=8)
    model = tiny_model(value_head_dim=8)
    with pytest.raises(ValueError, match="Flash attention needs keys and values of one width"):
        model.set_attn_implementation("flash_attention_2")
