"""What the contestants find is what the models behind them find."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MarianMTModel, PreTrainedTokenizerBase

from benchmarks.translation.contestants import KINDS, ON_CPU, Entry, enter
from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.interop.marian import export_marian
from vaswani_transformer.packing import PackedLinear

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
from vaswani_transformer.interop.ctranslate2 import CTranslate2Model

Batch = list[list[int]]


@pytest.fixture(scope="module")
def batch(tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> Batch:
    return tokenizer([sentence for sentence in sentences if sentence.strip()])["input_ids"]


@pytest.fixture(scope="module")
def entries(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    names = [*ON_CPU, "marian-bf16", "ours-bf16"]
    entered = enter(names, checkpoint, tmp_path_factory.mktemp("exports"), device="cpu", threads=1)
    return {entry.name: entry for entry in entered}


def translated(entry: Entry, batch: Batch, beams: int) -> Batch:
    contestant = entry.load()
    return contestant.token_ids(contestant.translate(contestant.prepare(batch), beams))


def expected(model: Any, batch: Batch, **settings: int) -> Batch:
    """Sentence by sentence, without start and end."""
    found = [model.generate(torch.tensor([sentence]), **settings)[0].tolist()[1:] for sentence in batch]
    return [tokens[: tokens.index(2)] if 2 in tokens else tokens for tokens in found]


@pytest.mark.parametrize("beams", [1, 4])
def test_ours_search_as_the_checkpoint_says(beams: int, entries: dict[str, Entry], checkpoint: Path, batch: Batch) -> None:
    model = VaswaniForConditionalGeneration.from_pretrained(checkpoint).eval()
    own = expected(model, batch, num_beams=beams)
    assert any(own) and max(map(len, own)) <= max(map(len, batch)) + 6
    assert translated(entries["ours"], batch, beams) == own
    assert translated(entries["ours-packed"], batch, beams) == own


@pytest.mark.parametrize("beams", [1, 4])
def test_marian_searches_as_its_folder_says(beams: int, entries: dict[str, Entry], checkpoint: Path, batch: Batch, tmp_path: Path) -> None:
    """One sentence, so that the limit is the same alone and in a batch."""
    model = MarianMTModel.from_pretrained(export_marian(checkpoint, tmp_path / "marian")).eval()
    limit = len(batch[0]) + 6
    own = expected(model, batch[:1], num_beams=beams, max_new_tokens=limit)
    assert translated(entries["marian"], batch[:1], beams) == own


def test_ctranslate2_finds_greedily_what_marian_finds(entries: dict[str, Entry], batch: Batch) -> None:
    assert translated(entries["ctranslate2"], batch, 1) == translated(entries["marian"], batch, 1)


@pytest.mark.parametrize("beams", [1, 4])
def test_ctranslate2_searches_as_the_checkpoint_says(beams: int, entries: dict[str, Entry], batch: Batch) -> None:
    folder = entries["ctranslate2-as-ours"].arguments["folder"]
    assert folder == entries["ctranslate2"].arguments["folder"]
    model = CTranslate2Model.from_pretrained(folder)
    own = expected(model, batch, num_beams=beams)
    assert translated(entries["ctranslate2-as-ours"], batch, beams) == own


@pytest.mark.parametrize("name", [*ON_CPU, "ours-bf16"])
def test_everybody_translates_within_the_limits(name: str, entries: dict[str, Entry], batch: Batch) -> None:
    found = translated(entries[name], batch, 4)
    assert len(found) == len(batch)
    assert all(len(tokens) <= max(map(len, batch)) + 6 for tokens in found)
    assert all(2 not in tokens for tokens in found)


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("name", [*ON_CPU, "ours-bf16"])
def test_everybody_takes_as_many_steps_as_asked(name: str, beams: int, entries: dict[str, Entry], batch: Batch) -> None:
    contestant = entries[name].load()
    found = contestant.token_ids(contestant.translate(contestant.prepare(batch), beams, 5))
    assert [len(tokens) for tokens in found] == [5] * len(batch)


def test_each_is_what_its_name_says(entries: dict[str, Entry]) -> None:
    types = {name: entries[name].load().model.dtype for name in ("marian", "marian-bf16", "ours-bf16")}  # type: ignore[attr-defined]
    assert types == {"marian": torch.float32, "marian-bf16": torch.bfloat16, "ours-bf16": torch.bfloat16}
    packed = entries["ours-packed-int8"].load().model  # type: ignore[attr-defined]
    assert any(isinstance(module, PackedLinear) for module in packed.modules())
    engines = {name: entries[name].load().engine for name in ("ctranslate2", "ctranslate2-int8")}  # type: ignore[attr-defined]
    assert engines["ctranslate2"].compute_type == "float32"
    assert engines["ctranslate2-int8"].compute_type.startswith("int8")
    # GNMT's 0.6, as the power that grows alike at 20 tokens
    assert entries["ctranslate2"].arguments["length_penalty"] == pytest.approx(0.6 * 20 / 25)
    assert {entry.arguments["extra_length"] for entry in entries.values()} == {6}


def test_a_translation_that_never_ends_keeps_its_last_tokens(entries: dict[str, Entry]) -> None:
    rows = [[1, 7, 8, 2, 0, 0], [1, 7, 8, 9, 0, 0], [1, 2, 0, 0, 0, 0], [1, 7, 0, 9, 2, 2]]
    assert entries["ours"].load().token_ids(rows) == [[7, 8], [7, 8, 9], [], [7, 0, 9]]


def test_who_cannot_enter_is_told_why(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no contestant 'fairseq'; choose from marian, "):
        enter(["marian", "fairseq"], checkpoint, tmp_path, device="cpu", threads=1)
    with pytest.raises(ValueError, match="Packed weights are for CPUs; leave out ours-packed-int8"):
        enter(["ours-packed-int8"], checkpoint, tmp_path, device="cuda", threads=1)
    assert not list(tmp_path.iterdir())
    assert len({kind.title for kind in KINDS.values()}) == len(KINDS)
