"""Pages that are made from the code at build time: the recipe's settings, the command, the tree, the order of imports, the cards.

They land in `docs/generated/`, which git ignores, so that no page can say something else than the code does.
"""

import ast
import dataclasses
import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "vaswani_transformer"
CORPUS_PARTS = [f"vaswani_transformer/data/builtin/{part}.py" for part in ("author", "grammar", "lexicon", "sentences")]
"""Words and sentences of the built-in corpus: data in the form of code, of which only `corpus.py` is an interface."""
PLAIN_TYPES = {type(None): "null", Any: "any value", str: "text", bool: "true or false", int: "whole number", float: "number"}
MODULE_OPTIONS = ("members", "ignore-module-all", "show-inheritance")


def first_sentence(module: Path) -> str:
    """The line of a module's docstring that says what the module is."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert docstring, f"{module} has no docstring"
    return docstring.split("\n\n")[0].replace("\n", " ")


def modules_of(folder: Path) -> list[Path]:
    """The modules of a folder, its own `__init__` first where it says something, then sub-folders."""
    return sorted(folder.glob("*.py"), key=lambda path: (path.name != "__init__.py", path.name))


class Tree(SphinxDirective):
    """`{tree} FOLDER`: every module below a folder with the first sentence of its docstring."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.lines(ROOT / self.arguments[0], 0)))

    def lines(self, folder: Path, depth: int) -> Iterator[str]:
        """A nested list in Markdown."""
        for module in modules_of(folder):
            if module.name != "__init__.py":
                yield f"{'  ' * depth}- `{module.name}`: {first_sentence(module)}"
        for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
            yield f"{'  ' * depth}- **`{inner.name}/`** {first_sentence(inner / '__init__.py')}"
            yield from self.lines(inner, depth + 1)


def layers() -> list[list[tuple[str, ...]]]:
    """The order of imports as `tests/test_house.py` holds it."""
    module = ast.parse((ROOT / "tests" / "test_house.py").read_text(encoding="utf-8"))
    assigned = [node for node in module.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "LAYERS"]
    (assignment,) = assigned
    assert assignment.value is not None
    found: list[list[tuple[str, ...]]] = ast.literal_eval(assignment.value)
    return found


class Measured(SphinxDirective):
    """`{measured} NAME`: the table and the picture that a benchmark left, kept in the folder `measured/NAME`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n\n".join(self.parts(self.arguments[0])))

    def parts(self, name: str) -> Iterator[str]:
        """In Markdown; without a table, a sentence that says so."""
        table, picture = (Path(self.env.srcdir) / "measured" / name / f"table{ending}" for ending in (".md", ".png"))
        for file in (table, picture):
            self.env.note_dependency(str(file))
        yield table.read_text(encoding="utf-8") if table.is_file() else "*Not measured yet: run the command above.*"
        if picture.is_file():
            yield f"![The same as a picture](measured/{name}/{picture.name})"


class Layers(SphinxDirective):
    """`{layers}`: the order of imports, one line a layer."""

    def run(self) -> list[nodes.Node]:
        lines = [
            f"{number}. " + "; ".join(", ".join(f"`{name or '__init__'}`" for name in group) for group in groups)
            for number, groups in enumerate(layers(), start=1)
        ]
        return self.parse_text_to_nodes("\n".join(lines))


class Travelling(SphinxDirective):
    """`{travelling}`: the files of ours that every published folder holds."""

    def run(self) -> list[nodes.Node]:
        from vaswani_transformer.hub.publish import CODE_FILES

        return self.parse_text_to_nodes("\n".join(f"- `{name}`: {first_sentence(PACKAGE / name)}" for name in CODE_FILES))


def dataclasses_in(hint: Any) -> list[type]:
    """The dataclasses that a type mentions, in its order: one of `A`, `A | None` and `dict[str, A]`, two of `A | B`."""
    if dataclasses.is_dataclass(hint):
        return [hint] if isinstance(hint, type) else []
    return [found for argument in get_args(hint) for found in dataclasses_in(argument)]


def sections(kind: type, path: str, found: dict[type, list[str]]) -> dict[type, list[str]]:
    """Every dataclass below `kind`, with the keys that lead to it, in the order of their first mention."""
    if path not in found.setdefault(kind, []):
        found[kind].append(path)
        for name, hint in get_type_hints(kind).items():
            for inner in dataclasses_in(hint):
                sections(inner, f"{path}.{name}".lstrip("."), found)
    return found


def readable(hint: Any) -> str:
    """A type as somebody reads it who writes YAML."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments) if len(arguments) > 1 else f"`{arguments[0]}`"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(readable(argument) for argument in arguments))
    if origin is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        return f"list of {count}values, each: {readable(arguments[0])}"
    if origin is dict:
        return f"mapping of names to {readable(arguments[1])}"
    if dataclasses.is_dataclass(hint):
        return "corpus" if "format" in get_type_hints(hint) else "settings, see below"
    return PLAIN_TYPES.get(hint, str(hint))


def default_of(field: dataclasses.Field[Any]) -> str:
    """The default as YAML writes it."""
    if field.default_factory is not dataclasses.MISSING:
        return f"`{json.dumps(field.default_factory())}`"
    if field.default is dataclasses.MISSING:
        return "**required**"
    if dataclasses.is_dataclass(field.default):
        return "its defaults"
    return f"`{json.dumps(field.default)}`"


