"""The documents are tested too: their commands and options exist, their Python compiles, their recipes load, their links lead on."""

import ast
import contextlib
import importlib
import io
import itertools
import re
import runpy
import shlex
import sys
import warnings
from functools import cache
from unittest import mock

import pytest
import yaml
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from tests.documents import PAGES, ROOT, blocks, commands, section, text_of
from vaswani_transformer.__main__ import app
from vaswani_transformer.recipe import load_recipe, parse_recipe
from vaswani_transformer.shipped_recipes import find_recipe

NOT_OURS = {"git", "cd", "source", "pip", "hf", "export", "pre-commit", "optimum-cli", "sbatch"}
"""Commands of other programs, which a document may name and which need a network or a cluster, or change the shell."""
WRITTEN_BY_THE_READER = {"RECIPE", "my_pair.yaml", "my_pair_distilled.yaml", "my_task.yaml"}


@cache
def help_of_module(name: str) -> str:
    """What `python -m NAME --help` prints; in this process, because a new one imports PyTorch and transformers anew."""
    shown = io.StringIO()
    with mock.patch.object(sys, "argv", [name, "--help"]), contextlib.redirect_stdout(shown), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* found in sys.modules after import of package", RuntimeWarning)
        with pytest.raises(SystemExit) as end:
            runpy.run_module(name, run_name="__main__")
    assert not end.value.code, f"python -m {name} --help ends with {end.value.code}"
    return shown.getvalue()


def check_options(arguments: list[str], known: str, name: str) -> None:
    for option in (word.partition("=")[0] for word in arguments if word.startswith("--")):
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known), f"{name} does not know {option}"


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
        assert words[2].split(".")[0] in ("benchmarks", "tests"), f"nobody tests the command {shlex.join(words)}"
        check_options(words[3:], help_of_module(words[2]), words[2])
        return
    assert words[0] == "bash" and words[1].startswith("scripts/"), f"nobody tests the command {shlex.join(words)}"
    check_options(words[2:], (ROOT / words[1]).read_text(encoding="utf-8"), words[1])


def test_the_long_way_is_made_of_commands_that_exist() -> None:
    lines = (ROOT / "scripts" / "wmt14_en_de.sh").read_text(encoding="utf-8").splitlines()
    steps = [shlex.split(line) for line in lines if line.startswith(("vaswani ", "accelerate "))]
    assert len(steps) == 4
    for words in steps:
        check_command(words)


def test_the_two_commands_are_there() -> None:
    assert {"bash scripts/quickstart.sh", "bash scripts/test.sh"} <= {shlex.join(words) for words in commands(text_of("README.md"))}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists_and_knows_its_options(page: str) -> None:
    for words in commands(text_of(page)):
        check_command(words)


@pytest.mark.parametrize("page", PAGES)
def test_every_verb_named_in_a_sentence_exists(page: str) -> None:
    for words in map(shlex.split, re.findall(r"(?<!`)`(vaswani [^`]+)`(?!`)", text_of(page))):
        check_options(words[2:], help_of_verb(words[1]), words[1])


@pytest.mark.parametrize(
    "command",
    [
        "bash scripts/absent.sh",
        "vaswani trian builtin_tiny",
        "vaswani train builtin_tiny --no-such-option",
        "accelerate launch -m vaswani_transformer train builtin_tiny --set training.update=3",
        "vaswani train absent",
        "python -m tests.absent",
        "python -m http.server",
        "make",
    ],
)
def test_a_wrong_command_would_be_seen(command: str) -> None:
    with pytest.raises((AssertionError, ValueError, FileNotFoundError, ImportError)):
        check_command(shlex.split(command))


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_compile_and_import_what_exists(page: str) -> None:
    for body in blocks(text_of(page), "python", "py"):
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    importlib.import_module(alias.name)
            elif isinstance(node, ast.ImportFrom):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("page", PAGES)
def test_recipes_in_the_text_load(page: str) -> None:
    for body in blocks(text_of(page), "yaml", "yml"):
        tree = yaml.safe_load(body)
        if "training" in tree and "data" in tree:
            parse_recipe(tree)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    """Links, from where the page lies; code, from the root. (Links within the site are Sphinx's business.)"""
    folder = (ROOT / page).parent
    linked = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)) if "://" not in target]
    # The changelog also names what is no longer there.
    coded = (
        []
        if page == "CHANGELOG.md"
        else re.findall(r"`((?:vaswani_transformer|benchmarks|docs|scripts|tests|model_cards|\.ci)/[\w./-]*)`", text_of(page))
    )
    made = {"generated/commands.md", "generated/recipe.rst"}
    missing = [name for name in linked if name and name not in made and not (folder / name).exists()]
    missing += [name for name in coded if not (ROOT / name).exists()]
    assert not missing


def test_names_beside_the_paper_are_in_the_files() -> None:
    """`file`: `Name`, `Name.method` in the table that leads from the paper to the code."""
    found = re.findall(r"`(vaswani_transformer/[\w/]+)\.py`: ((?:`[\w.]+`(?:, )?)+)", text_of("docs/paper.md"))
    assert len(found) > 12
    for file, names in found:
        module = importlib.import_module(file.replace("/", "."))
        for name in re.findall(r"`([\w.]+)`", names):
            outer, _, inner = name.partition(".")
            assert hasattr(module, outer), f"{file}.py has no {outer}"
            assert not inner or hasattr(getattr(module, outer), inner), f"{outer} in {file}.py has no {inner}"


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_results_are_those_of_the_cards(page: str) -> None:
    """Row by row: the model links to its card, and the score is one that the card's metadata holds."""
    rows = re.findall(r"^\| \[\w+\]\((?:\.\./)?(model_cards/\w+\.md)\) \|(.*)\|$", text_of(page), flags=re.MULTILINE)
    assert {path for path, _ in rows} == {
        str(card.relative_to(ROOT)) for card in (ROOT / "model_cards").glob("*.md") if card.stem not in ("template", "task", "converted")
    }
    for path, cells in rows:
        _, test_set, metric, score, _ = (cell.strip() for cell in cells.split("|"))
        results = ModelCard.load(ROOT / path).data.eval_results
        assert (test_set, metric, score) in {(result.dataset_name, result.metric_name, f"{result.metric_value:.2f}") for result in results}


def test_the_page_on_heads_has_figures_of_the_card_only() -> None:
    rows = re.findall(r"^\| (?:even attention|\d\.\d) \|.*$", section("docs/looking_inside.md", "What heads do"), flags=re.MULTILINE)
    assert len(rows) == 4 and set(rows) <= set(text_of("model_cards/multi30k_en_de.md").splitlines())


def test_the_readme_has_figures_of_the_page_on_speed_only() -> None:
    readme = text_of("README.md").split("## How fast\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \|.*\d.*$", readme, flags=re.MULTILINE)
    assert len(rows) == 4 and set(rows) <= set(text_of("docs/speed.md").splitlines())


def test_the_readme_is_a_page() -> None:
    assert len(text_of("README.md").splitlines()) <= 170
