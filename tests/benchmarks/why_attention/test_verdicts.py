"""The rules, on numbers made by hand."""

from typing import Any

import pytest

from benchmarks.report import Results
from benchmarks.why_attention import formulas, heads, layers, reported, trained
from benchmarks.why_attention.trained import Claimed
from benchmarks.why_attention.verdicts import Finding, Verdict, by_agreements, is_similar, tasks


def verdict(finding: Finding | None) -> Verdict | None:
    return finding.verdict if finding else None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (["yes", "yes"], "agrees"),
        (["yes", "within noise"], "in part"),
        (["yes", "no"], "in part"),
        (["no", "within noise"], "disagrees"),
        (["within noise", None], "undecided"),
    ],
)
def test_several_differences(found: list[Any], expected: Verdict) -> None:
    assert by_agreements(found) == expected


def test_costs_are_similar_both_ways() -> None:
    assert is_similar(1.25) and is_similar(0.8) and is_similar(3.5, 3)
    assert not is_similar(1.26) and not is_similar(0.79) and not is_similar(1, 3)


def test_a_task_is_what_stands_out_by_a_fifth() -> None:
    assert tasks([{"same": 0.25, "next": 0.5}, {"same": 0.19, "next": 0.1}, {"same": 0.2, "next": -0.5}]) == ["next", "same"]


def exponents(time: float, training: float | None) -> Results:
    shared = {"contestant": "bare", "threads": 1, "width": None}
    more_threads = {**shared, "threads": 2, "mode": "forward", "length": 0.0}  # not asked
    modes = (("forward", time), ("training", training))
    return {"exponents": [more_threads, *({**shared, "mode": mode, "length": value} for mode, value in modes if value is not None)]}


@pytest.mark.parametrize(
    ("time", "training", "expected"),
    [(2.25, 1.75, "agrees"), (2.26, 1.9, "in part"), (1.0, 1.2, "disagrees"), (1.0, None, "disagrees"), (2.0, None, "agrees")],
)
def test_exponents_are_compared_with_the_papers(time: float, training: float | None, expected: Verdict) -> None:
    assert verdict(layers.complexity("length", "bare")(exponents(time, training))) == expected


def test_an_exponent_that_was_not_fitted_is_not_measured() -> None:
    assert layers.complexity("width", "bare")(exponents(2.0, 2.0)) is None
    assert layers.complexity("length", "bare", "lstm")(exponents(2.0, 2.0)) is None


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("attention", [1, 1, 1, 1], "agrees"),
        ("attention", [2, 4, 8, 16], "disagrees"),
        ("lstm", [32, 64, 128, 256], "agrees"),
        ("lstm", [7, 8, 9, 11], "disagrees"),
        ("dilated_3", [7, 8, 9, 11], "agrees"),
        ("dilated_3", [31, 63, 127, 255], "disagrees"),
        ("restricted", [1, 1, 3, 5], "agrees"),
        ("restricted", [1, 1, 1, 1], "disagrees"),
    ],
)
def test_counts_grow_as_the_papers_function_does(name: str, numbers: list[int], expected: Verdict) -> None:
    results = {"counts": {name: {"lengths": [32, 64, 128, 256], "path_length": numbers}}}
    assert verdict(layers.counted("path_length", name)(results)) == expected


def cell(contestant: str, seconds: float, **changes: Any) -> dict[str, Any]:
    row = {"contestant": contestant, "d_model": 64, "length": 32, "threads": 1, "mode": "forward", "outcome": "measured", "peak_bytes": 10}
    return {**row, "cpu_seconds": seconds, "seconds": 100.0, **changes}


def test_costs_are_compared_where_both_were_measured() -> None:
    own = [cell("attention", 1.0), cell("attention", 3.0, length=64), cell("attention", 9.0, length=128)]
    other = [cell("additive", 4.0), cell("additive", 6.0, length=64), cell("additive", 1.0, length=128, outcome="time")]
    faster = layers.is_cheaper("attention", "additive")
    found = faster({"cells": own + other})
    assert found and found.verdict == "agrees" and found.figure.startswith("0.38 (0.25 to 0.50, 2 cells) of the time")
    assert verdict(faster({"cells": [*own, *other, cell("attention", 5.0, length=256), cell("additive", 5.0, length=256)]})) == "in part"
    assert faster({"cells": own}) is None
    training = [cell(name, 1.0, mode="training", length=length, peak_bytes=peak) for name, length, peak in
                (("attention", 32, 9), ("additive", 32, 1), ("attention", 64, 2), ("additive", 64, 8))]  # fmt: skip
    memory = layers.is_cheaper("attention", "additive", "memory")({"cells": training})
    assert memory and memory.verdict == "agrees" and memory.figure.startswith("0.25 (0.25 to 0.25, 1 cells) of the memory")


def test_a_convolution_costs_k_times_a_recurrence_or_not() -> None:
    recurrent = [cell(name, 1.0) for name in ("lstm", "gru")]
    as_claimed = [cell("convolution_3", 3.0), cell("convolution_7", 7.0)]
    assert verdict(layers.convolution_beside_recurrence({"cells": recurrent + as_claimed})) == "agrees"
    assert verdict(layers.convolution_beside_recurrence({"cells": [*recurrent, as_claimed[0], cell("convolution_7", 1.0)]})) == "in part"
    assert layers.convolution_beside_recurrence({"cells": recurrent}) is None