def title_of(kind: type, paths: list[str]) -> str:
    """The keys where the settings stand; a corpus format is known by its name."""
    formats = get_args(get_type_hints(kind).get("format"))
    if len(formats) == 1:
        return f"A corpus of `format: {formats[0]}`"
    return ", ".join(f"`{path}`" for path in paths if path) or "The recipe"


def settings_page(kind: type, paths: list[str]) -> Iterator[str]:
    """One dataclass in reStructuredText: its docstring, and a table of its keys."""
    title = title_of(kind, paths)
    yield from (title, "-" * len(title), "", *inspect.cleandoc(kind.__doc__ or "").splitlines(), "")
    yield from (
        ".. list-table::",
        "   :header-rows: 1",
        "   :align: left",
        "   :widths: 28 44 28",
        "",
        "   * - Key",
        "     - Value",
        "     - Default",
    )
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        yield from (f"   * - `{field.name}`", f"     - {readable(hints[field.name])}", f"     - {default_of(field)}")
    yield ""


def write(page: Path, text: str) -> None:
    """Leave a page alone that would not change, so that Sphinx need not read it again."""
    page.parent.mkdir(parents=True, exist_ok=True)
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def write_recipe_reference(folder: Path) -> None:
    """Every setting of a recipe, its type and its default, from the dataclasses."""
    from vaswani_transformer.recipe import Recipe

    head = ["The recipe's settings", "=====================", ""]
    found = sections(Recipe, "", {})
    body = [line for kind, paths in found.items() for line in settings_page(kind, paths)]
    write(folder / "recipe.rst", "\n".join(head + body) + "\n")


def api_page(folder: Path) -> Iterator[str]:
    """A room of the package in reStructuredText, each of its modules a section made from the docstrings."""
    room = ".".join(folder.relative_to(ROOT).parts)
    title = room.partition(".")[2] or room
    yield from (title, "=" * len(title), "")
    for module in modules_of(folder):
        name = room if module.name == "__init__.py" else f"{room}.{module.stem}"
        if module.relative_to(ROOT).as_posix() in CORPUS_PARTS or module.name == "__main__.py":
            continue  # the command has a page of its own
        if name != room:
            yield from (module.name, "-" * len(module.name), "")
        yield from (f".. automodule:: {name}", *(f"   :{option}:" for option in MODULE_OPTIONS), "")


def write_api_reference(folder: Path) -> None:
    """A page for each room of the package, and a list of them in the order of the imports."""
    rooms = sorted(PACKAGE.rglob("__init__.py"))
    for room in rooms:
        write(folder / f"{module_of(room)}.rst", "\n".join(api_page(room.parent)) + "\n")


def module_of(path: Path) -> str:
    """`vaswani_transformer.data` for the room `vaswani_transformer/data/__init__.py`."""
    return ".".join(path.parent.relative_to(ROOT).parts)


def write_command_reference(folder: Path) -> None:
    """Every verb of `vaswani` with its arguments and options, from the command itself."""
    import typer
    from typer.cli import get_docs_for_click

    from vaswani_transformer.__main__ import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="vaswani", title="The command `vaswani`")
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n", "", text)  # each has a section, which says it in full
    # What click keeps unwrapped in a help text, as the character before it says, are examples.
    write(folder / "commands.md", re.sub(r"\x08\n(.*?)(?=\n\n)", r"```console\n\1\n```", text, flags=re.DOTALL))


def write_cards(folder: Path) -> None:
    """The model cards as pages; the metadata that the Hub reads stays behind."""
    for card in (ROOT / "model_cards").glob("*.md"):
        if card.stem not in ("template", "converted"):
            write(folder / card.name, card.read_text(encoding="utf-8").split("---\n", 2)[-1])
    for picture in (ROOT / "model_cards").glob("*.png"):
        shutil.copy2(picture, folder / picture.name)


def write_pages(app: Sphinx) -> None:
    """Write all pages that are made from the code."""
    folder = Path(app.srcdir) / "generated"
    write_recipe_reference(folder)
    write_command_reference(folder)
    write_cards(folder / "cards")
    write_api_reference(folder / "api")


def lead_to_cards(app: Sphinx, name: str, source: list[str]) -> None:
    """Links that lead to the cards' files in the repository lead to their pages on the site."""
    if not name.startswith("generated/"):
        source[0] = re.sub(r"\]\((?:\.\./)+model_cards/", "](/generated/cards/", source[0])


def accept_type_variables(app: Sphinx, environment: Any, node: Any, shown: nodes.Node) -> nodes.Node | None:
    """A type variable of ours in a signature has no page to lead to."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    return shown if isinstance(getattr(sys.modules.get(module), name, None), TypeVar) else None


def leave_out_numbered_fields(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """A named tuple's fields stand in its signature; "Alias for field number 0" adds nothing."""
    return True if str(getattr(member, "__doc__", "")).startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("tree", Tree)
    app.add_directive("measured", Measured)
    app.add_directive("layers", Layers)
    app.add_directive("travelling", Travelling)
    app.connect("builder-inited", write_pages)
    app.connect("source-read", lead_to_cards)
    app.connect("autodoc-skip-member", leave_out_numbered_fields)
    app.connect("missing-reference", accept_type_variables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
