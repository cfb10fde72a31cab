"""How often the output is made up where the source is no sentence of the model's language: copied, foreign, empty."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from sacrebleu import CHRF
from tqdm.auto import tqdm

from benchmarks.limits.hallucination import (
    MEASURES,
    NGRAM,
    Detector,
    Reading,
    calibrate,
    detachment,
    has_words,
    is_oscillating,
    repeated,
)
from benchmarks.limits.subject import Subject, existing
from benchmarks.report import UNKNOWN, Results, Row, markdown_table
from vaswani_transformer.data.sources.text import file_lines
from vaswani_transformer.evaluation.scores import spread_evenly
from vaswani_transformer.inspection.alignment import choose_layer, control_labels
from vaswani_transformer.inspection.maps import AttentionMaps, attention_maps

NEARLY_EMPTY = ("", " ", *".,;:!?-()", "...", "?!", '"', "'", "/")
"""Sources without a word."""

_OTHERS, _BEATEN = 20, 19
"""An output is unrelated to its reference if two or more of 20 other references are as close."""
_CHOSEN_BY = 50
_EXAMPLES = 3

Cut = Callable[[str], Sequence[str]]
"""A text in its units, such as the model's own subwords."""
Reader = Callable[[str, str], dict[str, float]]
"""The measures of detachment of a source and an output."""


def measure_sources(subject: Subject, foreign: Mapping[str, Path], alarms: float, seed: int) -> Results:
    """Set and check the detector on the text; then translate the text, its references, the same in other languages, and next to nothing.

    Args:
        subject: the model and its text.
        foreign: files with the same sentences as the text, line by line, by the code of their language; plain text.
        alarms: the share of false alarms that the detector may give.
        seed: of the made positives, of the halves that set and check the detector, and of the references that an output is compared with.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file has fewer lines than the text has sentences, or there are too few sentences.
    """
    text = subject.text
    kinds = {
        "sentence": ("the test text itself", list(text.sources)),
        "copied": ("the references: text that is in the target language already", list(text.references)),
        **{f"foreign ({code})": (f"the same sentences in {code}", _foreign(subject, code, file)) for code, file in foreign.items()},
    }
    reading, read = _reader(subject)
    own = subject.translate(text.sources)
    detector, check = _check_detector(list(zip(text.sources, own, strict=True)), read, subject.tokenizer.tokenize, alarms, seed)
    rows = [_row(subject, kind, *kinds[kind], detector, read, seed) for kind in kinds]
    agreement = _agreement([verdict for row in rows for verdict in row.pop("verdicts")])
    rows.append(_empty_row(subject))
    facts = {"reading": reading._asdict(), "detector": asdict(detector), "check": check, "agreement": agreement}
    return {**subject.facts(), "seed": seed, "allowed_false_alarms": alarms, **facts, "kinds": rows}


def _foreign(subject: Subject, code: str, file: Path) -> list[str]:
    needed = len(subject.text.sources)
    lines = list(file_lines(existing(file)))[:needed]
    if len(lines) < needed:
        raise ValueError(f"{file} has {len(lines)} lines and the text {needed} sentences; they must be the same sentences, line by line.")
    return subject.text.form.prepare(lines, code)


def _reader(subject: Subject) -> tuple[Reading, Reader]:
    """The layer and step that align best on the first sentences, and what measures an output by them."""
    control = control_labels(subject.tokenizer)

    def maps_of(source: str, output: str) -> AttentionMaps:
        return attention_maps(subject.model, subject.tokenizer, source, output, tgt_lang=subject.target_language)

    first = list(zip(subject.text.sources, subject.translate(subject.text.sources), strict=True))[:_CHOSEN_BY]
    layer, shifted, _ = choose_layer([maps_of(*pair) for pair in first if all(map(str.strip, pair))], control)
    reading = Reading(layer, shifted)
    return reading, lambda source, output: detachment(maps_of(source, output), reading, control)


def _check_detector(
    translations: Sequence[tuple[str, str]], read: Reader, cut: Cut, alarms: float, seed: int
) -> tuple[Detector, dict[str, Any]]:
    """Positives that are made: another sentence's translation is detached, and a translation with a piece repeated oscillates."""
    pairs = [pair for pair in translations if all(map(has_words, pair))]
    half = len(pairs) // 2
    others = [pairs[(number + half) % len(pairs)][1] for number in range(len(pairs))]
    swapped = [(source, other) for (source, output), other in zip(pairs, others, strict=True) if other != output]
    mine, theirs = (
        [read(*pair) for pair in tqdm(side, desc=name, unit="sentence")] for name, side in (("Own", pairs), ("Detached", swapped))
    )
    detector, checks = calibrate(mine, theirs, alarms, seed)
    rng = random.Random(f"{seed} repeated")
    long = [(source, output) for source, output in pairs if len(output.split()) >= NGRAM]
    made = [(source, repeated(output, rng.randint(0, len(output.split()) - NGRAM))) for source, output in long]
    oscillating = {
        "pairs": len(made),
        "found": fmean(is_oscillating(*pair, cut) for pair in made) if made else None,
        "false_alarms": fmean(is_oscillating(*pair, cut) for pair in pairs),
    }
    return detector, {"detached": [asdict(check) for check in checks], "oscillating": oscillating}


