import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn
from transformers import MarianMTModel, PreTrainedTokenizerBase

from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.translation.loading import load_checkpoint
from vaswani_transformer.translation.translate import Failure, Outcome, Translation, Translator, check_search, translate


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
    assert len(set(together)) == 7  # six sentences and the blank ones: the untrained model tells them apart, so a wrong order would show


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


def test_dropout_is_off_and_the_mode_comes_back(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> None:
    expected = translate(model, tokenizer, sentences)
    assert not model.training
    model.train()
    assert translate(model, tokenizer, sentences) == expected
    assert model.training
    with pytest.raises(ValueError, match="max_new_tokens"):
        translate(model, tokenizer, sentences, max_new_tokens=-1)
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


def test_half_a_character_is_named(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ValueError, match=r"Sentence 1 cannot be translated: half a surrogate pair at character 3, which is not text\."):
        translate(model, tokenizer, ["A man reads.", "ab\ud800"])
    found = outcomes(Translator(model, tokenizer), ["A man reads.", "ab\ud800", ""])
    assert found[1] == Failure("half a surrogate pair at character 3, which is not text")
    assert found[::2] == outcomes(Translator(model, tokenizer), ["A man reads.", ""])


def test_a_sentence_beyond_a_learned_table_of_positions_is_named(checkpoint: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    model, _ = load_checkpoint(checkpoint)
    assert model.config.most_positions == 60
    fits, too_long = "a" * 59, "a" * 60
    assert [len(ids) for ids in tokenizer([fits, too_long])["input_ids"]] == [60, 61]
    assert len(translate(model, tokenizer, [fits])) == 1
    with pytest.raises(ValueError, match=r"^Sentence 2 has 61 tokens, and the model has positions for 60; shorten it\.$"):
        translate(model, tokenizer, [fits, "", too_long])


def test_the_bar_says_what_is_done(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, capsys: pytest.CaptureFixture[str]) -> None:
    translate(model, tokenizer, ["A man reads."], progress=True)
    assert "Translating: 100%" in capsys.readouterr().err
    translate(model, tokenizer, ["A man reads."], progress=True, description="Writing")
    assert "Writing: 100%" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ({"num_beams": 0}, "`num_beams` is 0; it must be a whole number from 1."),
        ({"num_beams": "many"}, "`num_beams` is 'many'; it must be a whole number from 1."),
        ({"length_penalty": "x"}, "`length_penalty` is 'x'; it must be a number."),
        ({"num_return_sequences": -1}, "`num_return_sequences` is -1; it must be a whole number from 1."),
        ({"num_beams": 2, "num_return_sequences": 3}, "3 translations a sentence need as many beams, and `num_beams` is 2."),
    ],
)
def test_a_search_that_cannot_be_is_refused_before_a_model_is_asked(search: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        check_search(search)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Translator(None, None, **search)  # type: ignore[arg-type]


def outcomes(translator: Translator, sentences: list[str]) -> list[Outcome]:
    found = dict(translator(sentences))
    return [found[index] for index in range(len(sentences))]


def test_a_translator_agrees_with_translate(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> None:
    expected = translate(model, tokenizer, sentences)
    found = outcomes(Translator(model, tokenizer, batch_tokens=60), sentences)
    assert found == [[Translation(text, None)] for text in expected]


def test_hypotheses_and_scores_are_those_of_generate(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    search = {"num_beams": 3, "num_return_sequences": 2}
    found = outcomes(Translator(model, tokenizer, scores=True, **search), sentences)
    for sentence, outcome in zip(sentences, found, strict=True):
        assert isinstance(outcome, list)
        if not sentence.strip():
            assert outcome == [Translation("", None)] * 2
            continue
        inputs = tokenizer(sentence, return_tensors="pt")
        output = model.generate(**inputs, **search, return_dict_in_generate=True, output_scores=True)
        texts = tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        assert [hypothesis.text for hypothesis in outcome] == texts
        assert [hypothesis.score for hypothesis in outcome] == pytest.approx(output.sequences_scores.tolist())


def test_a_search_without_scores_says_so(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ValueError, match="2 beams or more"):
        Translator(model, tokenizer, scores=True, num_beams=1)


def test_a_sentence_that_the_model_cannot_translate_fails_alone(
    model: MarianMTModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = outcomes(Translator(model, tokenizer), sentences)
    generate, poison = model.generate, tokenizer(sentences[5])["input_ids"]
    asked: list[int] = []

    def refuse(input_ids: Tensor, **kwargs: Any) -> Any:
        asked.append(len(input_ids))
        if any(row[: len(poison)] == poison for row in input_ids.tolist()):
            raise IndexError("index out of range\nin self")
        return generate(input_ids=input_ids, **kwargs)

    monkeypatch.setattr(model, "generate", refuse)
    found = outcomes(Translator(model, tokenizer), sentences)
    assert found[5] == Failure("IndexError: index out of range in self")
    assert found[:5] + found[6:] == expected[:5] + expected[6:]
    # The probe, the batch, halves until the sentence, the second longest, is alone; the probe again at its end.
    assert asked == [1, 6, 3, 1, 2, 1, 1, 3, 1]


def test_a_model_that_broke_stops_everything(
    model: MarianMTModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = Translator(model, tokenizer)

    def broken(**kwargs: Any) -> Any:
        raise RuntimeError("the device is lost")

    monkeypatch.setattr(model, "generate", broken)
    with pytest.raises(RuntimeError, match="the device is lost"):
        list(translator(sentences))
    with pytest.raises(RuntimeError, match="the device is lost"):
        Translator(model, tokenizer)


def test_the_longest_sentence_is_limited(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, batches: list[tuple[int, int]]) -> None:
    translator = Translator(model, tokenizer, max_source_tokens=20)
    found = outcomes(translator, ["Yes.", "y" * 2**20])
    assert isinstance(found[0], list)
    assert isinstance(found[1], Failure)
    assert found[1].reason.endswith("tokens are more than the 20 of max_source_tokens; split the text into sentences")
    assert max(columns for _, columns in batches) <= 20
    with pytest.raises(ValueError, match="max_source_tokens"):
        Translator(model, tokenizer, max_source_tokens=0)


def test_the_target_language_goes_before_each_sentence(model: MarianMTModel, sentences: list[str], batches: list[tuple[int, int]]) -> None:
    tokenizer = train_tokenizer(sentences * 4, 300, target_languages=["de", "fr"])
    rows = translate(model, tokenizer, sentences, target_language="fr")
    assert max(columns for _, columns in batches) == 1 + max(map(len, tokenizer(sentences)["input_ids"]))
    assert rows != translate(model, tokenizer, sentences, target_language="de")
    translator = Translator(model, tokenizer, target_language="fr")
    outcomes = dict(translator(sentences))
    assert [outcomes[index][0].text for index in range(len(sentences))] == rows  # type: ignore[union-attr]
    for call in (lambda: translate(model, tokenizer, sentences), lambda: Translator(model, tokenizer)):
        with pytest.raises(ValueError, match=r"needs the target language; choose one of de, fr"):
            call()


def test_a_model_of_one_language_is_not_asked_for_it(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"no choice of target languages, so 'fr'"):
        translate(model, tokenizer, sentences, target_language="fr")
