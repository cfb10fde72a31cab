"""`vaswani new`."""

from typing import Annotated, Literal

import typer


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the recipe: NAME.yaml is written here.")],
    source: Annotated[str, typer.Option(metavar="FILE", help="The training text, or one file or folder that holds both languages.")],
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Its translation, line by line.")] = None,
    format: Annotated[
        Literal["lines", "table", "disk", "tmx", "moses"] | None, typer.Option(help="Of the corpus.", show_default="by the name")
    ] = None,
    source_language: Annotated[str | None, typer.Option(metavar="CODE", help="Such as en.", show_default="the file's ending")] = None,
    target_language: Annotated[str | None, typer.Option(metavar="CODE", help="Such as de.", show_default="the file's ending")] = None,
    source_column: Annotated[str | None, typer.Option(metavar="NAME", help="Of a table.", show_default="the language's code")] = None,
    target_column: Annotated[str | None, typer.Option(metavar="NAME", help="Of a table.", show_default="the language's code")] = None,
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Of a saved data set.")] = None,
    dev_source: Annotated[str | None, typer.Option(metavar="FILE", help="Text to look at during training.")] = None,
    dev_target: Annotated[str | None, typer.Option(metavar="FILE", help="Its translation.")] = None,
    test_source: Annotated[str | None, typer.Option(metavar="FILE", help="Text for the score.")] = None,
    test_target: Annotated[str | None, typer.Option(metavar="FILE", help="Its translation.")] = None,
    licence: Annotated[str, typer.Option(metavar="ID", help="Of the training text, such as cc-by-4.0; for the model's card.")] = "unknown",
) -> None:
    """Write a recipe that fits your sentence pairs.

    \b
    vaswani new my --source train.en --target train.de
    vaswani train my.yaml
    vaswani translate runs/my/averaged --input in.txt --output out.txt

    Looks at the text and writes NAME.yaml: vocabulary, model, batches and length of training for as much text as there is, with the reasons
    as comments. Where no development or test set is given, some of the pairs are held out and written beside it. For fewer than 100,000
    pairs, a second recipe, NAME_distilled.yaml, trains the finished model on with its own translations: another `vaswani train`.
    """
    from ..new_recipe import Files, write_new_recipe

    if (dev_target and not dev_source) or (test_target and not test_source):
        raise typer.BadParameter("--dev-target and --test-target need the option for their source.")
    named = {"--source-column": source_column, "--target-column": target_column, "--split": split}
    if target is not None and (given := [option for option, value in named.items() if value is not None]):
        raise typer.BadParameter(f"{', '.join(given)}: line-aligned files have no columns or splits; leave out --target, or these.")
    columns = (format, source_column, target_column) if target is None else (None, None, None)
    dev, test = (
        Files(first, second, *(columns if second is None else ())) if first else None
        for first, second in ((dev_source, dev_target), (test_source, test_target))
    )
    train = Files(source, target, format, source_column, target_column, split)
    path, distilled, found = write_new_recipe(name, train, (source_language, target_language), dev, test, licence=licence)
    print(f"{path} is for {found.pairs:,} training pairs; read it, its comments give the reasons.")
    if found.held_out:
        files = [f"{name}.{part}.*" for part, given in (("validation", dev), ("test", test)) if given is None]
        print(f"{len(found.held_out):,} pairs are held out, in {' and '.join(files)}.")
    print(f"Next:\n  vaswani check {path}   (optional: time and memory)\n  vaswani train {path}")
    if distilled is not None:
        print(f"  vaswani train {distilled}   (optional: a third more time; captions gained a BLEU point)")
