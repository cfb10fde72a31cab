"""Take a trained translator into another engine.

    python scripts/export.py runs/NAME/averaged OUT --to ctranslate2 --quantization int8
    python scripts/export.py runs/NAME/averaged OUT --to marian

`ctranslate2` is a fast engine without PyTorch (it needs `pip install ctranslate2`); a `marian` folder loads with the stock
MarianMTModel of any transformers since 4.40, and with whatever reads Marian models, such as Optimum's export to ONNX.
"""

import argparse
import sys
from pathlib import Path

USES = {
    "ctranslate2": """from vaswani_transformer.interop.ctranslate2 import CTranslate2Model
    pipeline("translation", model=CTranslate2Model.from_pretrained("{0}"), tokenizer=AutoTokenizer.from_pretrained("{0}"))""",
    "marian": """model, tokenizer = MarianMTModel.from_pretrained("{0}"), AutoTokenizer.from_pretrained("{0}")
    tokenizer.batch_decode(model.generate(**tokenizer(["..."], return_tensors="pt")), skip_special_tokens=True)""",
}


def export(folder: Path, out: Path, to: str, quantization: str | None) -> Path:
    """Write `out`; each engine's module is imported only where it is asked for."""
    if to == "ctranslate2":
        from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

        return export_ctranslate2(folder, out, quantization)
    if quantization is not None:
        raise ValueError("A Marian model is stored in float32; leave out --quantization.")
    from vaswani_transformer.interop.marian import export_marian

    return export_marian(folder, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the trained model, such as runs/NAME/averaged")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--to", choices=list(USES), required=True, help="what shall read it")
    parser.add_argument("--quantization", help="for ctranslate2: int8, int8_float32, bfloat16, float16 (default: float32)")
    arguments = parser.parse_args()
    try:
        out = export(**vars(arguments))
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    size = sum(file.stat().st_size for file in out.iterdir())
    print(f"{out} ({size:,} bytes) is ready. Use it:\n    {USES[arguments.to].format(out)}")


if __name__ == "__main__":
    main()
