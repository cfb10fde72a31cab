"""Translations that keep inline code, placeholders and numbers: what the search lost, a second search must write.

The first search runs as ever. Where its best translation lacks an item of its source (see `copied_items`), that sentence is searched again,
and each item must then occur as often as in the source. So a sentence that lost nothing is translated as without this, and only the others
cost more.

This file travels with checkpoints.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers.utils import logging

from .beam_search import filled
from .constrained_search import ConstrainedSearch, Found, Vocabulary
from .copied_items import items_of, lost_items, wanted_classes
from .search_settings import OF_HEADS, is_own_module

logger = logging.get_logger(__name__)

BANK = 4
"""The fewest places of a bank of the second search; a search with more hypotheses has as many in each bank."""

MOST_ROWS = 512
"""Hypotheses that are searched again at once, over all sentences."""

_OF_PROMPTS = ("decoder_input_ids", "decoder_attention_mask")
"""Settings with a row for each sentence."""

_OF_STEPS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")


def generate_copying(model: Any, tokenizer: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> Any:
    """What `model.generate(**inputs, **settings)` returns, with the sentences that lost an item searched again.

    A sentence whose items cannot all be written within its limit keeps its first translation, and a warning counts such sentences. With
    several translations a sentence, the best one decides, and all of them are replaced.

    Args:
        model: any model; the second search needs one of ours.
        tokenizer: its own.
        inputs: `input_ids` `[B, S]` and the other inputs of the model.
        settings: of `generate`. `copy_items` is True for the classes of `copied_items.COPIED`, or a list of classes; without it, that of
            the checkpoint's `generation_config` holds.

    Raises:
        ValueError: there is no such class, or a setting does not go together with a second search.
    """
    classes, settings = copying_of(model, settings)
    if classes:
        config = settings.get("generation_config") or model.generation_config
        _check({**vars(config), **settings})
    output = model.generate(**inputs, **settings)
    return repaired(model, tokenizer, inputs, settings, output, classes)


def copying_of(model: Any, settings: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The classes to copy, and the settings for the first search, which does without.

    Raises:
        ValueError: there is no such class, or this model cannot search again and the caller asks for it.
    """
    config = settings.get("generation_config") or model.generation_config
    stored = getattr(config, "copy_items", None)
    chosen = settings.get("copy_items", stored)
    classes = wanted_classes(chosen)
    if classes and chosen is not stored and not is_own_module(model):
        raise ValueError(f"`copy_items` needs one of this package's models in PyTorch, and {type(model).__name__} is none; leave it out.")
    if stored is None and "copy_items" not in settings:
        return classes, settings
    if stored is None and not is_own_module(model):
        return classes, {name: value for name, value in settings.items() if name != "copy_items"}
    return classes, _changed(settings, copy_items=False)


def repaired(model: Any, tokenizer: Any, inputs: dict[str, Any], settings: dict[str, Any], output: Any, classes: Sequence[str]) -> Any:
    """The output of a first search, with other translations where the best one lacks an item of these classes.

    Args:
        model, tokenizer, inputs: see `generate_copying`.
        settings: of the first search, from `copying_of`, without what watched it.
        output: what `generate` returned.
        classes: from `copying_of`.
    """
    return _Repair(model, tokenizer, inputs, settings, output).repaired(classes) if classes else output


def _check(known: dict[str, Any]) -> None:
    remedy = "pass copy_items=None to do without it."
    if known.get("do_sample"):
        raise ValueError(f"`copy_items` is for a search, and do_sample=True draws translations; {remedy}")
    for name in ("streamer", "stopping_criteria", "stop_strings", "max_time", "assistant_model", "custom_generate"):
        if known.get(name) is not None:
            raise ValueError(f"`copy_items` searches some sentences twice, which does not go together with `{name}`; {remedy}")
    given = [name for name in _OF_STEPS if known.get(name)]
    if known.get("return_dict_in_generate") and given:
        raise ValueError(f"`copy_items` searches some sentences twice, so `{given[0]}` would mix the steps of two searches; {remedy}")


