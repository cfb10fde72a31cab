"""The translators of a demo: each loaded once, used by one search at a time, within limits."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files.json_files import read_json
from ..inspection.maps import candidate_maps
from ..inspection.page import attention_page
from ..languages import language_prefix, target_languages
from ..pipeline_text_to_text import DEFAULT_SETTINGS, check_text
from ..sentence_splitting import check_language, join_sentences, split_sentences
from ..translation.loading import load_engine
from ..translation.translate import Translation, check_search
from .limits import Limits
from .live import Live
from .live import Show as ShowState
from .live_search import LivePipeline

_EVALUATION = "evaluation.json"
_EXAMPLES = 4
_LARGEST_PICTURE = 1_000_000
"""Bytes that go to a visitor with each translation; the picture leaves out what does not fit, and says so."""


@dataclass(frozen=True)
class Request:
    """One text and how to translate it.

    Attributes:
        text: anything.
        search: settings of `generate` by their names; the checkpoint's own apply to all others.
        split_language: cut the text into sentences of this language; None takes it as one sentence.
        target_language: for a model that has several.
    """

    text: str
    search: dict[str, Any] = field(default_factory=dict)
    split_language: str | None = None
    target_language: str | None = None


@dataclass(frozen=True)
class Sentence:
    """A source sentence and its hypotheses, best first."""

    source: str
    hypotheses: tuple[Translation, ...]


@dataclass(frozen=True)
class State:
    """How far a text is.

    Attributes:
        text: the translation so far; of the sentence at work, the best open hypothesis, which may still change.
        sentences: those that are done.
        total: how many sentences there are.
    """

    text: str
    sentences: tuple[Sentence, ...]
    total: int

    @property
    def is_done(self) -> bool:
        return len(self.sentences) == self.total


class Translator:
    """A model of the demo, which visitors share."""

    def __init__(self, name: str, folder: str, limits: Limits) -> None:
        """Load a model onto this process' device.

        Args:
            name: what the page calls it.
            folder: a model's folder or repository; see `load_engine`.
            limits: of this demo; the model's own positions may limit the tokens further.

        Raises:
            FileNotFoundError, ValueError: see `load_engine`.
        """
        self.name, self.folder, self.limits = name, folder, limits
        engine = load_engine(folder)
        self.model, self.tokenizer = engine.model, engine.tokenizer
        self.pipeline = LivePipeline(model=self.model, tokenizer=self.tokenizer, task="translation", device=self.model.device)
        self.lock = threading.Lock()
        """Held while the model computes: pictures of attention switch its formula, and side by side no search is faster."""
        self.target_languages = list(target_languages(self.tokenizer))
        self.token_limit = min(limits.tokens, _positions(self.model.config))
        self.search = self._search()
        evaluation = _evaluation(Path(folder))
        self.source_language = str(evaluation.get("source_language", "en"))
        languages = [str(evaluation[name]) for name in ("source_language", "target_language") if name in evaluation]
        self.described = " → ".join([*languages[:1], ", ".join(self.target_languages) or languages[1]]) if len(languages) == 2 else name
        test_sets = evaluation.get("test_sets") or [{"samples": []}]
        self.examples = [str(sample["source"]) for sample in test_sets[0]["samples"]][:_EXAMPLES]

    def translate(self, request: Request) -> Iterator[State]:
        """Translate a text, sentence by sentence; the last state is the result.

        Raises:
            ValueError: the text is empty, too long or no text, or a setting is impossible or beyond the limits.
        """
        sentences, gaps = self.sentences(request)

        def work(show: ShowState[State]) -> None:
            done: list[Sentence] = []
            for sentence in sentences:
                finished, so_far = [one.hypotheses[0].text for one in done], tuple(done)

                def step(text: str, finished: list[str] = finished, so_far: tuple[Sentence, ...] = so_far) -> None:
                    show(State(_joined([*finished, text], gaps), so_far, len(sentences)))

                with self.lock:
                    found = self.pipeline.hypotheses(sentence, request.search, request.target_language, step)
                done.append(Sentence(sentence, tuple(found)))
            show(State(_joined([one.hypotheses[0].text for one in done], gaps), tuple(done), len(sentences)))

        yield from Live(work)

    def attention(self, request: Request, number: int) -> str:
        """Draw where every head looks in one sentence and its best translations.

        Args:
            request: as many translations are drawn as its search asks for.
            number: of the sentence, from 1; the last one for a larger number.

        Returns:
            A whole document of HTML, which needs nothing else.

        Raises:
            ValueError: see `translate`; or the model gives no attention, or the sentence is too long for a picture.
        """
        found, _ = self.sentences(request)
        sentence = found[min(max(number, 1), len(found)) - 1]
        search = {name: value for name, value in request.search.items() if name != "num_return_sequences"}
        count = request.search.get("num_return_sequences", 1)
        with self.lock:
            maps = candidate_maps(self.model, self.tokenizer, sentence, count, tgt_lang=request.target_language, **search)
        return attention_page(maps, "Attention", most_bytes=_LARGEST_PICTURE).html

    def sentences(self, request: Request) -> tuple[list[str], list[str]]:
        """The sentences of a text and the gaps around them, once everything about the request is known to be right.

        Raises:
            ValueError: see `translate`.
        """
        check_text(request.text, "The text")
        if not request.text.strip():
            raise ValueError("There is nothing to translate; write a sentence first.")
        if len(request.text) > self.limits.characters:
            raise ValueError(
                f"The text has {len(request.text):,} characters, and this page takes {self.limits.characters:,}; "
                "shorten it, or translate it as a file."
            )
        self.check(request)
        if request.split_language is None:
            found, gaps = [request.text], ["", ""]
        else:
            found, gaps = split_sentences(request.text, request.split_language)
        for number, sentence in enumerate(found, start=1):
            length = self.pipeline.source_length(sentence, request.target_language)
            if length > self.token_limit:
                raise ValueError(
                    f"{f'Sentence {number}' if len(found) > 1 else 'The sentence'} has {length:,} tokens, and this page takes "
                    f"{self.token_limit:,} in one sentence; make shorter sentences of it."
                )
        return found, gaps

    def check(self, request: Request) -> None:
        """Refuse settings that the model or this page cannot take.

        Raises:
            ValueError: the sentence names the setting.
        """
        check_search({**self.search, **request.search})
        for name, most in {"num_beams": self.limits.beams, "extra_length": self.limits.extra_length}.items():
            value = request.search.get(name)
            if value is not None and value > most:
                raise ValueError(f"`{name}` is {value}; this page takes at most {most}.")
        if request.split_language is not None:
            check_language(request.split_language)
        if not hasattr(self.tokenizer, "_build_translation_inputs"):  # else it has languages of its own
            language_prefix(self.tokenizer, request.target_language)

    def _search(self) -> dict[str, Any]:
        """The settings that the page shows, with the values that the model itself uses."""
        own = {**DEFAULT_SETTINGS, **self.model.generation_config.to_diff_dict()}
        shown = {"num_beams": own["num_beams"], "length_penalty": own.get("length_penalty")}
        shown["length_penalty"] = 1.0 if shown["length_penalty"] is None else shown["length_penalty"]
        return shown if own.get("extra_length") is None else shown | {"extra_length": own["extra_length"]}


def load_translators(folders: Sequence[str], limits: Limits) -> dict[str, Translator]:
    """Load every model once, by a name of its own.

    Raises:
        ValueError: there is no folder, or one is named twice; see also `Translator`.
    """
    if len(set(folders)) < max(1, len(folders)):
        raise ValueError("Give the folders of one or several models, each once.")
    names = [_name(folder) for folder in folders]
    names = [folder if names.count(name) > 1 else name for name, folder in zip(names, folders, strict=True)]
    return {name: Translator(name, folder, limits) for name, folder in zip(names, folders, strict=True)}


def _name(folder: str) -> str:
    """What to call a model: of a run's folders, the run."""
    path = Path(folder).absolute() if Path(folder).is_dir() else Path(folder)
    return path.parent.name if path.name in ("averaged", "published") else path.name


def _evaluation(folder: Path) -> dict[str, Any]:
    """What is known of a model that was scored: its languages and some sentences."""
    places = [folder / _EVALUATION, *([folder.parent / _EVALUATION] if folder.name == "averaged" else [])]
    return next((read_json(place) for place in places if place.is_file()), {})


def _positions(config: Any) -> int:
    """The longest source that a model has positions for."""
    if getattr(config, "position_embedding_type", None) == "sinusoidal":
        return 2**31  # computed for any length
    return int(getattr(config, "max_position_embeddings", None) or 2**31)


def _joined(translations: Sequence[str], gaps: Sequence[str]) -> str:
    """The first translations of a text, with the white space before, between and, after the last, behind them."""
    return join_sentences(translations, gaps[: len(translations) + 1])
