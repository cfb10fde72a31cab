"""Means, choices and remarks, on runs whose figures are made by hand."""

from math import log
from pathlib import Path
from typing import Any

from benchmarks.architectures.report import chosen, draw, table


def run(system: str, peak: float, seed: int, nll: float, bleu: float, **facts: Any) -> dict[str, Any]:
    return {
        "system": system, "peak": peak, "seed": seed, "nll": nll, "bleu": bleu, "chrf": 50.0, "parameters": 1000, "width": 8, "layers": 2,
        "target_tokens": 100, "flops": 2e9, "cpu_seconds": 1800.0, "curve": [{"target_tokens": 50, "nll": nll + 1}],
        "by_length": [{"sentences": 5, "bleu": bleu + 1}, {"sentences": 5, "bleu": bleu - 1}],
    } | facts  # fmt: skip


RESULTS: dict[str, Any] = {
    "recipe": "small", "overrides": [], "updates": 30, "peaks": [0.1, 0.2, 0.4], "seeds": [1, 2], "test_set": "test",
    "edges": [[1, 5], [6, 9]],
    "runs": [
        run("transformer", 0.1, 1, log(9), 20.0), run("transformer", 0.2, 1, log(8), 30.0), run("transformer", 0.4, 1, float("nan"), 0.0),
        run("transformer", 0.2, 2, log(8), 31.0),
        run("cnn", 0.1, 1, log(12), 10.0, parameters=1040, nll_as_it_comes=log(40)),
        run("cnn", 0.2, 1, log(13), 9.0, nll_as_it_comes=log(40)),
    ],
}  # fmt: skip


def test_a_system_is_shown_with_its_best_rate() -> None:
    assert {name: [(each["peak"], each["seed"]) for each in own] for name, own in chosen(RESULTS).items()} == {
        "transformer": [(0.2, 1), (0.2, 2)], "cnn": [(0.1, 1)],
    }  # fmt: skip
    text = table(RESULTS)
    assert "| Transformer (ours) | 2 + 2, 8 | 0.2 | 1,000 | 100 | 2e+09 | 0.5 | 8.000 | 30.50 | 30.00, 31.00 | 50.00 |" in text
    assert "| Transformer (ours) | 9.000 | 8.000 | diverged |" in text and "| convolutional (eole) | 12.000 | 13.000 | - |" in text
    assert "| Transformer (ours) | 31.50 | 29.50 |" in text


def test_the_remarks_say_what_is_not_fair() -> None:
    text = table(RESULTS)
    assert "convolutional (eole): the best learning rate is at the edge of those that were tried." in text
    assert "convolutional (eole): +4.0 % parameters, more than 3 % from ours." in text
    assert "which gives the perplexity 40.000; the figures here are of the weights themselves." in text
    assert "Transformer (ours): the best" not in text


def test_the_picture(tmp_path: Path) -> None:
    draw(RESULTS, tmp_path / "table.png")
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")
