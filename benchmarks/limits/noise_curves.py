"""What noise in the source costs: BLEU and chrF over the share of changed words, for one model or several side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.limits.noise import KINDS, add_noise, read_misspellings
from benchmarks.limits.subject import Subject
from benchmarks.report import Results, Row, markdown_table
from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.files.checksums import file_sha256
from vaswani_transformer.report.curves import write_png

_COLOURS = ("#5b84b1", "#c44e52", "#55a868", "#8c8c8c", "#8172b2", "#937860")


def measure_noise(subject: Subject, shares: Sequence[float], seed: int, misspellings: Path | None) -> Results:
    """Translate the text clean and with every kind of noise in every share, and score it.

    Args:
        subject: the model and its text.
        shares: of all words, from 0 to 1.
        seed: of the noise.
        misspellings: their file, or None to leave this kind out.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a share is impossible, or the file holds no misspellings.
    """
    known = read_misspellings(misspellings) if misspellings else None
    sources = list(subject.text.sources)
    clean = _scores(subject, sources)
    kinds = []
    for kind, meaning in KINDS.items():
        if kind != "misspelling" or known:
            points = []
            for share in shares:
                noised = add_noise(sources, kind, share, seed=seed, misspellings=known)
                changed = sum(new != old for new, old in zip(noised.sentences, sources, strict=True))
                facts = {"share": share, "reached": noised.share, "changed_sentences": changed / len(sources)}
                points.append(facts | _scores(subject, noised.sentences))
            kinds.append({"kind": kind, "meaning": meaning, "points": points})
    origin = {"file": misspellings.name, "words": len(known), "sha256": file_sha256(misspellings)} if misspellings and known else None
    return {**subject.facts(), "seed": seed, "misspellings": origin, "clean": clean, "kinds": kinds}


def _scores(subject: Subject, sources: Sequence[str]) -> Row:
    text = subject.text
    found = score(
        subject.translate(sources), text.references, target_language=text.languages[1], tokenized=text.form.tokenized,
    )  # fmt: skip
    return {name: found[key]._asdict() for name, key in (("bleu", "sacrebleu"), ("chrf", "chrf"))}


def noise_table(results: Sequence[Results]) -> str:
    """BLEU and chrF, a line for each model, kind and share; with what BLEU loses by clean text."""
    header = ("model", "noise", "asked for", "words changed", "sentences changed", "BLEU", "by clean text", "chrF", "by clean text")
    return markdown_table(header, (cells for result in results for cells in _lines(result)), left=2) + "\n"


def _lines(result: Results) -> list[Sequence[str]]:
    clean = result["clean"]
    lines: list[Sequence[str]] = [
        (result["model"], "none", "", "", "", f"{clean['bleu']['score']:.2f}", "", f"{clean['chrf']['score']:.2f}", "")
    ]
    for kind in result["kinds"]:
        for point in kind["points"]:
            scores = [cell for name in ("bleu", "chrf") for cell in _difference(point[name]["score"], clean[name]["score"])]
            lines.append(
                (
                    result["model"],
                    kind["kind"],
                    *(f"{100 * point[key]:.1f} %" for key in ("share", "reached", "changed_sentences")),
                    *scores,
                )
            )
    return lines


def _difference(score: float, clean: float) -> tuple[str, str]:
    return f"{score:.2f}", f"{score - clean:+.2f}"


def draw_noise(results: Sequence[Results], picture: Path) -> None:
    """A panel for each kind of noise, a line for each model: BLEU over the share of words that were changed."""
    kinds = [kind["kind"] for kind in results[0]["kinds"]]
    figure = Figure(figsize=(3.0 * len(kinds), 3.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(1, len(kinds), sharex=True, sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        _panel(axes, kind, results)
    panels[0].set_ylabel("BLEU")
    panels[-1].legend(frameon=False, fontsize=8, loc="lower left")
    figure.supxlabel("share of all words that were changed, %", fontsize=10)
    write_png(figure, picture)


def _panel(axes: Axes, kind: str, results: Sequence[Results]) -> None:
    for number, result in enumerate(results):
        points: list[Row] = next((entry["points"] for entry in result["kinds"] if entry["kind"] == kind), [])
        places = [0.0, *(100 * point["reached"] for point in points)]
        scores = [result["clean"]["bleu"]["score"], *(point["bleu"]["score"] for point in points)]
        axes.plot(places, scores, marker="o", markersize=4, color=_COLOURS[number % len(_COLOURS)], label=_short(result))
    axes.set_title(kind)
    axes.set_ylim(bottom=0)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _short(result: Mapping[str, Any]) -> str:
    """The last part of a model's name that tells it from others."""
    parts = [part for part in str(result["model"]).split("/") if part not in ("averaged", "published")]
    return parts[-1] if parts else str(result["model"])
