"""Take in a checkpoint that others have trained.

    python scripts/convert_checkpoint.py marian Helsinki-NLP/opus-mt-en-de OUT --sentences some.en
    python scripts/convert_checkpoint.py fairseq model.pt OUT --dictionaries dict.en.txt dict.de.txt --bpe-codes bpecodes \
        --origin "transformer.wmt16.en-de of fairseq" --licence mit

Nothing that stands in a checkpoint is run. OUT appears once it translates as the original does, with a card that names origin and licence,
and is then like any trained model: fine-tune, average, export or publish it.
"""

import argparse
import sys
from itertools import islice
from pathlib import Path

from vaswani_transformer.interop.conversion import SENTENCES, convert_fairseq, convert_marian


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    toolkits = parser.add_subparsers(dest="toolkit", required=True)
    marian = toolkits.add_parser("marian", help="a MarianMTModel, such as OPUS-MT's")
    marian.add_argument("checkpoint", help="its folder, or repository on the Hub")
    fairseq = toolkits.add_parser("fairseq", help="a post-LayerNorm `transformer` of fairseq")
    fairseq.add_argument("checkpoint", help="the file of the weights, model.pt")
    for toolkit in (marian, fairseq):
        toolkit.add_argument("out", type=Path, help="a new folder")
        toolkit.add_argument("--origin", help="what the card names as such (default: the checkpoint's name)")
        toolkit.add_argument("--licence", help="of the weights (default: what their README.md says)")
        toolkit.add_argument("--sentences", type=Path, help="check on this file's first 8 lines")
    fairseq.add_argument("--dictionaries", nargs="+", required=True, help="one for both, or source target")
    fairseq.add_argument("--bpe-codes", required=True, help="of subword-nmt or fastBPE")
    fairseq.add_argument("--languages", nargs=2, help="source target (default: what the checkpoint says)")
    fairseq.add_argument("--lowercase", action="store_true", help="the model knows lower-cased text only")
    return parser.parse_args()


def main() -> None:
    arguments = vars(parse())
    toolkit, file = arguments.pop("toolkit"), arguments.pop("sentences")
    checkpoint, out = arguments.pop("checkpoint"), arguments.pop("out")
    try:
        if file is not None:
            with open(file, encoding="utf-8") as lines:
                arguments["sentences"] = [line.strip() for line in islice(lines, len(SENTENCES))]
        if toolkit == "marian":
            convert_marian(checkpoint, out, **arguments)
        else:
            dictionaries, codes = arguments.pop("dictionaries"), arguments.pop("bpe_codes")
            convert_fairseq(checkpoint, dictionaries, codes, out, **arguments)
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"{out} is ready; how it was checked, and what it translates, is in {out / 'README.md'}.")


if __name__ == "__main__":
    main()
