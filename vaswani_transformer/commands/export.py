"""`vaswani export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

USES = {
    "ctranslate2": """from vaswani_transformer.interop.ctranslate2 import CTranslate2Model
    pipeline("translation", model=CTranslate2Model.from_pretrained("{0}"), tokenizer=AutoTokenizer.from_pretrained("{0}"))""",
    "marian": """model, tokenizer = MarianMTModel.from_pretrained("{0}"), AutoTokenizer.from_pretrained("{0}")
    tokenizer.batch_decode(model.generate(**tokenizer(["..."], return_tensors="pt")), skip_special_tokens=True)""",
    "onnx": """model, tokenizer = ORTModelForSeq2SeqLM.from_pretrained("{0}"), AutoTokenizer.from_pretrained("{0}")  # optimum.onnxruntime
    tokenizer.batch_decode(model.generate(**tokenizer(["..."], return_tensors="pt"), num_beams=1), skip_special_tokens=True)""",
    "onnx of an encoder": """session, tokenizer = InferenceSession("{0}/model.onnx"), AutoTokenizer.from_pretrained("{0}")  # onnxruntime
    session.run(None, dict(tokenizer(["..."], padding=True, return_tensors="np")))""",
}


def export(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The trained model, such as runs/NAME/averaged.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder.")],
    to: Annotated[Literal["ctranslate2", "marian", "onnx"], typer.Option(help="What is to read it.")],
    quantization: Annotated[
        str | None, typer.Option(metavar="TYPE", help="For ctranslate2: int8, int8_float32, bfloat16 or float16.", show_default="float32")
    ] = None,
    optimum_python: Annotated[
        Path | None,
        typer.Option(metavar="PROGRAM", help="For onnx: the python of an environment with optimum-onnx.", show_default="one that is made"),
    ] = None,
) -> None:
    """Take a trained model into another engine.

    \b
    vaswani export runs/my_pair/averaged exported --to ctranslate2 --quantization int8
    vaswani export runs/my_pair/averaged exported --to marian
    vaswani export runs/my_pair/averaged exported --to onnx

    A model without a decoder, such as a classifier, goes to ONNX only: one graph for ONNX Runtime, by PyTorch's own exporter (it needs
    `pip install 'vaswani_transformer[browser]'`). The rest is for translators.

    `ctranslate2` is a fast engine without PyTorch (it needs `pip install ctranslate2`). A `marian` folder loads with the stock
    MarianMTModel of any transformers since 4.40, and with whatever reads Marian models. `onnx` is for
    ONNX Runtime; the first export makes an environment for Hugging Face's Optimum, which takes minutes and more than 1 GB.
    """
    if optimum_python is not None and to != "onnx":
        raise typer.BadParameter("--optimum-python is for onnx; leave it out.")
    use: str = to
    if to == "ctranslate2":
        from ..interop.ctranslate2_export import export_ctranslate2

        export_ctranslate2(folder, out, quantization)
    elif quantization is not None:
        raise typer.BadParameter(f"{'A Marian' if to == 'marian' else 'An ONNX'} model is stored in float32; leave out --quantization.")
    elif to == "onnx":
        from ..interop.onnx_encoder import export_encoder_onnx, is_encoder

        if is_encoder(folder):
            if optimum_python is not None:
                raise typer.BadParameter("--optimum-python is for translators, and this model has no decoder; leave it out.")
            export_encoder_onnx(folder, out)
            use = "onnx of an encoder"
        else:
            from ..interop.onnx import export_onnx

            export_onnx(folder, out, python=optimum_python)
    else:
        from ..interop.marian import export_marian

        export_marian(folder, out)
    from ..configuration_vaswani import VaswaniConfig

    if VaswaniConfig.from_pretrained(folder).parallel_heads > 1:
        print("The model's parallel heads are left out: other engines do not decode with them. Its translations stay the same.")
    size = sum(file.stat().st_size for file in out.iterdir())
    print(f"{out} ({size:,} bytes) is ready. Use it:\n    {USES[use].format(out)}")
