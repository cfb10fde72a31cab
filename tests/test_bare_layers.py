"""A search computes what the model does, whoever has changed it and wherever: against the changed model's own `forward`."""

from collections.abc import Callable
from typing import Any

import peft
import pytest
import torch
from packaging.version import Version
from torch import nn
from torch.nn.utils import parametrizations
from transformers import GenerationConfig, GenerationMixin
from transformers.cache_utils import DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from tests.test_decoding import BOS, EOS, GNMT, SOURCES, build_model, padded
from vaswani_transformer import VaswaniForConditionalGeneration, modeling_vaswani
from vaswani_transformer.bare_layers import can_run_bare
from vaswani_transformer.stepping import DecoderSteps, ModelSteps, steps_of

Change = Callable[[Any], Any]
LONGEST = 5


def changed_class(module: nn.Module, change: Callable[..., Any], method: str = "forward") -> None:
    """Make `module` one of a subclass that overrides a method: `change` gets what it returned."""
    original = getattr(type(module), method)

    def override(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return change(original(self, *args, **kwargs))

    module.__class__ = type("Changed", (type(module),), {method: override})


def turned(output: Any) -> Any:
    """Another output of the same shapes: of its tensor, or of its first, every row turned by an entry."""
    if isinstance(output, torch.Tensor):
        return output.roll(1, -1)
    if isinstance(output, tuple):
        return (output[0].roll(1, -1), *output[1:])
    name = next(iter(output))
    output[name] = output[name].roll(1, -1)
    return output


def patched(module: Any, method: str = "forward") -> None:
    original = getattr(module, method)
    setattr(module, method, lambda *args, **kwargs: turned(original(*args, **kwargs)))


def hooked(module: nn.Module) -> None:
    module.register_forward_hook(lambda module, inputs, output: turned(output))


def hooked_before(module: nn.Module) -> None:
    """Exchange the tokens of what is decoded."""

    def exchange(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return args, {**kwargs, "decoder_input_ids": (kwargs["decoder_input_ids"] + 3) % 11}

    module.register_forward_pre_hook(exchange, with_kwargs=True)


class Adapter(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return turned(self.layer(*args, **kwargs))


def wrap(layers: nn.ModuleList) -> None:
    layers[0] = Adapter(layers[0])


def dropped(module: nn.Module) -> None:
    """All of it, so that the outcome is no chance."""
    module.p = 1.0
    module.train()


def adapted(model: Any) -> None:
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["q_proj", "fc2"], init_lora_weights=False), model)
    model.double()


def parametrized(module: nn.Module) -> None:
    parametrizations.spectral_norm(module)
    module.eval()


class Doubled(nn.Parameter):
    """A weight that knows better than its numbers, as quantised ones do."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            found = function(*args, **(kwargs or {}))
            return found * 2 if function is nn.functional.linear else found


def set_weight(module: nn.Module) -> None:
    module.weight = Doubled(module.weight.detach())


CHANGES: dict[str, Callable[[Any], Any]] = {
    "subclass of the whole": lambda model: changed_class(model, turned),
    "subclass of the model": lambda model: changed_class(model.model, turned),
    "subclass of the encoder": lambda model: changed_class(model.model.encoder, turned),
    "subclass of the decoder": lambda model: changed_class(model.model.decoder, turned),
    "subclass of a layer": lambda model: changed_class(model.model.decoder.layers[1], turned),
    "subclass of self-attention": lambda model: changed_class(model.model.decoder.layers[0].self_attn, turned),
    "subclass of attention over the source": lambda model: changed_class(model.model.decoder.layers[0].encoder_attn, turned),
    "subclass with another feed-forward": lambda model: changed_class(model.model.decoder.layers[0], turned, "feed_forward"),
    "subclass with other positions": lambda model: changed_class(model.model.decoder, turned, "position_vectors"),
    "hook on the whole": hooked,
    "hook on the model": lambda model: hooked(model.model),
    "hook on the encoder's layer": lambda model: hooked(model.model.encoder.layers[1]),
    "hook on the softmax": lambda model: hooked(model.lm_head),
    "hook before the whole": hooked_before,
    "hook before the model": lambda model: hooked_before(model.model),
    "patched whole": patched,
    "patched model": lambda model: patched(model.model),
    "patched layer": lambda model: patched(model.model.decoder.layers[0]),
    "patched attention": lambda model: patched(model.model.decoder.layers[0].encoder_attn, "attend"),
    "patched embedding": lambda model: patched(model.model.encoder, "embed"),
    "wrapped layer of the encoder": lambda model: wrap(model.model.encoder.layers),
    "wrapped layer of the decoder": lambda model: wrap(model.model.decoder.layers),
    "dropout of a layer": lambda model: dropped(model.model.decoder.layers[1].dropout),
    "dropout in a feed-forward network": lambda model: dropped(model.model.encoder.layers[1].activation_dropout),
    "dropout of the embeddings": lambda model: dropped(model.model.encoder.dropout),
    "subclass of a linear layer": lambda model: changed_class(model.model.decoder.layers[0].fc1, turned),
    "subclass of a normalisation": lambda model: changed_class(model.model.decoder.layers[0].final_layer_norm, turned),
    "subclass of an activation": lambda model: changed_class(model.model.decoder.layers[0].activation_fn, turned),
    "subclass of the softmax": lambda model: changed_class(model.lm_head, turned),
    "replaced embeddings": lambda model: changed_class(model.model.decoder.embed_tokens, turned),
    "adapters": adapted,
    "parametrization": lambda model: parametrized(model.model.decoder.layers[0].fc1),
    "weight of another class": lambda model: set_weight(model.model.decoder.layers[0].encoder_attn.q_proj),
}


def greedy_by_forward(model: Any, source: list[int]) -> list[int]:
    """The likeliest token again and again, all computed anew for each."""
    tokens = [BOS]
    while len(tokens) <= LONGEST and EOS not in tokens:
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([tokens])).logits
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


def worth_by_forward(model: Any, source: list[int], tokens: list[int]) -> float:
    inputs = {"input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([[BOS, *tokens[:-1]]])}
    scores = model(**inputs).logits.log_softmax(-1)[0, torch.arange(len(tokens)), torch.tensor(tokens)]
    return scores.sum().item() / ((5 + len(tokens)) / 6) ** 0.6


@torch.no_grad()
def assert_searched_by_forward(model: Any, generator: Any = None, batch: bool = True) -> None:
    """Greedy search and the paper's find what `model`, called without a cache, says."""
    generator = generator or model
    given = padded(SOURCES[:3])
    greedy = generator.generate(**given, max_new_tokens=LONGEST, num_beams=1).tolist()
    for source, tokens in zip(SOURCES, greedy, strict=False):
        expected = greedy_by_forward(model, source)
        assert tokens[: len(expected)] == expected
    out = generator.generate(**given, **GNMT, num_beams=3, num_return_sequences=2, max_new_tokens=LONGEST, return_dict_in_generate=True)
    lengths = (out.beam_indices >= 0).sum(-1).tolist()
    for row, (tokens, length, score) in enumerate(zip(out.sequences.tolist(), lengths, out.sequences_scores.tolist(), strict=True)):
        assert score == pytest.approx(worth_by_forward(model, SOURCES[row // 2], tokens[1 : 1 + length]), abs=1e-9)


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**padded(SOURCES[:3]), decoder_input_ids=torch.tensor([[BOS, 4, 5]] * 3)).logits


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_is_searched_as_it_is(name: str) -> None:
    model = build_model(attn_implementation="eager")
    plain = logits_of(model)
    CHANGES[name](model)
    assert not torch.allclose(logits_of(model), plain), "the change changes nothing"
    assert not can_run_bare(model)
    assert_searched_by_forward(model)


def test_a_class_that_is_patched_is_searched_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    model, original = build_model(), modeling_vaswani.VaswaniDecoderLayer.forward
    monkeypatch.setattr(modeling_vaswani.VaswaniDecoderLayer, "forward", lambda *args, **kwargs: turned(original(*args, **kwargs)))
    assert_searched_by_forward(model)


def test_a_hook_on_all_modules_takes_part() -> None:
    def turn(module: nn.Module, inputs: Any, output: Any) -> Any:
        return turned(output) if isinstance(module, nn.LayerNorm) else output

    model = build_model()
    handle = nn.modules.module.register_module_forward_hook(turn)
    try:
        assert_searched_by_forward(model)
    finally:
        handle.remove()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_another_attention_under_the_same_name_takes_part(implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_scores(module: nn.Module, query: Any, key: Any, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return value[:, :, :1].expand(-1, -1, query.shape[2], -1).transpose(1, 2), None

    model = build_model(attn_implementation=implementation)
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._local_mapping, implementation, without_scores)
    assert_searched_by_forward(model)


@pytest.mark.skipif(Version(peft.__version__) < Version("0.21"), reason="with peft 0.18 scores differ from an uncached forward's by 1e-4")
def test_prefix_tuning_takes_part() -> None:
    model = build_model()
    plain = logits_of(model)
    # peft 0.18 cannot read these off a configuration without `hidden_size`
    sizes = {
        "num_layers": model.config.decoder_layers,
        "num_attention_heads": model.config.decoder_attention_heads,
        "token_dim": model.config.d_model,
    }
    settings = peft.PrefixTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=3, **sizes)
    tuned = peft.get_peft_model(model, settings).double().eval()
    for parameter in tuned.prompt_encoder.parameters():
        nn.init.normal_(parameter, std=3.0)
    assert not torch.allclose(logits_of(tuned), plain)
    assert_searched_by_forward(tuned)
    asked = {"num_beams": 3, **GNMT, "max_new_tokens": LONGEST, "return_dict_in_generate": True}
    expected = tuned.generate(**padded(SOURCES), **asked)
    recorded = tuned.generate(**padded(SOURCES), **asked, output_scores=True, output_logits=True, output_hidden_states=True)
    assert torch.equal(recorded.sequences, expected.sequences)
    assert can_run_bare(model), "a method that was put back changes nothing"


def test_adapters_of_each_row_know_their_rows() -> None:
    """PEFT wants as many names as there are rows: no sentence may leave such a batch."""
    tuned = peft.get_peft_model(build_model(), peft.LoraConfig(target_modules=["q_proj", "fc2"], init_lora_weights=False)).double().eval()
    given = padded(SOURCES[:4])
    asked = {"num_beams": 3, **GNMT, "extra_length": 3}
    plain, found = (tuned.generate(**given, **asked, adapter_names=[name] * 4) for name in ("__base__", "default"))
    mixed = tuned.generate(**given, **asked, adapter_names=["__base__", "default", "__base__", "default"])
    assert not torch.equal(plain, found)
    for row, (tokens, expected) in enumerate(zip(mixed.tolist(), [plain[0], found[1], plain[2], found[3]], strict=True)):
        assert [t for t in tokens if t] == [t for t in expected.tolist() if t], row


def test_an_overridden_preparation_is_asked() -> None:
    asked: list[int] = []

    class Counting(VaswaniForConditionalGeneration):
        def prepare_inputs_for_generation(self, input_ids: torch.Tensor, **kwargs: Any) -> dict[str, Any]:
            asked.append(len(input_ids))
            return super().prepare_inputs_for_generation(input_ids, **kwargs)

    model = build_model(cls=Counting)
    model.generate(**padded(SOURCES), max_new_tokens=3)
    assert asked == [len(SOURCES)] * 3
    model.generate(**padded(SOURCES), max_new_tokens=3, num_beams=2, **GNMT)
    assert asked[3:] == [2 * len(SOURCES)] * 3


@pytest.mark.parametrize("beams", [1, 3])
def test_a_cache_of_the_decoder_alone_does(beams: int) -> None:
    asked = {"num_beams": beams, "extra_length": 5, **GNMT}
    model = build_model()
    found = model.generate(**padded(SOURCES), past_key_values=DynamicCache(), **asked)
    assert torch.equal(found, model.generate(**padded(SOURCES), **asked))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_a_plain_model_is_searched_by_functions(implementation: str, activation: str, beams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so it is packed, moved to another type or once more in evaluation; the whole of it never runs."""
    model = build_model(attn_implementation=implementation, activation_function=activation)
    asked = {"num_beams": beams, "extra_length": 5, **GNMT}
    expected = model.generate(**padded(SOURCES), **asked, use_cache=False)
    model.train().eval()
    # transformers 5.17 runs the encoder itself
    encodes = hasattr(GenerationMixin, "_prepare_text_encoder_decoder_kwargs_for_generation")
    stack = modeling_vaswani.VaswaniStack if encodes else modeling_vaswani.VaswaniDecoder
    monkeypatch.setattr(stack, "__call__", lambda *args, **kwargs: pytest.fail("a stack ran"))
    assert torch.equal(model.generate(**padded(SOURCES), **asked), expected)
    assert can_run_bare(model.float()) and can_run_bare(model.pack_weights("float32"))


def test_what_a_model_is_is_found_out_once_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("vaswani_transformer.stepping.can_run_bare", lambda model: asked.append(model) or can_run_bare(model))
    model, settings = build_model(), GenerationConfig(max_new_tokens=3, num_beams=2, **GNMT)
    for searches in (1, 2):
        model.generate(**padded(SOURCES), generation_config=settings)
        assert asked == [model] * searches


def test_steps_of_a_changed_model_keep_their_rows() -> None:
    model = build_model()
    kwargs = {"encoder_outputs": (torch.zeros(2, 3, 16, dtype=torch.double),), "use_cache": True}
    given = {"model": model, "input_ids": torch.ones((2, 1), dtype=torch.long), "model_kwargs": kwargs}
    assert type(steps_of(config=GenerationConfig(use_cache=True), **given)) is DecoderSteps
    assert ModelSteps(config=GenerationConfig(use_cache=True), beams=1, **given).can_shrink
    hooked(model.lm_head)
    steps = steps_of(config=GenerationConfig(use_cache=True), **given)
    assert type(steps) is ModelSteps and not steps.can_shrink
