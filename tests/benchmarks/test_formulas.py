"""Dot products, their softmax and linear functions of positions, beside closed forms."""

import sys
from pathlib import Path

import pytest
import torch

from benchmarks import formulas
from benchmarks.formulas import dot_products, linear_error, main, operations, parse
from vaswani_transformer.layers import sinusoids


def test_dot_products_have_the_variance_that_the_footnote_says() -> None:
    """128,000 dot products; the standard error of their variance is about 0.5 %."""
    row = dot_products(16, seed=1)
    assert row["variance"] == pytest.approx(16, rel=0.03) and row["mean"] == pytest.approx(0, abs=0.05)
    assert dot_products(16, seed=1) == row != dot_products(16, seed=2)


def test_the_gradient_is_the_norm_of_the_jacobian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one query, against the Jacobian that autograd finds."""
    monkeypatch.setattr(formulas, "_QUERIES", 1)
    row = dot_products(9, seed=3)
    generator = torch.Generator().manual_seed(3)
    query, keys = (torch.randn(1, number, 9, generator=generator, dtype=torch.float64)[0] for number in (1, 64))
    for name, scores in (("unscaled", keys @ query[0]), ("scaled", keys @ query[0] / 3)):
        jacobian = torch.autograd.functional.jacobian(lambda each: each.softmax(-1), scores)
        assert row[name]["gradient"] == pytest.approx(torch.linalg.norm(jacobian).item(), rel=1e-9)
        assert row[name]["largest"] == pytest.approx(scores.softmax(-1).max().item())


def test_sinusoids_are_linear_in_an_offset_and_noise_is_not() -> None:
    positions = torch.arange(60)
    assert linear_error(sinusoids(positions, 16), 7) < 1e-12
    assert linear_error(torch.randn(60, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), 7) > 0.5
    assert linear_error(sinusoids(positions, 16) ** 3 * positions[:, None], 7) > 1e-3
    with pytest.raises(ValueError, match="take more positions"):
        linear_error(sinusoids(positions, 64), 7)


def test_operations_by_hand() -> None:
    """Four projections, scores and sums; two operations for each multiplication. The number of heads does not appear."""
    width, length = 512, 128
    assert operations(1) == operations(8) == 2 * (4 * length * width**2 + 2 * length**2 * width)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["formulas", "--output", str(tmp_path)])
    for name, value in (("KEY_WIDTHS", (4, 64)), ("OFFSETS", (1,)), ("_QUERIES", 20), ("_POSITIONS", 40), ("_WIDTH", 8)):
        monkeypatch.setattr(formulas, name, value)
    main(parse())
    assert "| 64 |" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "table.md", "results.png"}
