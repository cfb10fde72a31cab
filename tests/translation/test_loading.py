from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase

from tests.processor import needs_bfloat16
from vaswani_transformer import (
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniForMaskedLM,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
)
from vaswani_transformer.files.checksums import write_checksums
from vaswani_transformer.translation.loading import check_start, folder_sha256, load_checkpoint, load_encoder, load_engine
from vaswani_transformer.translation.translate import Translator


@pytest.fixture
def folder(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> Path:
    config = VaswaniConfig(vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                           decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32)  # fmt: skip
    VaswaniForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "packed"),
    [(None, "float32"), ("float32", "float32"), pytest.param("bfloat16", "bfloat16", marks=needs_bfloat16), ("int8", "int8")],
)
def test_pytorch_in_every_precision(name: str | None, packed: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    pack = VaswaniForConditionalGeneration.pack_weights
    monkeypatch.setattr(
        VaswaniForConditionalGeneration,
        "pack_weights",
        lambda self, dtype: (asked.append(dtype), pack(self, dtype))[1],
    )
    engine = load_engine(str(folder), dtype=name)
    assert asked == [packed]
    assert engine.identity == {"model": folder_sha256(folder), "engine": "pytorch", "dtype": name}
    assert engine.model.generate(torch.tensor([[5, 6, 2]]), max_new_tokens=3).shape[0] == 1


def test_a_precision_that_the_processor_lacks_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaswani_transformer.packing.has_bfloat16", lambda: False)
    with pytest.raises(ValueError, match=r"packed as bfloat16 here: .* AVX-512 or AMX only; choose float32"):
        load_engine(str(folder), dtype="bfloat16")


def test_the_identity_is_of_what_decides_the_translations(folder: Path) -> None:
    before = folder_sha256(folder)
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"} <= before.keys()
    (folder / "README.md").write_text("prose")
    assert folder_sha256(folder) == before
    (folder / "generation_config.json").write_text("{}")
    assert folder_sha256(folder) != before


def test_an_export_translates_through_the_same_interface(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="an extra of this package")
    from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

    export = export_ctranslate2(folder, tmp_path / "export")
    engine = load_engine(str(export), "ctranslate2", "int8")
    assert engine.identity["engine"] == "ctranslate2" and "model.bin" in engine.identity["model"]
    translator = Translator(engine.model, engine.tokenizer, scores=True, num_beams=2, num_return_sequences=2)
    (outcome,) = dict(translator(["A man reads."])).values()
    assert isinstance(outcome, list) and len(outcome) == 2
    assert all(hypothesis.score is not None for hypothesis in outcome)


def test_what_cannot_be_loaded_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no engine 'onnx'; choose pytorch or ctranslate2"):
        load_engine(str(folder), "onnx")
    with pytest.raises(ValueError, match="not int3"):
        load_engine(str(folder), dtype="int3")
    with pytest.raises(ValueError, match=r"make one: vaswani export .* --to ctranslate2"):
        load_engine(str(folder), "ctranslate2")
    export = tmp_path / "export"
    export.mkdir()
    (export / "config.json").write_text("{}")
    (export / "model.bin").touch()
    with pytest.raises(ValueError, match="run it with `vaswani translate --engine ctranslate2`"):
        load_engine(str(export))
    with pytest.raises(FileNotFoundError, match="neither a folder nor"):
        load_engine("not a model/at all/")


def _overwrite(path: Path, position: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(b"\xff" * 16)


def test_a_file_that_differs_from_its_hash_is_refused(folder: Path) -> None:
    write_checksums(folder)
    load_checkpoint(folder)
    _overwrite(folder / "model.safetensors", (folder / "model.safetensors").stat().st_size - 1000)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged: its SHA-256 is not"):
        load_engine(str(folder))


def test_a_damaged_export_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "model.bin").write_bytes(b"weights")
    write_checksums(tmp_path / "export")
    (tmp_path / "export" / "model.bin").write_bytes(b"Weights")
    with pytest.raises(ValueError, match=r"model\.bin is damaged"):
        load_engine(str(tmp_path / "export"), "ctranslate2")


def test_weights_that_are_no_file_of_this_model_are_refused_in_a_sentence(folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = load_file(weights)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"damaged or incomplete \(.*\); copy them again\.$"):
        load_checkpoint(folder)
    name = "model.encoder.layers.0.fc1.weight"
    save_file({**whole, name: whole[name][:-1].contiguous()}, weights, {"format": "pt"})
    with pytest.raises(ValueError, match=r"are not those of its config\.json \(.+\); copy both again\.$"):
        load_checkpoint(folder)
    save_file({key: tensor for key, tensor in whole.items() if key != name}, weights, {"format": "pt"})
    with pytest.raises(ValueError, match=f"lack {name};"):
        load_checkpoint(folder)


@pytest.mark.parametrize("kind", [VaswaniForMaskedLM, VaswaniForSequenceClassification, VaswaniForTokenClassification])
def test_an_encoder_alone_is_no_translator(kind: Any, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    encoder, made = tmp_path / "encoder", tmp_path / "made"
    tokenizer = load_checkpoint(folder).tokenizer
    kind(VaswaniConfig.from_pretrained(folder)).save_pretrained(encoder)
    tokenizer.save_pretrained(encoder)
    capfd.readouterr()
    hint = "" if kind is VaswaniForMaskedLM else "label texts with `vaswani label`, "
    sentence = rf"encoder holds an encoder alone \({kind.__name__}\), which writes no text; {hint}name the folder of a model with a decoder"
    for load in (load_checkpoint, partial(load_checkpoint, only_ours=True), partial(check_start, with_decoder=True)):
        with pytest.raises(ValueError, match=sentence):
            load(encoder)
    with pytest.raises(ValueError, match=sentence):
        load_engine(str(encoder))
    assert capfd.readouterr() == ("", "")  # transformers would list the weights
    check_start(encoder, with_decoder=False)
    assert load_encoder(encoder).model.num_parameters()
    # What the sentence tells to do
    VaswaniForConditionalGeneration.from_pretrained(encoder).save_pretrained(made)
    tokenizer.save_pretrained(made)
    check_start(made, with_decoder=True)
    assert load_checkpoint(made, only_ours=True).model.can_generate()


def test_a_damaged_tokenizer_or_config_is_refused_in_a_sentence(folder: Path) -> None:
    for name, sentence in (
        ("tokenizer.json", r"^The tokenizer in .* cannot be read \(.*copy"),
        ("config.json", r"config\.json:\d+ is not"),
    ):
        (folder / name).write_bytes((folder / name).read_bytes()[:-20])
        with pytest.raises(ValueError, match=sentence):
            load_checkpoint(folder)


def test_the_folder_of_a_run_is_told_from_its_models(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "mine"
    (run / "tokenizer").mkdir(parents=True)
    (run / "recipe.yaml").touch()
    with pytest.raises(FileNotFoundError, match="a run that has no averaged model yet; finish its training first"):
        load_engine(str(run))
    for name in ("averaged", "published"):
        (run / name).mkdir()
        (run / name / "config.json").touch()
    with pytest.raises(FileNotFoundError, match=r"mine is the folder of a run; give a model in it: .*mine/averaged or .*mine/published\.$"):
        load_engine(str(run))
