"""Claims about Table 2, by the figures that the paper reports."""

from benchmarks.report import Results, Row
from benchmarks.why_attention.verdicts import ROUNDING, Finding, Judge, by_all

_BASE, _BIG = "Transformer (base)", "Transformer (big)"


def big_beats_all_by(points: float) -> Judge:
    """Whether the big model is so many points above the best of all others, in English-German."""

    def judge(results: Results) -> Finding | None:
        best = max(_others(results, "en-de"), key=lambda row: _bleu(row, "en-de"))
        gain = _bleu(_named(results, _BIG), "en-de") - _bleu(best, "en-de")
        return Finding(f"as reported: {gain:+.2f} BLEU beside {best['name']}", by_all([gain > points]))

    return judge


def base_beats_all(results: Results) -> Finding | None:
    """Whether the base model is above all others in English-German, and cost less than each."""
    base, others = _named(results, _BASE), _others(results, "en-de")
    gain = _bleu(base, "en-de") - max(_bleu(row, "en-de") for row in others)
    costs = [cost for row in others if (cost := _flops(row, "en-de")) is not None]
    share = (_flops(base, "en-de") or 0) / min(costs)
    figure = f"as reported: {gain:+.2f} BLEU beside the best of {len(others)}, {share:.2f} of the FLOPs of the cheapest"
    return Finding(figure, by_all([gain > 0, share < 1]))


def big_is_cheaper_in_french_than(share: float) -> Judge:
    """Whether the big model is above all single models in English-French, for less than this share of the cost of the best of them."""

    def judge(results: Results) -> Finding | None:
        big, single = _named(results, _BIG), [row for row in _others(results, "en-fr") if not row["ensemble"]]
        best = max(single, key=lambda row: _bleu(row, "en-fr"))
        gain, cost = _bleu(big, "en-fr") - _bleu(best, "en-fr"), _flops(best, "en-fr")
        if cost is None:
            return None
        found = (_flops(big, "en-fr") or 0) / cost
        figure = f"as reported: {gain:+.2f} BLEU beside {best['name']}, for {found:.2f} of its FLOPs"
        return Finding(figure, by_all([gain > 0, found < share]))

    return judge


def cost_by_time(results: Results) -> Finding | None:
    """Whether the time and the GPUs that the paper names give the FLOPs that it prints."""
    rows = results["costs"]
    figures = (
        f"{row['model']}: {row['by_time']:.2e} FLOPs by its time, {row['reported']:.1e} printed; its products of matrices are "
        f"{row['counted']:.2e}, {row['share']:.0%} of that"
        for row in rows
    )
    return Finding("; ".join(figures), by_all(abs(row["by_time"] / row["reported"] - 1) <= ROUNDING for row in rows))


def _others(results: Results, direction: str) -> list[Row]:
    """The systems of other authors that have a score."""
    return [row for row in results["systems"] if not row["name"].startswith("Transformer") and row["bleu"][direction] is not None]


def _named(results: Results, name: str) -> Row:
    found: Row = next(row for row in results["systems"] if row["name"] == name)
    return found


def _bleu(system: Row, direction: str) -> float:
    score: float = system["bleu"][direction]
    return score


def _flops(system: Row, direction: str) -> float | None:
    """One number for both directions of the paper's own models."""
    cost: float | None = system["flops"].get(direction, system["flops"].get("both"))
    return cost
