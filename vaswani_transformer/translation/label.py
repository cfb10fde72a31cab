"""Texts in, labels out, many at a time: of a whole text by a classifier, of each word by a tagger.

The labelling of files uses this; an application uses the pipeline. The model may be any of transformers' classifiers and taggers.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..word_places import first_tokens
from .translate import Failure, Outcome, Translation, computed, fault, pop_too_long

_PROBE = "a"


class _Encoded(NamedTuple):
    """A text as the model reads it, and the place of each word's first token; a classifier asks for no place."""

    ids: list[int]
    places: list[int]


class Labeller:
    """A model, its tokenizer and how many labels a text gets, for text that may hold bad lines; what fails does so as in a `Translator`.

    Of a tagger, words are what white space parts, and the labels of all words are one text, with a space between two.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        nbest: int = 1,
        scores: bool = False,
        batch_tokens: int = 4096,
        max_source_tokens: int = 1024,
    ) -> None:
        """Label a one-letter text first, so that what cannot work fails before the work starts.

        Args:
            model: its class tells which of both it is; on its device.
            tokenizer: the model's own; a tagger's tells where its tokens lie in the text.
            nbest: how many labels of a text, likeliest first; of a word there is one.
            scores: fill in `Translation.score` with the label's probability.
            batch_tokens: the most tokens, padding included, that one batch may hold (a longer text goes alone).
            max_source_tokens: the longest text that is given to the model; a longer one is a `Failure`.

        Raises:
            ValueError: a limit is not positive, the model gives no labels, or not so many.
        """
        self._tags_words = tags_words(model)
        self.name = "labels" if self._tags_words else "label"
        if min(batch_tokens, max_source_tokens, nbest) < 1:
            raise ValueError(
                f"`batch_tokens` is {batch_tokens}, `max_source_tokens` {max_source_tokens} and `nbest` {nbest}; all must be at least 1."
            )
        if self._tags_words and (nbest > 1 or scores):
            raise ValueError("A tagger gives each word one label, without a score; leave out `nbest` and `scores`.")
        if nbest > model.config.num_labels:
            raise ValueError(f"{nbest} labels a text are more than the {model.config.num_labels} that the model has; ask for fewer.")
        if self._tags_words and not tokenizer.is_fast:
            raise ValueError("The tokenizer does not tell where its tokens lie in the text, so words get no labels; take a fast one.")
        self._model, self._tokenizer = model.eval(), tokenizer
        self._nbest, self._batch_tokens = nbest, batch_tokens
        self._max_source_tokens = max_source_tokens
        self._probe()

    def __call__(self, texts: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        """Label `texts`.

        Returns:
            The position in `texts` and the outcome of each, in the order of completion: its labels as `Translation.text`. A blank text has
            blank labels.

        Raises:
            Exception: whatever the model raises on a text that it could label before.
        """
        blank: Outcome = [Translation("", None)] * self._nbest
        sound: list[int] = []
        for index, text in enumerate(texts):
            if reason := fault(text):
                yield index, Failure(reason)
            elif not text.strip():
                yield index, blank
            else:
                sound.append(index)
        encoded: dict[int, _Encoded] = {}
        for index, found in zip(sound, self._encoded([texts[index] for index in sound]), strict=True):
            if isinstance(found, Failure):
                yield index, found
            else:
                encoded[index] = found
        token_ids = {index: each.ids for index, each in encoded.items()}
        yield from pop_too_long(token_ids, self._max_source_tokens)

        def labels(numbers: list[int]) -> list[list[Translation]]:
            return self._labels([encoded[number] for number in numbers])

        yield from computed(labels, token_ids, self._batch_tokens, self._probe)

    def _encoded(self, texts: Sequence[str]) -> list[_Encoded | Failure]:
        if not texts:
            return []
        if not self._tags_words:
            return [_Encoded(ids, []) for ids in self._tokenizer(list(texts), verbose=False)["input_ids"]]
        words = [text.split() for text in texts]
        encoded = self._tokenizer([" ".join(each) for each in words], return_offsets_mapping=True, verbose=False)
        return [_placed(*each) for each in zip(words, encoded["input_ids"], encoded["offset_mapping"], strict=True)]

    @torch.inference_mode()
    def _labels(self, texts: list[_Encoded]) -> list[list[Translation]]:
        inputs = self._tokenizer.pad({"input_ids": [text.ids for text in texts]}, return_tensors="pt").to(self._model.device)
        logits = self._model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits.float()
        names = self._model.config.id2label
        if self._tags_words:
            likeliest = zip(logits.argmax(-1).tolist(), texts, strict=True)
            return [[Translation(" ".join(names[row[place]] for place in text.places), None)] for row, text in likeliest]
        found = logits.softmax(-1).topk(self._nbest)
        rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [[Translation(names[number], score) for number, score in zip(*row, strict=True)] for row in rows]

    def _probe(self) -> None:
        (encoded,) = self._encoded([_PROBE])
        assert isinstance(encoded, _Encoded)  # a single word shares its token with no other
        self._labels([encoded])


def _placed(words: list[str], ids: list[int], offsets: list[tuple[int, int]]) -> _Encoded | Failure:
    try:
        return _Encoded(ids, first_tokens(words, offsets))
    except ValueError as error:
        return Failure(str(error))


def tags_words(model: PreTrainedModel) -> bool:
    """Whether a model labels words, and not texts.

    Raises:
        ValueError: it does neither.
    """
    kind, problem = type(model).__name__, getattr(model.config, "problem_type", None)
    if kind.endswith("ForTokenClassification"):
        return True
    if not kind.endswith("ForSequenceClassification"):
        raise ValueError(f"{kind} gives no labels; take a classifier or a tagger.")
    if model.config.num_labels == 1 or problem not in (None, "single_label_classification"):
        raise ValueError(
            f"The model gives a text {'a number' if model.config.num_labels == 1 else 'several labels at once'}, and not one label; use "
            'pipeline("text-classification", top_k=None).'
        )
    return False
