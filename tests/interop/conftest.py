"""Small translators with random weights, saved as a trained one is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.decoding import PAPER_SEARCH

SIZES: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
}


@pytest.fixture
def saved(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> Callable[..., tuple[Path, VaswaniForConditionalGeneration]]:
    """Save a model with the given settings and the paper's search; returns its folder and the model.

    `certainty` multiplies the logits: with more of it no rounding turns a choice.
    """

    def save(certainty: float = 3.0, **settings: Any) -> tuple[Path, VaswaniForConditionalGeneration]:
        torch.manual_seed(1)
        config = VaswaniConfig(**{"vocab_size": len(tokenizer), **SIZES, **settings})
        model = VaswaniForConditionalGeneration(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "bias" in name or "norm" in name:  # neither 0 nor 1, as training would leave them
                    parameter.normal_(mean=float("norm.weight" in name), std=0.3)
            last = model.model.decoder.layers[-1].final_layer_norm
            last.weight *= certainty
            # With the end within reach.
            last.bias += 0.3 * model.lm_head.weight[2] * config.d_model**0.5
        ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1}
        model.generation_config = GenerationConfig(**PAPER_SEARCH, **ids)
        folder = tmp_path / f"model{len(list(tmp_path.iterdir()))}"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder, model

    return save


@pytest.fixture
def batch(tokenizer: PreTrainedTokenizerBase) -> dict[str, torch.Tensor]:
    """40 sentences of 2 to 12 random tokens, padded on the right."""
    random = torch.Generator().manual_seed(1)
    lengths = torch.randint(2, 13, (40, 1), generator=random)
    mask = (torch.arange(12) < lengths).long()
    return {
        "input_ids": torch.randint(3, len(tokenizer), (40, 12), generator=random) * mask,
        "attention_mask": mask,
    }


PYTHON = """#!/bin/sh
echo "$@" >> {told}
case "$2" in
  venv) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  pip) {pip} ;;
  optimum.exporters.onnx) {optimum} ;;
esac
"""


@pytest.fixture
def fake_python(tmp_path: Path) -> Callable[..., Path]:
    """A program that can be called as Python is here; `pip` and `optimum` are what it does in their place."""

    def make(pip: str = "true", optimum: str = 'cp "$4/config.json" "$7/encoder_model.onnx"') -> Path:
        program = tmp_path / "python"
        program.write_text(PYTHON.format(told=tmp_path / "told", pip=pip, optimum=optimum))
        program.chmod(0o755)
        return program

    return make
