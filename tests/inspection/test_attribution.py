"""Attribution beside what it is by definition: gradients by autograd alone, one token replaced by hand, and sums that are known."""

import logging
import sys
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertLMHeadModel,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
    pipeline,
)  # fmt: skip

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.inspection.attribution import Attribution, Method, attribute
from vaswani_transformer.inspection.maps import attention_maps

SOURCE, TARGET = "A man reads.", "Ein Mann."

needs_inseq = pytest.mark.usefixtures("inseq")


@pytest.fixture(scope="session")
def inseq() -> Any:
    return pytest.importorskip("inseq", reason="inseq is not installed: the extra `attribution`")


@pytest.fixture
def ours(tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    torch.manual_seed(3)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config).double().eval()
    for parameter in model.parameters():  # an untrained model is sure of nothing, and all its differences are small
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def other(name: str, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """A small model of another family, in float64, whose embeddings are scaled where the family can."""
    torch.manual_seed(4)
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer), "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None, "scale_embedding": True, "init_std": 0.3,
    }  # fmt: skip
    small: dict[str, Callable[[], PreTrainedModel]] = {
        "bart": lambda: BartForConditionalGeneration(BartConfig(**sizes)),
        "m2m": lambda: M2M100ForConditionalGeneration(M2M100Config(**sizes)),
        "marian": lambda: MarianMTModel(MarianConfig(**sizes)),
        "mbart": lambda: MBartForConditionalGeneration(MBartConfig(**sizes)),
        "t5": lambda: T5ForConditionalGeneration(
            T5Config(
                vocab_size=len(tokenizer),
                d_model=16,
                d_kv=8,
                d_ff=32,
                num_layers=2,
                num_heads=2,
                decoder_start_token_id=0,
                eos_token_id=2,
            )
        ),
    }  # fmt: skip
    return small[name]().double().eval()


FAMILIES = ("bart", "m2m", "marian", "mbart", "t5")


def ids_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[Tensor, Tensor]:
    """Of the source `[1, S]`, and of the target behind the decoder's start, `[1, 1 + T]`."""
    start = model.config.decoder_start_token_id
    target = [start, *tokenizer(text_target=TARGET)["input_ids"]]
    return torch.tensor([tokenizer(SOURCE)["input_ids"]]), torch.tensor([target])


def probabilities(model: PreTrainedModel, source: Tensor, target: Tensor, written: Tensor | None = None) -> Tensor:
    """`[T]`: of each token of `written`, given `target` before it."""
    written = target if written is None else written
    logits = model(input_ids=source, decoder_input_ids=target[:, :-1]).logits
    return logits.softmax(-1)[0].gather(-1, written[0, 1:, None])[:, 0]


def without(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, ids: Tensor) -> Tensor:
    """The baseline: padding for every token but the control tokens."""
    assert tokenizer.special_tokens_map.get("unk_token") is None
    return torch.where(torch.isin(ids, torch.tensor([0, 1, 2])), ids, torch.tensor(0))


def gradients(model: PreTrainedModel, source: Tensor, target: Tensor) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """For each step, embeddings of the source and the target and the gradients of p by them, from the model's own reading of ids."""
    embedded: list[Tensor] = []
    tables = {stack.get_input_embeddings() for stack in (model.get_encoder(), model.get_decoder())}
    handles = [table.register_forward_hook(lambda module, inputs, output: embedded.append(output)) for table in tables]
    p = probabilities(model, source, target)
    for handle in handles:
        handle.remove()
    sides = (embedded[0], embedded[1])
    found = []
    for one in p:
        by = torch.autograd.grad(one, sides, retain_graph=True)
        found.append((sides[0][0], by[0][0], sides[1][0], by[1][0]))
    return found