def _row(subject: Subject, kind: str, meaning: str, sources: Sequence[str], detector: Detector, read: Reader, seed: int) -> Row:
    outputs, references = subject.translate(sources), subject.text.references
    verdicts = []
    for number, (source, output) in enumerate(zip(tqdm(sources, desc=kind, unit="sentence"), outputs, strict=True)):
        used = has_words(output) and has_words(source)
        verdicts.append({
            "oscillating": is_oscillating(source, output, subject.tokenizer.tokenize),
            "detached": used and detector.is_detached(read(source, output)),
            "unrelated": _is_unrelated(output, number, references, seed),
        })  # fmt: skip
    found = {name: fmean(verdict[name] for verdict in verdicts) for name in ("oscillating", "detached", "unrelated")}
    return {
        "kind": kind,
        "meaning": meaning,
        "sources": len(sources),
        "hallucinated": fmean(verdict["oscillating"] or verdict["detached"] for verdict in verdicts),
        **found,
        "without_words": fmean(not has_words(output) for output in outputs),
        "copied_words": fmean(_copied(source, output) for source, output in zip(sources, outputs, strict=True)),
        "examples": [{"source": sources[n], "output": outputs[n]} | verdicts[n] for n in spread_evenly(len(sources), _EXAMPLES)],
        "verdicts": verdicts,
    }


def _empty_row(subject: Subject) -> Row:
    """Of a source without a word, every word is made up; the package itself answers blank text with blank text, without the model."""
    outputs = subject.translate(NEARLY_EMPTY)
    return {
        "kind": "empty",
        "meaning": "nothing, a space, or punctuation alone",
        "sources": len(outputs),
        "hallucinated": fmean(map(has_words, outputs)),
        "without_words": fmean(not has_words(output) for output in outputs),
        "examples": [{"source": source, "output": output} for source, output in zip(NEARLY_EMPTY, outputs, strict=True)],
    }


def _is_unrelated(output: str, number: int, references: Sequence[str], seed: int) -> bool:
    """Whether the output is no closer to its own reference, by chrF, than to others: Lee et al. (2018) ask for a score near 0."""
    rng = random.Random(f"{seed} {number}")
    places = [place for place in range(len(references)) if place != number and references[place] != references[number]]
    others = rng.sample(places, min(_OTHERS, len(places)))
    metric = CHRF()
    own = metric.sentence_score(output, [references[number]]).score
    beaten = sum(metric.sentence_score(output, [references[place]]).score < own for place in others)
    return beaten * _OTHERS < _BEATEN * len(others)


def _copied(source: str, output: str) -> float:
    """The share of the source's words that stand in the output."""
    words, written = [word for word in source.split() if has_words(word)], set(output.split())
    return fmean(word in written for word in words) if words else 0.0


def _agreement(verdicts: Sequence[Mapping[str, bool]]) -> dict[str, Any]:
    """On the model's real outputs: what the detector, which sees no reference, says of those that the references call unrelated."""
    flagged = {truth: [v["oscillating"] or v["detached"] for v in verdicts if v["unrelated"] is truth] for truth in (True, False)}
    return {
        "unrelated": len(flagged[True]),
        "found": fmean(flagged[True]) if flagged[True] else None,
        "related": len(flagged[False]),
        "false_alarms": fmean(flagged[False]) if flagged[False] else None,
    }


def sources_table(results: Sequence[Results]) -> str:
    """Two tables: what was found, and how good the detector is."""
    names = ("hallucinated", "oscillating", "detached", "unrelated", "without_words", "copied_words")
    header = ("model", "source", "sources", *(name.replace("_", " ") for name in names))
    rows = (
        (result["model"], row["kind"], f"{row['sources']:,}", *(_percent(row.get(name)) for name in names))
        for result in results
        for row in result["kinds"]
    )
    checks = markdown_table(
        ("model", "measure", "threshold", "pairs", "found", "false alarms", "area under the curve"), _checks(results), left=2
    )
    return f"{markdown_table(header, rows, left=2)}\n\n{checks}\n"


def _checks(results: Sequence[Results]) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = []
    for result in results:
        for check in result["check"]["detached"]:
            name = f"detached, by `{check['measure']}`" + (" (used)" if check["measure"] == result["detector"]["measure"] else "")
            shares = (_percent(check["found"]), _percent(check["false_alarms"]), f"{check['area']:.3f}")
            lines.append((result["model"], name, f"{check['threshold']:.2f}", f"{check['pairs']:,}", *shares))
        made, real = result["check"]["oscillating"], result["agreement"]
        shares = (_percent(made["found"]), _percent(made["false_alarms"]), UNKNOWN)
        lines.append((result["model"], "oscillating", UNKNOWN, f"{made['pairs']:,}", *shares))
        pairs = f"{real['unrelated']:,} + {real['related']:,}"
        shares = (_percent(real["found"]), _percent(real["false_alarms"]), UNKNOWN)
        lines.append((result["model"], "both, on real outputs that the references call unrelated", UNKNOWN, pairs, *shares))
    return lines


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


__all__ = ["MEASURES", "NEARLY_EMPTY", "measure_sources", "sources_table"]
