"""The rows of the paper's Table 3, with its figures, and what each of them is for a recipe of another size.

A recipe's own model takes the place of the paper's base. A row changes by the same ratio what it changes in the paper: where the paper
halves d_ff, 2048 to 1024, so does the row here, whatever d_ff the recipe has. Numbers of layers and heads are rounded, and are 1 at least.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.recipe import Recipe

BASE = "base"
"""The name of the row that all others are compared with, unless they say otherwise."""

Direction = Literal["better", "same", "worse"]


@dataclass(frozen=True)
class Published:
    """What Table 3 prints of a row, on newstest2013: perplexity per word piece, BLEU, and parameters in millions where it prints them."""

    perplexity: float
    bleu: float
    millions: int | None = None


@dataclass(frozen=True)
class Variation:
    """One row.

    Attributes:
        name: of its folder.
        group: the letter of Table 3, or the section of the paper that speaks of it.
        title: what the paper changes, in its words.
        settings: what changes here, as overrides of the recipe.
        published: Table 3's figures, if it has the row.
        beside: the name of the row that it is compared with.
        expected: what the paper says in words of a row without figures.
    """

    name: str
    group: str
    title: str
    settings: tuple[str, ...]
    published: Published | None = None
    beside: str = BASE
    expected: Direction | None = None


def variations(recipe: Recipe) -> list[Variation]:
    """The rows for `recipe`, base first; those that Table 3 has come in its order.

    Raises:
        ValueError: the recipe fine-tunes a checkpoint, whose architecture is fixed.
    """
    if recipe.init_from is not None:
        raise ValueError(
            f"The recipe {recipe.name} starts from {recipe.init_from}, whose architecture is fixed; take one without `init_from`."
        )
    config = recipe.model_config()
    base = Variation(BASE, "", "base", (), Published(4.92, 25.8, 65))
    return [
        base,
        *_heads(config),
        *_key_widths(config),
        *_sizes(config),
        *_regularisation(config, recipe),
        *_positions(),
        *_in_words(config),
    ]


def _model(**settings: object) -> tuple[str, ...]:
    return tuple(f"model.{name}={value}" for name, value in settings.items())


def _both(config: VaswaniConfig, part: str, ratio: float) -> dict[str, int]:
    """A size of encoder and decoder, times `ratio`."""
    return {f"{side}_{part}": max(round(getattr(config, f"{side}_{part}") * ratio), 1) for side in ("encoder", "decoder")}


def _heads(config: VaswaniConfig) -> Iterator[Variation]:
    """Row A: the number of heads, at constant computation."""
    for heads, width, figures in (
        (1, 512, Published(5.29, 24.9)),
        (4, 128, Published(5.00, 25.5)),
        (16, 32, Published(4.91, 25.8)),
        (32, 16, Published(5.01, 25.4)),
    ):
        own = _both(config, "attention_heads", heads / 8)
        widths = config.d_model // own["encoder_attention_heads"]
        settings = _model(**own, head_dim=widths, value_head_dim=widths)
        yield Variation(f"A_{heads}_heads", "A", f"h = {heads}, d_k = d_v = {width}", settings, figures)


def _key_widths(config: VaswaniConfig) -> Iterator[Variation]:
    """Row B: the width of queries and keys."""
    assert config.head_dim is not None and config.value_head_dim is not None  # the configuration resolves them
    for width, figures in ((16, Published(5.16, 25.1, 58)), (32, Published(5.01, 25.4, 60))):
        settings = _model(head_dim=max(round(config.head_dim * width / 64), 1), value_head_dim=config.value_head_dim)
        yield Variation(f"B_d_k_{width}", "B", f"d_k = {width}", settings, figures)


def _sizes(config: VaswaniConfig) -> Iterator[Variation]:
    """Row C: smaller and larger models."""
    assert config.head_dim is not None and config.value_head_dim is not None
    for layers, figures in ((2, Published(6.11, 23.7, 36)), (4, Published(5.19, 25.3, 50)), (8, Published(4.88, 25.5, 80))):
        yield Variation(f"C_{layers}_layers", "C", f"N = {layers}", _model(**_both(config, "layers", layers / 6)), figures)
    for width, head, figures in ((256, 32, Published(5.75, 24.5, 28)), (1024, 128, Published(4.66, 26.0, 168))):
        ratio = width / 512
        widths = {name: max(round(getattr(config, name) * ratio), 1) for name in ("d_model", "head_dim", "value_head_dim")}
        yield Variation(f"C_d_model_{width}", "C", f"d_model = {width}, d_k = d_v = {head}", _model(**widths), figures)
    for inner, figures in ((1024, Published(5.12, 25.4, 53)), (4096, Published(4.75, 26.2, 90))):
        yield Variation(f"C_d_ff_{inner}", "C", f"d_ff = {inner}", _model(**_both(config, "ffn_dim", inner / 2048)), figures)


def _regularisation(config: VaswaniConfig, recipe: Recipe) -> Iterator[Variation]:
    """Row D: dropout and label smoothing."""
    for rate, figures in ((0.0, Published(5.77, 24.6)), (0.2, Published(4.95, 25.5))):
        own = round(config.dropout * rate / 0.1, 4)
        yield Variation(f"D_dropout_{rate}", "D", f"P_drop = {rate}", _model(dropout=own), figures)
    for rate, figures in ((0.0, Published(4.67, 25.3)), (0.2, Published(5.47, 25.7))):
        own = round(recipe.training.label_smoothing * rate / 0.1, 4)
        settings = (f"training.label_smoothing={own}",)
        yield Variation(f"D_label_smoothing_{rate}", "D", f"label smoothing = {rate}", settings, figures)


def _positions() -> Iterator[Variation]:
    """Row E: learned positions in place of sinusoids."""
    settings = _model(position_embedding_type="learned")
    yield Variation("E_learned_positions", "E", "learned positions", settings, Published(4.92, 25.7))


def _in_words(config: VaswaniConfig) -> Iterator[Variation]:
    """What the paper says without figures, or takes for granted.

    Section 3.2.1: for small d_k additive and unscaled dot-product attention perform similarly; for large d_k additive is better, because
    dot products grow large, which the scaling counteracts. The largest d_k is that of a single head. Of restricted attention (section 4)
    and of residual connections (section 3.1) the paper says nothing that a difference could agree with.
    """
    single = next(row for row in _heads(config))
    unscaled, additive = _model(attention_score="dot_product"), _model(attention_score="additive")
    yield Variation("unscaled", "3.2.1", "dot products, unscaled", unscaled)
    yield Variation("additive", "3.2.1", "additive attention", additive, beside="unscaled", expected="same")
    title = f"dot products, unscaled, {single.title}"
    yield Variation("unscaled_1_head", "3.2.1", title, (*single.settings, *unscaled), beside=single.name, expected="worse")
    title = f"additive attention, {single.title}"
    yield Variation("additive_1_head", "3.2.1", title, (*single.settings, *additive), beside="unscaled_1_head", expected="better")
    yield Variation("restricted", "4", "self-attention restricted to r = 4", _model(attention_window=4))
    yield Variation("no_residuals", "3.1", "no residual connections", _model(residual_connections=False))