def crossover(d_model: int, length: float | None, faster: str = "attention", longest: int = 512) -> dict[str, Any]:
    return {"d_model": d_model, "length": length, "faster": faster, "longest": longest}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([crossover(64, 100.0), crossover(512, None)], "agrees"),
        ([crossover(64, 100.0), crossover(1024, None)], "agrees"),  # open: true as far as measured
        ([crossover(64, 100.0), crossover(128, 100.0)], "in part"),
        ([crossover(64, None, "recurrent")], "disagrees"),
        ([crossover(1024, None)], None),
    ],
)
def test_faster_below_d(rows: list[dict[str, Any]], expected: Verdict | None) -> None:
    assert verdict(layers.faster_below_d({"crossovers": rows})) == expected


def rows(**bleu: tuple[float, ...]) -> Results:
    """Rows of Table 3 whose runs have these scores; the perplexity is worse by as many hundredths as BLEU is."""
    made = [
        {"name": name, "title": name, "runs": [{"seed": n, "bleu": value, "nll": -value / 100} for n, value in enumerate(scores)]}
        for name, scores in bleu.items()
    ]
    return {"rows": made}


def test_standard_errors_decide() -> None:
    """Two seeds 0.2 apart: a robust standard deviation of 0.1 * sqrt(2) / 0.6745 = 0.21, the standard error of a difference.

    With two degrees of freedom, 4.30 of them count, which is 0.90.
    """
    worse = trained.rows_of_table_3(Claimed("own", "worse"))
    same = trained.rows_of_table_3(Claimed("own", "same"))
    clear, lost = rows(base=(30.0, 30.2), own=(29.0, 29.2)), rows(base=(30.0, 30.2), own=(29.2, 29.4))
    assert (verdict(worse(clear)), verdict(same(clear))) == ("agrees", "disagrees")
    assert (verdict(worse(lost)), verdict(same(lost))) == ("undecided", "agrees")
    found = worse(clear)
    assert found and found.figure == ("own beside base: -1.00 BLEU (standard error 0.21), +1.0 % perplexity (standard error 0.2 %)")
    better = trained.rows_of_table_3(Claimed("own", "better"))
    assert verdict(better(clear)) == "disagrees"


def test_one_seed_decides_nothing_and_a_missing_row_is_not_measured() -> None:
    worse = trained.rows_of_table_3(Claimed("own", "worse"))
    found = worse(rows(base=(30.0,), own=(10.0,)))
    assert found and found.verdict == "undecided" and "-20.00 BLEU (one seed)" in found.figure
    assert worse(rows(base=(30.0, 30.2))) is None
    both = trained.rows_of_table_3(Claimed("absent", "worse"), Claimed("own", "worse"))
    assert verdict(both(rows(base=(30.0, 30.2), own=(20.0, 20.2)))) == "agrees"


def system(name: str, seed: int, bleu: float, seconds: float) -> dict[str, Any]:
    return {"system": name, "peak": 0.001, "seed": seed, "nll": 1.0, "bleu": bleu, "cpu_seconds": seconds, "flops": 1.0}


def test_other_architectures() -> None:
    ours = [system("transformer", 1, 30.0, 10.0), system("transformer", 2, 30.2, 12.0)]
    slower = [system("rnn", 1, 28.0, 20.0), system("rnn", 2, 28.2, 24.0)]
    mixed = [system("cnn", 1, 30.0, 11.0), system("cnn", 2, 30.2, 9.0)]
    time = trained.cheaper_training("cpu_seconds", "time")
    assert verdict(trained.better_translations({"runs": ours + slower})) == verdict(time({"runs": ours + slower})) == "agrees"
    assert verdict(trained.better_translations({"runs": ours + slower + mixed})) == verdict(time({"runs": ours + mixed})) == "in part"
    assert verdict(trained.better_translations({"runs": ours + mixed})) == "undecided"
    assert verdict(trained.cheaper_training("flops", "FLOPs")({"runs": ours + slower})) == "disagrees"  # the same is not less
    assert trained.better_translations({"runs": ours}) is None and time({"runs": slower}) is None


def longer(variant: str, seed: int, known: float, beyond: float) -> dict[str, Any]:
    classes = [{"longest": 8, "bleu": known}, {"longest": 16, "bleu": beyond}]
    return {"variant": variant, "seed": seed, "classes": classes}


def test_longer_texts() -> None:
    sinusoids = [longer("sinusoids", 1, 90.0, 40.0), longer("sinusoids", 2, 90.0, 41.0)]
    results = {"lengths": {"train_words": 8}, "runs": [*sinusoids, longer("learned", 1, 99.0, 10.0), longer("learned", 2, 99.0, 11.0)]}
    found = trained.longer_than_in_training(results)
    assert found and found.verdict == "agrees"
    assert found.figure.startswith("BLEU on texts of more than 8 words: sinusoids 40.50 (up to that length 90.00), learned 10.50 (up to")
    assert trained.longer_than_in_training({**results, "runs": sinusoids}) is None


