"""`vaswani export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

USES = {
    "ctranslate2": """from vaswani_transformer.interop.ctranslate2 import CTranslate2Model
    pipeline("translation", model=CTranslate2Model.from_pretrained("{0}"), tokenizer=AutoTokenizer.from_pretrained("{0}"))""",
    "marian": """model, tokenizer = MarianMTModel.from_pretrained("{0}"), AutoTokenizer.from_pretrained("{0}")
    tokenizer.batch_decode(model.generate(**tokenizer(["..."], return_tensors="pt")), skip_special_tokens=True)""",
}


def export(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The trained model, such as runs/NAME/averaged.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder.")],
    to: Annotated[Literal["ctranslate2", "marian"], typer.Option(help="What is to read it.")],
    quantization: Annotated[
        str | None, typer.Option(metavar="TYPE", help="For ctranslate2: int8, int8_float32, bfloat16 or float16.", show_default="float32")
    ] = None,
) -> None:
    """Take a trained translator into another engine.

    \b
    vaswani export runs/my_pair/averaged exported --to ctranslate2 --quantization int8
    vaswani export runs/my_pair/averaged exported --to marian

    `ctranslate2` is a fast engine without PyTorch (it needs `pip install ctranslate2`). A `marian` folder loads with the stock
    MarianMTModel of any transformers since 4.40, and with whatever reads Marian models.
    """
    if to == "ctranslate2":
        from ..interop.ctranslate2_export import export_ctranslate2

        export_ctranslate2(folder, out, quantization)
    elif quantization is not None:
        raise typer.BadParameter("A Marian model is stored in float32; leave out --quantization.")
    else:
        from ..interop.marian import export_marian

        export_marian(folder, out)
    size = sum(file.stat().st_size for file in out.iterdir())
    print(f"{out} ({size:,} bytes) is ready. Use it:\n    {USES[to].format(out)}")
