"""CTranslate2 as one calls it: `Translator.translate_batch` on the names of tokens.

This file needs nothing but CTranslate2, so that a process of its own loads neither PyTorch nor this package.
"""

import json
from pathlib import Path
from typing import Any

import ctranslate2


class CTranslate2Contestant:
    """A folder that `export_ctranslate2` has written."""

    def __init__(
        self, folder: str, *, device: str, threads: int, extra_length: int, length_penalty: float, shortlist: bool = False
    ) -> None:
        """`length_penalty` is the power of the length; a translation may be `extra_length` tokens longer than the longest source."""
        self.shortlist = shortlist
        self.engine = ctranslate2.Translator(folder, device, inter_threads=1, intra_threads=threads)
        self.names = json.loads((Path(folder) / "shared_vocabulary.json").read_text(encoding="utf-8"))
        self.ids = {name: number for number, name in enumerate(self.names)}
        self.extra_length, self.length_penalty = extra_length, length_penalty

    def prepare(self, batch: list[list[int]]) -> list[list[str]]:
        return [[self.names[number] for number in sentence] for sentence in batch]

    def translate(self, batch: list[list[str]], beams: int, length: int | None = None) -> list[Any]:
        longest = max(map(len, batch)) + self.extra_length if length is None else length
        return self.engine.translate_batch(
            batch,
            beam_size=beams,
            length_penalty=self.length_penalty,
            min_decoding_length=length or 1,
            max_decoding_length=longest,
            max_input_length=0,
            max_batch_size=len(batch),
            use_vmap=self.shortlist,
        )

    def token_ids(self, results: list[Any]) -> list[list[int]]:
        return [[self.ids[name] for name in result.hypotheses[0]] for result in results]


load = CTranslate2Contestant
