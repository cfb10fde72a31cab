"""What `import vaswani_transformer` gives to transformers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    MarianConfig,
    MarianMTModel,
    pipeline,
    pipelines,
)

import vaswani_transformer
from vaswani_transformer import TranslationPipeline, VaswaniConfig, VaswaniForConditionalGeneration, VaswaniModel, train_tokenizer
from vaswani_transformer.hub.publish import CODE_FILES

SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = train_tokenizer(["a small dog runs", "ein kleiner Hund läuft"], 259)
    VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **SIZES)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_public_names_exist() -> None:
    assert all(hasattr(vaswani_transformer, name) for name in vaswani_transformer.__all__)


def test_the_auto_classes_find_the_model(folder: Path) -> None:
    assert type(AutoConfig.from_pretrained(folder)) is VaswaniConfig
    assert type(AutoConfig.for_model("vaswani")) is VaswaniConfig
    assert type(AutoModel.from_pretrained(folder)) is VaswaniModel
    assert type(AutoModelForSeq2SeqLM.from_pretrained(folder)) is VaswaniForConditionalGeneration


def test_a_saved_model_says_where_its_code_is(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["auto_map"] == {
        "AutoConfig": "configuration_vaswani.VaswaniConfig",
        "AutoModel": "modeling_vaswani.VaswaniModel",
        "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
        "AutoModelForTextEncoding": "modeling_tasks.VaswaniEncoderModel",
        "AutoModelForMaskedLM": "modeling_tasks.VaswaniForMaskedLM",
        "AutoModelForSequenceClassification": "modeling_tasks.VaswaniForSequenceClassification",
        "AutoModelForTokenClassification": "modeling_tasks.VaswaniForTokenClassification",
        "AutoModelForQuestionAnswering": "modeling_tasks.VaswaniForQuestionAnswering",
    }
    assert list(config["custom_pipelines"]) == ["translation"]
    classes = [*config["auto_map"].values(), config["custom_pipelines"]["translation"]["impl"]]
    for name in classes:
        module, cls = name.split(".")
        assert f"class {cls}(" in (folder / f"{module}.py").read_text()


def test_a_bare_model_is_saved_with_its_code_too(tmp_path: Path) -> None:
    VaswaniModel(VaswaniConfig(vocab_size=270, **SIZES)).save_pretrained(tmp_path)
    assert set(CODE_FILES) <= {path.name for path in tmp_path.iterdir()}
    assert "AutoModelForSeq2SeqLM" in json.loads((tmp_path / "config.json").read_text())["auto_map"]


@pytest.mark.parametrize("trust", [None, False, True])
def test_the_folder_needs_no_flag_where_the_package_is(folder: Path, trust: bool | None) -> None:
    translator = pipeline("translation", model=str(folder), trust_remote_code=trust)
    assert type(translator) is TranslationPipeline
    assert type(translator.model) is VaswaniForConditionalGeneration


def test_the_task_is_for_every_model(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["a small dog runs", "ein kleiner Hund läuft"], 259)
    config = MarianConfig(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        **SIZES,
    )
    torch.manual_seed(0)
    translator = pipeline("translation", model=MarianMTModel(config), tokenizer=tokenizer, device="cpu")
    expected = translator("a dog", max_new_tokens=5)
    translator.save_pretrained(tmp_path)
    assert "custom_pipelines" not in json.loads((tmp_path / "config.json").read_text())
    loaded = pipeline("translation", model=str(tmp_path), tokenizer=tokenizer, device="cpu")
    assert type(loaded.model) is MarianMTModel
    assert loaded("a dog", max_new_tokens=5) == expected


def test_language_pairs_are_tasks(folder: Path) -> None:
    assert pipeline("translation_en_to_de", model=str(folder)).task == "translation_en_to_de"
    with pytest.raises(KeyError):
        pipeline("translation_of_dreams", model=str(folder))


def test_the_removed_tasks_of_texts_are_back() -> None:
    assert {"translation", "summarization", "text2text-generation", "question-answering"} <= set(pipelines.get_supported_tasks())
    with pytest.raises(KeyError):
        pipeline("image-to-image")


def test_importing_the_package_waits_for_nothing_heavy(run_python: Callable[..., None], tmp_path: Path) -> None:
    heavy = "import vaswani_transformer, sys; assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    run_python(tmp_path, "-c", heavy + "; assert vaswani_transformer.__version__; assert dir(vaswani_transformer)")


@pytest.mark.parametrize(
    "first",
    [
        "import vaswani_transformer, transformers",
        "import transformers, vaswani_transformer",
        "import vaswani_transformer, importlib.util; assert importlib.util.find_spec('transformers')",
        "from vaswani_transformer import VaswaniConfig",
        # imports transformers when it is itself half loaded, and what registers imports it
        "import vaswani_transformer.decoding",
        "from vaswani_transformer.training import engine",
    ],
)
def test_the_package_registers_whatever_is_imported_first(first: str, run_python: Callable[..., None], tmp_path: Path) -> None:
    then = """
import sys
from transformers import AutoConfig, AutoModelForSeq2SeqLM, pipelines
import vaswani_transformer
config = AutoConfig.for_model("vaswani", vocab_size=8, d_model=2, encoder_attention_heads=1, decoder_attention_heads=1)
assert type(config) is vaswani_transformer.VaswaniConfig
assert type(AutoModelForSeq2SeqLM.from_config(config)) is vaswani_transformer.VaswaniForConditionalGeneration
assert "translation" in pipelines.get_supported_tasks()
assert not any("vaswani" in type(finder).__module__ for finder in sys.meta_path)
"""
    run_python(tmp_path, "-c", first + "\n" + then)


def test_a_failed_import_is_not_the_end_of_the_registration(run_python: Callable[..., None], tmp_path: Path) -> None:
    code = """
import sys
import vaswani_transformer
sys.modules["torch"] = None  # what the import system takes for "not there"
try:
    import vaswani_transformer.packing
except ImportError:
    pass
else:
    raise AssertionError
del sys.modules["torch"]
import transformers
assert type(transformers.AutoConfig.for_model("vaswani")) is vaswani_transformer.VaswaniConfig
"""
    run_python(tmp_path, "-c", code)
