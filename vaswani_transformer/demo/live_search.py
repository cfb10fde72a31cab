"""One sentence through `generate`, with an eye on the best translation that is still being written.

Greedy search hands each token to a streamer. A beam search hands the candidates of each step, best first, to its stopping criteria; the
first that does not end is the best open hypothesis, which the next step may still replace. Neither changes a token of the result.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList
from transformers.generation import BaseStreamer

from ..copying import copying_of, repaired
from ..pipeline_translation import TranslationPipeline
from ..translation.translate import Translation

Show = Callable[[str], None]
"""Gets what is written so far."""


class LivePipeline(TranslationPipeline):
    """The pipeline, which also tells scores and shows a translation as it is written."""

    def hypotheses(self, sentence: str, settings: dict[str, Any], target_language: str | None, show: Show) -> list[Translation]:
        """Translate one sentence, to the tokens that a call of the pipeline finds.

        Args:
            sentence: not blank.
            settings: of `generate`; the checkpoint's own apply to all others.
            target_language: for a model that has several.
            show: called at every step; what it raises ends the search.

        Returns:
            The hypotheses, best first, with the search's scores (None from a greedy search).
        """
        inputs = self.preprocess(sentence, tgt_lang=target_language)
        del inputs["is_blank"]
        inputs = {name: value.to(self.device) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
        classes, chosen = copying_of(self.model, self._search_settings(settings))
        with torch.inference_mode():
            output = self.model.generate(**inputs, **chosen, **self._watched(chosen, show))
            output = repaired(self.model, self.tokenizer, inputs, chosen, output, classes)
        sequences = output if isinstance(output, torch.Tensor) else output.sequences
        scores = [None] * len(sequences) if isinstance(output, torch.Tensor) else output.sequences_scores.tolist()
        return [Translation(self._text(row), score) for row, score in zip(sequences, scores, strict=True)]

    def source_length(self, sentence: str, target_language: str | None) -> int:
        """Tokens that the encoder would read."""
        return int(self.preprocess(sentence, tgt_lang=target_language)["input_ids"].shape[1])

    def _watched(self, chosen: dict[str, Any], show: Show) -> dict[str, Any]:
        """What to hand to `generate` beside its settings."""
        own = self.model.generation_config
        if (chosen.get("num_beams") or own.num_beams or 1) == 1:
            return {"streamer": NewestTokens(self._text, show)}
        ends = own.eos_token_id if isinstance(own.eos_token_id, list) else [own.eos_token_id]
        return {
            "stopping_criteria": StoppingCriteriaList([BestOpenHypothesis(self._text, set(ends), show)]),
            "return_dict_in_generate": True,
            # without the scores of every step, Hugging Face's own search keeps those of the hypotheses to itself
            "output_scores": getattr(own, "length_penalty_type", None) != "gnmt",
        }

    def _text(self, tokens: Any) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


class BestOpenHypothesis(StoppingCriteria):
    """Sees the candidates of every step of a beam search over one sentence, and stops nothing."""

    def __init__(self, text: Callable[[list[int]], str], ends: set[int], show: Show) -> None:
        """`text` decodes tokens; `ends` are those that end a hypothesis."""
        self._text, self._ends, self._show = text, ends, show

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Show the first of the candidates `[W, length]` that goes on."""
        newest = input_ids[:, -1].tolist()
        best = next((row for row, token in enumerate(newest) if token not in self._ends), 0)
        self._show(whole_characters(self._text(input_ids[best].tolist())))
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class NewestTokens(BaseStreamer):
    """Sees every token of a greedy search over one sentence, the decoder's first tokens included."""

    def __init__(self, text: Callable[[list[int]], str], show: Show) -> None:
        """`text` decodes tokens."""
        self._text, self._show = text, show
        self._tokens: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        """Take the next tokens."""
        self._tokens += value.flatten().tolist()
        self._show(whole_characters(self._text(self._tokens)))

    def end(self) -> None:
        """Do nothing: the result of the search tells the rest."""


def whole_characters(text: str) -> str:
    """`text` without a last character of which only some bytes are there."""
    return text.rstrip("\N{REPLACEMENT CHARACTER}")
