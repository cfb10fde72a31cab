"""A checkpoint's shortlist becomes CTranslate2's vocabulary map, and the engine searches within it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.data.shortlisting import save_shortlist
from vaswani_transformer.shortlist import Shortlist
from vaswani_transformer.tokenizer_identity import tokenizer_hash

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
from vaswani_transformer.interop.ctranslate2 import VMAP, CTranslate2Model
from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

Saved = Callable[..., tuple[Path, VaswaniForConditionalGeneration]]


def shortlist_for(tokenizer: PreTrainedTokenizerBase) -> Shortlist:
    draw = torch.Generator().manual_seed(1)
    listed = torch.randint(3, len(tokenizer), (len(tokenizer), 6), generator=draw)
    listed[:3] = -1
    # The engine always allows the start and its name for unknown tokens, too: our start and padding
    return Shortlist(listed, torch.tensor([0, 1, 2]), len(tokenizer), {"tokenizer": tokenizer_hash(tokenizer)})


def test_the_engine_finds_ours_within_the_list(saved: Saved, tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    folder, _ = saved()
    save_shortlist(folder, shortlist_for(tokenizer))
    engine = CTranslate2Model.from_pretrained(export_ctranslate2(folder, tmp_path / "out"), device="cpu", intra_threads=1)
    model = VaswaniForConditionalGeneration.from_pretrained(folder)
    differ = 0
    for text in ("A man reads.", "The house is old.", "Yes.", "A woman in a red coat reads a book."):
        given = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
        settings = {"num_beams": 1, "max_new_tokens": 8}
        found, expected = (translator.generate(**given, **settings, shortlist=True).tolist() for translator in (engine, model))
        assert found == expected
        differ += found != engine.generate(**given, **settings).tolist()
    assert differ


def test_the_map_is_in_the_engines_form(saved: Saved, tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    folder, _ = saved()
    shortlist = shortlist_for(tokenizer)
    save_shortlist(folder, shortlist)
    lines = (export_ctranslate2(folder, tmp_path / "out") / VMAP).read_text(encoding="utf-8").split("\n")
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert lines[0] == "\t<pad> <s> </s>"
    assert lines[1] == f"{names[3]}\t{' '.join(names[token] for token in shortlist.listed[3].tolist())}"
    assert len(lines) == 1 + len(tokenizer) - 3 + 1  # tokens that list nothing have no line


def test_an_export_without_one_says_so(saved: Saved, tmp_path: Path) -> None:
    folder, _ = saved()
    engine = CTranslate2Model.from_pretrained(export_ctranslate2(folder, tmp_path / "out"), device="cpu", intra_threads=1)
    with pytest.raises(ValueError, match=r"has no vmap\.txt"):
        engine.generate(torch.tensor([[5, 2]]), shortlist=True)
