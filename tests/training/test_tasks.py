"""Tasks with labels in the one engine: their loss is the models' own, resuming changes no bit, and every stage knows them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoTokenizer, pipeline

import vaswani_transformer
from vaswani_transformer import VaswaniConfig, VaswaniForSequenceClassification, VaswaniForTokenClassification
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.data.sources.plain_lines import PlainLinesCorpus
from vaswani_transformer.evaluation.scores import evaluate_model, evaluate_run
from vaswani_transformer.files.json_files import read_json, read_json_lines
from vaswani_transformer.recipe import LoraSettings, NoiseSettings, Recipe, SearchSettings, load_recipe, parse_recipe
from vaswani_transformer.report.model_card import write_card
from vaswani_transformer.report.run_report import write_report
from vaswani_transformer.run_folder import TRANSFER, RunFolder
from vaswani_transformer.training.encoder_loss import TextLabelLoss, WordLabelLoss
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.loss import target_positions
from vaswani_transformer.training.rehearsal import describe, rehearse

SIZES = {"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 32, "encoder_attention_heads": 2}
LABELS = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Texts about water or fire, one word of which says which, and the same with a label for each word."""
    words = ["a", "big", "old", "new", "cold", "hot", "near", "far"]
    for name, count in (("train", 48), ("validation", 16)):
        lines, rows = [], []
        for number in range(count):
            label = number % 2
            start = number + (100 if name == "train" else 0)
            chosen = [words[(start * 3 + i) % 8] for i in range(1 + start % 4)] + [("fire", "water")[label], words[start % 7]]
            lines.append(f"{label} {' '.join(chosen)} {start}")
            tags = ["B-thing" if word in ("fire", "water") else "O" for word in chosen]
            rows += [f"{word}\t{tag}" for word, tag in zip(chosen, tags, strict=True)] + [f"{start}\tO", ""]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / f"{name}.conll").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def make(texts: Path) -> Callable[..., Recipe]:
    def make(task: str, fine: dict[str, Any] | None = None, **training: Any) -> Recipe:
        kind, ending = {"classification": ("labelled_lines", "txt"), "tagging": ("conll", "conll")}[task]
        data: dict[str, Any] = {
            "root": str(texts),
            "train": [{"format": kind, "path": f"train.{ending}"}],
            "validation": {"format": kind, "path": f"validation.{ending}"},
            "test": {"toy": {"format": kind, "path": f"validation.{ending}"}},
        }
        if task == "classification":
            data["labels"] = {"0": "fire", "1": "water"}
        settings = {
            "updates": 8, "warmup_updates": 4, "log_every": 3, "validate_every": 4, "checkpoint_every": 4, "average_checkpoints": 2,
        }  # fmt: skip
        return parse_recipe({
            "name": "toy", "task": task, "source_language": "en", "data": data, "tokenizer": {"vocab_size": 290},
            "model": {"preset": "tiny", "dropout": 0.1, **SIZES},
            "batching": {"source_tokens": 256, "target_tokens": 256, "micro_batches": 2},
            "training": settings | training, **(fine or {}),
        })  # fmt: skip

    return make


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_the_loss_of_texts_is_the_models_own(pooling: str) -> None:
    torch.manual_seed(1)
    config = VaswaniConfig.from_preset("tiny", vocab_size=30, classifier_pooling=pooling, decoder_attention_heads=2, **SIZES, **LABELS)
    model = VaswaniForSequenceClassification(config).eval()
    ids, mask = torch.randint(3, 30, (4, 6)), torch.ones(4, 6, dtype=torch.long)
    mask[1:, 4:] = 0
    labels = torch.tensor([2, 0, 1, 1])
    own = model(ids, mask, labels=labels)
    loss = TextLabelLoss(model, smoothing=0.0).eval()
    arguments = (ids, mask, labels[:, None], target_positions(labels[:, None]))
    assert loss(*arguments).smoothed.item() / 4 == pytest.approx(own.loss.item(), rel=1e-5)
    (found,) = loss.predictions(*arguments)
    assert torch.equal(loss.likeliest(found), own.logits.argmax(-1))


