"""The house itself: which layer imports which, what may travel, how long things are, what is tracked."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from vaswani_transformer.hub.publish import CODE_FILES

ROOT = Path(__file__).parents[1]
PACKAGE = "vaswani_transformer"

# From the first to the last; a module imports from layers before its own and from its own group. Training looks at BLEU while it runs, so
# evaluation, which must never import training, comes before it; the engine, which tells the whole story, comes after its parts.
# Plain literals only: the documentation reads them.
LAYERS: list[list[tuple[str, ...]]] = [
    [("configuration_vaswani",), ("search_settings",)],
    [("additive_score", "attention_window")],
    [("layers",)],
    [("parallel_heads",)],
    [("packing",)],
    [("bare_layers", "selected_rows", "shortlist", "tokenizer_identity")],
    [("encoder_pass", "decoder_step")],
    [("stepping",)],
    [("beam_search",)],
    [("block_steps",)],
    [("drafts",)],
    [("blockwise_search",)],
    [("languages", "sentence_splitting", "kept_settings", "copied_items", "task_inputs")],
    [("answer_windows",)],
    [(
        "modeling_vaswani", "modeling_tasks", "decoding", "constrained_search", "copying",
        "pipeline_text_to_text", "pipeline_translation", "pipeline_question_answering",
    )],
    [("files",)],
    [("strict_yaml", "tasks", "word_places")],
    [("data.builtin",)],
    [("data.sources",)],
    [("licences",)],
    [("recipe", "run_folder", "task_of_folder", "provenance", "shipped_recipes")],
    [("interop.length_penalty",)],
    [("interop.ctranslate2",)],  # an engine, which the door in translation opens
    [("translation",)],
    [("data",)],
    [("proposal",)],
    [("new_recipe",)],
    [("evaluation",)],
    [("training",)],
    [("training.engine",)],
    [("training.rehearsal",)],
    [("training.python_api",)],
    [("interop",)],
    [("inspection",)],
    [("report",)],
    [("demo",)],
    [("hub",)],
    [("interop.conversion",)],  # ends with a card
    [("registration",)],
    [("late_registration", "")],  # the package's own __init__: public names
    [("commands",)],
    [("__main__",)],
]  # fmt: skip
NEVER = {"evaluation": ["training"], "interop": ["training"], "report": ["training"], "hub": ["training"]}

TRAVELLING = [name.removesuffix(".py") for name in CODE_FILES]
TRAVELLING_MAY_IMPORT = {"torch", "transformers", "huggingface_hub", "safetensors", *sys.stdlib_module_names}

DISTRIBUTIONS = {"yaml": "pyyaml"}  # where the name to install is not the name to import

TOP_LEVEL = {"pyproject.toml", PACKAGE, "benchmarks", "docs", "model_cards", "scripts", "tests"}
DOCUMENTS = {"README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}


def tracked() -> list[Path]:
    """Files of the repository, those not yet added included; what git ignores is not part of the house."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of the project's files")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def module_name(path: Path) -> str:
    """`data.corpus` for `vaswani_transformer/data/corpus.py`, the empty name for the package itself."""
    parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported_modules(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """Absolute names of all that a file imports, inside functions too."""
    package = (PACKAGE, *path.relative_to(ROOT / PACKAGE).parts[:-1]) if path.is_relative_to(ROOT / PACKAGE) else ()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])])
            base = base if node.level else str(node.module)
            named = [f"{base}.{alias.name}" for alias in node.names if _is_module(f"{base}.{alias.name}")]
            yield from ((node, name) for name in named or [base])


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return name.startswith(PACKAGE) and (path.with_suffix(".py").exists() or path.is_dir())


