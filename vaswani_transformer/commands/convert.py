"""`vaswani convert`."""

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer()

_Out = Annotated[Path, typer.Argument(metavar="OUT", help="A new folder.")]
_Origin = Annotated[str | None, typer.Option(metavar="NAME", help="What the card names as such.", show_default="the checkpoint's name")]
_LICENCE: dict[str, Any] = {"metavar": "NAME", "help": "Of the weights."}
_Sentences = Annotated[Path | None, typer.Option(metavar="FILE", help="Check on its first 8 lines.", show_default="sentences of ours")]


@app.callback()
def convert() -> None:
    """Take in a checkpoint that others have trained.

    Nothing that stands in a checkpoint is run. OUT appears once it translates as the original does, with a card that names origin and
    licence, and is then like any trained model: fine-tune, average, export or publish it.
    """


@app.command()
def marian(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A folder, or a repository on the Hub.")],
    out: _Out,
    origin: _Origin = None,
    licence: Annotated[str | None, typer.Option(**_LICENCE, show_default="what their README.md says")] = None,
    sentences: _Sentences = None,
) -> None:
    """A MarianMTModel, such as those of OPUS-MT.

    \b
    vaswani convert marian Helsinki-NLP/opus-mt-en-de converted

    It needs `pip install sentencepiece`.
    """
    from ..interop.conversion import convert_marian

    convert_marian(checkpoint, out, origin=origin, licence=licence, **_read(sentences))
    _tell(out)


@app.command()
def fairseq(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The file of the weights, model.pt.")],
    out: _Out,
    dictionary: Annotated[
        list[str], typer.Option(metavar="FILE", help="Once for both languages, or twice: the source's, then the target's.")
    ],
    bpe_codes: Annotated[str, typer.Option(metavar="FILE", help="The merges of subword-nmt or fastBPE.")],
    languages: Annotated[
        tuple[str, str] | None, typer.Option(metavar="SOURCE TARGET", help="Two codes.", show_default="what the checkpoint says")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="The model knows lower-cased text only.")] = False,
    origin: _Origin = None,
    licence: Annotated[str | None, typer.Option(**_LICENCE, show_default="unknown")] = None,
    sentences: _Sentences = None,
) -> None:
    """A post-LayerNorm `transformer` of fairseq.

    \b
    vaswani convert fairseq model.pt converted --dictionary dict.en.txt --dictionary dict.de.txt --bpe-codes bpecodes --licence mit
    """
    from ..interop.conversion import convert_fairseq

    settings: dict[str, Any] = {"languages": languages, "lowercase": lowercase, "origin": origin, "licence": licence}
    convert_fairseq(checkpoint, dictionary, bpe_codes, out, **settings, **_read(sentences))
    _tell(out)


def _read(file: Path | None) -> dict[str, Any]:
    """The argument of a conversion that says what to check on, if a file was named."""
    if file is None:
        return {}
    from ..interop.conversion import SENTENCES

    with open(file, encoding="utf-8") as lines:
        return {"sentences": [line.strip() for line in islice(lines, len(SENTENCES))]}


def _tell(out: Path) -> None:
    print(f"{out} is ready; how it was checked, and what it translates, is in {out / 'README.md'}.")
