"""The weights, beside computations that know nothing of the code that returns them."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import peft
import pytest
import torch
from hypothesis import strategies
from torch import Tensor, nn
from transformers import (
    BertConfig,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LEDConfig,
    LEDForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_outputs import BaseModelOutput

import vaswani_transformer
from tests.inspection.families import FAMILIES, SIZES, translator
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.inspection.maps import AttentionMaps, attention_maps, candidate_maps, eager, merged

SOURCE = "A man reads the book."
KINDS = ("encoder", "decoder", "cross")


def ours(tokenizer: PreTrainedTokenizerBase, **settings: Any) -> VaswaniForConditionalGeneration:
    """Random weights, float64, and the paper's search."""
    torch.manual_seed(5)
    sizes = {name: value for name, value in SIZES.items() if name.endswith(("layers", "dim", "dropout")) or name == "d_model"}
    config = VaswaniConfig(
        **{"vocab_size": len(tokenizer), "encoder_attention_heads": 2, "decoder_attention_heads": 4, "head_dim": 6, **sizes, **settings}
    )
    model = VaswaniForConditionalGeneration(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:  # neither 0 nor 1, as training would leave them
                parameter.normal_(mean=float("norm.weight" in name), std=0.3)
    ids = {name: getattr(config, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")}
    model.generation_config = GenerationConfig(**{**PAPER_SEARCH, "extra_length": 5}, **ids)
    return model


class ByHand:
    """Sections 3.1 to 3.5 of the paper from a model's weights, one sentence and one head at a time."""

    def __init__(self, model: VaswaniForConditionalGeneration) -> None:
        self.weights, self.config = {name: tensor.detach() for name, tensor in model.state_dict().items()}, model.config

    def maps(self, source: list[int], read: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Encoder, decoder and cross weights, `[layers, heads, queries, keys]`."""
        encoder, decoder, cross = [], [], []
        x = self.embedded(source)
        for layer in (f"model.encoder.layers.{number}" for number in range(self.config.encoder_layers)):
            attended, weights = self.attended(f"{layer}.self_attn", x, x, 2)
            encoder.append(weights)
            x = self.fed(layer, self.normed(f"{layer}.self_attn_layer_norm", x + attended))
        y = self.embedded(read)
        for layer in (f"model.decoder.layers.{number}" for number in range(self.config.decoder_layers)):
            attended, weights = self.attended(f"{layer}.self_attn", y, y, 4, causal=True)
            decoder.append(weights)
            y = self.normed(f"{layer}.self_attn_layer_norm", y + attended)
            attended, weights = self.attended(f"{layer}.encoder_attn", y, x, 4)
            cross.append(weights)
            y = self.fed(layer, self.normed(f"{layer}.encoder_attn_layer_norm", y + attended))
        self.logits = y @ self.weights["lm_head.weight"].T
        return torch.stack(encoder), torch.stack(decoder), torch.stack(cross)

    def embedded(self, ids: list[int]) -> Tensor:
        width = self.config.d_model
        rows = [
            [(math.cos if i % 2 else math.sin)(position / 10000 ** (2 * (i // 2) / width)) for i in range(width)]
            for position in range(len(ids))
        ]
        return self.weights["model.shared.weight"][ids] * math.sqrt(width) + torch.tensor(rows, dtype=torch.float64)

    def attended(self, name: str, x: Tensor, memory: Tensor, heads: int, causal: bool = False) -> tuple[Tensor, Tensor]:
        """Equation 1, and the sum of the heads' outputs."""
        queries, keys, values = (
            states @ self.weights[f"{name}.{part}_proj.weight"].T for part, states in (("q", x), ("k", memory), ("v", memory))
        )
        all_weights, output = [], torch.zeros_like(x)
        for head in range(heads):
            columns = slice(6 * head, 6 * head + 6)
            scores = torch.exp(queries[:, columns] @ keys[:, columns].T / math.sqrt(6))
            scores = scores.tril() if causal else scores
            weights = scores / scores.sum(1, keepdim=True)
            all_weights.append(weights)
            output += weights @ values[:, columns] @ self.weights[f"{name}.out_proj.weight"][:, columns].T
        return output, torch.stack(all_weights)

    def fed(self, layer: str, x: Tensor) -> Tensor:
        w, b = (lambda name: self.weights[f"{layer}.{name}.weight"].T), (lambda name: self.weights[f"{layer}.{name}.bias"])
        return self.normed(f"{layer}.final_layer_norm", x + (x @ w("fc1") + b("fc1")).clamp(min=0) @ w("fc2") + b("fc2"))

    def normed(self, name: str, x: Tensor) -> Tensor:
        x = x - x.mean(1, keepdim=True)
        x = x / (x.square().mean(1, keepdim=True) + self.config.layer_norm_eps).sqrt()
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def assert_maps(maps: AttentionMaps, *expected: Tensor, tolerance: float = 1e-12) -> None:
    for kind, weights in zip(KINDS, expected, strict=True):
        found = getattr(maps, kind)
        assert found.shape == weights.shape and (found - weights).abs().max() < tolerance, kind


def assert_rows_are_distributions(maps: AttentionMaps, tolerance: float = 1e-12) -> None:
    for kind in KINDS:
        weights = getattr(maps, kind)
        assert weights.min() >= 0 and (weights.sum(-1) - 1).abs().max() < tolerance, kind


@pytest.mark.parametrize("target", [None, "Die Hunde, die er sieht."])
def test_ours_are_equation_1(tokenizer: PreTrainedTokenizerBase, target: str | None) -> None:
    """Of a given translation, and of the one that the paper's search chooses among its beams."""
    model = ours(tokenizer)
    source = tokenizer(SOURCE).input_ids
    ids = [1, *tokenizer(target).input_ids] if target else model.generate(torch.tensor([source]), num_beams=4)[0].tolist()
    maps = attention_maps(model, tokenizer, SOURCE, target)
    by_hand = ByHand(model)
    assert_maps(maps, *by_hand.maps(source, ids[:-1]))
    log_probabilities = by_hand.logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]]
    assert (maps.log_probabilities - log_probabilities).abs().max() < 1e-10
    assert maps.target_text == (target or tokenizer.decode(ids, skip_special_tokens=True))
    if target is None:
        assert maps.score == pytest.approx(float(log_probabilities.sum()) / ((5 + len(ids) - 1) / 6) ** 0.6, abs=1e-6)
    else:
        assert maps.score is None


def followed(found: Any, number: int) -> tuple[Tensor, Tensor]:
    """Decoder and cross weights of one hypothesis, taken from the beam that it was in at each step."""
    rows = [int(row) for row in found.beam_indices[number] if row >= 0]
    layers, heads = len(found.decoder_attentions[0]), found.decoder_attentions[0][0].shape[1]
    decoder = torch.zeros(layers, heads, len(rows), len(rows), dtype=torch.float64)
    cross = torch.zeros(layers, heads, len(rows), found.encoder_attentions[0].shape[-1], dtype=torch.float64)
    for step, row in enumerate(rows):
        for layer in range(layers):
            decoder[layer, :, step, : step + 1] = found.decoder_attentions[step][layer][row, :, 0]
            cross[layer, :, step] = found.cross_attentions[step][layer][row, :, 0]
    return decoder, cross


@pytest.mark.parametrize("name", ["marian", "nllb", "t5"])
def test_beams_are_followed(name: str, tmp_path: Path) -> None:
    model, tokenizer, _ = translator(name, tmp_path)
    maps = candidate_maps(model, tokenizer, SOURCE, 3, num_beams=4)
    inputs = tokenizer("mein: " * (name == "t5") + SOURCE, return_tensors="pt")
    if name == "nllb":
        inputs["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids("deu_Latn")
    with eager(model):
        found = model.generate(
            **inputs, num_beams=4, num_return_sequences=3, return_dict_in_generate=True, output_scores=True, output_attentions=True
        )
    assert any(len(set(rows) - {-1}) > 1 for rows in found.beam_indices.tolist())  # hypotheses did change beams
    for number, one in enumerate(maps):
        decoder, cross = followed(found, number)
        encoder = torch.cat(found.encoder_attentions)
        assert_maps(one, encoder, decoder, cross, tolerance=1e-10)
        assert one.score == pytest.approx(float(found.sequences_scores[number]), abs=1e-6)
        assert one.target_text == tokenizer.decode(found.sequences[number], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert_maps(attention_maps(model, tokenizer, SOURCE, num_beams=4), maps[0].encoder, maps[0].decoder, maps[0].cross)


def implementations(model: nn.Module) -> list[str]:
    return [module.config._attn_implementation for module in model.modules() if hasattr(module, "config")]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_and_every_setting_as_before(name: str, tmp_path: Path) -> None:
    model, tokenizer, begins = translator(name, tmp_path)
    model.train()
    model.get_encoder().eval()  # a part that somebody froze
    training, before = [module.training for module in model.modules()], implementations(model)
    languages = getattr(tokenizer, "src_lang", None), getattr(tokenizer, "tgt_lang", None), tokenizer(SOURCE).input_ids
    assert set(before) == {"sdpa"}
    maps = attention_maps(model, tokenizer, SOURCE)
    with pytest.raises(ValueError, match=r"positions for 64|GiB"):
        attention_maps(model, tokenizer, SOURCE * 400, memory_limit=2**20)
    with pytest.raises(TypeError), eager(model):
        assert set(implementations(model)) == {"eager"}
        raise TypeError
    assert [module.training for module in model.modules()] == training and implementations(model) == before
    assert (getattr(tokenizer, "src_lang", None), getattr(tokenizer, "tgt_lang", None), tokenizer(SOURCE).input_ids) == languages
    (encoder_layers, encoder_heads), (decoder_layers, decoder_heads) = ((3, 2), (2, 2)) if name in ("t5", "mt5") else ((2, 2), (3, 4))
    source, target = len(maps.source), len(maps.target)
    assert maps.encoder.shape == (encoder_layers, encoder_heads, source, source)
    assert maps.decoder.shape == (decoder_layers, decoder_heads, target, target) and not maps.decoder.triu(1).any()
    assert maps.cross.shape == (decoder_layers, decoder_heads, target, source)
    for level in (maps, maps.words(), attention_maps(model, tokenizer, SOURCE, "Für dich, mein Kind!", level="word")):
        assert_rows_are_distributions(level)
    assert list(maps.read[: len(begins)]) == begins and maps.read[1:] == maps.target[:-1]
    assert level.read == (*begins, "Für", "dich", ",", "mein", "Kind", "!")


def test_threads_put_back_their_own_settings(tmp_path: Path) -> None:
    model, tokenizer, _ = translator("nllb", tmp_path)
    languages = ["deu_Latn", "fra_Latn", "zho_Hans"] * 3
    expected = {language: attention_maps(model, tokenizer, SOURCE, tgt_lang=language).cross for language in languages}
    model.train()
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda language: attention_maps(model, tokenizer, SOURCE, tgt_lang=language).cross, languages))
    assert all(torch.equal(cross, expected[language]) for cross, language in zip(found, languages, strict=True))
    assert model.training and set(implementations(model)) == {"sdpa"} and tokenizer.tgt_lang == "deu_Latn"


@pytest.mark.parametrize("name", ["vaswani", "vaswani-int8"])
def test_packed_weights(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    plain = attention_maps(ours(tokenizer).float(), tokenizer, SOURCE, "Ein Mann liest.")
    packed = ours(tokenizer).float().pack_weights("int8" if name.endswith("int8") else "float32")
    maps = attention_maps(packed, tokenizer, SOURCE, "Ein Mann liest.")
    assert_maps(maps, plain.encoder, plain.decoder, plain.cross, tolerance=0.2 if name.endswith("int8") else 1e-5)
    assert_rows_are_distributions(maps, 1e-6)
    own = attention_maps(packed, tokenizer, SOURCE)
    found = packed.generate(**tokenizer(SOURCE, return_tensors="pt"), return_dict_in_generate=True, output_attentions=True)
    assert own.target_text == tokenizer.decode(found.sequences[0], skip_special_tokens=True)
    # `generate` tells them by itself, though the packed search is not the one that does
    told = [found.encoder_attentions, *found.decoder_attentions, *found.cross_attentions]
    assert [len(layers) for layers in told] == [2] + [3] * (len(told) - 1)
    assert all((layer.sum(-1) - 1).abs().max() < 1e-5 for layers in told for layer in layers)
    assert (torch.cat(found.encoder_attentions) - own.encoder).abs().max() < 1e-5


def test_adapters(tokenizer: PreTrainedTokenizerBase) -> None:
    """The maps of a wrapped model are those of the same model with the adapter merged into its weights."""
    model = peft.get_peft_model(ours(tokenizer), peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    before = attention_maps(ours(tokenizer), tokenizer, SOURCE, "Ein Mann liest.")
    maps = attention_maps(model, tokenizer, SOURCE, "Ein Mann liest.")
    own = attention_maps(model, tokenizer, SOURCE, num_beams=2)
    merged = model.merge_and_unload()
    expected = attention_maps(merged, tokenizer, SOURCE, "Ein Mann liest.")
    assert_maps(maps, expected.encoder, expected.decoder, expected.cross, tolerance=1e-10)
    assert (maps.cross - before.cross).abs().max() > 0.01
    assert own.target_text == attention_maps(merged, tokenizer, SOURCE, num_beams=2).target_text


def test_fewer_bits_are_told_in_float32(tokenizer: PreTrainedTokenizerBase) -> None:
    maps = attention_maps(ours(tokenizer).bfloat16(), tokenizer, SOURCE, "Ein Mann.")
    assert {maps.encoder.dtype, maps.decoder.dtype, maps.cross.dtype, maps.log_probabilities.dtype} == {torch.float32}
    assert_rows_are_distributions(maps, 0.02)


@pytest.mark.parametrize("settings", [{"num_beams": 1, "do_sample": True}, {"length_penalty_type": None}, {}])
def test_candidates_come_best_first(tokenizer: PreTrainedTokenizerBase, settings: dict[str, Any]) -> None:
    """More than the checkpoint's four beams; samples are ranked by their probability."""
    model = ours(tokenizer)
    torch.manual_seed(0)
    found = candidate_maps(model, tokenizer, SOURCE, 6, max_new_tokens=5, **settings)
    scores = [maps.score for maps in found]
    assert len(found) == 6 and None not in scores and scores == sorted(scores, key=lambda score: -(score or 0))
    lengths = [len(maps.target) for maps in found]
    penalties: dict[str, Callable[[int], float]] = {"do_sample": lambda _: 1, "length_penalty_type": lambda n: n**0.6}
    penalty = penalties.get(next(iter({*settings} & {*penalties}), ""), lambda n: ((5 + n) / 6) ** 0.6)
    expected = [float(maps.log_probabilities.sum()) / penalty(length) for maps, length in zip(found, lengths, strict=True)]
    assert scores == pytest.approx(expected, abs=1e-5)
    assert len({maps.target for maps in found}) > 3
    for maps in candidate_maps(model, tokenizer, SOURCE, 2, level="word", max_new_tokens=5):
        assert not maps.source_words
        assert_rows_are_distributions(maps)


def test_words_are_summed_over_keys_and_averaged_over_queries() -> None:
    """Two queries and three keys on paper: the first two keys are one word, and both queries another."""
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    assert merged(weights, ((0,), (1,)), ((0, 1), (2,))).tolist() == [[0.75, 0.25], [0.5, 0.5]]
    assert merged(weights, ((0, 1),), ((0, 1), (2,))).tolist() == [[0.625, 0.375]]


@hypothesis.given(
    source=strategies.text(min_size=1).filter(str.strip),
    target=strategies.text(min_size=1).filter(str.strip),
)
@hypothesis.settings(max_examples=40, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_rows_of_words_sum_to_1(tokenizer: PreTrainedTokenizerBase, source: str, target: str) -> None:
    maps = attention_maps(ours(tokenizer, encoder_layers=1, decoder_layers=1), tokenizer, source, target)
    words = maps.words()
    for level in (maps, words):
        assert_rows_are_distributions(level)
        source_length, target_length = len(level.source), len(level.target)
        assert level.encoder.shape[2:] == (source_length, source_length) and level.cross.shape[2:] == (target_length, source_length)
        assert level.decoder.shape[2:] == (target_length, len(level.read))
        assert all(level.source) and all(level.target) and all(level.read)
    assert words.words() is words and len(words.source) == len(maps.source_words)
    assert words.log_probabilities.sum() == pytest.approx(float(maps.log_probabilities.sum()))


TEXTS = {
    "right to left": "שלום עולם! مرحبا بالعالم؟",
    "emoji": "I ❤️ 👨‍👩‍👧 and 🇩🇪!",
    "HTML": "<script>alert('x')</script> & </s> <pad>",
    "one word": "ab" * 2500,
    "NUL": "a\x00b\r\n\u2028c",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_unusual_text_is_looked_at(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    model = ours(tokenizer, encoder_layers=1, decoder_layers=1).float()
    maps = attention_maps(model, tokenizer, text, max_new_tokens=5)
    assert_rows_are_distributions(maps, 1e-5)
    assert maps.source_text == text
    if text.startswith("I"):
        assert maps.words().source == ("I", "❤️", "👨‍👩‍👧", "and", "🇩🇪", "!", "</s>")
    if text.startswith("ab"):
        assert len(maps.source) == 5001 and maps.words().source == (text, "</s>")


def bad_calls() -> dict[str, tuple[dict[str, Any], str]]:
    return {
        "empty": ({"source": ""}, "The source is empty"),
        "blank": ({"source": " \n"}, "The source is only white space"),
        "no target": ({"source": "a", "target": ""}, "The target is empty"),
        "half a pair": ({"source": "a\ud83d"}, "half a surrogate pair at character 2"),
        "half a pair in the target": ({"source": "a", "target": "\udc00"}, "The target holds half a surrogate pair"),
        "10,000 words": ({"source": "word " * 10_000}, r"The source has 40,002 tokens, .* 23\.8 GiB, above the limit of 4\.0 GiB"),
        "long target": ({"source": "word", "target": "word " * 10_000}, "The target has 40,002 tokens"),
        "level": ({"source": "a", "level": "letter"}, "no level 'letter'; choose subword or word"),
        "language": ({"source": "a", "tgt_lang": "de"}, "no choice of target languages"),
        "setting": ({"source": "a", "num_beams": 0}, "`num_beams` is 0"),
        "several": ({"source": "a", "num_return_sequences": 2}, "ask `candidate_maps`"),
        "count": ({"source": "a", "count": 0}, "`count` is 0"),
        "few beams": ({"source": "a", "count": 3, "num_beams": 2}, "num_beams=2 has no 3 best"),
    }


@pytest.mark.parametrize(("arguments", "sentence"), bad_calls().values(), ids=bad_calls())
def test_bad_input_is_one_sentence(tokenizer: PreTrainedTokenizerBase, arguments: dict[str, Any], sentence: str) -> None:
    call = candidate_maps if "count" in arguments else attention_maps
    with pytest.raises(ValueError, match=sentence) as refused:
        call(ours(tokenizer).float(), tokenizer, **arguments)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_models_without_what_is_to_be_seen(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    decoder = GPT2LMHeadModel(GPT2Config(vocab_size=400, n_embd=8, n_layer=1, n_head=1))
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no encoder and decoder"):
        attention_maps(decoder, tokenizer, SOURCE)
    with pytest.raises(ValueError, match="SimpleNamespace is no model of PyTorch"):
        attention_maps(SimpleNamespace(generate=print), tokenizer, SOURCE)  # type: ignore[arg-type]
    silent = ours(tokenizer)
    silent.model.encoder.forward = lambda *_, **__: BaseModelOutput(torch.zeros(1, 7, 16).double())
    with pytest.raises(ValueError, match="does not tell the weights of its encoder"):
        attention_maps(silent, tokenizer, SOURCE, "Ein Mann.")
    assert silent.config._attn_implementation == "sdpa"
    windowed = LEDForConditionalGeneration(LEDConfig(vocab_size=400, attention_window=4, **SIZES))
    with pytest.raises(ValueError, match="LED's encoder attends within windows"):
        attention_maps(windowed, tokenizer, SOURCE)
    with pytest.raises(ValueError, match=r"in memory has 30\d tokens but the model embeds only 290"):
        attention_maps(ours(tokenizer, vocab_size=290), tokenizer, SOURCE)
    prefixed = peft.get_peft_model(
        MarianMTModel(MarianConfig(vocab_size=400, **SIZES)),
        peft.PromptTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=3, token_dim=16, num_layers=2, num_attention_heads=2),
    )
    with pytest.raises(ValueError, match="prefix tuning"):
        attention_maps(prefixed, tokenizer, SOURCE, "Ein Mann.")
    marian = translator("marian", tmp_path)
    with pytest.raises(ValueError, match=r"The source has \d+ tokens, and the model has positions for 64"):
        attention_maps(marian.model, marian.tokenizer, SOURCE * 20)


def test_a_model_put_together_from_two(tokenizer: PreTrainedTokenizerBase) -> None:
    sizes: dict[str, Any] = {"vocab_size": 400, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 8}
    encoder = BertConfig(num_hidden_layers=2, **sizes)
    decoder = BertConfig(num_hidden_layers=1, is_decoder=True, add_cross_attention=True, **sizes)
    model = EncoderDecoderModel(EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder))
    model.generation_config.update(decoder_start_token_id=1, eos_token_id=2, pad_token_id=0)
    maps = attention_maps(model, tokenizer, SOURCE, max_new_tokens=3)
    assert maps.encoder.shape[0] == 2 and maps.decoder.shape[0] == maps.cross.shape[0] == 1
    assert_rows_are_distributions(maps, 1e-5)
    assert set(implementations(model)) == {"sdpa"}


def test_it_is_a_public_name() -> None:
    assert vaswani_transformer.attention_maps is attention_maps
