from collections.abc import Iterator

import pytest
from torch import Tensor, nn
from transformers import MarianMTModel, PreTrainedTokenizerBase

from vaswani_transformer.evaluation.translate import translate


@pytest.fixture
def batches(model: MarianMTModel) -> Iterator[list[tuple[int, int]]]:
    """(sentences, padded tokens a sentence) of every batch that reaches the encoder."""
    shapes: list[tuple[int, int]] = []

    def record(module: nn.Module, arguments: tuple[Tensor, ...], keywords: dict[str, Tensor]) -> None:
        rows, columns = keywords["input_ids"].shape
        shapes.append((rows, columns))

    handle = model.get_encoder().register_forward_pre_hook(record, with_kwargs=True)
    yield shapes
    handle.remove()


def test_batches_do_not_change_translations_or_their_order(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    together = translate(model, tokenizer, sentences)
    assert together == [translate(model, tokenizer, [sentence])[0] for sentence in sentences]
    assert together == translate(model, tokenizer, sentences, batch_tokens=30)
    assert (
        len(set(together)) == 7
    )  # six sentences and the blank ones: the untrained model tells them apart, so a wrong order would show


def test_a_batch_stays_within_its_padded_budget(
    model: MarianMTModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    batches: list[tuple[int, int]],
) -> None:
    translate(model, tokenizer, sentences, batch_tokens=40)
    assert sum(rows for rows, _ in batches) == 6  # two of the eight are blank
    assert all(rows * columns <= 40 or rows == 1 for rows, columns in batches)
    assert any(rows > 1 for rows, _ in batches)
    widths = [columns for _, columns in batches]
    assert widths == sorted(widths, reverse=True)


def test_a_sentence_longer_than_the_budget_goes_alone(
    model: MarianMTModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    batches: list[tuple[int, int]],
) -> None:
    translations = translate(model, tokenizer, sentences, batch_tokens=1)
    assert [rows for rows, _ in batches] == [1] * 6
    assert translations == translate(model, tokenizer, sentences)


def test_blank_sentences_never_reach_the_model(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, batches: list[tuple[int, int]]
) -> None:
    assert translate(model, tokenizer, ["", " ", "\n\t"]) == ["", "", ""]
    assert translate(model, tokenizer, []) == []
    assert batches == []


def test_search_settings_come_from_the_model_unless_named(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    short = translate(model, tokenizer, sentences[:2], max_new_tokens=2)
    default = translate(model, tokenizer, sentences[:2])
    model.generation_config.max_new_tokens = 2
    assert translate(model, tokenizer, sentences[:2]) == short != default


def test_dropout_is_off_and_the_mode_comes_back(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    expected = translate(model, tokenizer, sentences)
    assert not model.training
    model.train()
    assert translate(model, tokenizer, sentences) == expected
    assert model.training
    with pytest.raises(RuntimeError):
        translate(model, tokenizer, sentences, num_beams=-1)
    assert model.training


def test_the_progress_bar_counts_sentences(
    model: MarianMTModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    translate(model, tokenizer, sentences, progress=True)
    assert "8/8" in capsys.readouterr().err
    translate(model, tokenizer, sentences)
    assert capsys.readouterr().err == ""


def test_what_is_not_text_is_refused(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(TypeError, match="list of strings"):
        translate(model, tokenizer, "A man reads.")
    with pytest.raises(TypeError, match="Sentence 1 is 7"):
        translate(model, tokenizer, ["A man reads.", 7])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="batch_tokens"):
        translate(model, tokenizer, ["A man reads."], batch_tokens=0)
