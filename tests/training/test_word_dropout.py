"""Word dropout blanks what a model reads, and neither what it predicts nor what it is validated on."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.batching import IGNORED_LABEL
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.languages import target_languages
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.dropout import WordDropout, word_dropout
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.loss import TranslationLoss, target_positions

BLANK, END = 0, 2
SOURCE = torch.tensor([[5, 6, 7, 8, END], [9, 10, END, 0, 0]])
LABELS = torch.tensor([[11, 12, 13, END], [14, END, IGNORED_LABEL, IGNORED_LABEL]])


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_rate_is_right_and_special_tokens_stay(rate: float) -> None:
    torch.manual_seed(0)
    ids = torch.randint(1, 9, (400, 500))
    changed = WordDropout(rate, BLANK, kept_ids=[1, END]).train()(ids)
    kept = (ids == 1) | (ids == END)
    assert torch.equal(changed[kept], ids[kept])
    blanked = changed[~kept] == BLANK
    assert torch.equal(changed[~kept][~blanked], ids[~kept][~blanked])
    five_deviations = 5 * (rate * (1 - rate) / blanked.numel()) ** 0.5
    assert blanked.double().mean().item() == pytest.approx(rate, abs=five_deviations)


def test_nothing_is_blanked_outside_training() -> None:
    assert WordDropout(0.9, BLANK).eval()(SOURCE) is SOURCE
    assert WordDropout(0.0, BLANK).train()(SOURCE) is SOURCE


class _Reader(nn.Module):
    """Keeps what a model was given."""

    def __init__(self, model: VaswaniForConditionalGeneration) -> None:
        super().__init__()
        self.seen: dict[str, Tensor] = {}
        model.base_model.register_forward_pre_hook(lambda _, arguments, named: self.seen.update(named), with_kwargs=True)


def _loss(r_drop: float, rate: float) -> tuple[TranslationLoss, _Reader]:
    torch.manual_seed(1)
    size = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = VaswaniConfig(vocab_size=20, encoder_ffn_dim=8, decoder_ffn_dim=8, dropout=0.0, **size)
    model = VaswaniForConditionalGeneration(config)
    reader = _Reader(model)
    return TranslationLoss(model, 0.1, r_drop=r_drop, words=WordDropout(rate, BLANK, [0, 1, END])), reader


def _run(loss: TranslationLoss) -> float:
    torch.manual_seed(3)
    return loss(SOURCE, (SOURCE != 0).long(), LABELS, target_positions(LABELS)).plain.item()


def test_the_model_reads_blanks_and_predicts_every_token() -> None:
    loss, reader = _loss(r_drop=0.0, rate=0.999)
    _run(loss.train())
    seen = reader.seen
    assert seen["input_ids"].tolist() == [[0, 0, 0, 0, END], [0, 0, END, 0, 0]]
    assert seen["decoder_input_ids"][:, 1:].tolist() == [[0, 0, 0], [0, END, 0]]
    assert seen["decoder_input_ids"][:, 0].tolist() == [loss.model.config.decoder_start_token_id] * 2
    assert torch.equal(seen["attention_mask"], (SOURCE != 0).long())
    losses = loss(SOURCE, (SOURCE != 0).long(), LABELS, target_positions(LABELS))
    assert losses.plain.item() > 6 * 2  # six tokens, none left out, each about as unlikely as one of 20


def test_both_passes_of_r_drop_have_their_own_blanks() -> None:
    loss, reader = _loss(r_drop=1.0, rate=0.5)
    _run(loss.train())
    first, second = reader.seen["input_ids"].chunk(2)
    assert not torch.equal(first, second)


def test_validation_reads_every_word() -> None:
    blanking, reader = _loss(r_drop=0.0, rate=0.9)
    plain, _ = _loss(r_drop=0.0, rate=0.0)
    assert _run(blanking.eval()) == _run(plain.eval())
    assert torch.equal(reader.seen["input_ids"], SOURCE)


def test_a_tokenizer_with_a_token_for_the_unknown_blanks_with_it(tokenizer: PreTrainedTokenizerBase) -> None:
    assert word_dropout(0.1, tokenizer).blank_id == tokenizer.pad_token_id
    tokenizer.unk_token = "a"
    assert word_dropout(0.1, tokenizer).blank_id == tokenizer.convert_tokens_to_ids("a")


def test_the_token_of_the_target_language_stays() -> None:
    tokenizer = train_tokenizer(["one two three four", "five six"] * 50, 300, target_languages=["fr", "de"])
    kept = {*tokenizer.all_special_ids, *target_languages(tokenizer).values()}
    assert len(kept) == 5
    blanking = word_dropout(0.99, tokenizer).train()
    ids = torch.tensor([*kept]).repeat(100)
    assert torch.equal(blanking(ids), ids)


def test_resuming_changes_no_bit(make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make_recipe(word_dropout=0.2))


def test_it_changes_what_is_learnt(make_recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    runs = [RunFolder(tmp_path / str(rate)) for rate in (0.0, 0.2)]
    for run, rate in zip(runs, (0.0, 0.2), strict=True):
        train(make_recipe(updates=4, word_dropout=rate), run)
    weights = [(run.averaged / "model.safetensors").read_bytes() for run in runs]
    assert weights[0] != weights[1]
