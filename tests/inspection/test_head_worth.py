"""A masked head computes nothing, and nothing of the model changes."""

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from sacrebleu import corpus_bleu
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
)

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.inspection import head_worth
from vaswani_transformer.inspection.head_worth import HeadWorth, attention_layers, head_names, masked
from vaswani_transformer.inspection.heads import HeadName
from vaswani_transformer.translation.translate import translate

SIZES = {"encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 4, "d_model": 16}


def vaswani(entries: int) -> VaswaniForConditionalGeneration:
    torch.manual_seed(5)
    sizes = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "attention_bias": True, "head_dim": 4}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=entries, **SIZES, **sizes)).eval()
    for name, parameter in model.named_parameters():  # biases begin at 0
        if "proj.bias" in name:
            nn.init.normal_(parameter)
    return model


def bart(entries: int) -> BartForConditionalGeneration:
    torch.manual_seed(5)
    config = BartConfig(vocab_size=entries, **SIZES, encoder_ffn_dim=32, decoder_ffn_dim=32, init_std=0.5, pad_token_id=0)
    return BartForConditionalGeneration(config).eval()


def t5(entries: int) -> T5ForConditionalGeneration:
    torch.manual_seed(5)
    config = T5Config(vocab_size=entries, d_model=16, d_kv=6, d_ff=32, num_layers=2, num_decoder_layers=1, num_heads=4)
    return T5ForConditionalGeneration(config).eval()


def bits(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def are_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without(columns: slice, module: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    """What a projection reads, `[..., heads side by side]`, with zeros in place of one head."""
    changed = inputs[0].clone()
    changed[..., columns] = 0
    return (changed,)


@pytest.mark.parametrize("make", [vaswani, bart, t5])
def test_a_masked_head_gives_zero_before_the_projection(make: Callable[[int], PreTrainedModel]) -> None:
    """In float64, against the head's output made zero by a hook, for every head; and each head matters."""
    model = make(40).double()
    ids = {"input_ids": torch.tensor([[5, 9, 6, 2]]), "decoder_input_ids": torch.tensor([[1, 7, 8]])}
    before, whole = bits(model), model(**ids).logits
    for place in attention_layers(model):
        for head in range(place.heads):
            with masked(model, [HeadName(place.kind, place.layer, head)]):
                found = model(**ids).logits

            hook = place.projection.register_forward_pre_hook(partial(without, place.columns(head)))
            expected = model(**ids).logits
            hook.remove()
            assert (found - expected).abs().max() < 1e-12
            assert (found - whole).abs().max() > 1e-6
    assert are_equal(before, bits(model))


def test_every_head_is_found_in_order() -> None:
    names = head_names(vaswani(40))
    assert names == [
        *(HeadName("encoder", layer, head) for layer in range(2) for head in range(2)),
        *(HeadName(kind, 0, head) for kind in ("decoder", "cross") for head in range(4)),
    ]


def test_the_bits_come_back_even_after_an_error() -> None:
    model = vaswani(40)
    before = bits(model)
    with pytest.raises(RuntimeError, match="in between"), masked(model, head_names(model)):
        assert not are_equal(before, bits(model))
        raise RuntimeError("in between")
    assert are_equal(before, bits(model))


def test_the_fast_searches_compute_without_the_head(tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> None:
    """The search that calls no modules, and packed weights, against the plain one, which a hook on the model asks for."""
    model = vaswani(len(tokenizer))
    heads = [HeadName("cross", 0, 1), HeadName("encoder", 1, 0)]
    settings = {"num_beams": 2, "max_new_tokens": 8}
    whole = translate(model, tokenizer, sentences, **settings)
    with masked(model, heads):
        fast = translate(model, tokenizer, sentences, **settings)
        packed = copy.deepcopy(model)
        packed.pack_weights("float32")
        slow = copy.deepcopy(model)
        slow.register_forward_hook(lambda *_: None)
        assert translate(packed, tokenizer, sentences, **settings) == translate(slow, tokenizer, sentences, **settings) == fast
    assert fast != whole == translate(model, tokenizer, sentences, **settings)
    assert translate(packed, tokenizer, sentences, **settings) == fast


def test_worth_is_bleu_of_the_masked_models_translations(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    sources = ["A man reads.", "The house is old.", "A woman in a red coat reads a book."]
    references = [text + " a man" for text in translate(model, tokenizer, sources)]
    pairs = list(zip(sources, references, strict=True))
    found = HeadWorth(model, tokenizer, pairs, "th")  # counted in characters: this model writes no words
    assert found.bleu == corpus_bleu(translate(model, tokenizer, sources), [references], tokenize="char", force=True).score > 0
    assert "tok:char" in found.signature
    head, other = HeadName("cross", 0, 0), HeadName("cross", 0, 1)
    without = found.without(head)
    with masked(model, [head]):
        expected = corpus_bleu(translate(model, tokenizer, sources), [references], tokenize="char", force=True).score
    assert without.bleu == expected and 0 < without.p <= 1
    assert found.all_but(other) == without == found.without(head)  # of two heads, all but one is without the other


def test_the_same_translations_are_no_sure_difference(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = HeadWorth(model, tokenizer, [("A man reads.", "Ein Mann liest.")], "de")
    monkeypatch.setattr(head_worth, "translate", lambda *_, **__: list(found._whole))
    assert found.without(HeadName("cross", 0, 0)) == (found.bleu, 1.0)


def test_what_cannot_be_masked_is_told(tokenizer: PreTrainedTokenizerBase) -> None:
    model = vaswani(len(tokenizer))
    with (
        pytest.raises(ValueError, match="no head 4 in layer 0 of the kind 'cross'; both are counted from 0"),
        masked(model, [HeadName("cross", 0, 4)]),
    ):
        pass
    model.pack_weights("float32")
    with pytest.raises(ValueError, match="is a PackedLinear, whose heads cannot be masked; load the model without packing"):
        attention_layers(model)
