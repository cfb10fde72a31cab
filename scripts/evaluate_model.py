"""Translate test sets and score the translations: sacreBLEU, chrF and the paper's BLEU, each with its signature.

The recipe's test sets, into runs/NAME/evaluation.json:  python scripts/evaluate_model.py --run runs/NAME
Any model of transformers on any files:  python scripts/evaluate_model.py MODEL --source F --reference F

MODEL is a folder or a repository of the Hub; the files are line-aligned, plain, .gz or .xz.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from vaswani_transformer.evaluation.report import PublishedScore, evaluate_model, evaluate_run, score_lines
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.recipe import CorpusSpec
from vaswani_transformer.run_folder import RunFolder


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Translate test sets and score the translations.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("model", nargs="?", help="a folder or a repository of the Hub")
    what.add_argument("--run", type=Path, help="a run's folder")
    parser.add_argument("--source", help="what to translate, one sentence a line")
    parser.add_argument("--reference", help="its translation by people, line by line")
    parser.add_argument("--source-language", default="en")
    parser.add_argument("--target-language", default="de")
    parser.add_argument("--tokenized", action="store_true", help="the files are already split into tokens")
    parser.add_argument("--lowercase", action="store_true", help="score without regard to case")
    parser.add_argument("--num-beams", type=int, help="(default: the checkpoint's own)")
    others = {"nargs": 4, "metavar": ("SET", "SYSTEM", "METRIC", "SCORE"), "help": "a score of others"}
    parser.add_argument("--published", action="append", default=[], **others)
    parser.add_argument("--output", type=Path, help="also write all that is known to this JSON file")
    arguments = parser.parse_args()
    if arguments.model and not (arguments.source and arguments.reference):
        parser.error("a MODEL needs --source and --reference; --run takes them from the recipe")
    return arguments


def evaluate(a: argparse.Namespace) -> dict[str, Any]:
    settings = {"published": [PublishedScore(*entry[:3], float(entry[3])) for entry in a.published]}
    settings |= {} if a.num_beams is None else {"num_beams": a.num_beams}
    if a.run:
        return evaluate_run(RunFolder(a.run), **settings)
    settings |= {"languages": (a.source_language, a.target_language), "lowercase": a.lowercase}
    files = CorpusSpec("lines", source=a.source, target=a.reference, tokenized=a.tokenized)
    return evaluate_model(a.model, {Path(a.source).name: files}, **settings)


if __name__ == "__main__":
    arguments = parse()
    try:
        evaluation = evaluate(arguments)
        if arguments.output:
            write_json(arguments.output, evaluation)
        print("\n".join(score_lines(evaluation)))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
