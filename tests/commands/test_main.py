"""How the command answers: help without waiting, one line for a mistake, a status that a shell understands."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import vaswani_transformer
from vaswani_transformer.__main__ import VERBS, OneLineErrors, app

ROOT = Path(__file__).parents[2]
PATHS = ["", *VERBS, "recipes show", "convert marian", "convert fairseq"]


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="vaswani")


def python(program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)


def test_no_help_waits_for_torch_or_transformers() -> None:
    done = python(
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from vaswani_transformer.__main__ import app\n"
        f"for words in {PATHS!r}:\n"
        "    shown = CliRunner().invoke(app, [*words.split(), '--help'])\n"
        "    assert shown.exit_code == 0 and 'Usage:' in shown.stdout, (words, shown.output)\n"
        "print(sorted({'torch', 'transformers', 'numpy', 'datasets', 'yaml', 'rich'} & set(sys.modules)))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_help_lists_every_verb_with_a_whole_sentence() -> None:
    listed = call("--help").stdout.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in listed] == list(VERBS)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_the_version_is_said() -> None:
    assert call("--version").stdout == f"vaswani_transformer {vaswani_transformer.__version__}\n"


def test_nothing_asked_is_wrong_usage() -> None:
    told = call()
    assert told.exit_code == 2 and told.stdout == "" and "Commands:" in told.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("trian", "No such command 'trian'. Did you mean 'train'? `vaswani --help`"),
        ("train", "Missing argument 'NAME-OR-FILE'. `vaswani train --help`"),
        ("train builtin_tiny --run-foldr x", "No such option: --run-foldr (Possible options: --run-folder) `vaswani train --help`"),
        ("translate m --nbest 0", "Invalid value for '--nbest': Input should be greater than or equal to 1. `vaswani translate --help`"),
        ("translate m --engine c", "Invalid value for '--engine': 'c' is not one of 'pytorch', 'ctranslate2'. `vaswani translate --help`"),
        ("convert", "Missing command. `vaswani convert --help`"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_status_2(words: str, sentence: str) -> None:
    told = call(*words.split())
    assert (told.exit_code, told.stdout, told.stderr) == (2, "", f"error: {sentence} tells more.\n")


def small(raised: BaseException) -> typer.Typer:
    """A command of the same kind with a verb that fails."""
    other = typer.Typer(cls=OneLineErrors, rich_markup_mode=None, pretty_exceptions_enable=False)

    @other.command()
    def fail() -> None:
        raise raised

    @other.command()
    def rest() -> None:
        pass

    return other


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (ValueError("There is no x; give y."), 1, "error: There is no x; give y.\n"),
        (OSError("The first line,\n  and the second."), 1, "error: The first line, and the second.\n"),
        (ModuleNotFoundError("No module named 'peft'", name="peft"), 1, "error: No module named 'peft'\n"),
        (MemoryError(), 1, "error: MemoryError\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_of_the_user_is_one_line_and_status_1(raised: BaseException, status: int, said: str) -> None:
    told = CliRunner().invoke(small(raised), ["fail"])
    assert (told.exit_code, told.stdout, told.stderr) == (status, "", said)


@pytest.mark.parametrize("raised", [KeyError("a bug"), ImportError("a bug", name="vaswani_transformer.data")])
def test_a_bug_is_no_sentence(raised: Exception) -> None:
    told = CliRunner().invoke(small(raised), ["fail"])
    assert told.exception is raised and told.stderr == ""


def test_a_bug_shows_pythons_own_traceback() -> None:
    done = python(
        "from vaswani_transformer import __main__ as command\n"
        "from vaswani_transformer.commands import recipes\n"
        "recipes.shipped_recipes = lambda: 1 / 0\n"
        "command.app(['recipes'])\n"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_the_shell_completes_verbs_and_recipes() -> None:
    def completed(words: str) -> list[str]:
        asked = {"_VASWANI_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        return CliRunner().invoke(app, prog_name="vaswani", env=asked).stdout.split()

    assert completed("vaswani tr") == ["train", "translate"]
    assert completed("vaswani train builtin") == ["builtin_tiny"]


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vaswani_transformer", "recipes", "show", "nothing"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"error: There is no recipe file nothing, .*\n", done.stderr)
