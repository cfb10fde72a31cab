import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.__main__ import app
from vaswani_transformer.interop.original import read_original

Saved = Callable[..., tuple[Path, VaswaniForConditionalGeneration]]


def test_ids_beyond_the_tokenizer_get_names_of_their_own(saved: Saved) -> None:
    folder, _ = saved(vocab_size=310)
    names = read_original(folder).source_names
    assert len(names) == len(set(names)) == 310
    assert names[:3] == ["<pad>", "<s>", "</s>"] and names[309] == "<unused 309>"


def test_what_is_no_translator_of_ours_is_refused(saved: Saved, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder; give the folder of a trained"):
        read_original(tmp_path / "nowhere")
    folder, _ = saved()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": None}))
    with pytest.raises(ValueError, match=r"config\.json has no eos_token_id"):
        read_original(folder)
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "t5"}))
    with pytest.raises(ValueError, match="of the type 't5'"):
        read_original(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer\.json"):
        read_original(folder)


def test_a_tokenizer_of_another_run_is_refused(saved: Saved) -> None:
    folder, _ = saved(vocab_size=250)
    with pytest.raises(ValueError, match="tokens but the model embeds only 250"):
        read_original(folder)


def test_damaged_weights_are_refused(saved: Saved) -> None:
    folder, _ = saved()
    weights = load_file(folder / "model.safetensors")
    name = "model.encoder.layers.0.fc1.weight"
    save_file({k: v for k, v in weights.items() if k != name}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=f"lack {name}"):
        read_original(folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(ValueError, match="damaged or incomplete"):
        read_original(folder)


def vaswani(*arguments: Any) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("engine", ["marian", "ctranslate2", "onnx"])
def test_the_command_exports_and_says_how_to_use_it(engine: str, saved: Saved, tmp_path: Path, fake_python: Callable[..., Path]) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    folder, _ = saved()
    arguments = ["export", folder, tmp_path / "out", "--to", engine]
    arguments += ["--optimum-python", fake_python()] if engine == "onnx" else []
    said = vaswani(*arguments).stdout
    assert said.startswith(f"{tmp_path / 'out'} (") and f'.from_pretrained("{tmp_path / "out"}")' in said
    assert re.match(r"error: .*exists and is not empty", vaswani(*arguments).stderr)


@pytest.mark.parametrize("engine", ["marian", "ctranslate2"])
def test_an_export_leaves_out_parallel_heads_and_says_so(engine: str, saved: Saved, tmp_path: Path) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    folder, _ = saved(parallel_heads=3)
    assert "The model's parallel heads are left out" in vaswani("export", folder, tmp_path / "out", "--to", engine).stdout
    assert json.loads((tmp_path / "out" / "config.json").read_text()).get("parallel_heads", 1) == 1


@pytest.mark.parametrize("engine", ["marian", "ctranslate2"])
def test_an_export_leaves_out_drafts_which_change_no_translation(engine: str, saved: Saved, tmp_path: Path) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    folder, _ = saved()
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**settings, "draft": "source", "draft_shortlist": True, "draft_tokens": 2}))
    vaswani("export", folder, tmp_path / "out", "--to", engine)
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert not {"draft", "draft_shortlist", "draft_tokens"} & written.keys() and written["num_beams"] == settings["num_beams"]


def test_the_command_answers_mistakes_in_one_line(saved: Saved, tmp_path: Path) -> None:
    folder, _ = saved()
    for engine, sentence in (("marian", "A Marian model is stored in float32"), ("onnx", "An ONNX model is stored in float32")):
        told = vaswani("export", folder, tmp_path / "out", "--to", engine, "--quantization", "int8")
        assert f"{sentence}; leave out --quantization." in told.stderr and told.exit_code == 2
    told = vaswani("export", folder, tmp_path / "out", "--to", "marian", "--optimum-python", "python")
    assert "--optimum-python is for onnx" in told.stderr and told.exit_code == 2
    told = vaswani("export", tmp_path / "nowhere", tmp_path / "out", "--to", "marian")
    assert re.match(r"error: .*nowhere is not a folder", told.stderr) and told.exit_code == 1
    assert not (tmp_path / "out").exists()
