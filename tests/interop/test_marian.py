import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, MarianMTModel, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.interop.marian import export_marian

Saved = Callable[..., tuple[Path, VaswaniForConditionalGeneration]]

VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "concatenated": {"sinusoidal_layout": "concatenated"},
    "three embeddings": {"tie_word_embeddings": False},
    "biases, gelu": {"attention_bias": True, "activation_function": "gelu"},
    "embeddings as they are": {"scale_embedding": False},
    "stacks that differ": {"encoder_layers": 1, "decoder_layers": 3},
    "one head": {"encoder_attention_heads": 1, "decoder_attention_heads": 1},
    "unscaled": {"attention_score": "dot_product", "attention_bias": True},
    "ids to spare": {"vocab_size": 310},
}


def logits(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Of every real position of the batch, which is its own translation."""
    with torch.no_grad():
        scores = model(**batch, decoder_input_ids=batch["input_ids"]).logits
    return scores[batch["attention_mask"].bool()]


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_the_stock_class_computes_the_same(settings: dict[str, Any], saved: Saved, tmp_path: Path, batch: dict[str, torch.Tensor]) -> None:
    folder, model = saved(certainty=1, **settings)
    marian, loading = MarianMTModel.from_pretrained(export_marian(folder, tmp_path / "out"), output_loading_info=True)
    assert type(marian) is MarianMTModel and not any(loading.values())
    torch.testing.assert_close(logits(marian, batch), logits(model, batch), atol=1e-5, rtol=1e-6)
    theirs = marian.generate(**batch, num_beams=1, max_new_tokens=20, max_length=None)
    ours = model.generate(**batch, num_beams=1, max_new_tokens=20)
    assert theirs.tolist() == ours.tolist()


def test_with_marians_epsilon_only_its_table_of_positions_is_rounded(saved: Saved, tmp_path: Path, batch: dict[str, torch.Tensor]) -> None:
    folder, model = saved(layer_norm_eps=1e-5)
    marian = MarianMTModel.from_pretrained(export_marian(folder, tmp_path / "out"))
    torch.testing.assert_close(logits(marian.double(), batch), logits(model.double(), batch), atol=1e-6, rtol=0)


def test_without_a_correction_the_epsilon_would_show(saved: Saved, tmp_path: Path, batch: dict[str, torch.Tensor]) -> None:
    """What the factors are for: the same weights under Marian's epsilon are further off."""
    folder, model = saved(sinusoidal_layout="concatenated")
    exact = logits(model.double(), batch)
    marian = MarianMTModel.from_pretrained(export_marian(folder, tmp_path / "out")).double()
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    ours, theirs = (logits(each, batch).sub(exact).abs().max() for each in (model, marian))
    assert theirs < 1e-5 < ours


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"head_dim": 4}, "d_k = 4 and d_v = 4"),
        ({"value_head_dim": 4}, "d_k = 8 and d_v = 4"),
        ({"decoder_attention_heads": 2, "head_dim": 8}, "d_model / h = 32 / 2"),
        ({"position_embedding_type": "learned"}, "no learned positions"),
        ({"sinusoidal_layout": "tensor2tensor"}, "sinusoidal_layout='tensor2tensor'"),
        ({"position_offset": 2}, "position_offset=2"),
        ({"layer_norm_eps": 1e-3}, "0.001, which is too much"),
        ({"attention_score": "additive", "attention_window": 8}, "no additive attention and no self-attention within a window of 8"),
        ({"residual_connections": False}, "no layers without residual connections"),
    ],
)
def test_what_marian_cannot_express_is_refused(settings: dict[str, Any], reason: str, saved: Saved, tmp_path: Path) -> None:
    folder, _ = saved(**settings)
    with pytest.raises(ValueError, match=f"Marian.*{reason}.*use it with this package"):
        export_marian(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_folder_asks_for_nothing_of_ours(
    saved: Saved, tmp_path: Path, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    folder, _ = saved()
    out = export_marian(folder, tmp_path / "out")
    assert {file.name for file in out.iterdir()} == {
        *("config.json", "generation_config.json", "model.safetensors", "tokenizer.json"),
        "tokenizer_config.json",
    }
    assert "vaswani" not in (out / "config.json").read_text()
    read = AutoTokenizer.from_pretrained(out)
    texts = [*sentences, "text that spells </s>"]
    assert read(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    # what tokenizers before 0.20 and transformers 4 know
    assert all(isinstance(merge, str) for merge in json.loads((out / "tokenizer.json").read_text())["model"]["merges"])
    settings = json.loads((out / "tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert settings["model_input_names"] == ["input_ids", "attention_mask"]


def test_search_settings_are_hugging_faces_own(saved: Saved, tmp_path: Path) -> None:
    folder, _ = saved()
    out = export_marian(folder, tmp_path / "out")
    settings = MarianMTModel.from_pretrained(out).generation_config
    assert settings.num_beams == 4 and settings.max_length == 512
    # d/dn of 0.6 log((5 + n) / 6) is that of 0.48 log(n) at n = 20
    assert settings.length_penalty == 0.48
    assert not hasattr(settings, "length_penalty_type") and not hasattr(settings, "extra_length")
    assert settings.forced_eos_token_id is None and settings.decoder_start_token_id == 1
