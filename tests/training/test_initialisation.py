"""Starting from another model: which vectors go where, and that nothing else changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_transformer.data.bpe import extend_tokenizer
from vaswani_transformer.files.checksums import write_checksums
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.interop.fairseq_tokenizer import fairseq_tokenizer
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import TRANSFER, RunFolder
from vaswani_transformer.shortlist import Shortlist
from vaswani_transformer.tokenizer_identity import tokenizer_hash
from vaswani_transformer.training.initialisation import exchange_vocabulary, write_initial_model

OLD_TEXTS = ["the cat sat on the mat"] * 3 + ["the hat"] * 3
NEW_TEXTS = ["le chat et la chatte"] * 3 + ["the chat"] * 3


@pytest.fixture(scope="module")
def old() -> PreTrainedTokenizerFast:
    return train_tokenizer(OLD_TEXTS, 270)


@pytest.fixture(scope="module")
def new() -> PreTrainedTokenizerFast:
    return train_tokenizer(NEW_TEXTS, 275)


def _model(tokenizer: PreTrainedTokenizerFast, **settings: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    return VaswaniForConditionalGeneration(VaswaniConfig.from_preset(
        "tiny", vocab_size=len(tokenizer), d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, **settings))  # fmt: skip


@pytest.mark.parametrize("tied", [True, False])
def test_common_entries_keep_their_vector_and_others_are_means(
    old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast, tied: bool
) -> None:
    model = _model(old, tie_word_embeddings=tied)
    exchanged, transfer = exchange_vocabulary(model, old, new, seed=1)
    common = set(old.get_vocab()) & set(new.get_vocab())
    assert (transfer.copied, transfer.composed, transfer.random) == (len(common), len(new) - len(common), 0)
    assert transfer.composed > 0
    pairs = [
        (model.get_input_embeddings(), exchanged.get_input_embeddings()),
        (model.lm_head, exchanged.lm_head),
    ]
    for before, after in pairs:
        for token, number in new.get_vocab().items():
            # What the old tokenizer makes of the characters a byte-level token spells; a leading "Ġ" is the space it adds itself
            pieces = [piece.id for piece in old.backend_tokenizer.model.tokenize(token)]
            expected = before.weight[pieces].mean(0) if token not in common else before.weight[old.get_vocab()[token]]
            torch.testing.assert_close(after.weight[number], expected)
    assert (exchanged.lm_head.weight is exchanged.get_input_embeddings().weight) is tied


def test_all_other_weights_stay(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> None:
    model = _model(old)
    exchanged, _ = exchange_vocabulary(model, old, new, seed=1)
    before, after = model.state_dict(), exchanged.state_dict()
    kept = [name for name in before if "layers" in name]
    assert kept
    assert all(torch.equal(before[name], after[name]) for name in kept)


def test_an_extended_vocabulary_computes_what_it_did(old: PreTrainedTokenizerFast) -> None:
    extended = extend_tokenizer(old, NEW_TEXTS, 280)
    assert len(extended) == 280
    assert {token: extended.get_vocab()[token] for token in old.get_vocab()} == old.get_vocab()
    assert extended.decode(extended("le chat")["input_ids"], skip_special_tokens=True) == "le chat"
    assert len(extended("la chatte")["input_ids"]) < len(old("la chatte")["input_ids"])
    model = _model(old).eval()
    exchanged, transfer = exchange_vocabulary(model, old, extended, seed=1)
    assert transfer.copied == len(old)
    ids = torch.tensor([old("the mat")["input_ids"]])
    expected = model(input_ids=ids, decoder_input_ids=ids).logits
    found = exchanged.eval()(input_ids=ids, decoder_input_ids=ids).logits
    torch.testing.assert_close(found[..., : len(old)], expected)


def test_start_and_end_move_with_their_role(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> None:
    model = _model(old, decoder_start_token_id=old.eos_token_id)
    exchanged, _ = exchange_vocabulary(model, old, new, seed=1)
    assert exchanged.config.decoder_start_token_id == new.eos_token_id
    assert exchanged.generation_config.decoder_start_token_id == new.eos_token_id


def test_a_vocabulary_that_is_full_cannot_be_extended(old: PreTrainedTokenizerFast) -> None:
    with pytest.raises(ValueError, match="has 270 entries already"):
        extend_tokenizer(old, NEW_TEXTS, 270)


def test_two_vocabularies_are_not_exchanged(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> None:
    model = _model(old, tie_word_embeddings=False, target_vocab_size=300)
    with pytest.raises(ValueError, match="method: keep"):
        exchange_vocabulary(model, old, new, seed=1)


def test_a_tokenizer_of_another_model_is_refused(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> None:
    with pytest.raises(ValueError, match="do not belong together"):
        exchange_vocabulary(_model(old), new, old, seed=1)


def test_another_architecture_is_refused(
    make_recipe: Callable[..., Recipe], run: RunFolder, tmp_path: Path, old: PreTrainedTokenizerFast
) -> None:
    config = MarianConfig(vocab_size=len(old), d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                          decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, pad_token_id=0)  # fmt: skip
    MarianMTModel(config).save_pretrained(tmp_path / "marian")
    recipe = make_recipe(fine={"init_from": str(tmp_path / "marian"), "model": {}})
    with pytest.raises(ValueError, match="'marian'; convert it first"):
        write_initial_model(recipe, run, old)


def test_a_damaged_model_is_refused(
    make_recipe: Callable[..., Recipe], run: RunFolder, tmp_path: Path, old: PreTrainedTokenizerFast
) -> None:
    _model(old).save_pretrained(tmp_path / "origin")
    old.save_pretrained(tmp_path / "origin")
    write_checksums(tmp_path / "origin")
    with (tmp_path / "origin" / "model.safetensors").open("r+b") as weights:
        weights.seek(-100, 2)
        weights.write(b"\xff" * 16)
    recipe = make_recipe(fine={"init_from": str(tmp_path / "origin"), "model": {}})
    with pytest.raises(ValueError, match=r"origin/model\.safetensors is damaged"):
        write_initial_model(recipe, run, old)
    assert not run.initial.exists()


def test_a_tokenizer_that_cannot_encode_targets_is_refused(
    make_recipe: Callable[..., Recipe],
    run: RunFolder,
    tmp_path: Path,
    old: PreTrainedTokenizerFast,
) -> None:
    _model(old, tie_word_embeddings=False, target_vocab_size=300).save_pretrained(tmp_path / "origin")
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "a"]
    fairseq_tokenizer(symbols, symbols, [], ("en", "de")).save_pretrained(tmp_path / "origin")
    recipe = make_recipe(fine={"init_from": str(tmp_path / "origin"), "model": {}})
    with pytest.raises(ValueError, match="cannot be trained further"):
        write_initial_model(recipe, run, old)
    assert not run.initial.exists()


def test_the_initial_folder_tells_where_vectors_came_from(
    make_recipe: Callable[..., Recipe],
    run: RunFolder,
    tmp_path: Path,
    old: PreTrainedTokenizerFast,
    new: PreTrainedTokenizerFast,
) -> None:
    _model(old).save_pretrained(tmp_path / "origin")
    old.save_pretrained(tmp_path / "origin")
    recipe = make_recipe(fine={"init_from": str(tmp_path / "origin"), "model": {}})
    transfer = write_initial_model(recipe, run, new)
    found = read_json(run.initial / TRANSFER)
    assert found["copied"] == transfer.copied
    assert VaswaniForConditionalGeneration.from_pretrained(run.initial).config.vocab_size == len(new)


def test_search_settings_of_what_the_new_model_lacks_are_left_out(
    make_recipe: Callable[..., Recipe], run: RunFolder, tmp_path: Path, old: PreTrainedTokenizerFast
) -> None:
    """A list for the searches of the old model, and drafts of heads that this training leaves out."""
    model = _model(old, parallel_heads=2)
    model.generation_config.update(
        shortlist=True, draft="heads", draft_shortlist=True, draft_tokens=1, num_beams=3, allow_custom_entries=True
    )
    model.shortlist = Shortlist(torch.full((len(old), 1), 5), torch.tensor([2]), len(old), {"tokenizer": tokenizer_hash(old)})
    model.save_pretrained(tmp_path / "origin")
    old.save_pretrained(tmp_path / "origin")
    recipe = make_recipe(fine={"init_from": str(tmp_path / "origin"), "model": {}})
    transfer = write_initial_model(recipe, run, old)
    assert "Its shortlist is left out" in str(transfer) and "Its parallel heads are left out" in str(transfer)
    found = read_json(run.initial / "generation_config.json")
    assert found["num_beams"] == 3 and not {"shortlist", "draft", "draft_shortlist", "draft_tokens"} & found.keys()
    started = VaswaniForConditionalGeneration.from_pretrained(run.initial)
    assert started.generate(torch.tensor([[5, 2]])).shape[0] == 1
