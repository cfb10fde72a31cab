"""transformers' own example scripts, unchanged, on a folder of ours: each trains on a tiny set, and a pipeline takes what it saved.

The environment variable TRANSFORMERS_SOURCE names a clone of transformers' repository. (The source archive has no examples.)
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer

EXAMPLES = Path(os.environ.get("TRANSFORMERS_SOURCE", "")).absolute() / "examples" / "pytorch"
if "TRANSFORMERS_SOURCE" not in os.environ or not EXAMPLES.is_dir():
    pytest.skip("TRANSFORMERS_SOURCE names no clone of transformers' repository with its examples", allow_module_level=True)

METRIC = """
import datasets
import evaluate
TEXT = datasets.Value("string")
class Metric(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features({features}))
    def _compute(self, predictions, references, **settings):
        {share}
        return {{name: share for name in {names}}}
"""
"""A metric of one's own, which `evaluate.load` takes from a folder of the metric's name: the share of what is right."""

PLAIN = "share = sum(map(lambda one, other: one == other, predictions, references)) / len(predictions)"
METRICS = {
    "accuracy": ('{"predictions": datasets.Value("int32"), "references": datasets.Value("int32")}', PLAIN, ["accuracy"]),
    "seqeval": (
        '{"predictions": datasets.Sequence(TEXT), "references": datasets.Sequence(TEXT)}',
        PLAIN,
        ["overall_precision", "overall_recall", "overall_f1", "overall_accuracy"],
    ),
    "squad": (
        '{"predictions": {"id": TEXT, "prediction_text": TEXT}, "references": {"id": TEXT, '
        '"answers": datasets.Sequence({"text": TEXT, "answer_start": datasets.Value("int32")})}}',
        'share = sum(one["prediction_text"] in other["answers"]["text"] for one, other in zip(predictions, references)) / len(predictions)',
        ["exact_match", "f1"],
    ),
    "rouge": ('{"predictions": TEXT, "references": TEXT}', PLAIN, ["rougeL"]),
}
PLACES = ["Zürich", "Köln", "Paris"]
TEXTS = [f"{who} {does} in {place} ." for who in ("a dog", "the naïve man") for does in ("runs", "reads") for place in PLACES]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    tokenizer = train_tokenizer([*TEXTS, "where who"] * 4, 300)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    config = VaswaniConfig(vocab_size=len(tokenizer), encoder_attention_heads=2, decoder_attention_heads=2, dropout=0.0, **sizes)
    VaswaniForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_example(script: str, model: Path, rows: Sequence[dict[str, Any]], metric: str, *options: str, home: Path) -> dict[str, float]:
    """Train by a script of transformers in an empty folder, by the code in the model's, and give what it measured on the training set."""
    features, share, names = METRICS[metric]
    (home / metric).mkdir()
    (home / metric / f"{metric}.py").write_text(METRIC.format(features=features, share=share, names=names))
    (home / "nltk_data" / "tokenizers" / "punkt").mkdir(parents=True)
    data = json.dumps({"data": rows}) if metric == "squad" else "\n".join(json.dumps(row) for row in rows)
    (home / "rows.json").write_text(data)
    arguments = {
        "--model_name_or_path": model, "--trust_remote_code": True, "--train_file": "rows.json", "--validation_file": "rows.json",
        "--do_train": True, "--do_eval": True, "--output_dir": "trained", "--per_device_train_batch_size": 6, "--max_steps": 60,
        "--learning_rate": 0.01, "--use_cpu": True, "--report_to": "none", "--save_strategy": "no", "--seed": 1,
    }  # fmt: skip
    words = [str(word) for pair in arguments.items() for word in pair]
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *words, *options],
        cwd=home,
        env=os.environ | {"HF_HOME": str(home / "cache"), "HF_HUB_OFFLINE": "1", "NLTK_DATA": str(home / "nltk_data")},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads((home / "trained" / "all_results.json").read_text()))


def test_run_classification(translator: Path, tmp_path: Path) -> None:
    rows = [{"sentence": text, "label": "reads" if "reads" in text else "runs"} for text in TEXTS]
    script = "text-classification/run_classification.py"
    results = run_example(script, translator, rows, "accuracy", "--metric_name", "accuracy", "--max_seq_length", "24", home=tmp_path)
    assert results["eval_accuracy"] == 1
    found = pipeline("text-classification", str(tmp_path / "trained"), device="cpu")("the naïve man reads in Köln .")
    assert found[0]["label"] == "reads"


def test_run_ner(translator: Path, tmp_path: Path) -> None:
    rows = [{"tokens": text.split(), "ner_tags": ["B-LOC" if word in PLACES else "O" for word in text.split()]} for text in TEXTS]
    results = run_example("token-classification/run_ner.py", translator, rows, "seqeval", home=tmp_path)
    assert results["eval_f1"] == 1
    tag = pipeline("token-classification", str(tmp_path / "trained"), device="cpu", aggregation_strategy="simple")
    text = "the naïve man reads in Köln ."
    assert [text[entity["start"] : entity["end"]].strip() for entity in tag(text)] == ["Köln"]


def test_run_qa(translator: Path, tmp_path: Path) -> None:
    rows = []
    for number, text in enumerate(TEXTS):
        place = text.split()[-2]
        answers = {"text": [place], "answer_start": [text.index(place)]}
        rows.append({"id": str(number), "question": "where", "context": text, "answers": answers})
    options = ("--max_seq_length", "32", "--doc_stride", "8", "--per_device_eval_batch_size", "12")
    results = run_example("question-answering/run_qa.py", translator, rows, "squad", *options, home=tmp_path)
    read = pipeline("question-answering", str(tmp_path / "trained"), device="cpu")
    for text in TEXTS:
        answer = read(question="where", context=text)
        assert answer["answer"] == text.split()[-2] == text[answer["start"] : answer["end"]]
    assert results["eval_f1"] >= 0


def test_run_summarization(translator: Path, tmp_path: Path) -> None:
    pytest.importorskip("nltk", reason="the script imports nltk")
    rows = [{"text": text, "summary": text.split()[-2]} for text in TEXTS]
    results = run_example("summarization/run_summarization.py", translator, rows, "rouge", home=tmp_path)
    assert results["eval_loss"] < 0.1
    summarise = pipeline("summarization", str(tmp_path / "trained"), device="cpu", max_new_tokens=6)
    assert [record["summary_text"] for record in summarise(TEXTS)] == [row["summary"] for row in rows]
