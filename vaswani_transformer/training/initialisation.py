"""A training's initial weights from another model: the same translator, with the vocabulary of the new sentences.

An entry of the new vocabulary that the old one also has keeps its vector. Any other starts as the mean of the vectors of the pieces into
which the old tokenizer splits it: these are what the old model would have read in its place.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from transformers import FSMTTokenizer, PreTrainedTokenizerBase

from ..data.bpe import is_byte_level
from ..files.atomic_folder import atomic_folder
from ..files.checksums import write_checksums
from ..files.json_files import read_json, write_json
from ..modeling_vaswani import VaswaniForConditionalGeneration, VaswaniPreTrainedModel
from ..parallel_heads import heads_of
from ..recipe import Recipe
from ..run_folder import TRANSFER, RunFolder
from ..search_settings import OF_DRAFTS
from ..shortlist import SHORTLIST_USES
from ..tokenizer_identity import tokenizer_hash
from ..translation.loading import check_tokenizer, load_checkpoint, load_encoder, local_folder
from .fewer_layers import described, with_fewer_layers

Model = TypeVar("Model", bound=VaswaniPreTrainedModel)

_CONTROLS = ("pad_token_id", "bos_token_id", "eos_token_id")
_OF_THE_VOCABULARY = ("shared.weight", "embed_tokens.weight", "lm_head.weight", "lm_head.bias")
"""Endings of the names of parameters with one row for each entry."""


@dataclass(frozen=True)
class Transfer:
    """How many entries of a vocabulary got their vectors from which source."""

    copied: int = 0
    """Entries that the old vocabulary has, too."""
    composed: int = 0
    """Entries that are the mean of old ones."""
    random: int = 0
    """Entries without any old counterpart."""
    heads_left_out: int = 0
    """Tokens a step that the old model's parallel heads proposed, if this training leaves them out."""
    shortlist_left_out: bool = False
    """Whether the old model's searches used its shortlist, which is none of the new model's."""
    new_labels: int = 0
    """Labels that a new map gives, if the model is the old one's encoder."""
    new_places: bool = False
    """Whether a new map marks where an answer begins and ends, if the model is the old one's encoder."""
    left_out: str = ""
    """What the encoder does not take from the old model."""
    layers: str = ""
    """Which layers of the old model are kept, if not all."""

    def __str__(self) -> str:
        return (
            f"Of {self.copied + self.composed + self.random} vocabulary entries {self.copied} keep their vector, {self.composed} begin as "
            f"the mean of old ones, {self.random} at random."
            + (
                f" Its parallel heads are left out; `training.parallel_heads: {self.heads_left_out}` would train them on."
                if self.heads_left_out
                else ""
            )
            + (f" Of its layers, {self.layers} are kept." if self.layers else "")
            + (" Its shortlist is left out; the new model needs one of its own (vaswani shortlist)." if self.shortlist_left_out else "")
            + (
                f" The encoder begins with its weights, the map to the {self.new_labels} labels at random; {self.left_out} is left out."
                if self.new_labels
                else f" The encoder begins with its weights, the map to the ends of an answer at random; {self.left_out} is left out."
                if self.new_places
                else f" The encoder begins with its weights; {self.left_out} is left out."
                if self.left_out
                else ""
            )
        )


def write_initial_model(recipe: Recipe, run: RunFolder, tokenizer: PreTrainedTokenizerBase, labels: int = 0) -> Transfer:
    """Write `run.initial`: the model `recipe.init_from` with the vocabulary of `tokenizer`; for a task with labels, its encoder alone.

    Args:
        recipe: names the model.
        run: where it goes.
        tokenizer: the run's.
        labels: how many there are; 0 for a task that writes text.

    Raises:
        ValueError: it is not a model of ours, or its vocabulary cannot be exchanged; the sentence says what to do.
    """
    origin = str(recipe.init_from)
    folder = local_folder(origin)
    model, old = load_encoder(folder) if recipe.has_no_decoder else load_checkpoint(folder, only_ours=True)
    if isinstance(old, FSMTTokenizer) and model.config.target_vocab_size is not None:
        # It encodes targets with the source's dictionary, without a warning
        raise ValueError(
            f"`init_from`: {origin} has a dictionary for each language, and its tokenizer can encode text for the source's only; such a "
            "model translates, but cannot be trained further."
        )
    if tokenizer_hash(old) == tokenizer_hash(tokenizer):
        transfer = Transfer(copied=len(tokenizer))
    else:
        model, transfer = exchange_vocabulary(model, old, tokenizer, recipe.training.seed)
    if recipe.kept_layers:
        transfer = replace(transfer, layers=described(model.config, recipe.kept_layers))
        model = with_fewer_layers(model, recipe.kept_layers)
    if recipe.has_no_decoder:
        had_decoder = read_json(folder / "config.json").get("is_encoder_decoder", True)
        left_out = "the decoder" if had_decoder else "the head of its own task"
        transfer = replace(transfer, new_labels=labels, new_places=recipe.marks_answers, left_out=left_out)
    else:
        wanted, found = recipe.training.parallel_heads, model.config.parallel_heads
        if found > 1 == wanted:
            transfer = replace(transfer, heads_left_out=found)
        set_heads(model, wanted, recipe.training.seed, recipe.training.chained_heads)
        settings = vars(model.generation_config)
        used = [settings.pop(name, None) for name in SHORTLIST_USES]
        transfer = replace(transfer, shortlist_left_out=any(used))
        if wanted == 1 and "heads" in (settings.get("draft") or ""):
            for name in OF_DRAFTS:
                settings.pop(name, None)
    with atomic_folder(run.initial) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        write_json(unfinished / TRANSFER, {"init_from": origin, **asdict(transfer)})
        write_checksums(unfinished)
    return transfer


