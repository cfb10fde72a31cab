"""Sentences in, translations out, many at a time.

Validation, evaluation and the translation of files use this; an application uses the pipeline. The model may be any of
transformers' sequence-to-sequence models, or anything with the same `generate`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..copying import copying_of, generate_copying
from ..languages import language_prefix
from ..pipeline_text_to_text import half_pair
from ..search_settings import check_numbers
from ..shortlist import check_shortlist_languages

_SENTENCES_TOKENISED_AT_ONCE = 1000
_PROBE = "."


class Translation(NamedTuple):
    """A translation of a sentence, and, if asked for, the score by which the search ranked it."""

    text: str
    score: float | None


class Failure(NamedTuple):
    """Why a sentence has no translation, in one line."""

    reason: str


Outcome = list[Translation] | Failure
"""The result for a sentence: its hypotheses, best first, or a failure."""


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    *,
    target_language: str | None = None,
    batch_tokens: int = 4096,
    progress: bool = False,
    description: str = "Translating",
    **generate_kwargs: Any,
) -> list[str]:
    """Translate `sentences`, in order.

    Sentences of similar length share a batch, so that little is computed on padding. The longest go first, so that a batch
    which does not fit into memory fails at once and not at the end. The model ends in the mode (training or evaluation) in
    which it came.

    Args:
        model: the model, already on its device.
        tokenizer: the model's own.
        sentences: source text; an empty or blank sentence gets an empty translation without running the model.
        target_language: needed for a model of ours that has several.
        batch_tokens: the most source tokens, padding included, that one batch may hold (a longer sentence goes alone).
        progress: show a bar with sentences a second and the time left.
        description: what the bar calls the work.
        **generate_kwargs: passed on to `model.generate`; all other settings come from `model.generation_config`.

    Raises:
        TypeError: `sentences` is not a sequence of strings.
        ValueError: a sentence is not text or has more tokens than a learned table has positions, a limit is not positive, or the model
            needs another target language.
    """
    _check(sentences, batch_tokens)
    check_search(generate_kwargs)
    check_shortlist_languages(model, generate_kwargs, None, target_language)
    for index, sentence in enumerate(sentences):
        if reason := fault(sentence):
            raise ValueError(f"Sentence {index} cannot be translated: {reason}.")
    translations = [""] * len(sentences)
    token_ids = _token_ids(tokenizer, sentences, language_prefix(tokenizer, target_language))
    _check_positions(token_ids, getattr(model.config, "most_positions", None))
    with tqdm(total=len(sentences), unit="sentence", desc=description, disable=not progress) as bar:
        bar.update(len(sentences) - len(token_ids))
        for batch in _batches(token_ids, batch_tokens):
            for index, hypotheses in zip(batch, _search(model, tokenizer, [token_ids[i] for i in batch], generate_kwargs), strict=True):
                translations[index] = hypotheses[0].text
            bar.update(len(batch))
    return translations


class Translator:
    """A model, its tokenizer and its search settings, for text that may hold bad lines.

    A sentence that the model cannot translate becomes a `Failure` and affects no other: a batch that fails is halved until the
    sentence is alone. A model that cannot translate anything, from the start or after its device failed, is an error.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        target_language: str | None = None,
        batch_tokens: int = 4096,
        max_source_tokens: int = 1024,
        scores: bool = False,
        **generate_kwargs: Any,
    ) -> None:
        """Translate a one-character sentence first, so that settings that cannot work fail before the work starts.

        Args:
            model, tokenizer, target_language, batch_tokens: see `translate`.
            max_source_tokens: the longest sentence that is given to the model; a longer one is a `Failure`.
            scores: fill in `Translation.score`.
            **generate_kwargs: passed on to `model.generate`.

        Raises:
            ValueError: a limit is not positive, the model needs another target language, or the search gives no scores.
        """
        _check([], batch_tokens)
        check_search(generate_kwargs)
        if max_source_tokens < 1:
            raise ValueError(f"`max_source_tokens` must be at least 1, not {max_source_tokens}.")
        check_shortlist_languages(model, generate_kwargs, None, target_language)
        self._model, self._tokenizer = model, tokenizer
        self._prefix = language_prefix(tokenizer, target_language)
        self._batch_tokens, self._max_source_tokens = batch_tokens, max_source_tokens
        self._generate_kwargs = generate_kwargs
        if scores:
            self._generate_kwargs = generate_kwargs | {"return_dict_in_generate": True}
        probe = self._probe()
        if scores and probe[0].score is None:
            # Hugging Face's own beam search returns the hypotheses' scores only together with those of every step.
            self._generate_kwargs |= {"output_scores": True}
            if self._probe(copy_items=None)[0].score is None:
                raise ValueError("This search tells no scores; ask for 2 beams or more, or leave out scores.")
            if copying_of(model, generate_kwargs)[0]:
                raise ValueError("This search tells scores of single steps only, which `copy_items` cannot keep; leave out one of both.")
        self._blank: Outcome = [Translation("", None)] * len(probe)

    def __call__(self, sentences: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        """Translate `sentences`.

        Returns:
            The position in `sentences` and the outcome of each, in the order of completion. A blank sentence has blank hypotheses.

        Raises:
            Exception: whatever the model raises on a sentence that it could translate before.
        """
        faults = {index: Failure(reason) for index, sentence in enumerate(sentences) if (reason := fault(sentence))}
        yield from faults.items()
        sentences = ["" if index in faults else sentence for index, sentence in enumerate(sentences)]
        token_ids = _token_ids(self._tokenizer, sentences, self._prefix)
        yield from ((index, self._blank) for index in range(len(sentences)) if index not in token_ids and index not in faults)
        yield from pop_too_long(token_ids, self._max_source_tokens)

        def search(numbers: list[int]) -> list[list[Translation]]:
            return _search(self._model, self._tokenizer, [token_ids[number] for number in numbers], self._generate_kwargs)

        yield from computed(search, token_ids, self._batch_tokens, self._probe)

    def _probe(self, **settings: Any) -> list[Translation]:
        probe = _token_ids(self._tokenizer, [_PROBE], self._prefix)
        return _search(self._model, self._tokenizer, list(probe.values()), self._generate_kwargs | settings)[0]


Compute = Callable[[list[int]], list[list[Translation]]]
"""What a model makes of each of some texts, by their numbers."""


def computed(
    compute: Compute, token_ids: dict[int, list[int]], batch_tokens: int, probe: Callable[[], object]
) -> Iterator[tuple[int, Outcome]]:
    """The number and the outcome of each text in `token_ids`, in batches of at most `batch_tokens`, longest first.

    A batch that fails is halved until the text that it fails on is alone. At the first failure, `probe` raises if the model itself fails.
    """
    failed = False
    for batch in _batches(token_ids, batch_tokens):
        for number, outcome in zip(batch, _isolating_failures(compute, batch), strict=True):
            if isinstance(outcome, Failure) and not failed:
                probe()
                failed = True
            yield number, outcome


def _isolating_failures(compute: Compute, batch: list[int]) -> list[Outcome]:
    try:
        return list(compute(batch))
    except Exception as error:
        if len(batch) == 1:
            return [Failure(" ".join(f"{type(error).__name__}: {error}".split())[:400])]
    half = len(batch) // 2
    return [outcome for part in (batch[:half], batch[half:]) for outcome in _isolating_failures(compute, part)]


def pop_too_long(token_ids: dict[int, list[int]], most: int) -> Iterator[tuple[int, Failure]]:
    """Take the texts with more than `most` tokens out of `token_ids`, and give the number of each and why."""
    for index in [index for index, ids in token_ids.items() if len(ids) > most]:
        count = len(token_ids.pop(index))
        yield index, Failure(f"{count} tokens are more than the {most} of max_source_tokens; split the text into sentences")


def check_search(generate_kwargs: Mapping[str, Any]) -> None:
    """Refuse, before a model is loaded, settings of `generate` that it would not reject with a clear message.

    Raises:
        ValueError: the sentence names the setting.
    """
    check_numbers(generate_kwargs)
    wanted, beams = generate_kwargs.get("num_return_sequences") or 1, generate_kwargs.get("num_beams")
    if beams is not None and wanted > beams and not generate_kwargs.get("do_sample"):
        raise ValueError(f"{wanted} translations a sentence need as many beams, and `num_beams` is {beams}.")


def fault(sentence: str) -> str | None:
    """Why a string is not text; None if it is."""
    position = half_pair(sentence)
    return f"half a surrogate pair at character {position}, which is not text" if position else None


def _token_ids(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], prefix: list[int]) -> dict[int, list[int]]:
    """Token ids of the sentences that are not blank, with `prefix` before each, by position."""
    asked = [index for index, sentence in enumerate(sentences) if sentence.strip()]
    token_ids: dict[int, list[int]] = {}
    # In parts, because a tokenizer's other results take hundreds of bytes a token.
    for start in range(0, len(asked), _SENTENCES_TOKENISED_AT_ONCE):
        part = asked[start : start + _SENTENCES_TOKENISED_AT_ONCE]
        encoded = tokenizer([sentences[index] for index in part])["input_ids"]
        token_ids |= {index: [*prefix, *ids] for index, ids in zip(part, encoded, strict=True)}
    return token_ids


