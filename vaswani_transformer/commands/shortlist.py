"""`vaswani shortlist`."""

from pathlib import Path
from typing import Annotated

import typer

_FILES = "For a model's folder: "


def shortlist(
    run_or_model: Annotated[Path, typer.Argument(metavar="RUN-OR-MODEL", help="A run's folder, or a model's.")],
    use: Annotated[bool, typer.Option("--use", help="Also let every search of this model use it from now on.")] = False,
    use_for_drafts: Annotated[
        bool, typer.Option("--use-for-drafts", help="Also let the parallel heads of this model propose only listed tokens from now on.")
    ] = False,
    best: Annotated[int, typer.Option(min=1, metavar="N", help="Target tokens listed for each source token.")] = 100,
    frequent: Annotated[int, typer.Option(min=1, metavar="N", help="The most frequent target tokens, which are always allowed.")] = 100,
    source: Annotated[
        str | None, typer.Option(metavar="FILE", help=f"{_FILES}text like its training data, one sentence a line; plain, .gz or .xz.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help=f"{_FILES}its translation, line by line.")] = None,
    source_language: Annotated[str | None, typer.Option(metavar="CODE", help=f"{_FILES}en, for example.")] = None,
    target_language: Annotated[str | None, typer.Option(metavar="CODE", help=f"{_FILES}de, for example.")] = None,
) -> None:
    """Learn the few target tokens that each source token may need.

    \b
    vaswani shortlist runs/my_pair
    vaswani shortlist runs/my_pair --use
    vaswani shortlist runs/my_pair/published --source train.en --target train.sv --source-language en --target-language sv

    The list is learned from the training pairs (IBM model 1) and written beside the weights as shortlist.safetensors. It makes the search
    faster on a CPU, and may change a translation that needs a word that is not listed. So nothing uses it until it is asked for: for good
    with --use, or for a call with shortlist=True, as in pipe(text, shortlist=True) and vaswani translate --set shortlist=true.
    `vaswani export --to ctranslate2` writes it as vmap.txt.

    Drafts by parallel heads take less time within the list, and translations stay the same: --use-for-drafts for good, or
    draft_shortlist=True for a call.
    """
    from ..data.shortlisting import make_shortlist
    from ..data.sources.lines import LinesCorpus
    from ..run_folder import RunFolder
    from ..shortlist import SHORTLIST_USES

    run = RunFolder(run_or_model)
    pairs = languages = None
    options = {"--source": source, "--target": target, "--source-language": source_language, "--target-language": target_language}
    if run.recipe.is_file():
        if given := [name for name, value in options.items() if value]:
            raise typer.BadParameter(f"{', '.join(given)}: a run has its own training pairs; name the model itself, {run.averaged}.")
    elif source is None or target is None or source_language is None or target_language is None:
        raise typer.BadParameter(f"{run_or_model} is no run's folder; a model needs {', '.join(options)}.")
    else:
        languages = (source_language, target_language)
        pairs = LinesCorpus(source=source, target=target).pairs(Path(), languages)
    uses = [name for name, is_asked in zip(SHORTLIST_USES, (use, use_for_drafts), strict=True) if is_asked]
    covered = make_shortlist(run_or_model, pairs, languages, best=best, frequent=frequent, use=uses, progress=True)
    folder = run_or_model if pairs is not None else run.averaged
    if covered is not None:
        print(
            f"On the validation set, a list has {covered.size:,.0f} tokens on average and {covered.tokens:.2%} of the reference's; "
            f"{covered.sentences:.1%} of the references can be reached whole."
        )
    when = [
        "and every search uses it" if use else "and a search uses it with shortlist=True",
        *(["drafts by parallel heads use it"] if use_for_drafts else []),
    ]
    print(f"{folder / 'shortlist.safetensors'} is ready, {'; '.join(when)}.")
