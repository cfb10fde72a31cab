"""What the page shows beside plain text: HTML in which nothing that a visitor or a model wrote is ever markup."""

from html import escape

from .file_translation import FileState
from .translator import Sentence, State

WAITING = '<p class="empty">Translate something: where each head looks in the sentence appears here.</p>'


def notice(sentence: str, kind: str = "plain") -> str:
    """A line below the texts; `kind` is "plain", "busy" or "wrong"."""
    role = "alert" if kind == "wrong" else "status"
    return f'<p class="notice {escape(kind)}" role="{role}" dir="auto">{escape(sentence)}</p>'


def told(state: State, seconds: float) -> str:
    """How far a translation is, or what it took."""
    if not state.is_done:
        place = f"sentence {len(state.sentences) + 1} of {state.total}" if state.total > 1 else "one moment"
        return notice(f"Translating, {place} …", "busy")
    return notice(f"{counted(state.total, 'sentence')} in {seconds:.1f} s")


def counted(number: int, noun: str) -> str:
    """Such as "1 sentence" or "2,000 sentences"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def alternatives(sentences: tuple[Sentence, ...]) -> str:
    """The hypotheses of every sentence with the search's scores, best first."""
    if not sentences:
        return '<p class="empty">Translate something: the best translations of each sentence, with their scores, appear here.</p>'
    is_scored = any(one.score is not None for sentence in sentences for one in sentence.hypotheses)
    heads = ["", *(["Score"] if is_scored else []), "Translation"]
    parts = []
    for sentence in sentences:
        rows = "".join(
            f'<tr><td class="rank">{rank}</td>'
            + (f'<td class="score">{_score(one.score)}</td>' if is_scored else "")
            + f'<td dir="auto">{escape(one.text) or "<em>empty</em>"}</td></tr>'
            for rank, one in enumerate(sentence.hypotheses, start=1)
        )
        source = f'<tr class="source"><th colspan="{len(heads)}" scope="rowgroup" dir="auto">{escape(sentence.source)}</th></tr>'
        parts.append(f"<tbody>{source}{rows}</tbody>")
    row = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return f'<div class="alternatives"><table><thead><tr>{row}</tr></thead>{"".join(parts)}</table></div>'


def progress(state: FileState) -> str:
    """A bar, with the rate and the time left."""
    rate = state.done / max(state.seconds, 1e-9)
    if state.result is not None:
        failed = f"; {counted(state.failed, 'line')} could not be translated and stayed empty" if state.failed else ""
        return notice(f"{counted(state.done, 'line')} in {state.seconds:.1f} s{failed}. The result is ready to download.")
    if state.total is None:
        return notice(f"{counted(state.done, 'sentence')} translated, {rate:,.0f} a second …", "busy")
    left = (state.total - state.done) / max(rate, 1e-9)
    bar = f'<progress max="{max(state.total, 1)}" value="{state.done}" aria-label="Lines translated"></progress>'
    return bar + notice(f"{state.done:,} of {counted(state.total, 'line')}, {rate:,.0f} a second, {left:,.0f} s left", "busy")


def frame(document: str, title: str) -> str:
    """A whole HTML document inside the page, where its scripts reach nothing of the page."""
    return f'<iframe class="picture" title="{escape(title)}" sandbox="allow-scripts" srcdoc="{escape(document)}"></iframe>'


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"
