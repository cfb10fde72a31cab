"""`vaswani label`."""

from typing import Annotated

import typer

from .line_options import BatchTokens, Column, Format, Input, MaxSourceTokens, Output, Window, check_column


def label(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a classifier or a tagger, or a repository of the Hub.")],
    input: Input = "-",
    output: Output = "-",
    format: Format = "text",
    column: Column = None,
    nbest: Annotated[int, typer.Option(min=1, metavar="N", help="Labels a text, likeliest first; of a classifier.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write the probability of each label, too; of a classifier.")] = False,
    batch_tokens: BatchTokens = 4096,
    max_source_tokens: MaxSourceTokens = 1024,
    window: Window = 4000,
) -> None:
    """Label a file or stream of texts of any size, line by line.

    \b
    vaswani label runs/sst2/averaged --input reviews.csv --format csv --column text --scores --output labelled.csv
    echo "Angela Merkel visits Paris ." | vaswani label runs/wnut17/averaged
    accelerate launch -m vaswani_transformer label MODEL --input in.txt --output out.txt

    A classifier gives each text a label. A tagger gives one to each word, where white space parts words; a line gets the labels of its
    words, with a space between two. What lines, resuming and failures are is as in `vaswani translate`.
    """
    check_column(column, format)
    from ..files.lines import require_input
    from ..translation.job import JobSettings, translate_file
    from ..translation.label import Labeller
    from ..translation.loading import load_labelling
    from ..translation.processes import exit_status

    require_input(input)
    loaded, tokenizer, identity = load_labelling(model)
    limits = {"batch_tokens": batch_tokens, "max_source_tokens": max_source_tokens}
    labeller = Labeller(loaded, tokenizer, nbest=nbest, scores=scores, **limits)
    job = JobSettings(format, column, nbest, scores, window, name=labeller.name)
    raise typer.Exit(exit_status(translate_file(input, output, labeller, job, identity | limits)))