def test_the_loss_of_words_is_the_models_own_at_their_first_tokens() -> None:
    torch.manual_seed(1)
    config = VaswaniConfig.from_preset("tiny", vocab_size=30, decoder_attention_heads=2, **SIZES, **LABELS)
    model = VaswaniForTokenClassification(config).eval()
    ids, mask = torch.randint(3, 30, (2, 6)), torch.ones(2, 6, dtype=torch.long)
    mask[1, 4:] = 0
    dense = torch.tensor([[-100, 2, -100, 1, 0, -100], [1, -100, 2, -100, -100, -100]])
    packed = torch.tensor([[1 * 3 + 2, 3 * 3 + 1, 4 * 3 + 0], [0 * 3 + 1, 2 * 3 + 2, -100]])
    own = model(ids, mask, labels=dense)
    for loss in (WordLabelLoss(model, 0.0).eval(), WordLabelLoss(model, 0.0, r_drop=5.0).eval()):
        assert loss(ids, mask, packed, target_positions(packed)).smoothed.item() / 5 == pytest.approx(own.loss.item(), rel=1e-5)
    # Without dropout both passes of R-Drop are the same, and nothing is added
    model.config.dropout = 0.0
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    compared = WordLabelLoss(model, 0.0, r_drop=5.0).train()
    assert compared(ids, mask, packed, target_positions(packed)).smoothed.item() / 5 == pytest.approx(own.loss.item(), rel=1e-5)


@pytest.mark.parametrize(("task", "package"), [("classification", "sklearn"), ("tagging", "seqeval")])
def test_resuming_changes_no_bit(
    task: str, package: str, make: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]
) -> None:
    pytest.importorskip(package, reason="the extra `tasks` is not installed")
    assert_resuming_changes_no_bit(make(task, word_dropout=0.1))


def test_resuming_with_lora_changes_no_bit(
    make: Callable[..., Recipe],
    make_recipe: Callable[..., Recipe],
    tmp_path: Path,
    assert_resuming_changes_no_bit: Callable[[Recipe], None],
) -> None:
    pytest.importorskip("sklearn", reason="the extra `tasks` is not installed")
    translator = RunFolder(tmp_path / "translator")
    assert train(make_recipe(updates=1), translator)
    fine = {"init_from": str(translator.averaged), "model": {}, "tokenizer": {"method": "keep"}, "fine_tuning": {"lora": {"rank": 2}}}
    assert_resuming_changes_no_bit(make("classification", fine))


@pytest.mark.parametrize(("task", "metric", "package"), [("classification", "macro_f1", "sklearn"), ("tagging", "entity_f1", "seqeval")])
def test_a_run_learns_and_all_stages_know_its_task(
    task: str, metric: str, package: str, make: Callable[..., Recipe], run: RunFolder
) -> None:
    pytest.importorskip(package, reason="the extra `tasks` is not installed")
    recipe = make(
        task, updates=60, warmup_updates=20, learning_rate_scale=0.1, validate_every=20, checkpoint_every=20, average_checkpoints=1,
        best_checkpoint_metric=metric,
    )  # fmt: skip
    assert train(recipe, run)
    records = [record for record in read_json_lines(run.log) if record["kind"] == "validation"]
    assert min(records[-1]["accuracy"], records[-1][metric]) > 90
    assert read_json(run.training)["best_checkpoint"][metric] == max(record[metric] for record in records)
    assert load_recipe(run.recipe, in_run_folder=True) == recipe
    evaluation = evaluate_run(run)
    scores = {name: result["score"] for name, result in evaluation["test_sets"][0]["metrics"].items()}
    assert scores == {name: records[-1][name] for name in ("accuracy", metric)}  # the same text, by the model's own forward pass
    card = write_card(run).read_text(encoding="utf-8")
    assert f"pipeline_tag: {recipe.facts.pipeline_tag}" in card and "type: f1" in card and "None" not in card
    assert write_report(run, run.report) is None
    assert f"toy: {task}, en" in run.report.read_text(encoding="utf-8")
    found = pipeline(recipe.facts.pipeline_tag, model=str(run.averaged))("a cold water 7")
    labels = [each.get("label", each.get("entity")) for each in found]
    assert labels == ["water"] if task == "classification" else labels.count("B-thing") >= 1


