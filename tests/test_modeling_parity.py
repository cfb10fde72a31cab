"""The model equals independent implementations with the same weights, in results and in gradients."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration

PAD = 0
SOURCE = torch.tensor([[5, 9, 3, 7, 2], [8, 4, 2, PAD, PAD], [11, 2, PAD, PAD, PAD]])
TARGET = torch.tensor([[1, 6, 6, 10], [1, 3, 12, 4], [1, 9, PAD, PAD]])
LABELS = torch.tensor([[6, 6, 10, 2], [3, 12, 4, 2], [9, 2, -100, -100]])
IS_REAL = LABELS != -100

SIZES: dict[str, Any] = {
    "vocab_size": 13,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "dropout": 0.0,
}


@pytest.fixture(autouse=True)
def _in_float64() -> Any:
    """Everything that is built here has 64 bits, tables of positions too."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def our_model(**settings: Any) -> VaswaniForConditionalGeneration:
    """A small model, no weight of which is at a special value."""
    model = VaswaniForConditionalGeneration(VaswaniConfig(**SIZES, attention_bias=True, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def assert_same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


# torch.nn.Transformer


class TorchTranslator(nn.Module):
    """torch.nn.Transformer between one embedding matrix and the softmax, and the paper's positions."""

    def __init__(self, ours: VaswaniForConditionalGeneration) -> None:
        super().__init__()
        config = ours.config
        self.embeddings = nn.Parameter(ours.model.shared.weight.detach().clone())
        self.transformer = nn.Transformer(
            d_model=config.d_model,
            nhead=config.encoder_attention_heads,
            num_encoder_layers=config.encoder_layers,
            num_decoder_layers=config.decoder_layers,
            dim_feedforward=config.encoder_ffn_dim,
            dropout=0.0,
            activation="relu",
            layer_norm_eps=config.layer_norm_eps,
            batch_first=True,
            norm_first=False,
        )
        # The paper has no normalisation behind the last layer.
        self.transformer.encoder.norm = None
        self.transformer.decoder.norm = None
        self.load(ours)

    @torch.no_grad()
    def load(self, ours: VaswaniForConditionalGeneration) -> None:
        weights = dict(ours.named_parameters())
        for name, parameter in self.transformer.named_parameters():
            parameter.copy_(in_torchs_layout(name, weights))

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        source_x, target_x = (
            self.embeddings[ids] * math.sqrt(self.embeddings.shape[1]) + self.positions(ids.shape[1]) for ids in (source, target)
        )
        x = self.transformer(
            source_x,
            target_x,
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.shape[1]),
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return x @ self.embeddings.T

    def positions(self, length: int) -> torch.Tensor:
        """Section 3.5, an entry at a time."""
        width = self.embeddings.shape[1]
        table = torch.zeros(length, width)
        for position in range(length):
            for i in range(width // 2):
                angle = position / 10_000 ** (2 * i / width)
                table[position, 2 * i], table[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
        return table


def in_torchs_layout(name: str, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """Our tensor for a parameter of torch.nn.Transformer, which stacks the three input projections."""
    stack, _, layer, rest = name.split(".", 3)
    normalisations = ["self_attn_layer_norm", *(["encoder_attn_layer_norm"] if stack == "decoder" else [])]
    names = dict(zip(("norm1", "norm2", "norm3"), [*normalisations, "final_layer_norm"], strict=False))
    names |= {"linear1": "fc1", "linear2": "fc2", "multihead_attn": "encoder_attn"}
    part, rest = rest.split(".", 1)
    prefix = f"model.{stack}.layers.{layer}.{names.get(part, part)}"
    if rest.startswith("in_proj_"):
        kind = rest.removeprefix("in_proj_")
        return torch.cat([weights[f"{prefix}.{letter}_proj.{kind}"] for letter in "qkv"])
    return weights[f"{prefix}.{rest}"]


def test_equals_torch_nn_transformer() -> None:
    ours = our_model()
    theirs = TorchTranslator(ours)
    logits = ours(input_ids=SOURCE, attention_mask=SOURCE != PAD, decoder_input_ids=TARGET).logits
    expected = theirs(SOURCE, TARGET)
    assert_same(logits[IS_REAL], expected[IS_REAL])


def test_learns_as_torch_nn_transformer_does() -> None:
    ours = our_model()
    theirs = TorchTranslator(ours)
    loss = ours(input_ids=SOURCE, attention_mask=SOURCE != PAD, labels=LABELS, decoder_input_ids=TARGET).loss
    expected = nn.functional.cross_entropy(theirs(SOURCE, TARGET).flatten(0, 1), LABELS.flatten())
    assert_same(loss, expected)
    loss.backward()
    expected.backward()
    assert_same(ours.model.shared.weight.grad, theirs.embeddings.grad)
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for name, parameter in theirs.transformer.named_parameters():
        assert_same(in_torchs_layout(name, gradients), parameter.grad)
        assert parameter.grad.abs().sum() > 0


# MarianMTModel


@pytest.fixture
def pair() -> tuple[VaswaniForConditionalGeneration, MarianMTModel]:
    """Our model and Marian's with one set of weights; the parameters have the same names."""
    ours = our_model(sinusoidal_layout="concatenated", layer_norm_eps=1e-5).eval()
    marian_config = MarianConfig(
        **{**SIZES, "attention_dropout": 0.0, "activation_dropout": 0.0},
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=64,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    theirs = MarianMTModel(marian_config).eval()
    missing, unexpected = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert unexpected == []
    tables = {f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")}
    assert set(missing) == {"final_logits_bias", *tables}
    for name in tables:
        table = theirs.get_parameter(name)
        exact = all_sines_before_all_cosines(*table.shape)
        torch.testing.assert_close(table, exact, rtol=0, atol=1e-7)
        table.data = exact  # Marian's is rounded to 32 bits, whatever the model's are
    return ours, theirs


def all_sines_before_all_cosines(length: int, width: int) -> torch.Tensor:
    """Marian's positions, an entry at a time."""
    table = torch.zeros(length, width)
    for position in range(length):
        for i in range(width // 2):
            angle = position / 10_000 ** (2 * i / width)
            table[position, i], table[position, width // 2 + i] = math.sin(angle), math.cos(angle)
    return table


def test_equals_marian(pair: tuple[VaswaniForConditionalGeneration, MarianMTModel]) -> None:
    inputs = {
        "input_ids": SOURCE,
        "attention_mask": (SOURCE != PAD).long(),
        "decoder_input_ids": TARGET,
        "decoder_attention_mask": (TARGET != PAD).long(),
        "labels": LABELS,
    }
    ours, theirs = (model(**inputs) for model in pair)
    assert_same(ours.logits[IS_REAL], theirs.logits[IS_REAL])
    assert_same(ours.encoder_last_hidden_state[SOURCE != PAD], theirs.encoder_last_hidden_state[SOURCE != PAD])
    assert_same(ours.loss, theirs.loss)


def test_learns_as_marian_does(pair: tuple[VaswaniForConditionalGeneration, MarianMTModel]) -> None:
    ours, theirs = pair
    for model in pair:
        model(input_ids=SOURCE, attention_mask=SOURCE != PAD, decoder_input_ids=TARGET, labels=LABELS).loss.backward()
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        assert_same(parameter.grad, expected[name].grad)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_decodes_with_a_cache_as_marian_does(pair: tuple[VaswaniForConditionalGeneration, MarianMTModel], implementation: str) -> None:
    caches: list[Any] = [None, None]
    for step in range(TARGET.shape[1]):
        logits = []
        for i, model in enumerate(pair):
            model.set_attn_implementation(implementation)
            outputs = model(
                input_ids=SOURCE,
                attention_mask=SOURCE != PAD,
                decoder_input_ids=TARGET[:, step : step + 1],
                past_key_values=caches[i],
                use_cache=True,
            )
            caches[i] = outputs.past_key_values
            logits.append(outputs.logits)
        assert_same(*logits)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_generates_what_marian_generates(pair: tuple[VaswaniForConditionalGeneration, MarianMTModel], num_beams: int) -> None:
    settings = {
        "num_beams": num_beams,
        "max_new_tokens": 12,
        "output_scores": True,
        "return_dict_in_generate": True,
    }
    ours, theirs = (model.generate(SOURCE, attention_mask=SOURCE != PAD, **settings) for model in pair)
    assert torch.equal(ours.sequences, theirs.sequences)
    for score, expected in zip(ours.scores, theirs.scores, strict=True):
        torch.testing.assert_close(score, expected)  # generate gives float32
