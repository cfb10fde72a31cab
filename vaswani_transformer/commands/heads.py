"""`vaswani heads`."""

from pathlib import Path
from typing import Annotated

import typer

_FILES = "With files: "


def heads(
    run_or_model: Annotated[str, typer.Argument(metavar="RUN-OR-MODEL", help="A run's folder, a model's, or a repository of the Hub.")],
    sentences: Annotated[int | None, typer.Option(min=1, metavar="N", help="Measure on the first N sentences.", show_default="all")] = None,
    worth: Annotated[bool, typer.Option("--worth", help="Also translate the text without each head, and score it.")] = False,
    source: Annotated[str | None, typer.Option(metavar="FILE", help=f"{_FILES}the text, one sentence a line; plain, .gz or .xz.")] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help=f"{_FILES}its translation, line by line.")] = None,
    target_language: Annotated[str | None, typer.Option(metavar="CODE", help=f"{_FILES}de, for example.", show_default="de")] = None,
    tokenized: Annotated[bool, typer.Option("--tokenized", help=f"{_FILES}they are already split into tokens.")] = False,
    source_language: Annotated[str | None, typer.Option(metavar="CODE", help=f"{_FILES}en, for example.", show_default="en")] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also find and draw Figures 3 to 5 of the paper, in this folder.")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FOLDER", help=f"{_FILES}where to.")] = None,
) -> None:
    """Measure what each attention head does, and what it is worth.

    \b
    vaswani heads runs/my_pair
    vaswani heads runs/my_pair --worth
    vaswani heads Helsinki-NLP/opus-mt-en-de --source some.en --target some.de --output heads-of-opus

    Shares of attention on the previous, same and next position, the same token, the sentence's end, its rarest token and the diagonal;
    entropy and mean distance: on the validation set of a run, or on any files. That takes seconds. --worth translates the text once
    without each head and tells what BLEU loses: as long as translating it 1 + heads + layers times, 61 times for the tiny model. It can
    be stopped, and the same command goes on. heads.json, heads.png, heads.svg and attention.png appear in the folder, and the card of a
    run shows them (`vaswani card`).

    --figures looks for sentences in which a head of the encoder follows a long-distance dependency or a pronoun, and draws them as lines;
    figures.json tells how they were found. It knows English sources.
    """
    from ..data.sources.lines import LinesCorpus
    from ..inspection.head_report import HeadText, draw_dependencies, heads_table, report_heads, report_heads_of_run, validation_text
    from ..run_folder import RunFolder

    run = RunFolder(Path(run_or_model))
    files = {
        "--source": source, "--target": target, "--source-language": source_language, "--target-language": target_language,
        "--tokenized": tokenized, "--output": output,
    }  # fmt: skip
    if run.recipe.is_file():
        if given := [option for option, value in files.items() if value]:
            raise typer.BadParameter(f"{', '.join(given)}: a run is measured on its validation set; name the model itself, {run.averaged}.")
        place, report = run, report_heads_of_run(run, sentences=sentences, worth=worth)
        model, text = str(run.averaged), None if figures is None else validation_text(run, sentences)
    elif source is None or target is None or output is None:
        raise typer.BadParameter(f"{run_or_model} is no run's folder; a model needs --source, --target and --output.")
    else:
        languages = (source_language or "en", target_language or "de")
        pairs = LinesCorpus(source=source, target=target, limit=sentences).pairs(Path(), languages)
        text = HeadText(Path(source).name, [(pair.source, pair.target) for pair in pairs], languages, tokenized)
        model, place = run_or_model, RunFolder(output)
        report = report_heads(model, text, place, worth=worth)
    print(heads_table(report))
    print(f"All of it is in {place.heads}, and drawn in {place.heads_picture}.")
    if figures is not None and text is not None:
        draw_dependencies(model, text, figures)
        print(f"The figures are in {figures}.")
