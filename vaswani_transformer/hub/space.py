"""A translator as a Space of the Hugging Face Hub: the demo's page, on a machine of theirs.

A Space is a folder that is complete: a card with what the Hub must know, the program, exact versions of all that it imports, the model, and
this package itself, file by file. So it shows what was tried here, whatever versions come later.
"""

import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, SpaceCardData

from .. import run_folder
from ..files.atomic_file import write_text
from ..files.atomic_folder import atomic_folder
from ..files.checksums import write_checksums
from ..files.json_files import read_json
from .publish import (
    CODE_FILES,
    DOCUMENTS,
    FORMER_CODE_FILES,
    assemble,
    check,
    check_repo_id,
    commit_files,
    find_faults,
    require_translator,
    shown_name,
    upload_unless_useless,
)
from .publish import list_files as files_of_model
from .requirements import pinned
from .space_check import check_space

ROOTS = (
    "accelerate", "gradio", "huggingface_hub", "numpy", "packaging", "PyYAML", "safetensors", "sentencex", "tokenizers", "torch", "tqdm",
    "transformers",
)  # fmt: skip
"""What the demo imports; all that these need is pinned, too."""
_PACKAGE = Path(__file__).parents[1]
_CPU_WHEELS = "--extra-index-url https://download.pytorch.org/whl/cpu"
_LONGEST_DESCRIPTION = 60
"""Characters; the Hub's own limit."""

_APP = '''"""Starts this Space: the page of `vaswani_transformer.demo`, with the model in `model/`."""

import os
from pathlib import Path

from vaswani_transformer.demo.server import serve

if __name__ == "__main__":
    serve(
        [str(Path(__file__).parent / "model")],
        host=os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"),
        port=int(os.environ.get("GRADIO_SERVER_PORT", "7860")),
        title={title},
    )
'''
_README = """---
{front_matter}
---

# {title}

{description}. The page shows each translation as it is written, the best ones with the search's scores, and where attention looks.

| File | What it is |
|---|---|
| `app.py` | starts the page |
| `model/` | {model} |
| `vaswani_transformer/` | the code, under Apache-2.0: [Attention Is All You Need](https://arxiv.org/abs/1706.03762) for transformers |
| `requirements.txt` | every other package, in the version with which this Space was tried |
"""


def publish_space(
    folder: Path,
    repo_id: str | None = None,
    *,
    model_id: str | None = None,
    private: bool = False,
    revision: str | None = None,
    dry_run: bool = False,
    allow_useless: bool = False,
) -> None:
    """Assemble a Space, start it in a clean folder, translate there, and upload it; report each step on standard output.

    Args:
        folder: a run's folder, or a published one.
        repo_id: the Space, such as `name/space`; without it nothing is uploaded.
        model_id: the model's own repository, which the Space's card then links.
        private, revision, dry_run, allow_useless: see `publish`.

    Raises:
        PublishError: an id is impossible, the model is useless, or the Space does not translate; see also `commit_files`.
        FileNotFoundError, ValueError: see `assemble`.
        ImportError: the demo's packages are not installed.
    """
    for identity in filter(None, (repo_id, model_id)):
        check_repo_id(identity)
    run = run_folder.RunFolder(folder)
    if run.averaged.is_dir():
        folder = assemble(run, model_id)
    require_translator(folder)
    space = assemble_space(folder, run.space if run.averaged.is_dir() else folder.with_name(f"{folder.name}-space"), model_id)
    files = [file for file in sorted(space.rglob("*")) if file.is_file()]
    print(f"{sum(file.stat().st_size for file in files):>14,} bytes  in {len(files)} files of {space}")
    sentence, translation = check(folder)
    for step in check_space(space, sentence, translation):
        print(step)
    upload_unless_useless(
        space,
        find_faults(folder, translation),
        repo_id,
        lambda identity: commit_files(space, files, identity, space_sdk="gradio", private=private, revision=revision),
        kind="spaces/",
        revision=revision,
        dry_run=dry_run,
        allow_useless=allow_useless,
    )


def assemble_space(folder: Path, space: Path, model_id: str | None = None) -> Path:
    """Gather the files of a Space in `space`, which appears whole or not at all.

    Args:
        folder: a published folder.
        space: where to.
        model_id: the model's own repository, for the card.

    Raises:
        PublishError: `folder` is no published folder.
        ImportError: the demo's packages are not installed.
    """
    model_files = files_of_model(folder)
    name = shown_name(folder, model_id)
    roots = [*ROOTS, *(["sentencepiece"] if any(file.suffix == ".spm" for file in model_files) else [])]
    requirements = "\n".join([_CPU_WHEELS, *pinned(roots)]) + "\n"
    with atomic_folder(space) as unfinished:
        (unfinished / "model").mkdir()
        for file in model_files:
            if file.name not in (*CODE_FILES, *FORMER_CODE_FILES, *DOCUMENTS) or file.name == "evaluation.json":
                shutil.copyfile(file, unfinished / "model" / file.name)
        write_checksums(unfinished / "model")
        shutil.copytree(_PACKAGE, unfinished / _PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        write_text(unfinished / "requirements.txt", requirements)
        write_text(unfinished / "app.py", _APP.format(title=json.dumps(name)))
        write_text(unfinished / "README.md", _card(folder, name, model_id))
    return space


def _card(folder: Path, name: str, model_id: str | None) -> str:
    """The Space's card, whose front matter configures the Space."""
    data = SpaceCardData(title=name, sdk="gradio", **_configuration(folder, model_id))
    description = data.to_dict()["short_description"]
    model = f"the model, [{model_id}](https://huggingface.co/{model_id})" if model_id else "the model"
    return _README.format(front_matter=data.to_yaml(), title=name, description=description, model=model)


def _configuration(folder: Path, model_id: str | None) -> dict[str, Any]:
    card = ModelCard.load(folder / "README.md").data
    languages = " to ".join(_languages(folder))
    description = f"Translates {languages}" if languages else "Translates"
    return {
        "sdk_version": version("gradio"),
        "python_version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "app_file": "app.py",
        "license": card.license or "unknown",
        "models": [model_id] if model_id else None,
        "emoji": "🌍",
        "colorFrom": "blue",
        "colorTo": "gray",
        "pinned": False,
        "short_description": f"{description} with a Transformer"[:_LONGEST_DESCRIPTION],
    }


def _languages(folder: Path) -> list[str]:
    evaluation = read_json(folder / "evaluation.json") if (folder / "evaluation.json").is_file() else {}
    return [str(evaluation[side]) for side in ("source_language", "target_language") if side in evaluation]
