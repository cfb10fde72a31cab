"""A model behind transformers' interface as one calls it: `generate` on a padded batch."""

from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM

import vaswani_transformer  # noqa: F401 (registers our models)
from vaswani_transformer.shortlist import shortlist_of


class GeneratingContestant:
    """Any sequence-to-sequence model; its search is that of its generation_config.json, but for the number of beams."""

    def __init__(self, model: Any, extra_length: int) -> None:
        """`extra_length`: where the checkpoint has no such setting, so many tokens more than the batch's longest source."""
        self.model = model
        settings = model.generation_config
        self.extra_length = None if getattr(settings, "extra_length", None) is not None else extra_length
        if self.extra_length is not None:
            settings.max_length = None  # each call says `max_new_tokens`; both are a warning a batch

    def prepare(self, batch: list[list[int]]) -> dict[str, torch.Tensor]:
        longest = max(map(len, batch))
        pad = self.model.config.pad_token_id
        padded = torch.tensor([[*sentence, *[pad] * (longest - len(sentence))] for sentence in batch])
        lengths = torch.tensor([[len(sentence)] for sentence in batch])
        return {"input_ids": padded, "attention_mask": (torch.arange(longest) < lengths).long()}

    def translate(self, batch: dict[str, torch.Tensor], beams: int, length: int | None = None) -> list[list[int]]:
        limit: dict[str, int] = {}
        if length is not None:
            limit = {"min_new_tokens": length, "max_new_tokens": length}
        elif self.extra_length is not None:
            limit["max_new_tokens"] = batch["input_ids"].shape[1] + self.extra_length
        with torch.inference_mode():
            inputs = {name: tensor.to(self.model.device) for name, tensor in batch.items()}
            return self.model.generate(**inputs, num_beams=beams, **limit).tolist()

    def token_ids(self, sequences: list[list[int]]) -> list[list[int]]:
        return [self._between_start_and_end(sequence) for sequence in sequences]

    def _between_start_and_end(self, sequence: list[int]) -> list[int]:
        end, pad = self.model.config.eos_token_id, self.model.config.pad_token_id
        tokens = sequence[1:]
        if end in tokens:
            return tokens[: tokens.index(end)]
        while tokens and tokens[-1] == pad:
            tokens.pop()
        return tokens


def load(
    folder: str, *, device: str, threads: int, extra_length: int, dtype: str, packed: str | None = None, shortlist: bool = False
) -> GeneratingContestant:
    """A model of PyTorch.

    Args:
        folder: one of our checkpoints, or a Marian model.
        threads: of PyTorch, in the whole process.
        extra_length: see `GeneratingContestant`.
        dtype: what the weights are loaded in.
        packed: what `pack_weights` shall make of them.
        shortlist: search within the one in `folder`.

    Raises:
        ValueError: there is none.
    """
    torch.set_num_threads(threads)
    # transformers' annotations know neither auto classes nor mixins
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model.to(device).eval()
    if packed is not None:
        model.pack_weights(packed)
    if shortlist:
        shortlist_of(model)
        model.generation_config.shortlist = True
    return GeneratingContestant(model, extra_length)