def _check_positions(token_ids: Mapping[int, list[int]], most: int | None) -> None:
    """Refuse the first sentence that has more tokens than the model has positions for."""
    for index, ids in token_ids.items():
        if most is not None and len(ids) > most:
            raise ValueError(f"Sentence {index} has {len(ids):,} tokens, and the model has positions for {most:,}; shorten it.")


def _search(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    token_ids: list[list[int]],
    generate_kwargs: dict[str, Any],
) -> list[list[Translation]]:
    """The hypotheses of every sentence of one batch."""
    inputs = tokenizer.pad({"input_ids": token_ids}, return_tensors="pt").to(model.device)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            asked = {name: inputs[name] for name in ("input_ids", "attention_mask")}
            output = generate_copying(model, tokenizer, asked, generate_kwargs)
    finally:
        model.train(was_training)
    sequences = output if isinstance(output, torch.Tensor) else output.sequences
    texts = tokenizer.batch_decode(sequences, skip_special_tokens=True)
    scores = getattr(output, "sequences_scores", None)
    scores = [None] * len(texts) if scores is None else scores.tolist()
    hypotheses = [Translation(*pair) for pair in zip(texts, scores, strict=True)]
    wanted = len(hypotheses) // len(token_ids)
    return [hypotheses[start : start + wanted] for start in range(0, len(hypotheses), wanted)]


def _batches(token_ids: dict[int, list[int]], batch_tokens: int) -> Iterator[list[int]]:
    """Group sentence numbers, longest first, so that no group exceeds `batch_tokens` when padded to its longest."""
    batch: list[int] = []
    for index in sorted(token_ids, key=lambda index: -len(token_ids[index])):
        if batch and (len(batch) + 1) * len(token_ids[batch[0]]) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _check(sentences: Sequence[str], batch_tokens: int) -> None:
    if isinstance(sentences, str):
        raise TypeError("`sentences` must be a list of strings; put the one sentence into a list.")
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise TypeError(f"Sentence {index} is {sentence!r}; only strings can be translated.")
    if batch_tokens < 1:
        raise ValueError(f"`batch_tokens` must be at least 1, not {batch_tokens}.")
