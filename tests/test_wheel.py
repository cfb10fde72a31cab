"""What `pip install` gives: built from the checkout, installed where there is no repository, used from an empty folder."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import vaswani_transformer
from vaswani_transformer.data.builtin.corpus import builtin_pairs

ROOT = Path(__file__).parents[1]
PACKAGE = "vaswani_transformer"
SHORT = {
    "tokenizer.vocab_size": 500,
    "model.d_model": 32,
    "training.updates": 4,
    "training.checkpoint_every": 2,
    "training.validate_every": 2,
    "training.average_checkpoints": 2,
    "validation.sentences": 4,
}
FEW = {
    "data.train": "[{format: builtin, split: train, limit: 2000}]",
    "data.validation.limit": 20,
    "data.test.builtin.limit": 20,
}


def overrides(settings: dict[str, object]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def call(*command: object, cwd: Path, environment: dict[str, str] | None = None, text: str | None = None) -> str:
    """Standard output of a program that ends well."""
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, input=text, capture_output=True, text=True, timeout=600
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist of the checkout, and the wheel that is built from the sdist alone."""
    pytest.importorskip("hatchling", reason="both are built with hatchling, which scripts/test.sh installs")
    folder = tmp_path_factory.mktemp("built")
    call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def vaswani(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> "Installed":
    folder = tmp_path_factory.mktemp("installed")
    # No index is asked: what the package needs is in this environment already
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    call(*pip, "--target", folder / "packages", built[1], cwd=folder)
    (folder / "empty").mkdir()
    return Installed(folder / "packages", folder / "empty")


class Installed:
    """The command `vaswani` of the wheel, called in a folder that was empty at first."""

    def __init__(self, packages: Path, folder: Path) -> None:
        self.packages, self.folder = packages, folder

    def __call__(self, *arguments: object, text: str | None = None) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.packages), "HF_HUB_OFFLINE": "1"}
        return call(self.packages / "bin" / "vaswani", *arguments, cwd=self.folder, environment=environment, text=text)


def test_the_archives_are_what_the_index_takes(built: tuple[Path, Path]) -> None:
    pytest.importorskip("twine", reason="scripts/test.sh installs it")
    told = call(sys.executable, "-m", "twine", "check", "--strict", *built, cwd=ROOT)
    assert told.count("PASSED") == 2


def test_the_wheel_holds_the_product_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (wheel.read(name).decode() for name in names if name.endswith("METADATA"))
        (entries,) = (wheel.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    recipes = {f"{PACKAGE}/recipes/{path.name}" for path in (ROOT / "scripts" / "recipes").iterdir()}
    assert recipes | {f"{PACKAGE}/py.typed", f"{PACKAGE}/__main__.py", f"{PACKAGE}/report/template.md"} <= names
    folders = {name.split("/")[0].split("-")[0] for name in names}
    assert folders == {PACKAGE} and not [name for name in names if "tests/" in name or "benchmarks/" in name]
    assert Parser().parsestr(metadata)["Version"] == vaswani_transformer.__version__
    assert f"vaswani = {PACKAGE}.__main__:app" in entries


def test_from_the_wheel_alone_to_a_translation(vaswani: Installed) -> None:
    assert vaswani("--version") == f"vaswani_transformer {vaswani_transformer.__version__}\n"
    assert "builtin_tiny" in vaswani("recipes")
    assert vaswani("recipes", "show", "builtin_tiny") == (ROOT / "scripts/recipes/builtin_tiny.yaml").read_text(encoding="utf-8")
    vaswani("train", "builtin_tiny", *overrides(FEW | SHORT))
    run = vaswani.folder / "runs" / "builtin_tiny"
    assert (run / "averaged" / "model.safetensors").is_file()
    assert "sacrebleu" in vaswani("evaluate", run)
    vaswani("card", run)
    assert "Loaded in a process without the package" in vaswani("publish", run, "--dry-run")
    assert "builtin_tiny" in (run / "published" / "README.md").read_text(encoding="utf-8")
    assert vaswani("translate", run / "published", "--num-beams", 2, text="The dog sleeps.\n\n").count("\n") == 2


def test_two_text_files_become_a_translator_in_three_lines(vaswani: Installed) -> None:
    pairs = list(builtin_pairs("train", 300))
    for side, language in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (vaswani.folder / f"train.{language}").write_text(lines, encoding="utf-8")
    assert "vaswani train my.yaml" in vaswani("new", "my", "--source", "train.en", "--target", "train.de")
    vaswani("train", "my.yaml", *overrides(SHORT))
    assert vaswani("translate", "runs/my/averaged", text="The dog sleeps.\n").count("\n") == 1
