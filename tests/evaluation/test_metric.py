from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import (
    DataCollatorForSeq2Seq,
    GenerationConfig,
    MarianMTModel,
    PreTrainedTokenizerBase,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.evaluation.metric import TranslationMetric
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.translation.translate import translate


def test_the_metric_gives_the_scores_of_bleu_with_signatures() -> None:
    predictions, references = ["The cat sat on a mat."], ["The cat sat on the mat."]
    results = TranslationMetric("en").compute(predictions=predictions, references=references)
    expected = score(predictions, references, target_language="en", tokenized=False)
    for name, (points, signature) in expected.items():
        assert results[name] == pytest.approx(points)
        assert results[f"{name}_signature"] == signature


def test_batches_can_be_added_one_by_one() -> None:
    metric = TranslationMetric("en", tokenized=True)
    metric.add_batch(predictions=["a b c d"], references=["a b c d"])
    metric.add_batch(predictions=["e f g h"], references=["e f g x"])
    # 1-grams 7/8, 2-grams 5/6, 3-grams 3/4, 4-grams 1/2
    assert metric.compute()["sacrebleu"] == pytest.approx(100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25)


def test_the_trainer_scores_with_it(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, tmp_path: str) -> None:
    sources, references = ["A man reads.", "The house is old and dark."], ["The dogs run.", "Yes."]
    data = Dataset.from_dict({"input_ids": tokenizer(sources)["input_ids"], "labels": tokenizer(references)["input_ids"]})
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(str(tmp_path), predict_with_generate=True, report_to=[], use_cpu=True),
        eval_dataset=data,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        compute_metrics=TranslationMetric("en").for_trainer(tokenizer),
    )
    metrics = trainer.evaluate()
    expected = score(translate(model, tokenizer, sources), references, target_language="en", tokenized=False)
    assert metrics["eval_chrf"] == pytest.approx(expected["chrf"].score)
    assert {"eval_sacrebleu", "eval_paper_bleu"} <= metrics.keys()


def test_the_trainer_leaves_no_limit_in_a_model(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    """It writes all of the library's defaults, 20 tokens among them, into the settings of a model that it translates with."""
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset("tiny", vocab_size=len(tokenizer), **sizes)).eval()
    model.generation_config.update(num_beams=1, extra_length=40, min_new_tokens=30, allow_custom_entries=True)
    source = tokenizer("A man reads.", return_tensors="pt")
    before = model.generate(**source)
    ids = source["input_ids"][0].tolist()
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(str(tmp_path), predict_with_generate=True, report_to=[], use_cpu=True, per_device_eval_batch_size=1),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    )
    found = trainer.predict(Dataset.from_dict({"input_ids": [ids] * 3, "labels": [ids] * 3})).predictions
    assert before.shape[1] > 30 and [row[row >= 0].tolist() for row in torch.tensor(found)[:, : before.shape[1]]] == before.tolist() * 3
    assert torch.equal(model.generate(**source), before)
    trainer.predict(Dataset.from_dict({"input_ids": [ids], "labels": [ids]}))
    model.save_pretrained(tmp_path / "saved")
    assert "max_length" not in read_json(tmp_path / "saved" / "generation_config.json")
    model.generation_config.max_length = 25
    assert model.generate(**source, min_new_tokens=0).shape[1] <= 25
    fresh = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "saved")
    fresh.generation_config = GenerationConfig(max_length=20, extra_length=40, decoder_start_token_id=1, eos_token_id=2, pad_token_id=0)
    assert fresh.generate(**source).shape[1] <= 20  # somebody's own limit holds