def position(module: str) -> tuple[int, int]:
    """Layer and group of a module; the longest matching name decides."""
    places = [
        (len(prefix), layer, group)
        for layer, groups in enumerate(LAYERS)
        for group, prefixes in enumerate(groups)
        for prefix in prefixes
        if module == prefix or (prefix and module.startswith(f"{prefix}."))
    ]
    assert places, f"{module} has no layer: add it to LAYERS"
    return max(places)[1:]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (n for n in ast.walk(parse(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def report(problems: list[str]) -> None:
    assert not problems, "\n" + "\n".join(problems)


def test_imports_flow_one_way() -> None:
    problems = []
    for path in python_files(PACKAGE):
        own = module_name(path)
        for node, name in imported_modules(path):
            if name.split(".")[0] != PACKAGE:
                continue
            other = name.removeprefix(PACKAGE).removeprefix(".")
            (own_layer, own_group), (layer, group) = position(own), position(other)
            if not (layer < own_layer or (layer, group) == (own_layer, own_group)):
                problems.append(f"{place(path, node)}: {own or PACKAGE} imports {other or PACKAGE}, a later layer")
            if other.split(".")[0] in NEVER.get(own.split(".")[0], []):
                problems.append(f"{place(path, node)}: {own} must never import {other}")
    report(problems)


def test_the_layers_check_knows_the_order() -> None:
    order = [
        "configuration_vaswani",
        "recipe",
        "translation.translate",
        "data.cleaning",
        "evaluation.bleu",
        "training.loss",
        "training.engine",
        "hub.publish",
    ]
    assert sorted(order, key=position) == order


def test_the_command_is_the_only_door() -> None:
    report([f"{path.relative_to(ROOT)}: a program is a verb of the command" for path in python_files("scripts")])


@pytest.mark.parametrize("name", TRAVELLING)
def test_travelling_files_stand_alone(name: str) -> None:
    """A published folder holds these files and nothing else of ours, and whoever loads it has only torch and transformers."""
    path = ROOT / PACKAGE / f"{name}.py"
    problems, siblings = [], []
    tree = parse(path)
    # What is imported inside `try:` is not demanded of the user.
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    optional = {id(inner) for node in tries for part in node.body for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            siblings.append(node.module)
            if node.level != 1 or node.module not in TRAVELLING:
                problems.append(f"{place(path, node)}: only `from .file import Name` of a travelling file is shipped")
            continue
        if id(node) in optional:
            continue
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        outside = [n for n in names if n.split(".")[0] not in TRAVELLING_MAY_IMPORT]
        problems += [f"{place(path, node)}: imports {n}, which a user may not have" for n in outside]
    report(problems)
    # transformers looks for imports with a regular expression, which sees docstrings too
    seen = re.findall(r"^\s*from\s+\.(\S+)\s+import", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(seen) == sorted(map(str, siblings))


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {Requirement(line).name.lower() for line in project["dependencies"]}
    report(
        [
            f"{path.relative_to(ROOT)}:{node.lineno}: {top} is not among the dependencies of pyproject.toml"
            for path in python_files(PACKAGE, "benchmarks", "scripts")
            for node in parse(path).body
            if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
            for top in {n.split(".")[0] for n in _absolute_names(node)}
            if top not in sys.stdlib_module_names and top not in (PACKAGE, "benchmarks", "tests")
            if DISTRIBUTIONS.get(top, top).lower() not in declared
            # what bears an extra's name is imported only by who has installed it
            if not (top in project["optional-dependencies"] and path.stem.startswith(top))
        ]
    )


def _absolute_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]


def test_functions_are_short() -> None:
    report(
        [
            f"{place(path, function)}: {function.name} has {length} lines; at most 60"
            for path in python_files(PACKAGE, "benchmarks", "scripts", "tests")
            for function in functions(path)
            if (length := (function.end_lineno or 0) - function.lineno + 1) > 60
        ]
    )


def test_every_signature_is_typed() -> None:
    problems = []
    for path in python_files(PACKAGE, "benchmarks", "scripts", "tests"):
        for function in functions(path):
            a = function.args
            every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
            bare = [arg.arg for arg in every if arg.annotation is None and arg.arg not in ("self", "cls")]
            if function.returns is None and function.name != "__init__":
                bare.append("return")
            problems += [f"{place(path, function)}: {function.name}: {name} has no type" for name in bare]
    report(problems)


def test_packages_have_an_init() -> None:
    folders = {path.parent for path in python_files(PACKAGE)}
    report([f"{folder.relative_to(ROOT)} has no __init__.py" for folder in folders if not (folder / "__init__.py").exists()])


def test_no_module_without_a_noun() -> None:
    homeless = {"utils", "util", "common", "helpers", "helper", "misc"}
    report([str(p.relative_to(ROOT)) for p in tracked() if homeless & {part.split(".")[0] for part in p.parts}])


def test_nothing_is_unpickled() -> None:
    """A file from elsewhere must not be able to run code: no pickle, and torch.load only of plain tensors."""
    problems = []
    for path in python_files(PACKAGE, "benchmarks", "scripts"):
        for node, name in imported_modules(path):
            if name.split(".")[0] in {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}:
                problems.append(f"{place(path, node)}: imports {name}")
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call):
                keywords = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
                called = ast.unparse(node.func)
                if called == "torch.load" and keywords.get("weights_only") is not True:
                    problems.append(f"{place(path, node)}: torch.load without weights_only=True")
                if called in ("np.load", "numpy.load") and keywords.get("allow_pickle"):
                    problems.append(f"{place(path, node)}: numpy.load with allow_pickle")
                if called in ("yaml.load", "yaml.unsafe_load"):
                    problems.append(f"{place(path, node)}: {called}; use yaml.safe_load")
    report(problems)


def test_top_level_holds_only_what_the_design_names() -> None:
    tops = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL | DOCUMENTS


def test_no_place_or_mark_of_one_machine_is_tracked() -> None:
    # put together here, so that this file does not hold what it looks for
    forbidden = [
        "/" + "work/",
        "/" + "root/",
        "/" + "tmp/",
        "pypi" + ".org",
        "registry" + ".npm",
        "TO" + "DO",
        "FIX" + "ME",
    ]
    problems = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" in content:
            continue  # a picture
        for number, line in enumerate(content.decode("utf-8").splitlines(), start=1):
            problems += [f"{path.relative_to(ROOT)}:{number}: {word}" for word in forbidden if word in line]
    report(problems)


def test_no_tracked_file_is_large() -> None:
    report([f"{p.relative_to(ROOT)}: {p.stat().st_size} bytes" for p in tracked() if p.stat().st_size > 400_000])


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "scripts" / name).read_text(encoding="utf-8").splitlines()
    entries = [line.partition("==") for line in lines if line and not line.startswith("#")]
    assert all(separator for _, separator, _ in entries), f"scripts/{name} must pin exact versions"
    return {package.lower().replace("_", "-"): version for package, _, version in entries}


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-lowest.txt"])
def test_pins_satisfy_what_the_package_asks_for(name: str) -> None:
    pinned = pins(name)
    problems = []
    for requirement in requirements():
        version = pinned.get(requirement.name.lower().replace("_", "-"))
        if version is None:
            problems.append(f"{requirement.name} is not pinned")
        elif not requirement.specifier.contains(version):
            problems.append(f"{requirement} does not admit the pin {version}")
    report(problems)


def test_lowest_pins_are_the_lower_bounds() -> None:
    lowest = pins("constraints-lowest.txt")
    for requirement in requirements():
        bounds = [s.version for s in requirement.specifier if s.operator == ">="]
        if bounds and requirement.name != "torch":
            pinned = lowest[requirement.name.lower().replace("_", "-")]
            assert Requirement(f"x=={bounds[0]}").specifier.contains(pinned), f"{requirement} but {pinned}"


def test_shell_scripts_parse() -> None:
    for path in [*(ROOT / "scripts").glob("*.sh"), ROOT / ".ci" / "run"]:
        subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_wheel_holds_the_package_and_the_cards_template(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling, which scripts/test.sh installs")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    parts = {f"{PACKAGE}/inspection/page_parts/{path.name}" for path in (ROOT / PACKAGE / "inspection" / "page_parts").iterdir()}
    assert len(parts) == 5
    assert parts | {f"{PACKAGE}/report/template.md", f"{PACKAGE}/modeling_vaswani.py", f"{PACKAGE}/data/bpe.py"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {PACKAGE}
