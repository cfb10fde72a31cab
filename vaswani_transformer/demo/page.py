"""The demo's page: which controls there are, and what each of them sets off."""

import tempfile
import time
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..translation.translate import Translation
from .file_translation import translate_upload
from .limits import Limits
from .markup import WAITING, alternatives, frame, notice, progress, told
from .translator import Request, State, Translator

if TYPE_CHECKING:
    import gradio as gr

_QUEUE = "translations"
_SHOWN = 3
"""Translations of a sentence at the beginning; the best is the same however many are asked for."""
_USERS = (ValueError, OSError, ImportError)
"""Errors whose sentence tells the visitor what to do."""


class Page:
    """The controls and their handlers, for translators that are loaded."""

    def __init__(self, translators: dict[str, Translator], limits: Limits, title: str) -> None:
        """`translators` by the names that visitors see; the first is chosen at the beginning."""
        self._translators, self._limits, self._title = translators, limits, title
        self._first = next(iter(translators.values()))

    def build(self) -> "gr.Blocks":
        """Gradio's application, not yet launched."""
        import gradio as gr

        with gr.Blocks(title=self._title, analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
            gr.api(self.api_translate, api_name="translate", concurrency_limit=self._limits.at_once, concurrency_id=_QUEUE)
            gr.HTML(_head(self._title, self._first), elem_classes="head")
            model = gr.Radio(list(self._translators), value=self._first.name, label="Model", visible=len(self._translators) > 1)
            source, target, translate, stop, status = self._texts()
            settings = self._settings(model)
            with gr.Tab("Attention") as attention:
                number, picture = self._picture()
            with gr.Tab("Best translations") as other:
                best = gr.HTML(alternatives(()))
            others = [other]
            if len(self._translators) > 1:
                with gr.Tab("Compare models") as other:
                    self._comparison(source, settings)
                others.append(other)
            with gr.Tab("Translate a file") as other:
                self._files(settings)
            others.append(other)
            outputs = [target, status, best]
            run = gr.on([translate.click, source.submit], self.translate, [source, *settings], outputs, **self._computing("hidden"))
            self._stops(stop, run, status)
            self._draws(run, attention, others, number, [source, number, *settings], picture)
        blocks.queue(api_open=False, max_size=self._limits.waiting, default_concurrency_limit=self._limits.at_once)
        return blocks

    def translate(self, text: str, *settings: Any) -> Iterator[tuple[Any, Any, Any]]:
        """The translation, a line about it, and the best hypotheses, as they come."""
        import gradio as gr

        begun = time.monotonic()
        try:
            translator, request = self._request(text, *settings)
            state = None
            for state in translator.translate(request):
                best = alternatives(state.sentences) if state.sentences else gr.skip()
                yield state.text, told(state, time.monotonic() - begun), best
        except _USERS as error:
            yield gr.skip(), notice(_sentence(error), "wrong"), gr.skip()

    def attention(self, is_open: bool, text: str, number: float | None, *settings: Any) -> Any:
        """The picture of one sentence's attention, if the tab is open."""
        import gradio as gr

        if not is_open:
            return gr.skip()
        if not text.strip():
            return WAITING
        try:
            translator, request = self._request(text, *settings)
            return frame(translator.attention(request, int(number or 1)), "Attention of each head")
        except _USERS as error:
            return notice(_sentence(error), "wrong")

    def compare(self, name: str) -> Callable[..., Iterator[tuple[Any, Any]]]:
        """A handler that translates with one of the models, by its own search."""

        def translate(text: str, *settings: Any) -> Iterator[tuple[Any, Any]]:
            import gradio as gr

            begun = time.monotonic()
            try:
                _, request = self._request(text, *settings)
                translator = self._translators[name]
                language = _language(translator, request.target_language)
                for state in translator.translate(Request(text, {}, request.split_language, language)):
                    yield state.text, told(state, time.monotonic() - begun)
            except _USERS as error:
                yield gr.skip(), notice(_sentence(error), "wrong")

        return translate

    def translate_file(self, upload: str | None, column: str, *settings: Any) -> Iterator[tuple[Any, Any]]:
        """The progress of a file, and in the end its translation."""
        import gradio as gr

        if upload is None:
            yield notice("Choose a file first.", "wrong"), gr.skip()
            return
        with tempfile.TemporaryDirectory(prefix="vaswani-demo-") as folder:
            try:
                translator, request = self._request("", *settings)
                for state in translate_upload(translator, Path(upload), Path(folder), request, column.strip()):
                    result = gr.skip() if state.result is None else gr.File(str(state.result), visible=True)
                    yield progress(state), result
            except _USERS as error:
                yield notice(_sentence(error).replace(upload, Path(upload).name), "wrong"), gr.skip()

    def api_translate(
        self,
        text: str,
        model: str | None = None,
        num_return_sequences: int = 1,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        split_language: str | None = None,
        target_language: str | None = None,
    ) -> dict[str, Any]:
        """Translate a text; `sentences` has the best translations of each sentence, with the search's scores."""
        import gradio as gr

        chosen = {"num_return_sequences": num_return_sequences, "num_beams": num_beams, "length_penalty": length_penalty}
        search = {name: value for name, value in chosen.items() if value is not None}
        try:
            words = {"text": text, "model": model, "split_language": split_language, "target_language": target_language}
            for name, value in words.items():
                if not isinstance(value, str) and (value is not None or name == "text"):
                    raise ValueError(f"`{name}` is {value!r} and not a string.")
            translator = self._translators.get(model or self._first.name)
            if translator is None:
                raise ValueError(f"There is no model of this name; choose one of {', '.join(self._translators)}.")
            *_, last = translator.translate(Request(text, search, split_language, target_language))
        except _USERS as error:
            raise gr.Error(_sentence(error), print_exception=False) from None
        return _as_data(last)

    def _texts(self) -> tuple[Any, ...]:
        import gradio as gr

        with gr.Row(equal_height=True):
            source = gr.Textbox(
                label="Text", placeholder="Write or paste what to translate.", lines=5, max_lines=16, elem_classes="text", elem_id="source"
            )
            target = gr.Textbox(
                label="Translation", lines=5, max_lines=16, interactive=False, buttons=["copy"], autoscroll=False,
                elem_classes="text", elem_id="target",
            )  # fmt: skip
        with gr.Row():
            translate = gr.Button("Translate", variant="primary", scale=2)
            stop = gr.Button("Stop", scale=1)
            gr.ClearButton([source, target], value="Clear", scale=1, api_visibility="private")
        status = gr.HTML(
            notice(f"At most {self._limits.characters:,} characters at a time. Longer texts go through a file."), elem_id="status"
        )
        if self._first.examples:
            gr.Examples(self._first.examples, source, label="Sentences to try", cache_examples=False, api_visibility="private")
        return source, target, translate, stop, status

    def _settings(self, model: Any) -> list[Any]:
        """The controls of a request, in the order in which `_request` takes them."""
        import gradio as gr

        first, limits = self._first, self._limits
        languages = first.target_languages
        with gr.Accordion("Search settings", open=False):
            with gr.Row():
                beams = gr.Slider(1, limits.beams, first.search["num_beams"], step=1, label="Beams", info="num_beams")
                penalty = gr.Slider(-1, 3, first.search["length_penalty"], step=0.05, label="Length penalty", info="length_penalty")
                extra = gr.Slider(
                    0, limits.extra_length, first.search.get("extra_length", 0), step=1, label="Extra length",
                    info="extra_length", visible="extra_length" in first.search,
                )  # fmt: skip
            with gr.Row():
                count = gr.Slider(
                    1, limits.beams, min(_SHOWN, limits.beams), step=1, label="Best translations",
                    info="num_return_sequences",
                )  # fmt: skip
                split = gr.Checkbox(True, label="Sentence by sentence", info="Cut the text into sentences")
                language = gr.Textbox(first.source_language, label="Language of the text", info="Its code, such as en", max_lines=1)
                choice = gr.Dropdown(languages, value=next(iter(languages), None), label="Translate into", visible=bool(languages))
        shown = [beams, penalty, extra, language, choice]
        model.change(self._shown_settings, model, shown, queue=False, api_visibility="private", show_progress="hidden")
        return [model, split, language, choice, beams, penalty, extra, count]

    def _shown_settings(self, name: str) -> list[Any]:
        """The controls with the values of another model."""
        import gradio as gr

        chosen = self._translators[name]
        languages = chosen.target_languages
        return [
            gr.Slider(value=chosen.search["num_beams"]),
            gr.Slider(value=chosen.search["length_penalty"]),
            gr.Slider(value=chosen.search.get("extra_length", 0), visible="extra_length" in chosen.search),
            gr.Textbox(value=chosen.source_language),
            gr.Dropdown(choices=languages, value=next(iter(languages), None), visible=bool(languages)),
        ]

    def _request(
        self, text: str, name: str, split: bool, language: str, choice: str | None, beams: float, penalty: float, extra: float, count: float
    ) -> tuple[Translator, Request]:
        translator = self._translators[name]
        search = {"num_beams": int(beams), "length_penalty": float(penalty), "num_return_sequences": min(int(count), int(beams))}
        if "extra_length" in translator.search:
            search["extra_length"] = int(extra)
        return translator, Request(text, search, (language.strip() or "en") if split else None, _language(translator, choice))

    def _picture(self) -> tuple[Any, Any]:
        import gradio as gr

        with gr.Row():
            number = gr.Number(1, precision=0, minimum=1, label="Sentence", scale=1, min_width=120)
            with gr.Column(scale=5):
                gr.HTML(notice("Lines lead from each word of the translation to the words of this sentence that a head looks at."))
        return number, gr.HTML(WAITING, elem_id="attention")

    def _draws(self, run: Any, attention: Any, others: list[Any], number: Any, inputs: list[Any], picture: Any) -> None:
        """Draw attention while its tab is open: after each translation, and when another sentence is chosen."""
        import gradio as gr

        is_open = gr.State(True)
        at_once: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
        draw: dict[str, Any] = {"fn": self.attention, "inputs": [is_open, *inputs], "outputs": picture, **self._computing("minimal")}
        run.then(**draw)
        number.change(**draw)
        attention.select(lambda: True, None, is_open, **at_once).then(**draw)
        for tab in others:
            tab.select(lambda: False, None, is_open, **at_once)

    def _comparison(self, source: Any, settings: list[Any]) -> None:
        import gradio as gr

        gr.HTML(notice("Every model translates the text above, each by its own search."))
        button = gr.Button("Compare")
        with gr.Row():
            for name in self._translators:
                with gr.Column():
                    output = gr.Textbox(
                        label=name, lines=5, max_lines=12, interactive=False, buttons=["copy"],
                        elem_classes="text", elem_id=f"compared-{name}",
                    )  # fmt: skip
                    status = gr.HTML()
                button.click(self.compare(name), [source, *settings], [output, status], **self._computing("hidden"))

    def _files(self, settings: list[Any]) -> None:
        import gradio as gr

        gr.HTML(notice(f"One line comes out for every line that goes in. Files of up to {self._limits.megabytes} MB."))
        with gr.Row():
            upload = gr.File(label="File", file_types=[".txt", ".tsv", ".csv", ".jsonl"], type="filepath", height=150)
            result = gr.File(label="Result", interactive=False, visible=False, height=150, elem_id="result")
        column = gr.Textbox(
            label="Column or field",
            info="Of .tsv and .csv by name or number, of .jsonl by name",
            max_lines=1,
        )
        with gr.Row():
            button = gr.Button("Translate the file", variant="primary")
            stop = gr.Button("Stop")
        bar = gr.HTML()
        run = button.click(self.translate_file, [upload, column, *settings], [bar, result], **self._computing("hidden", "files", 2))
        self._stops(stop, run, bar)

    @staticmethod
    def _stops(button: Any, run: Any, status: Any) -> None:
        """Let `button` end `run`, and then say so: in one event, the last states of the run would come behind it."""
        ended = button.click(None, None, None, cancels=[run], queue=False, api_visibility="private")
        ended.then(lambda: notice("Stopped."), None, status, queue=False, api_visibility="private", show_progress="hidden")

    def _computing(self, show_progress: str, queue: str = _QUEUE, limit: int | None = None) -> dict[str, Any]:
        return {
            "concurrency_id": queue,
            "concurrency_limit": limit or self._limits.at_once,
            "show_progress": show_progress,
            "api_visibility": "private",
        }


def _language(translator: Translator, choice: str | None) -> str | None:
    """The chosen target language, or the first of a model that has others; None where there is no choice."""
    return choice if choice in translator.target_languages else next(iter(translator.target_languages), None)


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())


def _as_data(state: State) -> dict[str, Any]:
    def hypothesis(one: Translation) -> dict[str, Any]:
        return {"text": one.text, "score": one.score}

    return {
        "translation": state.text,
        "sentences": [
            {"source": sentence.source, "translations": [hypothesis(one) for one in sentence.hypotheses]} for sentence in state.sentences
        ],
    }


def _head(title: str, translator: Translator) -> str:
    return f"<h1>{escape(title)}</h1><p>{escape(translator.described)}</p>"
