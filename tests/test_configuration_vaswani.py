"""The configuration: defaults as in the paper, derived sizes, and a sentence for what cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import StrictDataclassFieldValidationError

from vaswani_transformer.configuration_vaswani import PRESETS, VaswaniConfig

PAPER_BASE = {
    "vocab_size": 37_000,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "head_dim": 64,
    "value_head_dim": 64,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "activation_function": "relu",
    "attention_bias": False,
    "position_embedding_type": "sinusoidal",
    "sinusoidal_layout": "interleaved",
    "position_offset": 0,
    "scale_embedding": True,
    "tie_word_embeddings": True,
}


def test_defaults_are_the_papers_base_model() -> None:
    config = VaswaniConfig().to_dict()
    assert {name: config[name] for name in PAPER_BASE} == PAPER_BASE


def test_presets_are_what_table_3_says() -> None:
    big = VaswaniConfig.from_preset("big")
    assert (big.d_model, big.encoder_ffn_dim, big.encoder_attention_heads, big.head_dim) == (
        1024,
        4096,
        16,
        64,
    )
    assert (big.decoder_ffn_dim, big.decoder_attention_heads, big.dropout) == (4096, 16, 0.3)
    assert VaswaniConfig.from_preset("base").to_dict() == VaswaniConfig().to_dict()
    assert VaswaniConfig.from_preset("tiny", dropout=0.3, vocab_size=100).dropout == 0.3
    assert VaswaniConfig.from_preset("tiny", num_labels=3).id2label.keys() == {0, 1, 2}
    assert set(PRESETS) == {"tiny", "base", "big"}


def test_head_widths_follow_from_the_model_unless_they_are_set() -> None:
    assert VaswaniConfig(d_model=64).head_dim == 8
    assert VaswaniConfig(head_dim=16).value_head_dim == 16
    assert VaswaniConfig(value_head_dim=16).head_dim == 64
    uneven = VaswaniConfig(encoder_attention_heads=3, decoder_attention_heads=5, head_dim=7)
    assert (uneven.head_dim, uneven.value_head_dim) == (7, 7)


def test_names_that_transformers_reads() -> None:
    config = VaswaniConfig(encoder_layers=2, decoder_layers=3)
    assert (config.hidden_size, config.num_attention_heads, config.num_hidden_layers) == (512, 8, 2)
    assert config.is_encoder_decoder


def test_a_saved_configuration_comes_back(tmp_path: Path) -> None:
    config = VaswaniConfig.from_preset("tiny", sinusoidal_layout="tensor2tensor", eos_token_id=[2, 3], value_head_dim=8)
    config.save_pretrained(tmp_path)
    assert VaswaniConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


def test_config_json_says_where_the_folders_own_code_is(tmp_path: Path) -> None:
    VaswaniConfig().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["auto_map"]["AutoModelForSeq2SeqLM"] == "modeling_vaswani.VaswaniForConditionalGeneration"
    assert saved["custom_pipelines"]["translation"]["impl"] == "pipeline_translation.TranslationPipeline"


def test_a_loaded_configuration_names_no_pipeline_that_needs_trust(tmp_path: Path) -> None:
    VaswaniConfig().save_pretrained(tmp_path)
    assert VaswaniConfig.from_pretrained(tmp_path).custom_pipelines == {}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"d_model": 100},
            "8 attention heads do not divide `d_model` = 100 evenly; change one of them or set `head_dim`",
        ),
        ({"decoder_attention_heads": 4}, "encoder has 8 heads and the decoder 4, .* set `head_dim`"),
        ({"head_dim": 0}, "`head_dim` must be at least 1, not 0"),
        ({"encoder_layers": 0}, "`encoder_layers` must be at least 1, not 0"),
        ({"vocab_size": -1}, "`vocab_size` must be at least 1, not -1"),
        (
            {"d_model": 63, "head_dim": 8},
            'need an even `d_model`, not 63; .*`position_embedding_type="learned"`',
        ),
        ({"dropout": 1.0}, "`dropout` is a probability below 1, not 1.0"),
        ({"attention_dropout": -0.1}, "`attention_dropout` is a probability below 1, not -0.1"),
        ({"problem_type": "labels"}, "`problem_type` is 'labels'; it is one of regression, single_label_classification"),
        ({"layer_norm_eps": 0.0}, "`layer_norm_eps` must be above 0"),
        ({"position_offset": -1}, "`position_offset` must be at least 0"),
        ({"pad_token_id": 37_000}, "`pad_token_id` is 37000, but the vocabulary has the ids 0 to 36999"),
        ({"target_vocab_size": 2}, "`eos_token_id` is 2, but the vocabulary has the ids 0 to 1"),
        ({"target_vocab_size": 0}, "`target_vocab_size` must be at least 1, not 0"),
        ({"eos_token_id": [2, -1]}, "`eos_token_id` is -1, but the vocabulary"),
        ({"decoder_start_token_id": 99_999}, "`decoder_start_token_id` is 99999, but the vocabulary"),
    ],
)
def test_settings_that_contradict_each_other_give_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        VaswaniConfig(**settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"sinusoidal_layout": "rotary"},
            r"'sinusoidal_layout' expected one of \('interleaved', 'concatenated', .*\), got rotary",
        ),
        ({"position_embedding_type": "none"}, r"expected one of \('sinusoidal', 'learned'\), got none"),
        ({"d_model": "512"}, "'d_model' expected int, got str"),
    ],
)
def test_values_of_a_wrong_kind_name_the_field_and_its_values(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StrictDataclassFieldValidationError, match=sentence):
        VaswaniConfig(**settings)


def test_an_odd_width_is_fine_with_learned_positions() -> None:
    assert VaswaniConfig(d_model=63, head_dim=8, position_embedding_type="learned").d_model == 63


def test_a_preset_refuses_names_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="no preset 'large'; choose one of tiny, base, big"):
        VaswaniConfig.from_preset("large")
    with pytest.raises(ValueError, match="no setting `encoder_ffndim`; did you mean `encoder_ffn_dim`"):
        VaswaniConfig.from_preset("base", encoder_ffndim=3)
