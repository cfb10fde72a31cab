"""From an evaluated run to a repository of the Hugging Face Hub: assemble the folder, load it as a stranger would, upload it."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from huggingface_hub import HfApi, ModelCard, constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id

from ..files.atomic_folder import atomic_folder
from ..files.checksums import CHECKSUMS, verify
from ..files.json_files import read_json
from ..report.model_card import write_card
from ..run_folder import RunFolder
from ..shortlist import SHORTLIST_FILE
from ..task_of_folder import task_of, writes_text, wrong_task_of_card
from . import clean_process

MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer_config.json",
)
"""Of a model that writes text; one for another task has no settings of a search."""
SEARCH_FILE = "generation_config.json"
OPTIONAL_FILES = (SHORTLIST_FILE,)
"""What a model may have besides."""
TOKENIZERS = (
    ("tokenizer.json",),
    ("source.spm", "target.spm", "vocab.json"),
    ("merges.txt", "vocab-src.json", "vocab-tgt.json"),
)
"""The files of a tokenizer: ours, Marian's, and that of models converted from fairseq."""
TOKENIZER_FILES = (*(name for names in TOKENIZERS for name in names), "target_vocab.json")
CODE_FILES = (
    "configuration_vaswani.py",
    "additive_score.py",
    "attention_window.py",
    "layers.py",
    "modeling_vaswani.py",
    "modeling_tasks.py",
    "task_inputs.py",
    "parallel_heads.py",
    "packing.py",
    "bare_layers.py",
    "encoder_pass.py",
    "kept_settings.py",
    "decoder_step.py",
    "tokenizer_identity.py",
    "shortlist.py",
    "selected_rows.py",
    "stepping.py",
    "beam_search.py",
    "block_steps.py",
    "drafts.py",
    "blockwise_search.py",
    "decoding.py",
    "copied_items.py",
    "constrained_search.py",
    "copying.py",
    "languages.py",
    "sentence_splitting.py",
    "search_settings.py",
    "answer_windows.py",
    "pipeline_text_to_text.py",
    "pipeline_translation.py",
    "pipeline_question_answering.py",
)
FORMER_CODE_FILES = ("bare_layer.py",)
"""Further code files in checkpoints of earlier versions."""
PUBLISHED_FILES = (*MODEL_FILES, *OPTIONAL_FILES, *TOKENIZER_FILES, *CODE_FILES, *FORMER_CODE_FILES)
DOCUMENTS = ("README.md", "curves.png", "heads.png", "attention.png", "evaluation.json")
_PACKAGE = Path(__file__).parents[1]
_FIRST_SENTENCE = "A man is reading a book."


class PublishError(RuntimeError):
    """The folder cannot be published, or the Hub refused it; the sentence says why and what to do."""


def publish(
    folder: Path,
    repo_id: str | None = None,
    *,
    private: bool = False,
    revision: str | None = None,
    dry_run: bool = False,
    allow_useless: bool = False,
) -> None:
    """Assemble (if `folder` is a run), check and upload; report each step on standard output.

    Args:
        folder: a run's folder, or one that `assemble` has made.
        repo_id: the repository, such as `name/model`; without it nothing is uploaded.
        private: create the repository as a private one.
        revision: the branch, created where it does not exist; `main` by default.
        dry_run: stop before the upload.
        allow_useless: upload even a model whose translations are useless.

    Raises:
        PublishError: `repo_id` is not a repository's id, or the model is useless; see also `check` and `upload`.
        FileNotFoundError, ValueError: see `assemble`.
    """
    if repo_id is not None:
        check_repo_id(repo_id)
    if (folder / RunFolder(folder).averaged.name).is_dir():
        folder = assemble(RunFolder(folder), repo_id)
    files = list_files(folder)
    for file in files:
        print(f"{file.stat().st_size:>14,} bytes  {file.name}")
    print(f"{sum(file.stat().st_size for file in files):>14,} bytes  in {folder}")
    sentence, said = check(folder)
    task = task_of(folder)
    found = f"it translates {sentence!r} as {said!r}" if task == "translation" else f"its {task} of {sentence!r} is {said!r}"
    print(f"Loaded in a process without the package; {found}.")
    upload_unless_useless(
        folder,
        find_faults(folder, said),
        repo_id,
        lambda identity: upload(folder, identity, private=private, revision=revision),
        revision=revision,
        dry_run=dry_run,
        allow_useless=allow_useless,
    )


