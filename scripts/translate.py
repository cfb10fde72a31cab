"""Translate a file or stream of any size, in order, one line out for every line in.

    python scripts/translate.py MODEL --input FILE --output FILE     (plain, .gz or .xz; "-", the default: standard streams)
    accelerate launch scripts/translate.py MODEL ...                 (several devices share the windows)

The same command goes on with a job that was stopped or killed, to the same bytes. A line that cannot be translated is named on
standard error and stays empty in the output. How n-best lists and scores are written: vaswani_transformer/translation/records.py.
Exit status: 0; 3 if some lines failed (0 under accelerate launch); 130 if somebody stopped it; 1 if it could not go on.
"""

import argparse
import sys

from vaswani_transformer.strict_yaml import parse_override
from vaswani_transformer.translation.job import JobSettings, translate_file
from vaswani_transformer.translation.loading import ENGINES, load_engine
from vaswani_transformer.translation.processes import exit_status
from vaswani_transformer.translation.translate import Translator


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Translate a file or stream of any size, in order.")
    add = parser.add_argument
    add("model", help="a folder or a repository of the Hub")
    add("--input", default="-", help="what to translate (default: standard input)")
    add("--output", default="-", help="(default: standard output, which cannot be resumed)")
    add("--format", choices=["text", "tsv", "jsonl"], default="text")
    add("--column", "--field", help="name or number of the column (default: 1), or the field (text)")
    add("--engine", choices=ENGINES, default="pytorch")
    add("--dtype", help="float32, bfloat16, float16 or int8 (default: what MODEL holds; float32 on a CPU)")
    add("--target-language", help="code, for a model of ours that has several: fr")
    add("--num-beams", type=int, help="(default: the checkpoint's own)")
    add("--nbest", type=int, dest="num_return_sequences", help="translations a line, best first (default: 1)")
    add("--scores", action="store_true", help="write the search's score of each translation too")
    add("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of generate; repeatable")
    add("--batch-tokens", type=int, default=4096, help="source tokens a batch (default: %(default)s)")
    add("--max-source-tokens", type=int, default=1024, help="longer texts fail (default: %(default)s)")
    add("--window", type=int, default=4000, help="lines sorted together (default: %(default)s)")
    add("--split-sentences", metavar="LANGUAGE", help="cut texts into sentences; the source's code: en")
    return parser.parse_args()


def main(a: argparse.Namespace) -> int:
    job = JobSettings(a.format, a.column, a.num_return_sequences or 1, a.scores, a.window, a.split_sentences)
    settings = dict(parse_override(entry, "num_beams=4") for entry in a.set)
    named = ("num_beams", "num_return_sequences", "target_language", "batch_tokens", "max_source_tokens")
    settings |= {name: value for name in named if (value := getattr(a, name)) is not None}
    model, tokenizer, identity = load_engine(a.model, a.engine, a.dtype)
    translator = Translator(model, tokenizer, scores=a.scores, **settings)
    return exit_status(translate_file(a.input, a.output, translator, job, identity | settings))


if __name__ == "__main__":
    try:
        sys.exit(main(parse()))
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
