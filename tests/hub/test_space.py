"""A Space as it is assembled, started and uploaded. The model is one of random weights, whose translations the plain pipeline tells."""

import re
import shutil
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pytest
from huggingface_hub import SpaceCard

from tests.hub.test_upload import TOKEN, HubServer, hub
from vaswani_transformer.files.checksums import CHECKSUMS, verify
from vaswani_transformer.hub import space as space_module
from vaswani_transformer.hub.publish import MODEL_FILES, PublishError, assemble, check, commit_files
from vaswani_transformer.hub.requirements import pinned
from vaswani_transformer.hub.space import assemble_space, publish_space
from vaswani_transformer.hub.space_check import check_space, pinned_names, running_space
from vaswani_transformer.run_folder import RunFolder

pytest.importorskip("gradio", reason='the demo needs Gradio: pip install "vaswani_transformer[demo]"')
__all__ = ["hub"]
PACKAGE = Path(space_module.__file__).parents[1]


@pytest.fixture(scope="module")
def published(finished_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = shutil.copytree(finished_run.path, tmp_path_factory.mktemp("space") / "toy")
    return assemble(RunFolder(copy), "somebody/toy")


@pytest.fixture(scope="module")
def space(published: Path) -> Path:
    return assemble_space(published, published.with_name("space"), "somebody/toy")


def names_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_is_complete_and_holds_nothing_else(space: Path, published: Path) -> None:
    names = names_below(space)
    code = {f"vaswani_transformer/{name}" for name in names_below(PACKAGE) if "__pycache__" not in name}
    model = {name for name in names if name.startswith("model/")}
    assert names - code - model == {"README.md", "app.py", "requirements.txt"}
    kept = [*MODEL_FILES, "tokenizer.json", "evaluation.json", CHECKSUMS]
    assert model == {f"model/{name}" for name in kept}
    assert (space / "model" / "model.safetensors").read_bytes() == (published / "model.safetensors").read_bytes()
    verify(space / "model")


def test_the_card_configures_the_space(space: Path) -> None:
    card = SpaceCard.load(space / "README.md")
    data = card.data.to_dict()
    assert (data["sdk"], data["sdk_version"], data["app_file"]) == ("gradio", version("gradio"), "app.py")
    assert (data["title"], data["license"], data["models"]) == ("toy", "cc-by-4.0", ["somebody/toy"])
    assert re.fullmatch(r"3\.\d+", data["python_version"]) and len(data["short_description"]) <= 60
    assert "en to de" in data["short_description"] and "{" not in card.text


def test_the_requirements_are_what_is_installed(space: Path) -> None:
    lines = (space / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("--extra-index-url ")
    assert f"gradio=={version('gradio')}" in lines and f"transformers=={version('transformers')}" in lines
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines[1:]) and len(set(lines)) == len(lines)
    assert {"starlette", "huggingface_hub", "regex"} <= set(pinned_names(space)), "needed only by what is needed"
    with pytest.raises(ImportError, match="pip install no-such-package"):
        pinned(["no-such-package"])


@pytest.fixture(scope="module")
def expected(published: Path) -> tuple[str, str]:
    return check(published)


def test_it_is_started_and_translates_like_the_plain_pipeline(space: Path, expected: tuple[str, str]) -> None:
    steps = list(check_space(space, *expected))
    assert repr(expected[1]) in steps[1]
    assert len(steps) == 3 and steps[2].startswith(("Clicked through", "Not clicked through"))


def test_a_space_that_lacks_a_package_is_not_published(space: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(space, tmp_path / "space"))
    requirements = broken / "requirements.txt"
    requirements.write_text(re.sub(r"^gradio==.*\n", "", requirements.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")
    with pytest.raises(PublishError, match=r"does not start, so it was not published: .*Gradio"), running_space(broken):
        pass


def test_a_space_that_translates_otherwise_is_not_published(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaswani_transformer.hub.space_check.running_space", lambda space: nullcontext("http://127.0.0.1:1"))
    monkeypatch.setattr("vaswani_transformer.hub.space_check._by_api", lambda address, sentence: "another")
    with pytest.raises(PublishError, match="translates 'A dog' as 'another', and the plain pipeline as 'Ein Hund'"):
        list(check_space(space, "A dog", "Ein Hund"))


def test_every_byte_arrives(space: Path, hub: HubServer) -> None:
    files = sorted(path for path in space.rglob("*") if path.is_file())
    commit_files(space, files, "somebody/space", space_sdk="gradio", token=TOKEN, endpoint=hub.endpoint)
    assert hub.sdks == {"somebody/space": "gradio"}
    assert hub.branches["somebody/space", "main"] == {path.relative_to(space).as_posix(): path.read_bytes() for path in files}


def test_a_dry_run_tells_everything_and_uploads_nothing(
    published: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(space_module, "check", lambda folder: ("A dog.", "Ein Hund."))
    monkeypatch.setattr(space_module, "check_space", lambda *_: ["It was started."])
    monkeypatch.setattr(space_module, "commit_files", lambda *_, **__: pytest.fail("it was uploaded"))
    publish_space(published.parent, "somebody/space", dry_run=True, allow_useless=True)
    said = capsys.readouterr().out
    assert "It was started." in said and "Dry run: would be uploaded to https://huggingface.co/spaces/somebody/space, branch main." in said
    assert RunFolder(published.parent).space.is_dir()
    with pytest.raises(PublishError, match="its sacreBLEU on toy_test is 0"):
        publish_space(published.parent, "somebody/space")
    with pytest.raises(PublishError, match="'space' does not name a repository"):
        publish_space(published.parent, "space")
