"""Models without a decoder, and those that write other texts than translations, are published by the same verb."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from vaswani_transformer import (
    VaswaniConfig,
    VaswaniEncoderModel,
    VaswaniForConditionalGeneration,
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
    add_mask_token,
    train_tokenizer,
)
from vaswani_transformer.hub.clean_process import AUTO_CLASSES
from vaswani_transformer.hub.publish import PublishError, check, find_faults, list_files, publish, require_translator
from vaswani_transformer.recipe import parse_recipe
from vaswani_transformer.task_of_folder import ON_ENCODER, TEXT_TO_TEXT, task_of
from vaswani_transformer.training.building import build_model

SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "id2label": {0: "runs", 1: "reads"},
}  # fmt: skip
KINDS: dict[str, type[Any]] = {
    "text-classification": VaswaniForSequenceClassification,
    "token-classification": VaswaniForTokenClassification,
    "question-answering": VaswaniForQuestionAnswering,
    "fill-mask": VaswaniForMaskedLM,
    "feature-extraction": VaswaniEncoderModel,
    "summarization": VaswaniForConditionalGeneration,
}


def saved(folder: Path, task: str) -> Path:
    tokenizer = train_tokenizer(["a man is reading a book", "a dog runs"] * 3, 265)
    if task == "fill-mask":
        tokenizer = add_mask_token(tokenizer)
    torch.manual_seed(0)
    config = VaswaniConfig(vocab_size=len(tokenizer), **SIZES)
    if task in TEXT_TO_TEXT:
        config.task_specific_params = {task: {"max_new_tokens": 4}}
    KINDS[task](config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(f"---\npipeline_tag: {task}\n---\n# A model\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("task", list(KINDS))
def test_a_folder_tells_its_task(task: str, tmp_path: Path) -> None:
    folder = saved(tmp_path, task)
    assert task_of(folder) == task
    assert any(file.name == "generation_config.json" for file in list_files(folder)) == (task in TEXT_TO_TEXT)
    config = json.loads((folder / "config.json").read_text())
    assert config["auto_map"][AUTO_CLASSES.get(task, "AutoModelForSeq2SeqLM")].endswith(f".{KINDS[task].__name__}")


@pytest.mark.parametrize("task", ["text-classification", "question-answering"])
def test_a_folder_is_tried_in_a_process_without_the_package(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(saved(tmp_path, task), "somebody/toy", dry_run=True)
    said = capsys.readouterr().out
    assert f"Loaded in a process without the package; its {task} of 'A man is reading a book.' is '" in said
    assert "would be uploaded" in said
    assert "generation_config.json" not in said


@pytest.mark.parametrize("sentence", ["A<mask> man<mask> reads a book.", "A man reads a book.<mask>", "A man reads a book."])
def test_a_masked_model_is_tried_on_one_mask(sentence: str, tmp_path: Path) -> None:
    """The samples of a pretraining's scores are masked already, some of them several times."""
    folder = saved(tmp_path, "fill-mask")
    (folder / "evaluation.json").write_text(json.dumps({"test_sets": [{"samples": [{"source": sentence}]}]}), encoding="utf-8")
    tried, said = check(folder)
    assert tried == sentence and "man reads a book." in said


@pytest.mark.parametrize("content", [b"license: [oops", b"license: \xff", b"oops", b"1: x"])
def test_a_card_that_cannot_be_read_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    folder = saved(tmp_path, "text-classification")
    card = folder / "README.md"
    card.write_bytes(b"---\n" + content + b"\n---\n# A model\n")
    with pytest.raises(
        PublishError, match=r"README\.md cannot be read as a model card \(.*\); save it as UTF-8, with the Hub's metadata"
    ) as error:
        publish(folder)
    assert "\n" not in str(error.value)


def test_the_card_names_the_task_of_the_model(tmp_path: Path) -> None:
    folder = saved(tmp_path, "token-classification")
    card = folder / "README.md"
    card.write_text("---\npipeline_tag: text-classification\n---\n", encoding="utf-8")
    with pytest.raises(PublishError, match="has `pipeline_tag: text-classification`, but this model is one for token-classification"):
        publish(folder)
    card.write_text("---\npipeline_tag: keypoint-detection\n---\n", encoding="utf-8")
    assert card in list_files(folder)


def test_a_translator_lacks_its_search(tmp_path: Path) -> None:
    folder = saved(tmp_path, "summarization")
    (folder / "generation_config.json").unlink()
    with pytest.raises(PublishError, match=r"generation_config\.json is missing"):
        publish(folder)


def test_a_space_translates_and_does_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="holds a model for text-classification, and a Space translates; publish the model itself"):
        require_translator(saved(tmp_path, "text-classification"))


def test_a_useless_classifier_is_found_out(tmp_path: Path) -> None:
    folder = saved(tmp_path, "text-classification")
    test_sets = [{"name": "toy", "metrics": {"accuracy": {"score": 0.0}, "macro_f1": {"score": 0.0}}}]
    (folder / "evaluation.json").write_text(json.dumps({"test_sets": test_sets}), encoding="utf-8")
    assert find_faults(folder, "runs") == ["its accuracy on toy is 0"]
    assert find_faults(folder, "")[0] == "its text-classification of the sentence above is empty"


@pytest.mark.parametrize(("task", "tag"), [("summarization", "summarization"), ("question_answering", "text2text-generation")])
def test_a_trained_folder_offers_the_pipeline_of_its_card(task: str, tag: str, tmp_path: Path) -> None:
    lines = {"format": "lines", "source": "a", "target": "b"}
    data = {"root": str(tmp_path), "train": [lines], "validation": lines, "test": {}}
    recipe = parse_recipe({
        "name": "toy", "task": task, "source_language": "en", "data": data,
        "tokenizer": {"vocab_size": 300}, "model": {"preset": "tiny", "encoder_layers": 1, "decoder_layers": 1},
        "training": {"updates": 1},
    })  # fmt: skip
    build_model(recipe, 300, torch.device("cpu")).save_pretrained(tmp_path)
    assert task_of(tmp_path) == tag == recipe.pipeline_tag


def test_every_model_on_the_encoder_has_a_task() -> None:
    assert {kind.__name__: task for task, kind in KINDS.items() if task not in TEXT_TO_TEXT} == ON_ENCODER
