"""Claims about formulas, judged by the results of `benchmarks.formulas`."""

from benchmarks.layers.measurement import slope
from benchmarks.report import Results, Row
from benchmarks.why_attention.verdicts import EXACT, GRADIENT, Finding, by_all, is_near, is_similar


def variance_is_d_k(results: Results) -> Finding | None:
    """Whether the variance of dot products grows as d_k does."""
    rows = results["dot_products"]
    exponent = slope([row["d_k"] for row in rows], [row["variance"] for row in rows])
    if exponent is None:
        return None
    shown = ", ".join(f"{row['variance']:.1f} for {row['d_k']}" for row in rows)
    return Finding(f"{shown}: d_k to the power of {exponent:.2f}", by_all([is_near(exponent, 1)]))


def small_gradients(results: Results) -> Finding | None:
    """Whether softmax's gradient without scaling is extremely small, beside the one with it, for the largest d_k."""
    rows = results["dot_products"]
    shares = [row["unscaled"]["gradient"] / row["scaled"]["gradient"] for row in rows]
    shown = ", ".join(f"{share:.2g} for d_k = {row['d_k']}" for share, row in zip(shares, rows, strict=True))
    return Finding(f"unscaled over scaled: {shown}", by_all([shares[-1] < GRADIENT]))


def scaling_counteracts(results: Results) -> Finding | None:
    """Whether softmax's gradient with scaling does not depend on d_k."""
    rows = results["dot_products"]
    gradients = [row["scaled"]["gradient"] for row in rows]
    exponent = slope([row["d_k"] for row in rows], gradients)
    if exponent is None:
        return None
    figure = f"scaled: {gradients[0]:.2g} for d_k = {rows[0]['d_k']}, {gradients[-1]:.2g} for {rows[-1]['d_k']}"
    return Finding(f"{figure}, d_k to the power of {exponent:.2f}", by_all([is_near(exponent, 0)]))


def cost_of_heads(results: Results) -> Finding | None:
    """Whether a layer with several heads has about as many operations as one with a single head."""
    flops = {row["heads"]: row["flops"] for row in results["heads"]}
    ratios = {heads: own / flops[1] for heads, own in flops.items() if heads > 1}
    shown = ", ".join(f"{ratio:.2f} with {heads} heads" for heads, ratio in ratios.items())
    return Finding(f"of the FLOPs of one head at n = {results['length']}: {shown}", by_all(map(is_similar, ratios.values())))


def linear_offsets(results: Results) -> Finding | None:
    """Whether encodings are a linear function of those some positions before."""
    rows: list[Row] = results["offsets"]
    worst = {name: max(row[name] for row in rows) for name in ("sinusoids", "random")}
    offsets = ", ".join(str(row["offset"]) for row in rows)
    figure = f"unexplained for k = {offsets}: at most {worst['sinusoids']:.0e}; of random encodings {worst['random']:.2f}"
    return Finding(figure, by_all([worst["sinusoids"] < EXACT]))
