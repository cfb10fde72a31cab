"""A published folder works where this package is not installed: its code travels with it."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import vaswani_transformer
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, pipeline_translation, train_tokenizer
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.hub.publish import CODE_FILES

TEXTS = ["the old man sees a dog .", "", "two dogs run", "der alte Mann sieht einen Hund ."]
TRAVELLING = tuple(sorted(name.removesuffix(".py") for name in CODE_FILES))

WITHOUT_THE_PACKAGE = """
import json, sys
sys.modules["vaswani_transformer"] = None  # from here on, importing the package is an error
from transformers import AutoModel, AutoModelForSeq2SeqLM, pipeline
folder, copy, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
translator = pipeline("translation", model=folder, trust_remote_code=True, device="cpu")
translator.save_pretrained(copy)
again = pipeline(model=copy, trust_remote_code=True, device="cpu")
print(json.dumps({
    "modules": [type(translator).__module__, type(translator.model).__module__],
    "translations": translator(texts, batch_size=2),
    "of the copy": again(texts),
    "greedy": translator(texts, num_beams=1, extra_length=3),
    "bare model": type(AutoModel.from_pretrained(folder, trust_remote_code=True)).__name__,
    "model": type(AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)).__name__,
}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "en-de"
    tokenizer = train_tokenizer(TEXTS, 259)
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig.from_preset("tiny", vocab_size=len(tokenizer), encoder_layers=1, decoder_layers=1)
    )
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config.update(**PAPER_SEARCH, allow_custom_entries=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_elsewhere(script: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a script offline, in an empty folder, with an empty cache, and without this package."""
    home.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HOME": str(home / "cache"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_folder_translates_without_the_package(folder: Path, tmp_path: Path) -> None:
    from transformers import pipeline

    copy = tmp_path / "copy"
    done = run_elsewhere(WITHOUT_THE_PACKAGE, str(folder), str(copy), json.dumps(TEXTS), home=tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    here = pipeline("translation", model=str(folder), device="cpu")
    assert all(name.startswith("transformers_modules.") for name in found["modules"])
    assert found["translations"] == found["of the copy"] == here(TEXTS)
    assert found["greedy"] == here(TEXTS, num_beams=1, extra_length=3)
    assert (found["bare model"], found["model"]) == ("VaswaniModel", "VaswaniForConditionalGeneration")
    for name in ("config.json", "generation_config.json", *(f"{module}.py" for module in TRAVELLING)):
        assert (copy / name).read_bytes() == (folder / name).read_bytes(), name


def test_without_the_package_the_flag_is_asked_for(folder: Path, tmp_path: Path) -> None:
    script = "import sys; from transformers import pipeline; pipeline('translation', model=sys.argv[1])"
    done = run_elsewhere("import sys; sys.modules['vaswani_transformer'] = None; " + script, str(folder), home=tmp_path)
    assert done.returncode != 0
    assert "trust_remote_code" in done.stderr


def test_other_kinds_of_attention_travel(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = VaswaniConfig.from_preset("tiny", vocab_size=40, encoder_layers=1, attention_score="additive", attention_window=3)
    model = VaswaniForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path / "model")
    script = """
import json, sys
sys.modules["vaswani_transformer"] = None
import torch
from transformers import AutoModelForSeq2SeqLM
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1], trust_remote_code=True)
print(json.dumps(model.generate(torch.tensor([[5, 9, 3, 8, 2]]), max_new_tokens=8, num_beams=3).tolist()))
"""
    done = run_elsewhere(script, str(tmp_path / "model"), home=tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr
    here = model.generate(torch.tensor([[5, 9, 3, 8, 2]]), max_new_tokens=8, num_beams=3).tolist()
    assert json.loads(done.stdout.splitlines()[-1]) == here


def test_a_moved_folder_still_works(folder: Path, tmp_path: Path) -> None:
    from transformers import pipeline

    moved = shutil.copytree(folder, tmp_path / "moved away")
    assert pipeline("translation", model=str(moved), device="cpu")(TEXTS) == pipeline("translation", model=str(folder), device="cpu")(TEXTS)


TASKS_WITHOUT_THE_PACKAGE = """
import json, sys
sys.modules["vaswani_transformer"] = None  # from here on, importing the package is an error
import transformers
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
translator, copy, reader = sys.argv[1:]
classes = {}
for task in ("TextEncoding", "MaskedLM", "TokenClassification", "QuestionAnswering", "SequenceClassification"):
    model = getattr(transformers, f"AutoModelFor{task}").from_pretrained(translator, trust_remote_code=True)
    classes[task] = type(model).__name__
    if task == "QuestionAnswering":
        tokenizer = AutoTokenizer.from_pretrained(translator, trust_remote_code=False)
        pipeline(task="feature-extraction", model=model, tokenizer=tokenizer).save_pretrained(reader)
model.save_pretrained(copy)
tokenizer.save_pretrained(copy)
classes["of the copy"] = type(AutoModel.from_pretrained(copy, trust_remote_code=True)).__name__
classes["back"] = type(AutoModelForSeq2SeqLM.from_pretrained(copy, trust_remote_code=True)).__name__
classes["found"] = pipeline("text-classification", copy, trust_remote_code=True, device="cpu")("two dogs run")
classes["answer"] = pipeline(model=reader, trust_remote_code=True, device="cpu")("who", "two dogs run")
print(json.dumps(classes))
"""


def test_a_folder_does_other_tasks_without_the_package(folder: Path, tmp_path: Path) -> None:
    from transformers import pipeline

    copy, reader = tmp_path / "copy", tmp_path / "reader"
    done = run_elsewhere(TASKS_WITHOUT_THE_PACKAGE, str(folder), str(copy), str(reader), home=tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr
    classes = json.loads(done.stdout.splitlines()[-1])
    assert classes.pop("answer") == pipeline("question-answering", str(reader), device="cpu")("who", "two dogs run")
    assert classes.pop("found") == pipeline("text-classification", str(copy), device="cpu")("two dogs run")
    assert classes == {
        "TextEncoding": "VaswaniEncoderModel",
        "MaskedLM": "VaswaniForMaskedLM",
        "TokenClassification": "VaswaniForTokenClassification",
        "QuestionAnswering": "VaswaniForQuestionAnswering",
        "SequenceClassification": "VaswaniForSequenceClassification",
        "of the copy": "VaswaniEncoderModel",
        "back": "VaswaniForConditionalGeneration",
    }


def test_a_folder_holds_no_pickle(folder: Path) -> None:
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".py", ".safetensors"}


@pytest.mark.parametrize("module", TRAVELLING)
def test_travelling_code_asks_for_nothing_else(module: str) -> None:
    """Beside the standard library only what is always there, unless it can do without (inside `try:`); of its own only files that
    travel too, imported by name.
    """
    from transformers.dynamic_module_utils import get_imports

    path = Path(vaswani_transformer.__file__).with_name(f"{module}.py")
    assert set(get_imports(path)) <= {*sys.stdlib_module_names, "huggingface_hub", "safetensors", "torch", "transformers"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1
            assert node.module in TRAVELLING


def test_no_text_of_the_travelling_code_looks_like_an_import() -> None:
    """transformers finds relative imports with a regular expression, in docstrings too."""
    from transformers.dynamic_module_utils import get_relative_import_files

    files = get_relative_import_files(str(Path(pipeline_translation.__file__).with_name("modeling_vaswani.py")))
    # The other models import this file, so it is among those that it needs
    assert {Path(name).stem for name in files} == set(TRAVELLING)
    assert all(Path(name).is_file() for name in files)
