"""Sentences in, translations out, many at a time.

This is what validation and evaluation use; an application uses the pipeline. The model may be any of transformers' sequence-to-sequence
models: nothing here is particular to ours.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    *,
    batch_tokens: int = 4096,
    progress: bool = False,
    **generate_kwargs: Any,
) -> list[str]:
    """Translate `sentences`, in order.

    Sentences of similar length share a batch, so that little is computed on padding; the longest go first, so that a batch
    which does not fit into memory fails at once and not at the end. The model is returned to the mode (training or
    evaluation) it came in.

    Args:
        model: on the device where it shall run.
        tokenizer: the model's own.
        sentences: source text; one that is empty or blank gives an empty translation without a question to the model.
        batch_tokens: the most source tokens, padding included, that one batch may hold (a longer sentence goes alone).
        progress: show a bar with sentences a second and the time left.
        **generate_kwargs: passed on to `model.generate`; whatever is not named comes from `model.generation_config`.

    Raises:
        TypeError: `sentences` is not a sequence of strings.
        ValueError: `batch_tokens` is not positive.
    """
    _check(sentences, batch_tokens)
    translations = [""] * len(sentences)
    asked = [index for index, sentence in enumerate(sentences) if sentence.strip()]
    encoded = tokenizer([sentences[index] for index in asked])["input_ids"] if asked else []
    token_ids = dict(zip(asked, encoded, strict=True))
    was_training = model.training
    model.eval()
    try:
        with (
            torch.inference_mode(),
            tqdm(total=len(sentences), unit="sentence", desc="Translating", disable=not progress) as bar,
        ):
            bar.update(len(sentences) - len(asked))
            for batch in _batches({index: len(ids) for index, ids in token_ids.items()}, batch_tokens):
                outputs = _generate(model, tokenizer, [token_ids[index] for index in batch], generate_kwargs)
                for index, translation in zip(batch, outputs, strict=True):
                    translations[index] = translation
                bar.update(len(batch))
    finally:
        model.train(was_training)
    return translations


def _generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    token_ids: list[list[int]],
    generate_kwargs: dict[str, Any],
) -> list[str]:
    inputs = tokenizer.pad({"input_ids": token_ids}, return_tensors="pt").to(model.device)
    generate: Any = model.generate  # typed as Tensor or Module: torch cannot know a mixin's methods
    outputs = generate(
        input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], **generate_kwargs
    )
    return tokenizer.batch_decode(outputs, skip_special_tokens=True)


def _batches(lengths: dict[int, int], batch_tokens: int) -> Iterator[list[int]]:
    """Group sentence numbers, longest first, so that no group exceeds `batch_tokens` once padded to its longest."""
    batch: list[int] = []
    for index in sorted(lengths, key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
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