def table_2(base: float, cost: float) -> Results:
    def row(name: str, bleu: float, flops: float | None) -> dict[str, Any]:
        both = ("en-de", "en-fr")
        return {"name": name, "ensemble": False, "bleu": dict.fromkeys(both, bleu), "flops": dict.fromkeys(both, flops)}

    ours = [{**row("Transformer (base)", base, cost)}, {**row("Transformer (big)", 28.4, None), "flops": {"both": cost}}]
    return {"systems": [row("old", 20.0, None), row("best", 26.0, 10.0), *ours]}


def test_table_2_as_reported() -> None:
    assert verdict(reported.big_beats_all_by(2.0)(table_2(27.0, 2.0))) == "agrees"
    assert verdict(reported.big_beats_all_by(2.5)(table_2(27.0, 2.0))) == "disagrees"
    assert [verdict(reported.base_beats_all(table_2(*each))) for each in ((27, 9.0), (25, 9.0), (25, 11.0))] == [
        "agrees",
        "in part",
        "disagrees",
    ]
    assert verdict(reported.big_is_cheaper_in_french_than(0.25)(table_2(27.0, 2.0))) == "agrees"
    assert verdict(reported.big_is_cheaper_in_french_than(0.25)(table_2(27.0, 3.0))) == "in part"
    costs = [{"model": "base", "by_time": 1.04, "reported": 1.0, "counted": 0.3, "share": 0.3}]
    assert verdict(reported.cost_by_time({"costs": costs})) == "agrees"
    assert verdict(reported.cost_by_time({"costs": [{**costs[0], "by_time": 1.06}]})) == "disagrees"


def head(kind: str, **shares: float) -> dict[str, Any]:
    measures = dict.fromkeys(("previous", "same", "next", "token", "sink", "rare", "diagonal"), 0.1)
    return {"kind": kind, "measures": {**measures, **shares}, "worth": None}


def test_heads() -> None:
    chance = {kind: dict.fromkeys(("previous", "same", "next", "token", "sink", "rare", "diagonal"), 0.1) for kind in ("encoder", "cross")}
    three = [head("encoder", next=0.9), head("encoder", previous=0.5), head("cross", diagonal=0.4), head("encoder", diagonal=0.9)]
    found = heads.different_tasks({"chance": chance, "heads": three})
    assert found == Finding("3 of 4 heads have a task; the tasks are next, previous, diagonal", "agrees")
    assert verdict(heads.different_tasks({"chance": chance, "heads": three[:2]})) == "disagrees"
    figures = [{"figure": 3, "facts": {"excess": 0.9}}, {"figure": 4, "facts": {"mean_excess": 0.05, "pronouns": 191}}]
    assert verdict(heads.follows_structure({"sentences": 9, "figures": figures})) == "disagrees"  # one word with 0.9 is an example
    figures[1]["facts"]["mean_excess"] = 0.3
    assert verdict(heads.follows_structure({"sentences": 9, "figures": figures})) == "agrees"
    assert heads.follows_structure({"sentences": 9, "figures": figures[:1]}) is None
    rules = [{"name": "`align`: chosen", "level": "word", "aer": 0.1}, {"name": "diagonal: no model", "aer": 0.4}]
    assert verdict(heads.aligns_words({"rules": rules})) == "agrees"
    assert heads.aligns_words({"rules": rules[1:]}) is None
    text = {"source_tokens": 5130, "pairs": 10}
    assert verdict(heads.shorter_than_d({"text": text})) == "disagrees"  # 513 pieces a sentence, 512 dimensions


def test_formulas() -> None:
    def row(width: int, variance: float, unscaled: float, scaled: float) -> dict[str, Any]:
        return {"d_k": width, "variance": variance, "unscaled": {"gradient": unscaled}, "scaled": {"gradient": scaled}}

    claimed = {"dot_products": [row(4, 4.1, 0.3, 0.2), row(64, 63.0, 0.1, 0.2), row(1024, 1000.0, 0.01, 0.2)]}
    judges = (formulas.variance_is_d_k, formulas.small_gradients, formulas.scaling_counteracts)
    assert [verdict(judge(claimed)) for judge in judges] == ["agrees"] * 3
    otherwise = {"dot_products": [row(4, 4.0, 0.3, 0.2), row(64, 4.0, 0.1, 0.02), row(1024, 4.0, 0.01, 0.002)]}
    assert [verdict(judge(otherwise)) for judge in judges] == ["disagrees"] * 3
    for flops, expected in ((125, "agrees"), (126, "disagrees")):
        assert (
            verdict(formulas.cost_of_heads({"length": 9, "heads": [{"heads": 1, "flops": 100}, {"heads": 8, "flops": flops}]})) == expected
        )
    assert verdict(formulas.linear_offsets({"offsets": [{"offset": 1, "sinusoids": 1e-14, "random": 0.9}]})) == "agrees"
    assert verdict(formulas.linear_offsets({"offsets": [{"offset": 1, "sinusoids": 1e-5, "random": 0.9}]})) == "disagrees"
