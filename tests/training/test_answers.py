"""Marked answers in the one engine: their loss is the model's own, resuming changes no bit, and every stage knows them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline

from vaswani_transformer import VaswaniConfig, VaswaniForQuestionAnswering
from vaswani_transformer.data.encoding import EncodedCorpus
from vaswani_transformer.evaluation.scores import evaluate_run
from vaswani_transformer.files.json_files import read_json, read_json_lines
from vaswani_transformer.hub.publish import publish
from vaswani_transformer.recipe import Recipe, load_recipe
from vaswani_transformer.report.model_card import write_card
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.encoder_loss import MarkedAnswerLoss
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.loss import target_positions
from vaswani_transformer.training.preparation import claim_run_folder, prepare_data

SIZES = {"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 32, "encoder_attention_heads": 2}


def test_the_loss_is_the_models_own_and_that_of_its_definition() -> None:
    torch.manual_seed(1)
    config = VaswaniConfig.from_preset("tiny", vocab_size=30, decoder_attention_heads=2, **{**SIZES, "dropout": 0.0})
    model = VaswaniForQuestionAnswering(config)
    ids, mask = torch.randint(3, 30, (3, 6)), torch.ones(3, 6, dtype=torch.long)
    mask[1:, 4:] = 0
    labels = torch.tensor([[2, 5], [0, 0], [1, 3]])
    own = model(ids, mask, start_positions=labels[:, 0], end_positions=labels[:, 1])
    arguments = (ids, mask, labels, target_positions(labels))
    # Without dropout both passes of R-Drop are the same, and nothing is added
    for r_drop in (0.0, 5.0):
        assert MarkedAnswerLoss(model, 0.0, r_drop=r_drop)(*arguments).smoothed.item() / 6 == pytest.approx(own.loss.item(), rel=1e-5)
    (found,) = MarkedAnswerLoss(model, 0.0).predictions(*arguments)
    assert MarkedAnswerLoss(model, 0.0).likeliest(found).tolist()[::2] == own.start_logits.argmax(1).tolist()
    smoothed, plain = MarkedAnswerLoss(model, 0.1)(*arguments)
    wanted = 0.0
    for row in range(3):
        real = int(mask[row].sum())
        for scores, right in ((own.start_logits[row], labels[row, 0]), (own.end_logits[row], labels[row, 1])):
            spread = torch.full((real,), 0.1 / real)
            spread[right] += 0.9
            wanted -= float((spread * scores[:real].log_softmax(0)).sum().detach())
    assert smoothed.item() == pytest.approx(wanted, rel=1e-5) and plain.item() == pytest.approx(6 * own.loss.item(), rel=1e-5)


def test_two_passes_with_other_dropout_differ_by_both_divergences() -> None:
    torch.manual_seed(1)
    config = VaswaniConfig.from_preset("tiny", vocab_size=30, decoder_attention_heads=2, **{**SIZES, "dropout": 0.3})
    model = VaswaniForQuestionAnswering(config).train()
    ids, mask, labels = torch.randint(3, 30, (2, 5)), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]]), torch.tensor([[1, 2], [0, 2]])
    loss = MarkedAnswerLoss(model, 0.0, r_drop=2.0)
    torch.manual_seed(7)
    found = loss(ids, mask, labels, target_positions(labels)).smoothed
    torch.manual_seed(7)
    with torch.no_grad():
        output = model(torch.cat((ids, ids)), torch.cat((mask, mask)))
    wanted = 0.0
    for row, real in enumerate((5, 3)):
        for scores, side in ((output.start_logits, 0), (output.end_logits, 1)):
            p, q = (scores[row + shift, :real].softmax(0) for shift in (0, 2))
            right = labels[row, side]
            wanted -= float(p[right].log() + q[right].log()) / 2
            wanted += 2.0 * float((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    assert found.item() == pytest.approx(wanted, rel=1e-4)
    found.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_resuming_changes_no_bit(make_answers: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make_answers(word_dropout=0.1))


def test_a_run_learns_and_all_stages_know_it(
    make_answers: Callable[..., Recipe], run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_answers(
        updates=150, warmup_updates=50, learning_rate_scale=0.4, validate_every=50, checkpoint_every=50, average_checkpoints=1,
        label_smoothing=0.0, best_checkpoint_metric="exact_match",
    )  # fmt: skip
    assert train(recipe, run)
    assert "Long contexts are cut into windows of at most 40 tokens" in capsys.readouterr().out
    windows = EncodedCorpus.open(run.encoded / "train")
    assert len(windows) > 100 and windows.source_lengths.max() == 40 and read_json(run.cleaning)["kept"] == 60
    records = [record for record in read_json_lines(run.log) if record["kind"] == "validation"]
    assert records[-1]["f1"] >= records[-1]["exact_match"] > 80
    assert load_recipe(run.recipe, in_run_folder=True) == recipe
    test_set = evaluate_run(run)["test_sets"][0]
    scores = {name: result["score"] for name, result in test_set["metrics"].items()}
    assert scores == {name: records[-1][name] for name in ("f1", "exact_match")}  # the same questions, by the model's own forward pass
    (outcomes,) = read_json_lines(run.outcomes)
    assert {name: 100 * sum(points) / sum(outcomes["weights"]) for name, points in outcomes["points"].items()} == pytest.approx(scores)
    assert (test_set["pairs"], test_set["without_answer"]) == (20, 4) and test_set["windows"] == 40
    card = write_card(run).read_text(encoding="utf-8")
    assert "pipeline_tag: question-answering" in card and "type: exact_match" in card and "None" not in card
    read = pipeline("question-answering", model=str(run.averaged))
    told = [read(question=sample["question"], context=sample["context"])["answer"] for sample in test_set["samples"]]
    assert told == [sample["prediction"] for sample in test_set["samples"]]  # the folder's own settings are those of the scores
    publish(run.path, "somebody/toy", dry_run=True)
    assert "its question-answering of" in capsys.readouterr().out


def test_runs_of_other_windows_share_no_data(make_answers: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))
    longest = []
    for size in (40, 30):
        recipe, run = make_answers(), RunFolder(tmp_path / str(size))
        recipe = replace(recipe, batching=replace(recipe.batching, max_sentence_tokens=size))
        claim_run_folder(recipe, run)
        longest.append(int(prepare_data(recipe, run).validation.source_lengths.max()))
    assert longest == [40, 30]


def test_a_question_without_an_answer_must_be_admitted(make_answers: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make_answers()
    with pytest.raises(ValueError, match=r"train.json:1 has no answer in its context; set `answers.may_be_none: true`, or leave"):
        train(replace(recipe, answers=replace(recipe.answers, may_be_none=False)), run)


def test_a_window_has_no_more_tokens_than_the_model_has_positions(make_answers: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make_answers()
    model = recipe.model | {"position_embedding_type": "learned", "max_position_embeddings": 30}
    with pytest.raises(ValueError, match="has positions for 30 tokens, which a window must not exceed"):
        train(replace(recipe, model=model), run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": {"longest": 4}}, "`longest` is for answers that are marked in a context; add `kind: span`"),
        ({"task": "summarization", "answers": {"kind": "span"}}, "`answers` is for `task: question_answering`"),
        ({"answers": {"kind": "span", "overlap": 30, "longest_question": 8}}, "windows of `batching.max_sentence_tokens: 40` have no room"),
        ({"search": {"num_beams": 2}}, r"`search` is for models that write text, and that of `task: question_answering` with `answers"),
        ({"training": {"updates": 1, "best_checkpoint_metric": "rouge1"}}, "`training.best_checkpoint_metric` cannot be 'rouge1'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(change: dict[str, Any], message: str, make_answers: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match=message):
        make_answers(change)
