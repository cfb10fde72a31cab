"""`vaswani look`."""

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

_LAST_AND_ALL = {"last": -1, "all": None}


def look(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, or a repository of the Hub.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The sentence to translate.")],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Its translation.", show_default="what the model's own search finds")
    ] = None,
    level: Annotated[Literal["word", "subword"], typer.Option(help="What is shown first; a page has both.")] = "word",
    nbest: Annotated[
        int, typer.Option("--n-best", "--nbest", min=1, metavar="N", help="Translations to choose from on the page, best first.")
    ] = 1,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the page goes.", show_default="attention.html, unless a picture is asked for")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Write the page, but do not open it in a browser.")] = False,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a picture of the best translation: pixels.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="The same, as lines and text.")] = None,
    kind: Annotated[Literal["cross", "encoder", "decoder"], typer.Option(help="Of the picture: which attention.")] = "cross",
    layer: Annotated[str, typer.Option(metavar="N", help="Of the picture: a layer, counted from 1, or all.")] = "last",
    head: Annotated[str, typer.Option(metavar="N", help="Of the picture: a head, counted from 1, or mean, or all side by side.")] = "all",
    attribution: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Of the picture: what words come from, by saliency, occlusion, value_zeroing ...")
    ] = None,
    source_language: Annotated[str | None, typer.Option(metavar="CODE", help="For a model that has several: en.")] = None,
    target_language: Annotated[str | None, typer.Option(metavar="CODE", help="Likewise: fr.")] = None,
    num_beams: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Beams of the search.", show_default="the checkpoint's own")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of generate; repeatable.")] = None,
) -> None:
    """Show where a translator looks as it translates a sentence.

    \b
    vaswani look runs/my_pair/published "The dog sleeps."
    vaswani look runs/my_pair/published "The dog sleeps." --n-best 4 --output dog.html --no-open
    vaswani look runs/my_pair/published "The dog sleeps." --png dog.png --layer 2

    The page is one file that needs no network: send it, put it on a server, or keep it beside a paper. With --png or --svg, only the
    picture is made, unless --output is given, too. With --attribution, it shows what each word comes from, by any method of `attribute`.
    """
    from ..strict_yaml import parse_override

    chosen = _layer(layer), _head(head)
    if target is not None and nbest > 1:
        raise typer.BadParameter("--n-best is for the model's own translations; leave out --target, or --n-best.")
    if chosen[0] is None and chosen[1] != "all":
        raise typer.BadParameter("A picture of all layers has all heads; leave out --head, or name a --layer.")
    search = dict(parse_override(entry, "length_penalty=1.0") for entry in settings or ())
    search |= {"num_beams": num_beams} if num_beams is not None else {}
    languages, paths = {"src_lang": source_language, "tgt_lang": target_language}, [path for path in (png, svg) if path is not None]
    _check_picture((kind, layer, head), bool(paths) and attribution is None)
    if attribution is not None:
        if not paths or output is not None or nbest > 1:
            raise typer.BadParameter("--attribution draws a picture of one translation; give --png or --svg, and no --output or --n-best.")
        _attribute(model, text, target, level, attribution, paths, languages | search)
        return
    candidates = _maps(model, text, target, nbest, languages, search)
    print(candidates[0].target_text)
    _draw(candidates[0], level, kind, chosen, paths)
    if output is not None or not paths:
        _show(candidates, text, level, output or Path("attention.html"), not no_open)


def _check_picture(chosen: tuple[str, str, str], is_drawn: bool) -> None:
    """Refuse a choice of attention where no picture of it is drawn."""
    if chosen != ("cross", "last", "all") and not is_drawn:
        raise typer.BadParameter("--kind, --layer and --head are for a picture of attention (--png or --svg, without --attribution).")


def _layer(name: str) -> int | None:
    """Counted from 0, or from the last; None for all."""
    return _LAST_AND_ALL[name] if name in _LAST_AND_ALL else _number(name, "--layer", "all")


def _head(name: str) -> int | str:
    return name if name in ("all", "mean") else _number(name, "--head", "mean or all")


def _number(name: str, option: str, others: str) -> int:
    if not name.isdecimal() or int(name) < 1:
        raise typer.BadParameter(f"{option} is a number from 1, or {others}; got {name!r}.")
    return int(name) - 1


def _maps(
    name: str, text: str, target: str | None, count: int, languages: dict[str, Any], search: dict[str, Any]
) -> list[Any]:  # fmt: skip
    """The maps of the translations, by subwords, best first."""
    from ..inspection.maps import attention_maps, candidate_maps
    from ..inspection.page import MOST_UNITS

    model, tokenizer = _loaded(name, search)
    for what, given in (("text", text), ("target", target or "")):
        if (tokens := len(tokenizer(given).input_ids)) > MOST_UNITS:
            raise ValueError(f"The {what} has {tokens:,} tokens, and at most {MOST_UNITS:,} can be shown; look at one sentence at a time.")
    if target is not None:
        return [attention_maps(model, tokenizer, text, target, **languages, **search)]
    return candidate_maps(model, tokenizer, text, count, **languages, **search)


def _loaded(name: str, search: dict[str, Any]) -> tuple[Any, Any]:
    """The model and its tokenizer, once the settings are known to be possible."""
    from ..translation.loading import load_checkpoint, local_folder
    from ..translation.processes import processes
    from ..translation.translate import check_search

    check_search(search)
    model, tokenizer = load_checkpoint(local_folder(name))
    return model.to(processes().device).eval(), tokenizer


def _attribute(name: str, text: str, target: str | None, level: Any, method: Any, paths: list[Path], options: dict[str, Any]) -> None:
    from ..inspection.attribution import attribute
    from ..inspection.figures import write_figure

    search = {name: value for name, value in options.items() if name not in ("src_lang", "tgt_lang")}
    found = attribute(*_loaded(name, search), text, target, method=method, level=level, **options)
    print(found.target_text)
    for path in paths:
        write_figure(found.figure(), path)
        print(f"The picture is in {path}.")


def _draw(maps: Any, level: str, kind: Any, chosen: tuple[int | None, int | str], paths: list[Path]) -> None:
    from ..inspection.figures import single_map, small_multiples, write_figure

    layer, head = chosen
    layers, heads = getattr(maps, kind).shape[:2]
    for what, number, count in (("layer", layer, layers), ("head", head, heads)):
        if isinstance(number, int) and number >= count:
            raise ValueError(f"There is no {what} {number + 1}: this model has {count}.")
    maps = maps.words() if level == "word" else maps
    for path in paths:
        if head == "all":
            figure = small_multiples(maps, kind, layer)
        else:
            figure = single_map(maps, kind, -1 if layer is None else layer, None if head == "mean" else int(head))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            write_figure(figure, path)
        for sentence in [f"The picture is in {path}.", *(str(warning.message) for warning in told)]:
            print(sentence)


def _show(candidates: list[Any], text: str, level: Any, path: Path, wanted: bool) -> None:
    from ..inspection.page import attention_page

    title = " ".join(text.split())
    page = attention_page(candidates, title if len(title) <= 60 else f"{title[:59]}…", level=level)
    page.write(path)
    for sentence in page.left_out:
        print(sentence)
    opened = wanted and _open(path)
    print(f"The page is in {path}." if opened or not wanted else f"The page is in {path}; there is no display here to open it on.")


def _open(path: Path) -> bool:
    """Whether a browser with a window was asked to show the page."""
    import os
    import sys
    import webbrowser

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False  # where Python would open a browser that takes over the terminal
    return webbrowser.open(path.resolve().as_uri())