def _changed(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Settings of `generate` with `changes`, which go into the whole configuration where there is one: it takes one form or the other."""
    own = settings.get("generation_config")
    if own is None:
        return {**settings, **changes}
    own = copy.deepcopy(own)
    for name, value in changes.items():
        setattr(own, name, value)
    return {**{name: value for name, value in settings.items() if name not in changes}, "generation_config": own}


class _Repair:
    """The output of a first search, and the second search of the sentences that need it."""

    def __init__(self, model: Any, tokenizer: Any, inputs: dict[str, Any], settings: dict[str, Any], output: Any) -> None:
        self.model, self.tokenizer, self.inputs, self.settings, self.output = model, tokenizer, inputs, settings, output
        self.sequences = output if isinstance(output, torch.Tensor) else output.sequences
        self.wanted = len(self.sequences) // len(inputs["input_ids"])
        self.prompt_length = 1
        """Tokens of the decoder before the translation, the start among them."""

    def repaired(self, classes: Sequence[str]) -> Any:
        """The output, with other translations where the best one lacks an item of these classes."""
        sources = self.tokenizer.batch_decode(self.inputs["input_ids"], skip_special_tokens=True)
        best = self.tokenizer.batch_decode(self.sequences[:: self.wanted], skip_special_tokens=True)
        items = [items_of(source, classes) for source in sources]
        lost = {row: items[row] for row, text in enumerate(best) if items[row] and lost_items(items[row], text)}
        if not lost:
            return self.output
        if not is_own_module(self.model):
            logger.warning(f"{len(lost)} of {len(best)} sentences lost inline code or numbers, which this engine cannot search for again.")
            return self.output
        width = max(self._setting("num_beams") or 1, self.wanted, BANK)
        found: dict[int, list[Found]] = {}
        vocabulary = Vocabulary(self.tokenizer)
        for rows in _parts({row: vocabulary.places(needed, width) for row, needed in lost.items()}):
            search = ConstrainedSearch(vocabulary, [lost[row] for row in rows], width, self.wanted)
            self._search(search, rows)
            self.prompt_length = search.prompt_length
            found |= dict(zip(rows, search.found, strict=True))
        if kept := sum(len(hypotheses) < self.wanted for hypotheses in found.values()):
            logger.warning(
                f"{kept} of {len(best)} sentences keep a translation that lacks inline code or a number of theirs: within the limit of "
                f"tokens no translation has them all."
            )
        return self._merged({row: hypotheses for row, hypotheses in found.items() if len(hypotheses) == self.wanted})

    def _search(self, search: ConstrainedSearch, rows: list[int]) -> None:
        """Search the given rows of the inputs; the result stays in `search`."""
        chosen = torch.tensor(rows, device=self.sequences.device)
        given = {name: value[chosen] if isinstance(value, torch.Tensor) else value for name, value in self.inputs.items()}
        # This search looks for rare tokens, so within the whole vocabulary; and a draft or an early stop is for other searches.
        others = {"return_dict_in_generate": False, "draft": "none", **dict.fromkeys(OF_HEADS), "shortlist": False, "early_stopping": False}
        # Looking for drafts in the prompt is for greedy search as well
        settings = _changed(self.settings, num_beams=search.rows, prompt_lookup_num_tokens=None, **others)
        settings |= {name: settings[name][chosen] for name in _OF_PROMPTS if settings.get(name) is not None}
        self.model.generate(**given, **settings, custom_generate=search)

    def _setting(self, name: str) -> Any:
        config = self.settings.get("generation_config") or self.model.generation_config
        return self.settings.get(name, getattr(config, name, None))

    def _merged(self, found: dict[int, list[Found]]) -> Any:
        """The first search's output with these rows' translations in the place of its own."""
        prompt = self.prompt_length
        tokens = self.sequences[:, prompt:].tolist()
        scores = getattr(self.output, "sequences_scores", None)
        for row, hypotheses in found.items():
            for place, hypothesis in enumerate(hypotheses, start=row * self.wanted):
                tokens[place] = list(hypothesis.tokens)
                if scores is not None:
                    scores[place] = hypothesis.worth
        padding = self._setting("pad_token_id")
        filler = self.model.config.pad_token_id if padding is None else padding
        longest = max(map(len, tokens))
        body = torch.tensor([filled(row, longest, filler) for row in tokens], dtype=torch.long, device=self.sequences.device)
        sequences = torch.cat((self.sequences[:, :prompt], body), dim=-1)
        if isinstance(self.output, torch.Tensor):
            return sequences
        self.output.sequences = sequences
        return self.output


def _parts(places: dict[int, int]) -> Iterator[list[int]]:
    """The rows in groups of similar size, given how many hypotheses each needs, that fit into memory together."""
    part: list[int] = []
    for row in sorted(places, key=lambda row: places[row]):
        if part and (len(part) + 1) * places[row] > MOST_ROWS:
            yield part
            part = []
        part.append(row)
    yield part


__all__ = ["copying_of", "generate_copying", "repaired"]
