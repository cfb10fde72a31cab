"""`vaswani translate`."""

from collections.abc import Iterable
from typing import Annotated, Literal

import typer

from .line_options import BatchTokens, Column, Format, Input, MaxSourceTokens, Output, Window, check_column

_OPTIONS = {
    "num_return_sequences": "--nbest", "scores": "--scores", "target_language": "--target-language", "batch_tokens": "--batch-tokens",
    "max_source_tokens": "--max-source-tokens",
}  # fmt: skip
"""Settings that have an option of their own."""

_OF_THE_COMMAND = (
    *("model", "tokenizer", "input_ids", "inputs", "inputs_embeds", "attention_mask", "encoder_outputs", "generation_config"),
    *("return_dict_in_generate", "output_scores"),
)
"""What the command gives to `generate` itself."""


def translate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, or a repository of the Hub.")],
    input: Input = "-",
    output: Output = "-",
    format: Format = "text",
    column: Column = None,
    engine: Annotated[Literal["pytorch", "ctranslate2"], typer.Option(help="What translates; see `vaswani export`.")] = "pytorch",
    dtype: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="float32, bfloat16, float16 or int8.", show_default="what MODEL holds; float32 on a CPU"),
    ] = None,
    target_language: Annotated[str | None, typer.Option(metavar="CODE", help="For a model of ours that has several: fr.")] = None,
    num_beams: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Beams of the search.", show_default="the checkpoint's own")
    ] = None,
    nbest: Annotated[int | None, typer.Option(min=1, metavar="N", help="Translations a line, best first.", show_default="1")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write the search's score of each translation, too.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of generate; repeatable.")] = None,
    batch_tokens: BatchTokens = 4096,
    max_source_tokens: MaxSourceTokens = 1024,
    window: Window = 4000,
    split_sentences: Annotated[
        str | None, typer.Option(metavar="LANGUAGE", help="Cut texts into sentences; the source's code: en.")
    ] = None,
) -> None:
    """Translate a file or stream of any size, line by line.

    \b
    vaswani translate runs/my_pair/published --input in.txt.gz --output out.txt.gz
    echo "The dog sleeps." | vaswani translate runs/my_pair/published
    accelerate launch -m vaswani_transformer translate MODEL --input in.txt --output out.txt

    One line comes out for every line that goes in, in order. The last example shares the work among several devices. The same command
    resumes a job that was stopped or killed, to the same bytes. A line that cannot be translated is named on standard error and stays
    empty in the output; the exit status is then 3 (0 with several processes).
    """
    check_column(column, format)
    from ..files.lines import require_input
    from ..strict_yaml import parse_override
    from ..translation.job import JobSettings, translate_file
    from ..translation.loading import load_engine
    from ..translation.processes import exit_status
    from ..translation.translate import Translator, check_search

    named = {
        "num_beams": num_beams, "num_return_sequences": nbest or 1, "target_language": target_language, "batch_tokens": batch_tokens,
        "max_source_tokens": max_source_tokens,
    }  # fmt: skip
    asked = dict(parse_override(entry, "length_penalty=1.0") for entry in settings or ())
    _check_names(asked)
    generation = asked | {name: value for name, value in named.items() if value is not None}
    job = JobSettings(format, column, nbest or 1, scores, window, split_sentences)
    check_search(generation)
    require_input(input)
    loaded, tokenizer, identity = load_engine(model, engine, dtype)
    translator = Translator(loaded, tokenizer, scores=scores, **generation)
    raise typer.Exit(exit_status(translate_file(input, output, translator, job, identity | generation)))


def _check_names(asked: Iterable[str]) -> None:
    """Refuse settings that have an option, or that the command makes itself."""
    for name in asked:
        if name in _OPTIONS:
            raise typer.BadParameter(f"--set {name} has an option of its own; use {_OPTIONS[name]}.")
        if name in _OF_THE_COMMAND:
            raise typer.BadParameter(f"--set {name} is no setting of the search: the command gives it to generate itself; leave it out.")
