import pytest
from datasets import Dataset
from transformers import (
    DataCollatorForSeq2Seq,
    MarianMTModel,
    PreTrainedTokenizerBase,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.evaluation.metric import TranslationMetric
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