def upload_unless_useless(
    folder: Path,
    faults: Sequence[str],
    repo_id: str | None,
    send: Callable[[str], str],
    *,
    kind: str = "",
    revision: str | None,
    dry_run: bool,
    allow_useless: bool,
) -> None:
    """The last step of publishing a model or a Space: warn of `faults`, then upload, or say why not.

    Args:
        folder: what was checked.
        faults: what makes it useless.
        repo_id: the repository; without it nothing is uploaded.
        send: uploads to a repository and gives the address.
        kind: how addresses on the Hub begin: empty for a model, `"spaces/"`.
        revision, dry_run, allow_useless: see `publish`.

    Raises:
        PublishError: it is useless; what `send` raises.
    """
    for fault in faults:
        print(f"Warning: {fault}.")
    if faults and repo_id is not None and not allow_useless:
        raise PublishError(
            f"{folder} was not published, because {faults[0]}; train longer, or, if that is what you want to publish, add --allow-useless."
        )
    if repo_id is None:
        print("Not uploaded: no --repo-id was given.")
    elif dry_run:
        print(f"Dry run: would be uploaded to {constants.ENDPOINT}/{kind}{repo_id}, branch {revision or 'main'}.")
    else:
        print(f"Uploaded: {send(repo_id)}")


def assemble(run: RunFolder, model_id: str | None = None) -> Path:
    """Gather the files for the Hub in `run.published`, which appears whole or not at all.

    Args:
        run: an evaluated run.
        model_id: the repository's id, for the card's examples.

    Raises:
        FileNotFoundError: a stage is missing; the sentence says which.
        ValueError: the averaged folder holds something that does not belong on the Hub, is damaged, or is not the model that
            was evaluated.
    """
    model_files = _check_model(run.averaged)
    verify(run.averaged)
    with atomic_folder(run.published) as unfinished:
        write_card(run, unfinished / run.card.name, model_id)
        for file in [*model_files, run.evaluation]:
            shutil.copyfile(file, unfinished / file.name)
        if not any(file.name in FORMER_CODE_FILES for file in model_files):  # an earlier version's code is complete by itself
            for name in CODE_FILES:
                if not (unfinished / name).exists() and (_PACKAGE / name).is_file():
                    shutil.copyfile(_PACKAGE / name, unfinished / name)
    return run.published


def shown_name(folder: Path, model_id: str | None) -> str:
    """What a Space calls its model: the name of its repository or, without one, of its run or folder."""
    if model_id:
        return model_id.rpartition("/")[2]
    absolute = folder.absolute()
    return absolute.parent.name if absolute.name == "published" else absolute.name


def list_files(folder: Path) -> list[Path]:
    """The files of a published folder.

    Raises:
        PublishError: a file is missing, or one does not belong on the Hub, or the card cannot be read or names another task.
    """
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    names = {file.name for file in files}
    if missing := [*_missing(folder, names), *({"README.md"} - names)]:
        raise PublishError(f"{folder} is neither a run's folder nor a published one: {', '.join(missing)} is missing.")
    for file in files:
        if file.name not in (*PUBLISHED_FILES, *DOCUMENTS) or not file.is_file():
            raise PublishError(f"{file} does not belong in a published folder; remove it.")
    task, tag = task_of(folder), _pipeline_tag(folder / "README.md")
    if wrong_task_of_card(task, tag):
        raise PublishError(f"{folder / 'README.md'} has `pipeline_tag: {tag}`, but this model is one for {task}; write that.")
    return files


def _pipeline_tag(card: Path) -> str | None:
    """The task that a card names."""
    try:
        tag: str | None = ModelCard.load(card).data.pipeline_tag
    except (yaml.YAMLError, ValueError, TypeError) as error:  # TypeError: a key that is no text
        reason = " ".join(str(error).split()).rstrip(".")
        raise PublishError(
            f"{card} cannot be read as a model card ({reason}); save it as UTF-8, with the Hub's metadata as valid YAML between the two "
            "lines `---` on top."
        ) from error
    return tag


def require_translator(folder: Path) -> None:
    """Raise a `PublishError` unless the model in `folder` translates, as every Space here does."""
    if (task := task_of(folder)) != "translation":
        raise PublishError(f"{folder} holds a model for {task}, and a Space translates; publish the model itself, without a Space.")


