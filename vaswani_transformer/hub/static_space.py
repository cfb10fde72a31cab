"""A translator that runs in a visitor's browser, as a Space of the Hugging Face Hub without any program of ours on a server.

The folder is complete: the page, the model as ONNX in int8, the libraries with their licences. It asks no other machine for anything, so it
works from any web server.
"""

import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, SpaceCardData

from ..configuration_vaswani import PAPER_SEARCH
from ..files.atomic_file import write_text
from ..files.atomic_folder import atomic_folder
from ..files.json_files import read_json, write_json
from ..inspection.page import script, style
from ..interop.browser_onnx import SUFFIXES, Precision, export_browser_onnx
from ..run_folder import RunFolder
from .browser_packages import PARTS, provide_packages
from .publish import assemble, check_repo_id, commit_files, find_faults, require_translator, shown_name, upload_unless_useless
from .publish import list_files as files_of_model
from .static_space_check import check_static_space

PAGE = ("index.html", "style.css", "app.js", "worker.js", "loading.js", "sentences.js", "translator.js", "beam_search.js", "package.json")
"""The page's own files."""

_LONGEST_DESCRIPTION = 60
"""Characters; the Hub's own limit."""

_README = """---
{front_matter}
---

# {title}

{description}. Nothing that is typed leaves the visitor's device: this folder is all there is, and any web server can offer it.

| File | What it is |
|---|---|
| `onnx/`, `config.json`, `tokenizer.json` and more | {model}, {precision}, in the layout of `@huggingface/transformers` |
| `beam_search.js` | the search of "Attention Is All You Need": beams, GNMT's length penalty, a stop that loses nothing |
| `translator.js`, `sentences.js`, `loading.js`, `worker.js` | text in, translations out, in a worker |
| `index.html`, `app.js`, `style.css`, `attention.js`, `attention.css` | the page |
| `vendor/` | the libraries, with their licences |
"""


def publish_static_space(
    folder: Path,
    repo_id: str | None = None,
    *,
    model_id: str | None = None,
    private: bool = False,
    revision: str | None = None,
    dry_run: bool = False,
    allow_useless: bool = False,
) -> None:
    """Assemble a Space for browsers, let it translate as a browser would, and upload it; report each step on standard output.

    Args:
        folder: a run's folder, or a published one.
        repo_id: the Space, such as `name/space`; without it nothing is uploaded.
        model_id: the model's own repository, which the Space's card then links.
        private, revision, dry_run, allow_useless: see `publish`.

    Raises:
        PublishError: an id is impossible, the model is useless, or the page does not translate; see also `commit_files`.
        FileNotFoundError, ValueError: see `assemble` and `export_browser_onnx`.
        ImportError: the extra `browser` is not installed.
        OSError: npm is missing, or fails.
    """
    for identity in filter(None, (repo_id, model_id)):
        check_repo_id(identity)
    run = RunFolder(folder)
    is_run = run.averaged.is_dir()
    if is_run:
        folder = assemble(run, model_id)
    require_translator(folder)
    space = assemble_static_space(folder, run.static_space if is_run else folder.with_name(f"{folder.name}-static-space"), model_id)
    files = [file for file in sorted(space.rglob("*")) if file.is_file()]
    for file in files:
        print(f"{file.stat().st_size:>14,} bytes  {file.relative_to(space)}")
    print(f"{sum(file.stat().st_size for file in files):>14,} bytes  in {space}")
    if not _has_the_papers_penalty(folder):
        settings = ", ".join(f"{name}={value}" for name, value in PAPER_SEARCH.items())
        print(f"The page searches with the paper's settings ({settings}): the model's own have a penalty that it does not compute.")
    checked = check_static_space(space, folder)
    print(checked.sentence)
    upload_unless_useless(
        space,
        [*checked.faults, *find_faults(folder, checked.translation)],
        repo_id,
        lambda identity: commit_files(space, files, identity, space_sdk="static", private=private, revision=revision),
        kind="spaces/",
        revision=revision,
        dry_run=dry_run,
        allow_useless=allow_useless,
    )


