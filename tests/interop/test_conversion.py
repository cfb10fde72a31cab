"""A converted folder is a full citizen: it trains, averages, exports and publishes like one that was trained here."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, pipeline
from typer.testing import CliRunner, Result

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.__main__ import app
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.files.checksums import write_checksums
from vaswani_transformer.hub.publish import PublishError, check, list_files
from vaswani_transformer.interop.conversion import convert_fairseq
from vaswani_transformer.training.averaging import average_checkpoints
from vaswani_transformer.training.loss import TranslationLoss, target_positions

RECORDED = Path(__file__).parent / "fairseq"


def convert(kind: str, out: Path) -> Path:
    files = RECORDED / kind
    return convert_fairseq(files / "model.pt", [files / "dict.en.txt", files / "dict.de.txt"], files / "bpecodes", out)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert("joined", tmp_path_factory.mktemp("joined") / "out")


@pytest.fixture(scope="module")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert("separate", tmp_path_factory.mktemp("separate") / "out")


def test_it_fine_tunes(joined: Path, tmp_path: Path) -> None:
    """Ten updates of our loss on twenty pairs: both the loss and the plain cross entropy of `labels` go down, and the result loads."""
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(joined), AutoTokenizer.from_pretrained(joined)
    pairs = [tokenizer(source, text_target=target) for source, target in builtin_pairs("train", 20)]
    batch = DataCollatorForSeq2Seq(tokenizer, model)(pairs)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "labels")}
    before = model.eval()(**inputs).loss.item()
    loss, optimizer = (
        TranslationLoss(model.train(), smoothing=0.1),
        torch.optim.Adam(model.parameters(), 3e-3),
    )
    for _ in range(10):
        optimizer.zero_grad()
        (loss(**inputs, target_positions=target_positions(batch["labels"])).smoothed / 100).backward()
        optimizer.step()
    assert model.eval()(**inputs).loss.item() < before - 0.1
    model.save_pretrained(tmp_path)
    assert VaswaniForConditionalGeneration.from_pretrained(tmp_path)(**inputs).loss.item() < before - 0.1


def test_it_averages(joined: Path, tmp_path: Path) -> None:
    checkpoints = [tmp_path / name for name in ("one", "two")]
    for checkpoint in checkpoints:
        shutil.copytree(joined, checkpoint)
        write_checksums(checkpoint)
    average_checkpoints(checkpoints, tmp_path / "averaged")
    texts = ["The dog sleeps.", "A woman reads."]
    said = [pipeline("translation", model=str(folder))(texts) for folder in (joined, tmp_path / "averaged")]
    assert said[0] == said[1]


@pytest.mark.parametrize("kind", ["joined", "separate"])
def test_it_exports_to_ctranslate2(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    from vaswani_transformer.interop.ctranslate2 import CTranslate2Model
    from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

    folder = request.getfixturevalue(kind)
    export_ctranslate2(folder, tmp_path / "out")
    engine, model = (
        CTranslate2Model.from_pretrained(tmp_path / "out"),
        VaswaniForConditionalGeneration.from_pretrained(folder),
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    batch = tokenizer([text for text, _ in builtin_pairs("test", 20)], padding=True, return_tensors="pt")
    greedy = {"num_beams": 1, "max_new_tokens": 30}
    assert engine.generate(**batch, **greedy).tolist() == model.generate(**batch, **greedy).tolist()
    assert len(engine.generate(**batch, max_new_tokens=30)) == 20


def test_a_forced_end_and_a_bias_survive_ctranslate2(separate: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    from vaswani_transformer.interop.ctranslate2 import CTranslate2Model
    from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

    model, tokenizer = (
        VaswaniForConditionalGeneration.from_pretrained(separate),
        AutoTokenizer.from_pretrained(separate),
    )
    model.lm_head.bias = torch.nn.Parameter(torch.randn(model.config.decoder_entries))
    model.config.lm_head_bias = True
    model.generation_config.forced_eos_token_id = 2
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    export_ctranslate2(tmp_path / "model", tmp_path / "out")
    batch = tokenizer([text for text, _ in builtin_pairs("test", 20)], padding=True, return_tensors="pt")
    engine, greedy = CTranslate2Model.from_pretrained(tmp_path / "out"), {"num_beams": 1, "max_new_tokens": 5}
    translated = engine.generate(**batch, **greedy)
    assert translated.tolist() == model.generate(**batch, **greedy).tolist()
    assert any(row[-1] == 2 for row in translated.tolist())


def test_it_publishes(separate: Path) -> None:
    """A stranger's process loads the folder without this package; `list_files` is what an upload would take."""
    names = {file.name for file in list_files(separate)}
    assert {"README.md", "vocab-src.json", "merges.txt", "modeling_vaswani.py"} <= names
    assert not any(name.endswith((".pt", ".bin", ".pkl")) for name in names)
    sentence, translation = check(separate)
    assert translation == pipeline("translation", model=str(separate))(sentence)[0]["translation_text"]
    (separate / "merges.txt").rename(separate / "elsewhere")
    with pytest.raises(PublishError, match=r"merges\.txt is missing"):
        list_files(separate)
    (separate / "elsewhere").rename(separate / "merges.txt")


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "some.en").write_text("The dog sleeps.\nA woman reads.\n")
    files = RECORDED / "joined"
    arguments: list[Any] = ["convert", "fairseq", files / "model.pt", tmp_path / "out", "--bpe-codes", files / "bpecodes"]
    arguments += ["--dictionary", files / "dict.en.txt", "--licence", "cc-by-nc-4.0", "--origin", "a test"]
    arguments += ["--sentences", tmp_path / "some.en", "--languages", "en", "sv"]
    assert f"{tmp_path / 'out'} is ready" in vaswani(*arguments).stdout
    card = (tmp_path / "out" / "README.md").read_text()
    assert "license: cc-by-nc-4.0" in card and "**Origin:** a test\n" in card and "| The dog sleeps. |" in card
    assert json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())["langs"] == ["en", "sv"]
    assert re.match(r"error: .*exists and is not empty", vaswani(*arguments).stderr.splitlines()[-1])
    told = vaswani("convert", "marian", tmp_path / "nowhere", tmp_path / "other")
    assert re.match(r"error: .*is neither a folder nor a repository", told.stderr.splitlines()[-1]) and told.exit_code == 1


def vaswani(*arguments: Any) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))
