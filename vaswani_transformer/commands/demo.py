"""`vaswani demo`."""

from typing import Annotated

import typer


def demo(
    folders: Annotated[list[str], typer.Argument(metavar="FOLDER...", help="Models' folders, or repositories of the Hub.")],
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="0 takes a free one.")] = 7860,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="0.0.0.0 serves your whole network.")] = "127.0.0.1",
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the page is called.")] = "Translator",
    max_characters: Annotated[int, typer.Option(min=1, metavar="N", help="Of one text.")] = 5000,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Of one sentence.")] = 512,
    max_megabytes: Annotated[int, typer.Option(min=1, metavar="N", help="Of one file.")] = 10,
    at_once: Annotated[int, typer.Option(min=1, metavar="N", help="Translations side by side; others wait in line.")] = 4,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Try translators in the browser.

    \b
    vaswani demo runs/my_pair/averaged
    vaswani demo runs/first/averaged runs/second/averaged --port 8000

    A page on this machine: translations as they are written, the best of each sentence with their scores, attention, whole files, and
    several models beside each other. It asks no other machine for anything. Ctrl-C ends it. Needs Gradio: pip install
    "vaswani_transformer[demo]".
    """
    from ..demo.limits import Limits
    from ..demo.server import serve

    limits = Limits(characters=max_characters, tokens=max_tokens, megabytes=max_megabytes, at_once=at_once)
    serve(folders, host=host, port=port, limits=limits, title=title, open_browser=not no_open)