def check(folder: Path) -> tuple[str, str]:
    """Load `folder` in a new process that cannot import this package and has no network, and use it for one sentence there.

    Returns:
        The sentence, and its translation or what else the model says of it.

    Raises:
        PublishError: it failed; the sentence ends with the last line of the process's error output.
    """
    sentence, languages = _FIRST_SENTENCE, []
    if (folder / "evaluation.json").is_file():
        first = read_json(folder / "evaluation.json")["test_sets"][0]
        sentence = first["samples"][0]["source"]
        languages = [first["tgt_lang"]] if "tgt_lang" in first else []
    program = [
        sys.executable,
        "-E",
        "-P",
        clean_process.__file__,
        str(folder.absolute()),
        task_of(folder),
        sentence,
        *languages,
    ]
    with tempfile.TemporaryDirectory() as elsewhere:
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": elsewhere}
        process = subprocess.run(
            program,
            cwd=elsewhere,
            env=environment,
            stdin=subprocess.DEVNULL,  # code that asks a question gets no answer
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    if process.returncode != 0:
        last_words = (process.stderr.strip() or f"exit status {process.returncode}").splitlines()[-1]
        raise PublishError(f"{folder} does not load without the package, so it was not published: {last_words}")
    return sentence, json.loads(process.stdout.splitlines()[-1])


def find_faults(folder: Path, said: str) -> list[str]:
    """Signs that a model is useless, as parts of a sentence: it says nothing, or there is a test set without a single match.

    Args:
        folder: a published folder.
        said: what `check` returned.
    """
    evaluation = folder / "evaluation.json"
    test_sets = read_json(evaluation)["test_sets"] if evaluation.is_file() else []
    faults = []
    for test_set in test_sets:
        metric = next(iter(test_set["metrics"]))
        if round(test_set["metrics"][metric]["score"], 2) == 0:
            shown = {"sacrebleu": "sacreBLEU"}.get(metric, metric)
            faults.append(f"its {shown} on {test_set['name']} is 0")
    return faults if said.strip() else [f"its {task_of(folder)} of the sentence above is empty", *faults]


def upload(
    folder: Path,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Create the repository where it does not exist and commit the files of `folder` to it.

    Args:
        folder: a checked folder.
        repo_id: such as `name/model`.
        private: create it as a private one.
        revision: the branch, created where it does not exist; `main` by default.
        token: by default that of `hf auth login` or `HF_TOKEN`.
        endpoint: the Hub's address; by default that of the environment (`HF_ENDPOINT`).

    Returns:
        The commit's address.

    Raises:
        PublishError: the Hub refused, or could not be reached.
    """
    return commit_files(folder, list_files(folder), repo_id, private=private, revision=revision, token=token, endpoint=endpoint)


def commit_files(
    folder: Path,
    files: Sequence[Path],
    repo_id: str,
    *,
    space_sdk: str | None = None,
    private: bool = False,
    revision: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Create a repository, of a model or a Space, where it does not exist, and put `files` into it in one commit.

    Args:
        folder: where the files lie; their paths below it are those in the repository.
        files: what is uploaded, and nothing else.
        repo_id: such as `name/model`.
        space_sdk: what runs the Space, such as "gradio" or "static"; None for a model.
        private, revision, token, endpoint: see `upload`.

    Returns:
        The commit's address.

    Raises:
        PublishError: the Hub refused, or could not be reached.
    """
    repo_type = None if space_sdk is None else "space"
    api = HfApi(token=token, endpoint=endpoint)
    try:
        api.create_repo(repo_id, private=private, exist_ok=True, repo_type=repo_type, space_sdk=space_sdk)
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True, repo_type=repo_type)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            allow_patterns=[glob.escape(file.relative_to(folder).as_posix()) for file in files],
            commit_message=f"Publish {repo_id.rpartition('/')[2]}",
            repo_type=repo_type,
        )
    except Exception as error:  # the Hub's client lets errors of several libraries through; each becomes one sentence
        raise PublishError(_refusal(f"{repo_id} was not published on {api.endpoint}", error)) from error
    return commit.commit_url


def check_repo_id(repo_id: str) -> None:
    """Check the id before any work: the Hub would refuse it only at the end."""
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        reason = str(error).partition(": '")[0]
        raise PublishError(f"{repo_id!r} cannot name a repository; give USER/MODEL ({reason}).") from error
    if "/" not in repo_id:
        raise PublishError(f"{repo_id!r} does not name a repository; give USER/MODEL, your own name or your organisation's first.")


def _check_model(folder: Path) -> list[Path]:
    """The files of an averaged checkpoint, all of them fit for the Hub; without hashes, since the Hub keeps its own."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [file for file in files if file.name != CHECKSUMS]
    names = {file.name for file in files}
    if missing := _missing(folder, names):
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}; finish the training of this run first.")
    for file in files:
        if file.name not in PUBLISHED_FILES or not file.is_file():
            raise ValueError(f"{file} is neither a model file nor code that a checkpoint needs, so it is not published; remove it.")
    return files


def _missing(folder: Path, names: set[str]) -> list[str]:
    """The files that a model lacks among these names; for the tokenizer, those of the kind that is partly there."""
    tokenizer = next((files for files in TOKENIZERS if names & set(files)), TOKENIZERS[0])
    wanted = [name for name in MODEL_FILES if name != SEARCH_FILE or writes_text(task_of(folder))]
    return [name for name in (*wanted, *tokenizer) if name not in names]


def _refusal(what: str, error: Exception) -> str:
    """One sentence that says what failed with the Hub, and what to do."""
    status = error.response.status_code if isinstance(error, HfHubHTTPError) and error.response is not None else None
    if status in (401, 403):
        remedy = "log in with `hf auth login`, or set HF_TOKEN to a token that may write there"
    elif status is not None and status >= 500:
        remedy = "that is the Hub's trouble; run the same command again later"
    else:
        remedy = "see to the cause and run the same command again"
    said = " ".join(str(error).split()) or type(error).__name__
    return f"{what}: {said.rstrip('.')}. Nothing was committed; {remedy}."