def set_heads(model: VaswaniForConditionalGeneration, tokens: int, seed: int, chained: bool = False) -> None:
    """Let `model` propose that many `tokens` a step: with new parallel heads, drawn with `seed`, with those it has, or with none for 1.

    Raises:
        ValueError: it has parallel heads for another number, or of another kind.
    """
    found = model.config.parallel_heads
    if tokens not in (1, found) and found > 1:
        raise ValueError(
            f"The model of `init_from` has heads that propose {found} tokens a step, and `training.parallel_heads` is {tokens}; set it to "
            f"{found}, or begin with a model that has no heads."
        )
    if tokens > 1 and found > 1 and chained != model.config.chained_heads:
        raise ValueError(
            f"The model of `init_from` has heads with `chained_heads: {str(not chained).lower()}`; set `training.chained_heads` to that, "
            "or begin with a model that has no heads."
        )
    if tokens == found:
        return
    model.config.parallel_heads, model.config.chained_heads = tokens, chained
    torch.manual_seed(seed)
    model.parallel_heads = heads_of(model.config)
    if model.parallel_heads is not None:
        model.parallel_heads.to(model.dtype)
        for module in model.parallel_heads.modules():
            model._init_weights(module)


def exchange_vocabulary(
    model: Model,
    old: PreTrainedTokenizerBase,
    new: PreTrainedTokenizerBase,
    seed: int,
) -> tuple[Model, Transfer]:
    """A copy of `model` with another vocabulary; entries without an old counterpart are drawn at random with `seed`.

    Raises:
        ValueError: source and target have separate vocabularies, or `old` is not the tokenizer of `model`.
    """
    config = model.config
    if config.target_vocab_size is not None:
        raise ValueError(
            "The model has a vocabulary for each of its languages, which one new vocabulary cannot replace; set `tokenizer.method: keep`."
        )
    check_tokenizer("the model to start from", old, config)
    controls = {name: getattr(new, name) for name in _CONTROLS if getattr(new, name) is not None}
    controls["decoder_start_token_id"] = _control_like(config.decoder_start_token_id, old, new)
    torch.manual_seed(seed)
    exchanged = type(model)(type(config).from_dict({**config.to_dict(), **controls, "vocab_size": len(new)}))
    pieces = list(_pieces(old, new))
    before = model.state_dict()
    with torch.no_grad():
        for name, tensor in exchanged.state_dict().items():
            if name.endswith(_OF_THE_VOCABULARY):
                _compose(tensor, before[name], pieces)
            else:
                tensor.copy_(before[name])
    if model.can_generate():
        search = {**model.generation_config.to_dict(), **controls}
        exchanged.generation_config = type(model.generation_config).from_dict(search)
    known = old.get_vocab().keys()
    copied, random = sum(token in known for token in new.get_vocab()), pieces.count([])
    return exchanged, Transfer(copied, len(pieces) - copied - random, random)


def _compose(rows: Tensor, old_rows: Tensor, pieces: list[list[int]]) -> None:
    """Make every row the mean of the old rows of its pieces; a row without pieces stays unchanged."""
    for row, ids in zip(rows, pieces, strict=True):
        if ids:
            row.copy_(old_rows[ids].mean(0))


def _pieces(old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> Iterator[list[int]]:
    """For every new entry, the old ids that together mean the same."""
    vocabulary, controls = old.get_vocab(), {*new.all_special_tokens, *new.get_added_vocab()}
    are_byte_level = is_byte_level(old) and is_byte_level(new)
    for token in new.convert_ids_to_tokens(list(range(len(new)))):
        if token in vocabulary:
            yield [vocabulary[token]]
        elif token in controls:
            yield []
        elif are_byte_level:  # also for a token whose bytes are not text
            yield [piece.id for piece in old.backend_tokenizer.model.tokenize(token)]
        else:
            yield old(new.convert_tokens_to_string([token]), add_special_tokens=False)["input_ids"]


def _control_like(number: int | None, old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> int:
    """The new id of the control token whose old id is `number`."""
    for name in _CONTROLS:
        found: int | None = getattr(new, name)
        if getattr(old, name) == number and found is not None:
            return found
    raise ValueError(
        f"The decoder starts with entry {number}, which the new tokenizer has no counterpart of; set `tokenizer.method: keep`."
    )
