"""The README is tested too: its commands and options exist, its Python compiles, its recipes load, its links lead on."""

import ast
import importlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from vaswani_transformer.__main__ import app
from vaswani_transformer.commands.recipes import find_recipe
from vaswani_transformer.recipe import load_recipe, parse_recipe

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
NOT_OURS = {"git", "cd", "source", "pip", "hf", "export", "pre-commit", "optimum-cli"}
"""Commands of other programs, which the README may name and which need a network or change the shell."""
WRITTEN_BY_THE_READER = {"RECIPE", "my_pair.yaml"}


@cache
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(*languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(readme()) if language in languages]


def commands() -> list[list[str]]:
    """The words of every command in the shell blocks; comments are gone and continued lines are one."""
    text = "\n".join(blocks("bash", "sh", "shell", "console")).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in text.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@cache
def help_of(*program: str) -> str:
    command, environment = [sys.executable, *program, "--help"], os.environ | {"PYTHONPATH": str(ROOT)}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0, f"{shlex.join(program)} --help failed: {shown.stderr[-500:]}"
    return shown.stdout


@cache
def help_of_verb(*words: str) -> str:
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0, f"vaswani {shlex.join(words)}: {shown.stderr}"
    return shown.stdout


def arguments_of_ours(words: list[str]) -> list[str] | None:
    """What follows `vaswani`, or `python -m vaswani_transformer` under whatever launcher; None for another program."""
    if words[0] == "vaswani":
        return words[1:]
    return next((words[i + 2 :] for i, pair in enumerate(itertools.pairwise(words)) if pair == ("-m", "vaswani_transformer")), None)


def check_verb(arguments: list[str]) -> None:
    """The verb exists and takes these options, and the recipe with its overrides loads."""
    verb, *rest = arguments
    known = help_of_verb(verb, *rest[:1]) if verb == "convert" else help_of_verb(verb)
    check_options(rest, known, verb)
    if verb == "train" and rest[0] not in WRITTEN_BY_THE_READER:
        overrides = [value for option, value in itertools.pairwise(rest) if option == "--set"]
        load_recipe(find_recipe(rest[0]), overrides)


def check_command(words: list[str]) -> None:
    """A command is one of ours that exists and takes these options, or a well-known one of somebody else's."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):  # settings in front, as in OMP_NUM_THREADS=1 python ...
        words = words[1:]
    if words[0] in NOT_OURS or words[:3] == ["python", "-m", "venv"]:
        return
    if (ours := arguments_of_ours(words)) is not None:
        check_verb(ours)
        return
    if words[:2] == ["python", "-m"]:
        check_options(words[3:], help_of("-m", words[2]), words[2])
        return
    script = next((word for word in words if word.startswith("scripts/") and word.endswith(".sh")), None)
    assert script is not None, f"nobody tests the command {shlex.join(words)}"
    launcher = words[: words.index(script)]
    assert launcher[:1] == ["bash"]
    assert (ROOT / script).is_file(), f"{script} does not exist"
    arguments = words[words.index(script) + 1 :]
    check_options(arguments, (ROOT / script).read_text(encoding="utf-8"), script)


def check_options(arguments: list[str], known: str, program: str) -> None:
    for option in (word.partition("=")[0] for word in arguments if word.startswith("--")):
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known), f"{program} does not know {option}"


def test_the_long_way_is_made_of_commands_that_exist() -> None:
    lines = (ROOT / "scripts" / "wmt14_en_de.sh").read_text(encoding="utf-8").splitlines()
    steps = [shlex.split(line) for line in lines if line.startswith(("vaswani ", "accelerate "))]
    assert len(steps) == 4
    for words in steps:
        check_command(words)


def test_the_two_commands_are_there() -> None:
    assert {"bash scripts/quickstart.sh", "bash scripts/test.sh"} <= {shlex.join(words) for words in commands()}


def test_every_command_exists_and_knows_its_options() -> None:
    for words in commands():
        check_command(words)


@pytest.mark.parametrize(
    "command",
    [
        "python scripts/absent.py",
        "vaswani trian builtin_tiny",
        "vaswani train builtin_tiny --no-such-option",
        "accelerate launch -m vaswani_transformer train builtin_tiny --set training.update=3",
        "vaswani train absent",
        "make",
    ],
)
def test_a_wrong_command_would_be_seen(command: str) -> None:
    with pytest.raises((AssertionError, ValueError, FileNotFoundError)):
        check_command(shlex.split(command))


def test_python_examples_compile_and_import_what_exists() -> None:
    for body in blocks("python", "py"):
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    importlib.import_module(alias.name)
            elif isinstance(node, ast.ImportFrom):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


def test_recipes_in_the_text_load() -> None:
    for body in blocks("yaml", "yml"):
        tree = yaml.safe_load(body)
        if "training" in tree and "data" in tree:
            parse_recipe(tree)


def test_files_that_are_named_exist() -> None:
    linked = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", readme()) if "://" not in target]
    coded = re.findall(r"`((?:vaswani_transformer|scripts|tests|model_cards|\.ci)/[\w./-]*)`", readme())
    missing = [name for name in {*linked, *coded} if name and not (ROOT / name).exists()]
    assert not missing


def test_results_are_those_of_the_cards() -> None:
    """Row by row: the model links to its card, and the score is one that the card's metadata holds."""
    rows = re.findall(r"^\| \[\w+\]\((model_cards/\w+\.md)\) \|(.*)\|$", readme(), flags=re.MULTILINE)
    assert {path for path, _ in rows} == {
        str(card.relative_to(ROOT)) for card in (ROOT / "model_cards").glob("*.md") if card.stem not in ("template", "converted")
    }
    for path, cells in rows:
        _, test_set, metric, score, _ = (cell.strip() for cell in cells.split("|"))
        results = ModelCard.load(ROOT / path).data.eval_results
        assert (test_set, metric, score) in {(result.dataset_name, result.metric_name, f"{result.metric_value:.2f}") for result in results}
