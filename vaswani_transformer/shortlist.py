"""A vocabulary shortlist: for each token of a source, the few target tokens that its translation may hold (Jean et al., 2015, section 3.2).

A search scores only those tokens: the ones that were aligned with the source's tokens in the training data, and the most frequent of all.
The softmax is taken over the sentence's own list, as in Marian and CTranslate2, so what the model computes is what it would with the
scores of all other tokens at minus infinity. `vaswani shortlist` learns one from sentence pairs.

This file travels with checkpoints. Shapes: B sentences, S source positions, V target tokens, N tokens listed for each source token.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import cached_file

from .search_settings import is_own_module
from .tokenizer_identity import tokenizer_hash

SHORTLIST_FILE = "shortlist.safetensors"
"""Beside a checkpoint's weights."""

SHORTLIST_USES = ("shortlist", "draft_shortlist")
"""The settings of a search that need it: to search within it, and for parallel heads to propose its tokens only."""

NOTHING = -1
"""Fills the places behind a token's last listed one."""

BLOCK = 32
"""Batches get a multiple of so many columns, which a search reads faster."""


class Choice(NamedTuple):
    """The tokens that the translations of a batch may hold."""

    columns: torch.Tensor
    """`[n]`, the union of all sentences' lists in ascending order, and some tokens 0 to fill the last block."""
    forbidden: torch.Tensor
    """`[B, n]`, where a column is not in a sentence's own list."""

    def of_vocabulary(self, entries: int) -> torch.Tensor:
        """`[B, entries]`, where a token is not in a sentence's own list."""
        allowed = torch.zeros((len(self.forbidden), entries), dtype=torch.int8, device=self.forbidden.device)
        allowed.index_add_(1, self.columns, (~self.forbidden).to(torch.int8))
        return allowed == 0


