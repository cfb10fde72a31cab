"""The rows of Table 3: on the paper's own base they are the paper's numbers, and on a small one they keep its ratios."""

from dataclasses import replace

import pytest

from benchmarks.variations.rows import BASE, variations
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.shipped_recipes import find_recipe


def recipe(name: str) -> Recipe:
    return load_recipe(find_recipe(name))


def settings_of(name: str) -> dict[str, dict[str, str]]:
    return {row.name: dict(setting.split("=") for setting in row.settings) for row in variations(recipe(name))}


def test_on_the_papers_base_the_rows_are_the_papers() -> None:
    found = settings_of("base_wmt14_en_de")
    heads = ("model.encoder_attention_heads", "model.decoder_attention_heads", "model.head_dim", "model.value_head_dim")
    assert {name: [int(found[name][key]) for key in heads] for name in found if name.startswith("A")} == {
        "A_1_heads": [1, 1, 512, 512], "A_4_heads": [4, 4, 128, 128], "A_16_heads": [16, 16, 32, 32], "A_32_heads": [32, 32, 16, 16],
    }  # fmt: skip
    # d_v stays 64: the parameters that Table 3 prints for row B leave no other reading
    assert [found[name] for name in found if name.startswith("B")] == [
        {"model.head_dim": "16", "model.value_head_dim": "64"},
        {"model.head_dim": "32", "model.value_head_dim": "64"},
    ]
    assert [int(found[name]["model.decoder_layers"]) for name in found if name.endswith("_layers")] == [2, 4, 8]
    assert [list(map(int, found[f"C_d_model_{width}"].values())) for width in (256, 1024)] == [[256, 32, 32], [1024, 128, 128]]
    assert [int(found[f"C_d_ff_{width}"]["model.encoder_ffn_dim"]) for width in (1024, 4096)] == [1024, 4096]
    assert [float(value) for name in found if name.startswith("D") for value in found[name].values()] == [0.0, 0.2, 0.0, 0.2]
    assert found["E_learned_positions"] == {"model.position_embedding_type": "learned"}


def test_every_row_is_a_model_that_can_be_built() -> None:
    """With the parameters that the paper prints, where it prints them, as far as 37,000 entries are its vocabulary."""
    for row in variations(base := recipe("base_wmt14_en_de")):
        config = load_recipe(find_recipe(base.name), row.settings).model_config()
        assert config.head_dim and config.value_head_dim
        attention = 18 * 2 * config.d_model * config.encoder_attention_heads * (config.head_dim + config.value_head_dim)
        layers = config.encoder_layers / 6 * (attention + 12 * 2 * config.d_model * config.encoder_ffn_dim)
        if row.published and row.published.millions:
            assert (layers + 37_000 * config.d_model) / 1e6 == pytest.approx(row.published.millions, rel=0.08), row.name


def test_a_small_base_keeps_the_ratios() -> None:
    found = settings_of("multi30k_en_de")  # 4 layers and heads, d_model 128, d_ff 256, dropout 0.3
    assert [int(found[f"A_{heads}_heads"]["model.encoder_attention_heads"]) for heads in (1, 4, 16, 32)] == [1, 2, 8, 16]
    assert [int(found[f"C_{layers}_layers"]["model.encoder_layers"]) for layers in (2, 4, 8)] == [1, 3, 5]
    assert found["D_dropout_0.2"] == {"model.dropout": "0.6"}
    for row in variations(recipe("multi30k_en_de")):
        load_recipe(find_recipe("multi30k_en_de"), row.settings)
        assert row.beside in found


def test_base_comes_first_and_names_are_unique() -> None:
    rows = variations(recipe("multi30k_en_de"))
    assert rows[0].name == BASE and not rows[0].settings
    assert len({row.name for row in rows}) == len(rows)


def test_a_recipe_that_fine_tunes_is_refused() -> None:
    with pytest.raises(ValueError, match="whose architecture is fixed; take one without `init_from`"):
        variations(replace(recipe("base_wmt14_en_de"), init_from="runs/other", model={}))