def assemble_static_space(
    folder: Path,
    space: Path,
    model_id: str | None = None,
    *,
    precision: Precision = "int8",
    packages: Path | None = None,
) -> Path:
    """Gather the files of a Space for browsers in `space`, which appears whole or not at all.

    Args:
        folder: a published folder.
        space: where to.
        model_id: the model's own repository, for the card.
        precision: of the model.
        packages: where `provide_packages` has left the libraries; by default it is asked.

    Raises:
        PublishError: `folder` is no published folder.
        ValueError: the model cannot be exported to Marian's format.
        ImportError: the extra `browser` is not installed.
        OSError: npm is missing, or fails.
    """
    files_of_model(folder)
    packages = packages or provide_packages()
    with atomic_folder(space) as unfinished:
        export_browser_onnx(folder, unfinished / "model", precisions=[precision])
        for part in (unfinished / "model").iterdir():
            part.rename(unfinished / part.name)
        (unfinished / "model").rmdir()
        (unfinished / "vendor").mkdir()
        for file in packages.iterdir():
            if file.suffix != ".json":
                shutil.copyfile(file, unfinished / "vendor" / file.name)
        for name in PAGE:
            shutil.copyfile(PARTS / name, unfinished / name)
        write_text(unfinished / "attention.js", script())
        write_text(unfinished / "attention.css", style())
        languages = _languages(folder)
        title = shown_name(folder, model_id)
        loaded = [unfinished / "vendor" / "ort-wasm-simd-threaded.wasm", *unfinished.glob("onnx/*"), *unfinished.glob("*config.json")]
        settings = {
            "title": title,
            "languages": languages,
            "precision": SUFFIXES[precision],
            "bytes": sum(file.stat().st_size for file in [*loaded, unfinished / "tokenizer.json"]),
            "search": _search(folder),
        }
        write_json(unfinished / "space.json", settings)
        write_text(unfinished / "README.md", _card(folder, title, languages, model_id, precision))
    return space


def _search(folder: Path) -> dict[str, Any]:
    """The search that the model was published with; where that has another penalty, the paper's."""
    own = read_json(folder / "generation_config.json")
    settings = PAPER_SEARCH | own if _has_the_papers_penalty(folder) else PAPER_SEARCH
    return {"beams": settings["num_beams"], "alpha": settings["length_penalty"], "extraLength": settings["extra_length"]}


def _has_the_papers_penalty(folder: Path) -> bool:
    return read_json(folder / "generation_config.json").get("length_penalty_type") == "gnmt"


def _card(folder: Path, title: str, languages: list[str], model_id: str | None, precision: Precision) -> str:
    """The Space's card, whose front matter configures the Space."""
    card = ModelCard.load(folder / "README.md").data
    data = SpaceCardData(
        title=title,
        sdk="static",
        app_file="index.html",
        license=card.license or "unknown",
        models=[model_id] if model_id else None,
        emoji="🌍",
        colorFrom="blue",
        colorTo="gray",
        pinned=False,
        short_description=f"Translates {' to '.join(languages)} in your browser".replace("  ", " ")[:_LONGEST_DESCRIPTION],
    )
    model = f"the model [{model_id}](https://huggingface.co/{model_id})" if model_id else "the model"
    description = data.to_dict()["short_description"]
    return _README.format(front_matter=data.to_yaml(), title=title, description=description, model=model, precision=precision)


def _languages(folder: Path) -> list[str]:
    """Codes of the source's and the target's language, where the evaluation knows both."""
    evaluation = read_json(folder / "evaluation.json") if (folder / "evaluation.json").is_file() else {}
    known = [evaluation[side] for side in ("source_language", "target_language") if side in evaluation]
    return [str(code) for code in known] if len(known) == 2 else []
