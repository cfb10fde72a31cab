"""Claims about what heads do, judged by `heads.json` of `vaswani heads` and by `benchmarks.alignment`."""

from benchmarks.report import Results
from benchmarks.why_attention.verdicts import OUTSTANDING, TASKS, Finding, by_all, tasks
from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.inspection.heads import SHARES

_DIAGONAL = "diagonal: no model"


def shorter_than_d(results: Results) -> Finding | None:
    """Whether sentences have fewer pieces than the base model has dimensions."""
    text, width = results["text"], VaswaniConfig.from_preset("base").d_model
    mean = text["source_tokens"] / text["pairs"]
    return Finding(f"{mean:.1f} pieces, mean of {text['pairs']:,} sentences of Multi30k; base has d = {width}", by_all([mean < width]))


def different_tasks(results: Results) -> Finding | None:
    """How many kinds of position heads look at more than even attention does."""
    excess = []
    for head in results["heads"]:
        chance, measures = results["chance"][head["kind"]], head["measures"]
        kinds = [kind for kind in SHARES if measures[kind] is not None and (kind != "diagonal" or head["kind"] == "cross")]
        excess.append({kind: measures[kind] - (chance[kind] or 0) for kind in kinds})
    found = tasks(excess)
    clear = [each for each in excess if max(each.values()) >= OUTSTANDING]
    return Finding(f"{len(clear)} of {len(excess)} heads have a task; the tasks are {', '.join(found)}", by_all([len(found) >= TASKS]))


def aligns_words(results: Results) -> Finding | None:
    """Whether the cross-attention of a chosen layer aligns words with fewer errors than a diagonal."""
    rates = {row["name"]: row["aer"] for row in results["rules"] if row.get("level", "word") == "word"}
    chosen = next((rate for name, rate in rates.items() if name.startswith("`align`")), None)
    if chosen is None or _DIAGONAL not in rates:
        return None
    figure = f"alignment error rate {chosen:.1%} by `align`, {rates[_DIAGONAL]:.1%} by a diagonal"
    return Finding(figure, by_all([chosen < rates[_DIAGONAL]]))


def follows_structure(results: Results) -> Finding | None:
    """Whether a head follows pronouns, beyond what position explains.

    The clearest long-distance dependency is shown as an example: the largest of a hundred thousand weights proves nothing.
    """
    facts = {found["figure"]: found["facts"] for found in results["figures"]}
    if 3 not in facts or 4 not in facts:
        return None
    far, pronouns = facts[3], facts[4]
    figure = (
        f"from {pronouns['pronouns']} pronouns to nouns before them, in the best head: {pronouns['mean_excess']:.2f} of its weight beyond "
        f"what position explains; an example, the clearest long-distance dependency of {results['sentences']:,} sentences: "
        f"{far['excess']:.2f}"
    )
    return Finding(figure, by_all([pronouns["mean_excess"] >= OUTSTANDING]))
