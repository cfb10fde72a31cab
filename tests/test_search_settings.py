"""Settings of `generate` that nobody can mean are refused in a sentence, in our models and in the pipeline of every model."""

import re
from typing import Any

import pytest
import torch
from transformers import MarianMTModel, PreTrainedTokenizerBase, pipeline

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.search_settings import NUMBERS, TOKENS, WHOLE_NUMBERS, check_numbers, check_token_ids

NONSENSE = [
    *[({name: value}, f"`{name}` is {value!r}; it must be a whole number from {least}.")
      for name, least in WHOLE_NUMBERS.items() for value in (least - 1, 1.5, "4", True)],
    *[({name: value}, f"`{name}` is {value!r}; it must be a number.")
      for name in NUMBERS for value in ("x", float("nan"), float("inf"), True)],
]  # fmt: skip
IN_EACH_SEARCH = [{"num_beams": 0}, {"num_beams": 1, "max_new_tokens": -1}, {"length_penalty": "x"}, {"num_return_sequences": 0}]


@pytest.fixture(scope="module")
def ours() -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    config = VaswaniConfig(vocab_size=20, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1,
                           decoder_attention_heads=1, encoder_ffn_dim=8, decoder_ffn_dim=8)  # fmt: skip
    model = VaswaniForConditionalGeneration(config).eval()
    model.generation_config.update(**PAPER_SEARCH | {"extra_length": 3}, allow_custom_entries=True)
    return model


@pytest.mark.parametrize(("settings", "sentence"), NONSENSE)
def test_nonsense_is_named(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        check_numbers(settings)


def test_what_can_be_meant_passes() -> None:
    check_numbers(dict.fromkeys((*WHOLE_NUMBERS, *NUMBERS)))
    check_numbers({**WHOLE_NUMBERS, "length_penalty": -0.5, "temperature": 1, "max_time": torch.tensor(0.5), "num_beams": torch.tensor(4)})
    check_token_ids({"eos_token_id": [2, 9], "pad_token_id": None, "forced_bos_token_id": torch.tensor([0])}, 10)


@pytest.mark.parametrize("settings", IN_EACH_SEARCH)
def test_our_model_refuses(settings: dict[str, Any], ours: VaswaniForConditionalGeneration) -> None:
    with pytest.raises(ValueError, match=rf"^`{list(settings)[-1]}` (is|must be) .*\.$"):  # transformers' own for `max_new_tokens`
        ours.generate(torch.tensor([[3, 4, 2]]), **settings)


@pytest.mark.parametrize("name", TOKENS)
def test_our_model_has_no_such_token(name: str, ours: VaswaniForConditionalGeneration) -> None:
    for value in ([20], [2, -1]) if name.endswith("tokens") else (20, -1):
        with pytest.raises(ValueError, match=rf"^`{name}` is {re.escape(repr(value))}, but the vocabulary has the ids 0 to 19\.$"):
            ours.generate(torch.tensor([[3, 4, 2]]), **{name: value})


@pytest.mark.parametrize("settings", IN_EACH_SEARCH)
def test_a_pipeline_refuses(settings: dict[str, Any], model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    sentence = f"^`{list(settings)[-1]}` is "
    with pytest.raises(ValueError, match=sentence):
        pipeline("translation", model=model, tokenizer=tokenizer, device="cpu", **settings)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, device="cpu")
    for given in (settings, {"generate_kwargs": settings}):
        with pytest.raises(ValueError, match=sentence):
            translator("A man reads.", **given)
