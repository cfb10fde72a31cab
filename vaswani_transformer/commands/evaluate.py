"""`vaswani evaluate`."""

from pathlib import Path
from typing import Annotated, Any

import typer

_FILES = "With files: "

_Penalty = Annotated[
    float | None,
    typer.Option(metavar="ALPHA", help="How much a longer translation is favoured.", show_default="the checkpoint's own"),
]
_Counted = Annotated[
    bool | None,
    typer.Option(
        "--count-copied/--no-count-copied",
        help="Count the inline code, placeholders and numbers that are copied intact.",
        show_default="the recipe's",
    ),
]
_Constrained = Annotated[
    bool | None,
    typer.Option("--copy-items/--no-copy-items", help="Search a sentence again that lost one.", show_default="the checkpoint's own"),
]


def evaluate(
    run_or_model: Annotated[str, typer.Argument(metavar="RUN-OR-MODEL", help="A run's folder, a model's, or a repository of the Hub.")],
    source: Annotated[
        str | None, typer.Option(metavar="FILE", help=f"{_FILES}what to translate, one sentence a line; plain, .gz or .xz.")
    ] = None,
    reference: Annotated[str | None, typer.Option(metavar="FILE", help=f"{_FILES}its translation by people, line by line.")] = None,
    source_language: Annotated[str | None, typer.Option(metavar="CODE", help=f"{_FILES}en, for example.", show_default="en")] = None,
    target_language: Annotated[str | None, typer.Option(metavar="CODE", help=f"{_FILES}de, for example.", show_default="de")] = None,
    tokenized: Annotated[bool, typer.Option("--tokenized", help=f"{_FILES}they are already split into tokens.")] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help=f"{_FILES}score without regard to case.")] = False,
    num_beams: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Beams of the search.", show_default="the checkpoint's own")
    ] = None,
    length_penalty: _Penalty = None,
    count_copied: _Counted = None,
    copy_items: _Constrained = None,
    published: Annotated[
        list[str] | None,
        typer.Option(metavar="'SET; SYSTEM; METRIC; SCORE'", help="A score of others, for the card; repeatable."),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write everything that is known to this JSON file.")] = None,
) -> None:
    """Translate and score the test sets of a run, or any files.

    \b
    vaswani evaluate runs/my_pair
    vaswani evaluate Helsinki-NLP/opus-mt-en-de --source test.en --reference test.de

    Scores are sacreBLEU, chrF and the paper's BLEU, each with its signature. A run has its test sets in its recipe, and its scores go
    into evaluation.json; a task with labels has scores of its own. Any other model of transformers needs files.
    """
    from ..data.sources.lines import LinesCorpus
    from ..evaluation.scores import PublishedScore, evaluate_model, evaluate_run, score_lines
    from ..files.json_files import write_json
    from ..recipe import load_recipe
    from ..run_folder import RunFolder

    settings: dict[str, Any] = {"published": [PublishedScore(*_parts(entry)) for entry in published or ()]}
    given = {"num_beams": num_beams, "length_penalty": length_penalty, "copy_items": copy_items, "count_copied": count_copied}
    settings |= {name: value for name, value in given.items() if value is not None}
    run = RunFolder(Path(run_or_model))
    files = {
        "--source": source, "--reference": reference, "--source-language": source_language, "--target-language": target_language,
        "--tokenized": tokenized, "--lowercase": lowercase,
    }  # fmt: skip
    if run.recipe.is_file() or run.averaged.is_dir():
        if named := [option for option, value in files.items() if value]:
            translates = not run.recipe.is_file() or load_recipe(run.recipe, in_run_folder=True).task == "translation"
            remedy = f"name the model itself, {run.averaged}," if translates else f"change `data.test` in {run.recipe}"
            raise typer.BadParameter(f"{', '.join(named)}: a run's test sets are in its recipe; {remedy} to score it on files.")
        evaluation = evaluate_run(run, **settings)
    elif source is None or reference is None:
        raise typer.BadParameter(f"{run_or_model} is no run's folder; a model needs --source and --reference.")
    else:
        settings |= {"languages": (source_language or "en", target_language or "de"), "lowercase": lowercase}
        corpus = LinesCorpus(source=source, target=reference, tokenized=tokenized)
        evaluation = evaluate_model(run_or_model, {Path(source).name: corpus}, **settings)
    if output is not None:
        write_json(output, evaluation)
    print("\n".join(score_lines(evaluation)))


def _parts(entry: str) -> tuple[str, str, str, float]:
    """Test set, system, metric and score of one `--published`."""
    try:
        test_set, system, metric, score = (part.strip() for part in entry.split(";"))
        return test_set, system, metric, float(score)
    except ValueError as error:
        raise typer.BadParameter(
            f"--published {entry!r} must read 'SET; SYSTEM; METRIC; SCORE', such as 'newstest2014; Vaswani et al.; paper_bleu; 27.3'."
        ) from error
