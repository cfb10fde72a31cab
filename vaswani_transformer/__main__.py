"""The command `vaswani`, which is also `python -m vaswani_transformer`: its verbs, and how it ends.

Exit status: 0; 1 if it failed; 2 if the command line is wrong; 3 if `translate` or `label` left lines out; 130 if it was stopped. What a
user can mend is one line on standard error; anything else is a bug and shows Python's traceback.
"""

import _thread
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .commands import (
    card,
    check,
    compare,
    convert,
    demo,
    distill,
    evaluate,
    export,
    heads,
    info,
    label,
    look,
    new,
    publish,
    recipes,
    report,
    shortlist,
    train,
    translate,
)

_USERS = (OSError, ValueError, ImportError, FloatingPointError, MemoryError)
"""Errors whose sentence tells the user what to do, here and in all of the package. (ImportError: an extra that is not installed.)"""


VERBS: dict[str, Callable[..., None] | typer.Typer] = {
    "new": new.new,
    "recipes": recipes.app,
    "check": check.check,
    "train": train.train,
    "distill": distill.distill,
    "report": report.report,
    "compare": compare.compare,
    "evaluate": evaluate.evaluate,
    "heads": heads.heads,
    "card": card.card,
    "publish": publish.publish,
    "translate": translate.translate,
    "label": label.label,
    "look": look.look,
    "demo": demo.demo,
    "shortlist": shortlist.shortlist,
    "export": export.export,
    "convert": convert.app,
    "info": info.info,
}
"""In the order in which `--help` lists them."""


class OneLineErrors(TyperGroup):
    """Ends as people expect of a command."""

    def main(self, *args: Any, **settings: Any) -> Any:
        settings["standalone_mode"] = False  # or Typer itself tells errors, in a box of several lines
        try:
            with _no_lost_interrupt():
                status = super().main(*args, **settings)
        except typer.TyperException as error:
            command = getattr(getattr(error, "ctx", None), "command_path", "vaswani")
            sentence = error.format_message().replace("Value error, ", "")  # a remark of pydantic's
            stop = "" if sentence.endswith((".", "?", ")")) else "."
            status = _tell(f"{sentence}{stop} `{command} --help` tells more.", error.exit_code)
        except _users() as error:
            if isinstance(error, ImportError) and (error.name or "").startswith(__package__):
                raise
            status = _tell(str(error) or type(error).__name__, 1)
        sys.exit(status or 0)

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the story."""
        return list(VERBS)


def _users() -> tuple[type[Exception], ...]:
    """And, if anything has imported it, which takes longer than `--help`, the error for a config.json with a setting of a wrong kind."""
    if "huggingface_hub.errors" not in sys.modules:
        return _USERS
    from huggingface_hub.errors import StrictDataclassError

    return (*_USERS, StrictDataclassError)


@contextmanager
def _no_lost_interrupt() -> Iterator[None]:
    """Let Ctrl-C act a moment later where it comes inside a destructor or a callback: Python prints and forgets what these raise."""
    usual = sys.unraisablehook

    def hook(lost: "sys.UnraisableHookArgs") -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            again = threading.Timer(0.01, _thread.interrupt_main)  # at once, it would be lost in here
            again.daemon = True
            again.start()
        else:
            usual(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _tell(sentence: str, status: int) -> int:
    typer.echo(f"error: {' '.join(line.strip() for line in sentence.splitlines())}", err=True)
    return status


app = typer.Typer(cls=OneLineErrors, rich_markup_mode=None, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"vaswani_transformer {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def vaswani(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Train, measure, publish and use translators: "Attention Is All You Need" for transformers.

    \b
    vaswani train builtin_tiny                                  a first translator, in minutes
    vaswani new my_pair --source train.en --target train.sv     a recipe for your own sentences
    vaswani train my_pair.yaml
    vaswani evaluate runs/my_pair
    vaswani publish runs/my_pair --repo-id USER/MODEL
    vaswani translate runs/my_pair/published --input in.txt --output out.txt
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


for name, verb in VERBS.items():
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=name)
    else:
        app.command(name)(verb)

if __name__ == "__main__":
    app()