class Shortlist:
    """For each source token a list of target tokens.

    Attributes:
        facts: `"tokenizer"`, the hash of the tokenizer whose ids these are, `"source_language"`, `"target_language"`, where known, and how
            the list was learned.
    """

    def __init__(self, listed: torch.Tensor, frequent: torch.Tensor, target_entries: int, facts: dict[str, str] | None = None) -> None:
        """Begin.

        Args:
            listed: `[source entries, N]`, the target tokens of each source token, best first, and `NOTHING` behind the last.
            frequent: `[n]`, target tokens that every translation may hold.
            target_entries: V.
            facts: see above.

        Raises:
            ValueError: an id is none of the V tokens.
        """
        for part, least in ((listed, NOTHING), (frequent, 0)):
            if part.numel() and not least <= int(part.min()) <= int(part.max()) < target_entries:
                raise ValueError(f"A shortlist holds ids outside the {target_entries} target tokens; make it again: vaswani shortlist.")
        self.listed, self.frequent, self.target_entries = listed.int(), frequent.int(), target_entries
        self.facts = dict(facts or {})
        # Fillers go to a column of their own, which is then cut off
        self._columns = torch.where(listed == NOTHING, target_entries, listed).long()
        self._always = torch.zeros(target_entries + 1, dtype=torch.bool)
        self._always[frequent.long()] = True

    def choose(self, source_ids: torch.Tensor, mask: torch.Tensor | None = None, further: Sequence[int] = ()) -> Choice:
        """The tokens for the translations of `source_ids` `[B, S]` under `mask` `[B, S]`, 0 on padding; `further` tokens suit them all.

        Raises:
            ValueError: a source has a token that the list does not know.
        """
        ids = source_ids.cpu()
        if not self.knows(ids):
            raise ValueError("A shortlist needs the token ids of the sources, as `input_ids`; pass them, or shortlist=False.")
        allowed = self._always.expand(len(ids), -1).clone(memory_format=torch.contiguous_format)
        found = self._columns.index_select(0, ids.flatten()).view(*ids.shape, self._columns.shape[1])
        if mask is not None and not bool(mask.all()):
            found = found.masked_fill(mask.cpu().eq(0).unsqueeze(-1), self.target_entries)
        allowed.scatter_(1, found.flatten(1), True)
        for token in further:
            allowed.select(1, token).fill_(True)
        allowed = allowed.narrow(1, 0, self.target_entries)
        columns = (allowed[0] if len(ids) == 1 else allowed.any(0)).nonzero().squeeze(-1)
        number, missing = len(columns), -len(columns) % BLOCK
        forbidden = torch.ones((len(ids), number + missing), dtype=torch.bool)
        if len(ids) == 1:
            forbidden.narrow(1, 0, number).fill_(False)
        else:
            torch.logical_not(allowed.index_select(1, columns), out=forbidden.narrow(1, 0, number))
        columns = torch.constant_pad_nd(columns, (0, missing))
        return Choice(columns.to(source_ids.device), forbidden.to(source_ids.device))

    def knows(self, source_ids: torch.Tensor) -> bool:
        """Whether these are tokens of sources `[B, S]`, and all in the list; what a search gets in the place of tokens is neither."""
        if source_ids.ndim != 2 or source_ids.is_floating_point():
            return False
        if not source_ids.numel():
            return True
        least, most = torch.aminmax(source_ids)
        return 0 <= int(least) <= int(most) < len(self._columns)

    def to_bytes(self) -> bytes:
        """The content of a `SHORTLIST_FILE`."""
        tensors = {"listed": self.listed.contiguous(), "frequent": self.frequent.contiguous()}
        return save(tensors, {**self.facts, "target_entries": str(self.target_entries)})

    @classmethod
    def read(cls, path: str | Path) -> "Shortlist":
        """Read what `to_bytes` gave.

        Raises:
            ValueError: the file is damaged or no shortlist.
        """
        try:
            with safe_open(path, framework="pt") as file:
                facts = dict(file.metadata() or {})
                listed, frequent = file.get_tensor("listed"), file.get_tensor("frequent")
                entries = int(facts.pop("target_entries"))
        except (SafetensorError, KeyError, ValueError) as error:
            raise ValueError(f"{path} is damaged or no shortlist ({error}); make it again: vaswani shortlist.") from error
        return cls(listed, frequent, entries, facts)

    def check(self, config: Any, tokenizer: PreTrainedTokenizerBase | None, where: str) -> None:
        """Refuse a shortlist that was made for another model than the one with this `config` and `tokenizer`.

        Raises:
            ValueError: it has other vocabularies, or its ids are another tokenizer's.
        """
        sizes, own = (len(self.listed), self.target_entries), (config.vocab_size, config.decoder_entries)
        if sizes != own:
            raise ValueError(
                f"The shortlist in {where} is for {sizes[0]} source and {sizes[1]} target tokens, and the model has {own[0]} and "
                f"{own[1]}; make its own: vaswani shortlist."
            )
        if tokenizer is not None and self.facts.get("tokenizer") != tokenizer_hash(tokenizer):
            raise ValueError(
                f"The shortlist in {where} was learned with another tokenizer than this model's; make its own: vaswani shortlist."
            )

    def check_languages(self, source: str | None, target: str | None) -> None:
        """Refuse to translate from `source` into `target` with a list for other languages; `None` is one that is not known.

        Raises:
            ValueError: they differ.
        """
        for asked, name in ((source, "source_language"), (target, "target_language")):
            own = self.facts.get(name)
            if asked and own and asked not in own.split():
                known = f"from {self.facts.get('source_language', '?')} into {self.facts.get('target_language', '?')}"
                raise ValueError(
                    f"The shortlist is for translations {known}, not for {asked}; make one for your languages (vaswani shortlist), or pass "
                    "shortlist=False."
                )


def check_shortlist_languages(model: Any, search: Mapping[str, Any], source: str | None, target: str | None) -> None:
    """Refuse a search of one of our models in PyTorch within a shortlist that was learned from other languages; see `check_languages`.

    Args:
        model: any.
        search: settings of `generate`.
        source, target: the languages that are asked for.
    """
    settings = search.get("generation_config") or getattr(model, "generation_config", None)
    if is_own_module(model) and search.get("shortlist", getattr(settings, "shortlist", None)):
        shortlist_of(model).check_languages(source, target)


def shortlist_of(model: Any, setting: str = "shortlist") -> Shortlist:
    """The shortlist beside the weights that `model` was loaded from; read and checked once.

    Args:
        model: one of ours in PyTorch.
        setting: which setting of a search asks for it.

    Raises:
        ValueError: there is none, or it is damaged or for another model.
    """
    if model.shortlist is None:
        where, options = model.name_or_path, {"_commit_hash": getattr(model.config, "_commit_hash", None)}
        path = cached_file(where, SHORTLIST_FILE, _raise_exceptions_for_missing_entries=False, **options) if where else None
        if path is None:
            place = where or "This model, which comes from no folder,"
            raise ValueError(
                f"{place} has no {SHORTLIST_FILE}, which the setting `{setting}` asks for; make it with the command "
                f"vaswani shortlist, or pass {setting}=False."
            )
        found = Shortlist.read(path)
        found.check(model.config, AutoTokenizer.from_pretrained(where, config=model.config, **options), where)
        model.shortlist = found
    return model.shortlist


__all__ = ["Shortlist"]