def test_a_translators_encoder_begins_a_classifier(
    make: Callable[..., Recipe], make_recipe: Callable[..., Recipe], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn", reason="the extra `tasks` is not installed")
    translator, run = RunFolder(tmp_path / "translator"), RunFolder(tmp_path / "run")
    assert train(make_recipe(updates=1), translator)
    fine = {"init_from": str(translator.averaged), "model": {"dropout": 0.2, "classifier_dropout": 0.3}, "tokenizer": {"method": "keep"}}
    recipe = make("classification", {**fine, "fine_tuning": {"layer_decay": 0.5, "freeze": ["embeddings"]}}, updates=1)
    capsys.readouterr()
    assert train(recipe, run)
    said = capsys.readouterr().out
    assert "The encoder begins with its weights, the map to the 2 labels at random; the decoder is left out." in said
    assert read_json(run.initial / TRANSFER)["new_labels"] == 2
    config = json.loads((run.averaged / "config.json").read_text(encoding="utf-8"))
    assert (config["dropout"], config["classifier_dropout"], config["id2label"]) == (0.2, 0.3, {"0": "fire", "1": "water"})
    begun = VaswaniForSequenceClassification.from_pretrained(translator.averaged)
    trained = VaswaniForSequenceClassification.from_pretrained(run.averaged)
    assert torch.equal(begun.get_input_embeddings().weight, trained.get_input_embeddings().weight)  # frozen
    weights = [model.model.encoder.layers[0].fc1.weight for model in (begun, trained)]
    assert 0 < (weights[0] - weights[1]).abs().max() < 0.1


@pytest.mark.parametrize("task", ["classification", "tagging", "question_answering", "pretraining"])
def test_lora_trains_the_map_beside_adapters_that_peft_reads(
    task: str, request: pytest.FixtureRequest, make_recipe: Callable[..., Recipe], tmp_path: Path
) -> None:
    pytest.importorskip("seqeval", reason="the extra `tasks` is not installed")
    translator, run = RunFolder(tmp_path / "translator"), RunFolder(tmp_path / "run")
    assert train(make_recipe(updates=1), translator)
    fine = {"init_from": str(translator.averaged), "model": {}, "tokenizer": {"method": "keep"}, "fine_tuning": {"lora": {"rank": 2}}}
    match task:
        case "pretraining":
            recipe = replace(request.getfixturevalue("make_pretraining")("masking", updates=4, average_checkpoints=1))
            tuning = replace(recipe.fine_tuning, lora=LoraSettings(rank=2))
            kept = replace(recipe.tokenizer, method="keep")
            recipe = replace(recipe, init_from=str(translator.averaged), model={}, tokenizer=kept, fine_tuning=tuning)
        case "question_answering":
            recipe = request.getfixturevalue("make_answers")(fine, updates=4, average_checkpoints=1)
        case _:
            recipe = request.getfixturevalue("make")(task, fine, updates=4, average_checkpoints=1)
    assert train(recipe, run)
    kind = getattr(vaswani_transformer, read_json(run.averaged / "config.json")["architectures"][0])
    initial, merged = (kind.from_pretrained(folder).eval() for folder in (run.initial, run.averaged))
    ids = torch.tensor([[5, 6, 7, 2]])
    plain, after = (model(input_ids=ids)[0] for model in (initial, merged))
    maps = [{n: w for n, w in model.named_parameters() if n.startswith(("classifier", "qa_outputs"))} for model in (initial, merged)]
    assert not maps[0] or not any(torch.equal(maps[0][name], maps[1][name]) for name in maps[0])
    adapted = PeftModel.from_pretrained(initial, run.checkpoint(4) / "adapter").eval()
    torch.testing.assert_close(adapted(input_ids=ids)[0], after, atol=1e-5, rtol=0)
    assert not torch.allclose(plain, after, atol=1e-5)
    new = read_json(run.initial / TRANSFER)
    assert (new["new_labels"] > 0, new["new_places"]) == (task in ("classification", "tagging"), task == "question_answering")


def test_a_summarizer_cuts_long_texts_and_says_so(
    make_recipe: Callable[..., Recipe], run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rouge_score", reason="the extra `tasks` is not installed")
    plain = make_recipe(batching={"max_sentence_tokens": 12}, updates=4, validate_every=2, checkpoint_every=2)
    lines = plain.data.train[0]
    assert isinstance(lines, LinesCorpus)
    data = replace(plain.data, test={"toy": lines}, cleaning=replace(plain.data.cleaning, drop_held_out=False))
    training = replace(plain.training, best_checkpoint_metric="rouge1")
    recipe = replace(plain, task="summarization", target_language="", data=data, training=training)
    assert train(recipe, run)
    assert "training texts have 12 tokens or more and are cut to that" in capsys.readouterr().out
    record = [record for record in read_json_lines(run.log) if record["kind"] == "validation"][-1]
    assert {"rouge1", "rouge2", "rougeL"} <= record.keys() and "bleu" not in record
    assert len(AutoTokenizer.from_pretrained(run.averaged)("a dog " * 50, truncation=True)["input_ids"]) == 12
    test_set = evaluate_run(run)["test_sets"][0]
    assert list(test_set["metrics"]) == ["rougeL", "rouge1", "rouge2"] and test_set["cut"] > 0
    with pytest.raises(ValueError, match=r"made for summarization, .* add the files to `data.test`"):
        evaluate_model(run.averaged, {"toy": lines}, languages=("en", "de"), root=Path(plain.data.root))
    card = write_card(run).read_text(encoding="utf-8")
    assert "pipeline_tag: summarization" in card and "type: rouge" in card and "None" not in card


@pytest.fixture
def make_pretraining(corpus: Path, make_recipe: Callable[..., Recipe]) -> Callable[..., Recipe]:
    def make(kind: str, **training: Any) -> Recipe:
        side = [PlainLinesCorpus(path=f"{name}.en") for name in ("train", "validation")]
        plain = make_recipe(**training)
        data = replace(plain.data, train=(side[0],), validation=side[1], test={"toy": side[1]})
        noise = NoiseSettings(kind="denoising" if kind == "denoising" else "masking", share=0.3)
        search = plain.search if kind == "denoising" else SearchSettings()
        settings = replace(plain.training, best_checkpoint_metric=None)
        return replace(plain, task="pretraining", target_language="", data=data, noise=noise, search=search, training=settings)

    return make


@pytest.mark.parametrize("kind", ["masking", "denoising"])
def test_resuming_a_pretraining_changes_no_bit(
    kind: str, make_pretraining: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]
) -> None:
    assert_resuming_changes_no_bit(make_pretraining(kind))


@pytest.mark.parametrize("kind", ["masking", "denoising"])
def test_a_pretrained_model_is_scored_and_begins_another(
    kind: str, make_pretraining: Callable[..., Recipe], make: Callable[..., Recipe], tmp_path: Path
) -> None:
    pytest.importorskip("sklearn", reason="the extra `tasks` is not installed")
    run, next_run = RunFolder(tmp_path / "pretraining"), RunFolder(tmp_path / "next")
    assert train(make_pretraining(kind, updates=4, average_checkpoints=1), run)
    record = [record for record in read_json_lines(run.log) if record["kind"] == "validation"][-1]
    test_set = evaluate_run(run)["test_sets"][0]
    assert test_set["metrics"]["accuracy"]["score"] == pytest.approx(record["accuracy"])
    assert test_set["perplexity"] == pytest.approx(record["perplexity"], rel=1e-4)
    card = write_card(run).read_text(encoding="utf-8")
    assert ("each token after the right ones" in card) == ("a smooth sentence can be wrong" in card) == (kind == "denoising")
    assert ("| Hidden tokens |" in card) == ("| Hidden tokens seen |" in card) == (kind == "masking") == ("mean span" not in card)
    assert f"pipeline_tag: {'fill-mask' if kind == 'masking' else 'text2text-generation'}" in card and "None" not in card
    recipe = make("classification", {"init_from": str(run.averaged), "model": {}, "tokenizer": {"method": "keep"}}, updates=1)
    assert train(recipe, next_run)
    begun = [VaswaniForSequenceClassification.from_pretrained(folder).model.encoder for folder in (run.averaged, next_run.averaged)]
    assert 0 < (begun[0].layers[0].fc1.weight - begun[1].layers[0].fc1.weight).abs().max() < 0.1


def test_labels_that_no_training_text_has_stop_before_the_training(make: Callable[..., Recipe], run: RunFolder) -> None:
    pytest.importorskip("sklearn", reason="the extra `tasks` is not installed")
    recipe = make("classification")
    recipe = replace(recipe, data=replace(recipe.data, labels={}))
    path = Path(recipe.data.root) / "validation.txt"
    path.write_text(path.read_text(encoding="utf-8") + "3 another\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"validation.txt:17 has the label '3', which no training text has \(they have '0', '1'\)"):
        train(recipe, run)
    assert not run.state.exists()


@pytest.mark.parametrize(
    ("task", "line", "message"),
    [
        ("classification", "3 another", r"test\.txt:2 has the label '3', which no training text has"),
        ("tagging", "\na\tB-other", r"test\.txt:3 has the label 'B-other', which no training text has"),
    ],
)
def test_a_label_that_only_a_test_set_has_stops_before_the_training(
    task: str, line: str, message: str, make: Callable[..., Recipe], run: RunFolder
) -> None:
    pytest.importorskip("seqeval", reason="the extra `tasks` is not installed")
    recipe = make(task)
    first = {"classification": "1 cold water", "tagging": "water\tB-thing"}[task]
    (Path(recipe.data.root) / "test.txt").write_text(f"{first}\n{line}\n", encoding="utf-8")
    test = replace(recipe.data.validations[0], path="test.txt")
    recipe = replace(recipe, data=replace(recipe.data, test={"toy": test}, labels={}))
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            train(recipe, run)
    assert not run.state.exists()


def test_a_rehearsal_speaks_of_texts_and_labels(make: Callable[..., Recipe]) -> None:
    pytest.importorskip("seqeval", reason="the extra `tasks` is not installed")
    page = describe(rehearse(make("tagging"), updates=2))
    assert "toy: tagging, en" in page and "Of 48 training texts 48 are trained on" in page and "labels" in page


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("classification", {"target_language": "de"}, "`target_language` is for translation"),
        ("classification", {"search": {"num_beams": 2}}, "`search` is for models that write text"),
        ("classification", {"validation": {"num_beams": 2}}, "`validation.num_beams` is for models that write text"),
        ("tagging", {"validation": {"sentences": 9}}, "`validation.sentences` is for models that write text"),
        ("tagging", {"model": {"decoder_layers": 2}}, "`model.decoder_layers` is for models that write text"),
        ("tagging", {"model": {"classifier_pooling": "last"}}, "`model.classifier_pooling` is for `task: classification`, and this recipe"),
        ("pretraining", {"model": {"classifier_dropout": 0.1}}, "is for `task: classification` and `task: tagging`, and this recipe"),
        ("pretraining", {"noise": {"mean_span": 2}}, "`noise.mean_span` is for `kind: denoising`"),
        ("tagging", {"fine_tuning": {"freeze": ["decoder"]}, "init_from": "x"}, r"`fine_tuning.freeze: \[decoder\]` is for models"),
        ("tagging", {"training": {"updates": 1, "best_checkpoint_metric": "bleu"}}, "`training.best_checkpoint_metric` cannot be 'bleu'"),
        ("translation", {}, "`target_language` is missing"),
        ("translation", {"target_language": "de", "data": {"labels": {"0": "a"}}}, "`data.labels` names labels"),
        ("summary", {}, "`task` cannot be 'summary'"),
    ],
)
def test_settings_that_do_not_belong_to_the_task_are_refused(task: str, change: dict[str, Any], message: str) -> None:
    lines = {"format": "lines", "source": "s", "target": "t"}
    tree = {"name": "n", "task": task, "source_language": "en", "tokenizer": {"vocab_size": 300}, "training": {"updates": 1}, **change}
    tree["data"] = {"train": [lines], "validation": lines, "test": {}, **change.get("data", {})}
    with pytest.raises(ValueError, match=message):
        parse_recipe(tree)