@needs_inseq
def test_saliency_is_the_length_of_the_gradient(ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    found = attribute(ours, tokenizer, SOURCE, TARGET, method="saliency")
    by_hand = gradients(ours, *ids_of(ours, tokenizer))
    assert torch.allclose(found.scores.double(), torch.stack([by.norm(dim=-1) for _, by, _, _ in by_hand]), rtol=1e-5, atol=1e-9)
    assert torch.allclose(found.prefix_scores.double(), torch.stack([by.norm(dim=-1) for _, _, _, by in by_hand]), rtol=1e-5, atol=1e-9)
    assert found.scores.std() > 1e-4


@needs_inseq
@pytest.mark.parametrize("family", ["ours", *FAMILIES])
def test_input_by_gradient(family: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = ours if family == "ours" else other(family, tokenizer)
    found = attribute(model, tokenizer, SOURCE, TARGET, method="input_x_gradient")
    by_hand = gradients(model, *ids_of(model, tokenizer))
    for scores, expected in (
        (found.scores, torch.stack([(x * by).sum(-1) for x, by, _, _ in by_hand])),
        (found.prefix_scores, torch.stack([(y * by).sum(-1) for _, _, y, by in by_hand])),
    ):
        assert (scores - expected).abs().max() < 1e-5 * expected.abs().max()


@needs_inseq
@pytest.mark.parametrize("family", ["ours", "marian"])
def test_integrated_gradients_sum_to_the_difference(family: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = ours if family == "ours" else other(family, tokenizer)
    source, target = ids_of(model, tokenizer)
    with torch.no_grad():
        empty = probabilities(model, without(model, tokenizer, source), without(model, tokenizer, target), target)
        difference = probabilities(model, source, target) - empty
    errors = []
    for steps in (10, 100):
        found = attribute(model, tokenizer, SOURCE, TARGET, method="integrated_gradients", steps=steps)
        by_words = torch.stack([difference[list(places)].mean() for places in found.target_words])
        for level, expected in ((found, difference), (found.words(), by_words)):
            sums = level.scores.sum(-1) + level.prefix_scores.sum(-1)
            errors.append(float((sums - expected).abs().max() / difference.abs().max()))
    assert max(errors[2:]) < 0.05 and max(errors[2:]) < 0.3 * max(errors[:2])


@needs_inseq
@pytest.mark.parametrize("family", ["ours", "marian"])
def test_occlusion_is_the_change_without_a_token(family: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = ours if family == "ours" else other(family, tokenizer)
    found = attribute(model, tokenizer, SOURCE, TARGET, method="occlusion")
    source, target = ids_of(model, tokenizer)
    steps = target.shape[1] - 1
    expected, before = torch.zeros(steps, source.shape[1]), torch.zeros(steps, steps)
    with torch.no_grad():
        whole = probabilities(model, source, target)
        for place in range(source.shape[1]):
            changed = source.clone()
            changed[0, place] = without(model, tokenizer, source)[0, place]
            expected[:, place] = (probabilities(model, changed, target) - whole).abs()
        for place in range(steps):
            changed = target.clone()
            changed[0, place] = without(model, tokenizer, target)[0, place]
            before[:, place] = (probabilities(model, source, changed, target) - whole).abs()
    assert (found.scores - expected).abs().max() < 1e-6 and expected.max() > 1e-4
    assert (found.prefix_scores - before).abs().max() < 1e-6
    assert found.scores[:, -1].max() < 1e-12, "the end of the sentence stays"


@needs_inseq
@pytest.mark.parametrize("family", ["ours", *FAMILIES])
def test_attention_is_the_mean_of_the_maps(family: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = ours if family == "ours" else other(family, tokenizer)
    found = attribute(model, tokenizer, SOURCE, TARGET, method="attention")
    maps = attention_maps(model, tokenizer, SOURCE, TARGET)
    assert (found.source, found.target, found.read) == (maps.source, maps.target, maps.read)
    assert (found.scores - maps.cross.mean((0, 1))).abs().max() < 1e-6
    assert (found.prefix_scores - maps.decoder.mean((0, 1))).abs().max() < 1e-6
    assert torch.allclose(found.log_probabilities, maps.log_probabilities, rtol=1e-12)
    assert model.config._attn_implementation == "sdpa"


def state(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Any:
    """All that attribution might leave behind."""
    return (
        dict(vars(model.config)),
        model.config._attn_implementation,
        dict(tokenizer.special_tokens_map),
        [(name, module.training, len(module._forward_hooks), len(module._forward_pre_hooks)) for name, module in model.named_modules()],
        [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()],
        torch.is_grad_enabled(),
        sys.gettrace(),
    )


@needs_inseq
@pytest.mark.parametrize("method", get_args(Method))
def test_everything_is_put_back_and_nothing_is_printed(
    method: Method,
    ours: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    recwarn: pytest.WarningsRecorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours.train()
    ours.model.encoder.layers[0].eval()
    ours.model.encoder.layers[1].fc1.weight.requires_grad = False
    probabilities(ours, *ids_of(ours, tokenizer)).sum().backward()
    gradient = ours.lm_head.weight.grad.clone()
    attention_maps(ours, tokenizer, SOURCE, TARGET)  # once and for all, transformers adds hooks that collect what a layer gives
    before = state(ours, tokenizer)
    capfd.readouterr()
    with caplog.at_level(logging.INFO):
        first = attribute(ours, tokenizer, SOURCE, TARGET, method=method)
    with torch.inference_mode():
        again = attribute(ours, tokenizer, SOURCE, TARGET, method=method)
    assert torch.equal(first.scores, again.scores), "no dropout, and inference mode changes nothing"
    assert state(ours, tokenizer) == before
    assert torch.equal(ours.lm_head.weight.grad, gradient)
    assert (capfd.readouterr(), caplog.records, list(recwarn)) == (("", ""), [], [])

    def fails(*inputs: Any) -> None:
        calls.append(None)
        if len(calls) > 2:
            raise RuntimeError("in the middle")

    calls: list[None] = []
    monkeypatch.setattr(ours.lm_head, "forward", lambda x, forward=ours.lm_head.forward: (fails(), forward(x))[1])
    if method == "value_zeroing":
        calls = [None, None]
    with pytest.raises(RuntimeError, match="in the middle"):
        attribute(ours, tokenizer, SOURCE, TARGET, method=method)
    assert state(ours, tokenizer) == before


@needs_inseq
def test_of_its_own_translation(ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    found = attribute(ours, tokenizer, SOURCE, num_beams=3, extra_length=5)
    translator = pipeline("translation", model=ours, tokenizer=tokenizer)
    assert found.target_text == translator(SOURCE, num_beams=3, extra_length=5)[0]["translation_text"]
    assert found.score == attention_maps(ours, tokenizer, SOURCE, num_beams=3, extra_length=5).score is not None


def made(scores: list[list[float]], **changes: Any) -> Attribution:
    prefix = torch.ones(len(scores), len(scores)).tril()
    texts: dict[str, Any] = {
        "source": ("un", "do", "</s>"), "target": ("weg", "</s>"), "read": ("<s>", "weg"), "source_text": "undo", "target_text": "weg",
        "source_words": ((0, 1), (2,)), "target_words": ((0,), (1,)), "read_words": ((0,), (1,)),
    }  # fmt: skip
    return Attribution(
        method="input_x_gradient", scores=torch.tensor(scores), prefix_scores=prefix, log_probabilities=torch.zeros(len(scores)),
        **(texts | changes),
    )  # fmt: skip


def test_scores_with_signs_by_words() -> None:
    found = made([[0.5, -0.25, 0.25], [0.0, 0.0, 0.0]])
    assert found.weights.tolist() == [[0.5, -0.25, 0.25], [0.0, 0.0, 0.0]]
    words = found.words()
    assert (words.source, words.target) == (("undo", "</s>"), ("weg", "</s>"))
    assert words.scores.tolist() == [[0.25, 0.25], [0.0, 0.0]]
    assert words.weights.tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert words.prefix_weights.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert words.words() is words


def test_two_tokens_of_a_target_word_are_averaged() -> None:
    words = made([[0.5, -0.25, 0.25], [0.25, 0.25, 0.0]], target_words=((0, 1),)).words()
    assert words.scores.tolist() == [[0.375, 0.125]]
    assert words.target == ("weg</s>",)


def test_the_picture_has_both_signs_and_its_words() -> None:
    found = made([[0.5, -0.25, 0.25], [0.1, 0.1, 0.2]])
    (axes,) = (axes for axes in found.figure().axes if axes.images)
    assert (axes.images[0].get_array() - found.weights.numpy()).max() == 0
    assert axes.images[0].get_clim() == (-0.5, 0.5)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["un", "do", "</s>"]
    assert "-25%" in [text.get_text() for text in axes.texts]
    (prefix,) = (axes for axes in found.figure("prefix").axes if axes.images)
    assert [label.get_text() for label in prefix.get_xticklabels()] == ["<s>", "weg"]


def test_a_notebook_shows_the_picture_whatever_the_text_says() -> None:
    shown = made([[0.5, 0.25, 0.25], [0.1, 0.1, 0.2]], source_text='"><script>alert(1)</script>')._repr_html_()
    assert shown.startswith('<img alt="Heat map: input x gradient of “weg”') and "<script>" not in shown
    assert 'src="data:image/png;base64,iVBOR' in shown


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "magic"}, "There is no attribution method 'magic'; choose saliency, .*occlusion, attention, value_zeroing."),
        ({"level": "letter"}, "There is no level 'letter'; choose subword or word."),
        ({"steps": 0}, "`steps` is 0; it must be a whole number from 1."),
        ({"source": " "}, "The source is only white space; give a sentence"),
        ({"target": ""}, "The target is empty; give a sentence"),
        ({"memory_limit": 1000}, "The target has .* above the limit"),
    ],
)
def test_what_cannot_be_attributed(
    options: dict[str, Any], sentence: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    with pytest.raises(ValueError, match=sentence):
        attribute(ours, tokenizer, **({"source": SOURCE, "target": TARGET, "method": "value_zeroing"} | options))


@needs_inseq
def test_gradients_too_large(ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ValueError, match=r"The target has .* tokens, and gradients for every pair would take .* above the limit"):
        attribute(ours, tokenizer, SOURCE, TARGET, memory_limit=8_000)


def test_a_model_without_an_encoder(tokenizer: PreTrainedTokenizerBase) -> None:
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, is_decoder=True)
    with pytest.raises(ValueError, match="BertLMHeadModel has no encoder and decoder"):
        attribute(BertLMHeadModel(config), tokenizer, SOURCE, method="value_zeroing")


@needs_inseq
def test_packed_weights(ours: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    expected = attribute(ours.float(), tokenizer, SOURCE, TARGET, method="occlusion").scores
    ours.pack_weights("float32")
    for method in ("saliency", "integrated_gradients", "value_zeroing"):
        with pytest.raises(ValueError, match=f"Packed weights .* so {method} is impossible; load the model without packing"):
            attribute(ours, tokenizer, SOURCE, TARGET, method=method)  # type: ignore[arg-type]
    assert torch.allclose(attribute(ours, tokenizer, SOURCE, TARGET, method="occlusion").scores, expected, atol=1e-4)
    assert attribute(ours, tokenizer, SOURCE, TARGET, method="attention").scores.sum(-1).sub(1).abs().max() < 1e-4


def test_without_inseq(ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inseq", None)
    with pytest.raises(ImportError, match=r"^inseq is not installed: .* with its extra `attribution`.$"):
        attribute(ours, tokenizer, SOURCE)
    assert attribute(ours, tokenizer, SOURCE, TARGET, method="value_zeroing").weights.sum(-1).sub(1).abs().max() < 1e-9
