import json
import re
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_transformer.files.checksums import write_checksums
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.hub import publish as publish_module
from vaswani_transformer.hub.publish import CODE_FILES, PublishError, assemble, check, list_files, publish
from vaswani_transformer.inspection.head_report import report_heads_of_run
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.translation.translate import translate

PUBLISHED = sorted([
    *CODE_FILES, "README.md", "config.json", "curves.png", "evaluation.json", "generation_config.json", "model.safetensors",
    "tokenizer.json", "tokenizer_config.json",
])  # fmt: skip


def test_the_folder_holds_what_the_hub_needs_and_nothing_else(run: RunFolder) -> None:
    folder = assemble(run, "somebody/toy")
    assert [file.name for file in list_files(folder)] == PUBLISHED
    assert (folder / "model.safetensors").read_bytes() == (run.averaged / "model.safetensors").read_bytes()
    assert 'model="somebody/toy"' in (folder / "README.md").read_text(encoding="utf-8")
    assert "AutoModelForSeq2SeqLM" in json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]
    assert not list(run.path.glob(".*"))


def test_the_pictures_of_the_card_come_along(run: RunFolder) -> None:
    report_heads_of_run(run, progress=False)
    folder = assemble(run)
    assert [file.name for file in list_files(folder)] == sorted([*PUBLISHED, "heads.png", "attention.png"])
    linked = set(re.findall(r"\]\(([\w.]+)\)", (folder / "README.md").read_text(encoding="utf-8")))
    assert linked == {"curves.png", "heads.png", "attention.png"}


def test_a_checkpoint_without_the_code_gets_it(run: RunFolder) -> None:
    for file in run.averaged.glob("*.py"):
        file.unlink()
    assert [file.name for file in list_files(assemble(run))] == PUBLISHED


def test_assembling_again_replaces_the_folder(run: RunFolder) -> None:
    folder = assemble(run)
    (folder / "stray.txt").write_text("", encoding="utf-8")
    assert [file.name for file in list_files(assemble(run))] == PUBLISHED


@pytest.mark.parametrize("name", ["optimizer.pt", "pytorch_model.bin", "weights.pkl", "notes.txt"])
def test_pickles_and_strangers_are_refused(run: RunFolder, name: str) -> None:
    (run.averaged / name).write_bytes(b"anything")
    with pytest.raises(ValueError, match=re.escape(name)):
        assemble(run)
    assert not run.published.exists()

    (run.averaged / name).unlink()
    (assemble(run) / name).write_bytes(b"anything")
    with pytest.raises(PublishError, match=f"{re.escape(name)} does not belong"):
        publish(run.published)


def test_scores_of_other_weights_are_refused(run: RunFolder) -> None:
    weights = run.averaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")
    with pytest.raises(ValueError, match="evaluate the run again"):
        assemble(run)


def test_what_is_missing_is_named(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match=r"neither a run's folder nor a published one: config\.json"):
        publish(tmp_path)
    run.evaluation.unlink()
    with pytest.raises(FileNotFoundError, match=r"vaswani evaluate"):
        assemble(run)
    (run.averaged / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks tokenizer\.json"):
        assemble(run)


def test_a_failure_leaves_the_folder_that_was_there(run: RunFolder) -> None:
    before = {file.name: file.read_bytes() for file in assemble(run).iterdir()}
    run.training.unlink()
    with pytest.raises(FileNotFoundError, match=r"training\.json"):
        assemble(run)
    assert {file.name: file.read_bytes() for file in run.published.iterdir()} == before
    assert not list(run.path.glob(".*"))


def test_a_process_without_the_package_translates_as_the_package_does(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    publish(run.path, "somebody/toy", dry_run=True, allow_useless=True)
    said = capsys.readouterr().out
    model = AutoModelForSeq2SeqLM.from_pretrained(run.published)
    tokenizer = AutoTokenizer.from_pretrained(run.published)
    sentence = json.loads(run.evaluation.read_text(encoding="utf-8"))["test_sets"][0]["samples"][0]["source"]
    assert repr(translate(model, tokenizer, [sentence])[0]) in said
    assert "Dry run: would be uploaded to https://huggingface.co/somebody/toy, branch main." in said
    for file in run.published.iterdir():
        assert re.search(rf"{file.stat().st_size:,} bytes  {re.escape(file.name)}\n", said)


def test_code_that_needs_the_package_is_found_out(run: RunFolder) -> None:
    code = assemble(run) / "modeling_vaswani.py"
    text = code.read_text(encoding="utf-8").replace("from .configuration_vaswani", "from vaswani_transformer.configuration_vaswani")
    code.write_text(text, encoding="utf-8")
    with pytest.raises(PublishError, match="does not load without the package") as error:
        check(run.published)
    assert "vaswani_transformer" in str(error.value).partition("not published: ")[2]


@pytest.mark.parametrize("repo_id", ["some body/toy", "toy", "a/b/c", "https://huggingface.co/a/b", "me/toy.git", ""])
def test_a_repository_that_cannot_be_is_told_before_any_work(run: RunFolder, repo_id: str) -> None:
    with pytest.raises(PublishError, match=f"^{re.escape(repr(repo_id))} (cannot|does not) name a repository; give USER/MODEL"):
        publish(run.path, repo_id, dry_run=True)
    assert not run.published.exists()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_model_that_translates_nothing_is_not_uploaded(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    """The model of the tests knows nothing, and its sacreBLEU is 0; then one that scores, but says nothing."""
    monkeypatch.setattr(publish_module, "upload", lambda *_, **__: pytest.fail("it was uploaded"))
    monkeypatch.setattr(publish_module, "check", lambda folder: ("A dog.", "Ein Hund."))
    with pytest.raises(PublishError, match=r"its sacreBLEU on toy_test is 0; .* add --allow-useless"):
        publish(run.path, "somebody/toy", dry_run=dry_run)

    evaluation = read_json(run.evaluation)
    for test_set in evaluation["test_sets"]:
        test_set["metrics"]["sacrebleu"]["score"] = 0.01
    write_json(run.evaluation, evaluation)
    monkeypatch.setattr(publish_module, "check", lambda folder: ("A dog.", " "))
    with pytest.raises(PublishError, match="its translation of the sentence above is empty"):
        publish(run.path, "somebody/toy", dry_run=dry_run)
    publish(run.path)
    publish(run.path, "somebody/toy", dry_run=True, allow_useless=True)
    assert capsys.readouterr().out.count("Warning: its translation of the sentence above is empty.") == 3

    monkeypatch.setattr(publish_module, "check", lambda folder: ("A dog.", "Ein Hund."))
    publish(run.path, "somebody/toy", dry_run=True)
    assert "Warning" not in capsys.readouterr().out


def test_a_damaged_checkpoint_is_not_published(run: RunFolder) -> None:
    write_checksums(run.averaged)
    tokenizer = run.averaged / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer\.json is damaged"):
        assemble(run)
    assert not run.published.exists()


def test_a_run_of_an_earlier_version_is_published_with_the_code_it_has(run: RunFolder) -> None:
    for file in run.averaged.glob("*.py"):
        file.unlink()
    code = {"modeling_vaswani.py": b"from .bare_layer import Layer\n", "bare_layer.py": b"class Layer: ...\n"}
    for name, content in code.items():
        (run.averaged / name).write_bytes(content)
    published = {file.name: file.read_bytes() for file in list_files(assemble(run)) if file.suffix == ".py"}
    assert published == code
