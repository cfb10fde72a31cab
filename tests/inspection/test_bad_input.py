"""The same bad input at every door of the room: one sentence each, no traceback of somebody else's, and no long wait."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertLMHeadModel, PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.inspection.alignment import align
from vaswani_transformer.inspection.attribution import attribute
from vaswani_transformer.inspection.figures import heat_map, picture_bytes, single_map, small_multiples
from vaswani_transformer.inspection.heads import measure_heads
from vaswani_transformer.inspection.maps import attention_maps, candidate_maps
from vaswani_transformer.inspection.page import attention_page

Call = Callable[[PreTrainedModel, PreTrainedTokenizerBase, str], Any]

SHORT: dict[str, Any] = {"max_new_tokens": 4}


def by_inseq(method: Any) -> Call:
    def call(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str) -> Any:
        pytest.importorskip("inseq", reason="inseq is not installed: the extra `attribution`")
        return attribute(model, tokenizer, text, method=method, steps=3, **SHORT)

    return call


DOORS: Mapping[str, Call] = {
    "attention_maps": lambda model, tokenizer, text: attention_maps(model, tokenizer, text, **SHORT),
    "candidate_maps": lambda model, tokenizer, text: candidate_maps(model, tokenizer, text, 2, **SHORT),
    "align": lambda model, tokenizer, text: align(model, tokenizer, text, **SHORT),
    "align several": lambda model, tokenizer, text: align(model, tokenizer, ["A man.", text], **SHORT),
    "value_zeroing": lambda model, tokenizer, text: attribute(model, tokenizer, text, method="value_zeroing", **SHORT),
    "saliency": by_inseq("saliency"),
    "integrated_gradients": by_inseq("integrated_gradients"),
    "occlusion": by_inseq("occlusion"),
    "attention": by_inseq("attention"),
    "measure_heads": lambda model, tokenizer, text: measure_heads(model, tokenizer, [("A man.", "Ein Mann."), (text, text)]),
    "page": lambda model, tokenizer, text: attention_page(candidate_maps(model, tokenizer, text, 2, **SHORT), title=text).html,
    "small multiples": lambda model, tokenizer, text: picture_bytes(small_multiples(attention_maps(model, tokenizer, text, **SHORT))),
    "one map by words": lambda model, tokenizer, text: picture_bytes(
        single_map(attention_maps(model, tokenizer, text, level="word", **SHORT))
    ),
    "heat map": lambda model, tokenizer, text: picture_bytes(heat_map(torch.tensor([[0.5, -0.5]]), [text], [text, ""], text)),
}
ATTRIBUTIONS = ("value_zeroing", "saliency", "integrated_gradients", "occlusion", "attention")


@pytest.fixture(scope="module")
def ours(tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    torch.manual_seed(6)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
        encoder_ffn_dim=8, decoder_ffn_dim=8,
    )  # fmt: skip
    return VaswaniForConditionalGeneration(config).eval()


def refusal(door: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """The sentence with which a door refuses, in less time than anybody would take for a hang."""
    began = time.process_time()
    with pytest.raises(ValueError, match=r"\w") as refused:
        DOORS[door](model, tokenizer, text)
    assert time.process_time() - began < 20
    sentence = str(refused.value)
    assert "\n" not in sentence and len(sentence) < 350 and sentence.endswith("."), sentence
    return sentence


READERS = [door for door in DOORS if door != "heat map"]


@pytest.mark.parametrize("door", READERS)
@pytest.mark.parametrize("text", ["", " \n\t\u3000"], ids=["empty", "blank"])
def test_nothing_to_see(door: str, text: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    assert "give a sentence" in refusal(door, ours, tokenizer, text)


@pytest.mark.parametrize("door", [door for door in READERS if door != "align several"])
def test_ten_thousand_words(door: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    sentence = refusal(door, ours, tokenizer, "word " * 10_000)
    assert "40,002 tokens" in sentence and "above the limit" in sentence


UNUSUAL = {
    "right to left": "שלום עולם! مرحبا؟",
    "emoji": "I ❤️ 👨‍👩‍👧 🇩🇪!",
    "HTML": '</script><img src=x onerror="alert(1)"> & </s> <pad> $x^2$',
    "controls": "a\x00b\r\n\u2028\u202ec\ufeff",
    "no letters": "... --- !!!",
}


@pytest.mark.filterwarnings("ignore:No font of this machine has")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("text", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_text_passes_every_door(door: str, text: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    found = DOORS[door](ours, tokenizer, text)
    if door in ATTRIBUTIONS:
        assert found.source_text == text
        assert "<img src=x" not in found._repr_html_() and found._repr_html_().count("<") == 1
        words = found.words()
        sums = found.scores.sum(-1)
        expected = torch.stack([sums[list(places)].mean() for places in found.target_words])
        assert words.scores.isfinite().all() and torch.allclose(words.scores.sum(-1), expected, rtol=1e-3, atol=1e-6)
    elif door == "page":
        assert "<img src=x" not in found


@pytest.mark.parametrize("door", ["attention_maps", "align"])
def test_an_unbroken_word_of_5000_characters(door: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    found = DOORS[door](ours, tokenizer, "ab" * 2500)
    words = found if door == "align" else found.words()
    assert words.source == (("ab" * 2500,) if door == "align" else ("ab" * 2500, "</s>"))


@pytest.mark.parametrize("door", ["page", "value_zeroing", "saliency", "occlusion"])
def test_an_unbroken_word_is_too_long_for_these(door: str, ours: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    assert re.search("at most 1,?024", refusal(door, ours, tokenizer, "ab" * 2500))


@pytest.mark.parametrize("door", READERS)
def test_a_model_with_a_decoder_only(door: str, tokenizer: PreTrainedTokenizerBase) -> None:
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, is_decoder=True)
    assert refusal(door, BertLMHeadModel(config), tokenizer, "A man.").startswith("BertLMHeadModel has no encoder and decoder")


@pytest.mark.parametrize("door", READERS)
def test_no_model_at_all(door: str, tokenizer: PreTrainedTokenizerBase) -> None:
    assert "is no model of PyTorch" in refusal(door, object(), tokenizer, "A man.")  # type: ignore[arg-type]
