"""Checkpoints are complete folders, ordered by number, and only the last ones stay."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from vaswani_transformer.configuration_vaswani import VaswaniConfig
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani_transformer.recipe import SearchSettings
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.checkpoints import list_checkpoints, save_checkpoint, set_search


@pytest.fixture
def model() -> VaswaniForConditionalGeneration:
    sizes = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    return VaswaniForConditionalGeneration(VaswaniConfig.from_preset("tiny", vocab_size=259, **sizes))


def test_only_the_last_ones_stay(run: RunFolder, model: VaswaniForConditionalGeneration) -> None:
    tokenizer = train_tokenizer(["a b", "c d"], 259)
    for update in (8, 9, 10, 11):  # as text, "9" would come after "10"
        save_checkpoint(run, update, model, tokenizer, keep=2)
    assert [path.name for path in list_checkpoints(run)] == ["step-10", "step-11"]
    save_checkpoint(run, 12, model, tokenizer, keep=0)
    assert [path.name for path in list_checkpoints(run)] == ["step-12"]


def test_a_checkpoint_loads_with_weights_search_and_tokenizer(
    run: RunFolder, model: VaswaniForConditionalGeneration
) -> None:
    set_search(
        model, SearchSettings(num_beams=3, length_penalty=0.8, length_penalty_type="gnmt", extra_length=7)
    )
    tokenizer = train_tokenizer(["a b", "c d"], 259)
    path = save_checkpoint(run, 1, model, tokenizer, keep=1)
    loaded = VaswaniForConditionalGeneration.from_pretrained(path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    search = loaded.generation_config
    assert (search.num_beams, search.length_penalty) == (3, 0.8)
    assert (search.length_penalty_type, search.extra_length) == ("gnmt", 7)
    assert AutoTokenizer.from_pretrained(path)("a b")["input_ids"] == tokenizer("a b")["input_ids"]
    assert not list(path.rglob("*.bin"))


def test_no_checkpoints_yet(tmp_path: Path) -> None:
    assert list_checkpoints(RunFolder(tmp_path / "nowhere")) == []
