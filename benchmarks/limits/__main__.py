"""Measure what a translator cannot do: noise, sources that are no sentences, the gender of professions, words of several senses.

    python -m benchmarks.limits noise runs/my_pair --misspellings data/robustness/char_noise/en.natural.gz
    python -m benchmarks.limits sources runs/my_pair --split validation --foreign fr=data/multi30k/val.fr.gz
    python -m benchmarks.limits gender runs/my_pair --winomt data/robustness/winomt
    python -m benchmarks.limits senses runs/my_pair --mucow data/robustness/mucow

Several models are measured on the same noise and shown side by side. What is measured of a run goes into its folder, where `vaswani card`
finds it; all results, a table and, for noise, a picture go into --output. Text that the model wants split into tokens or in lower case is
prepared so: the model's own test text says which it is.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.limits.gender import gender_table, measure_gender
from benchmarks.limits.noise_curves import draw_noise, measure_noise, noise_table
from benchmarks.limits.odd_sources import measure_sources, sources_table
from benchmarks.limits.senses import measure_senses, senses_table
from benchmarks.limits.subject import Subject, Wanted
from benchmarks.report import Results
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import write_json

Measure = Callable[[Subject], Results]
TABLES: dict[str, Callable[[Sequence[Results]], str]] = {
    "noise": noise_table, "sources": sources_table, "gender": gender_table, "senses": senses_table,
}  # fmt: skip


def measure_models(name: str, places: Sequence[str], wanted: Wanted, measure: Measure, output: Path) -> list[Results]:
    """Measure one model after the other, and write what has been found after each.

    Args:
        name: of `TABLES`.
        places: runs, or models.
        wanted: the text.
        measure: makes the result of one model.
        output: where `NAME.json`, `NAME.md` and, of noise, `NAME.png` go.

    Raises:
        FileNotFoundError: there is no such model or text.
        ValueError: see the measurement.
    """
    results: list[Results] = []
    for place in places:
        subject = Subject(place, wanted)
        results.append(measure(subject))
        if subject.run:
            write_json(subject.run.limit(name), results[-1])
        write_json(output / f"{name}.json", {"models": results})
        write_text(output / f"{name}.md", TABLES[name](results))
        if name == "noise":
            draw_noise(results, output / "noise.png")
    return results


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.limits", description="Measure what a translator cannot do.", formatter_class=raw
    )
    verbs = parser.add_subparsers(dest="name", required=True, metavar="|".join(TABLES))
    noise = verbs.add_parser("noise", help="BLEU and chrF over the share of words with noise")
    noise.add_argument("--misspellings", type=Path, metavar="FILE", help="a word and what people write instead, a line each")
    noise.add_argument("--shares", type=float, nargs="+", default=[5, 10, 20], metavar="PERCENT", help="of words (default: 5 10 20)")
    sources = verbs.add_parser("sources", help="how often the output is made up for copied, foreign and empty sources")
    sources.add_argument(
        "--foreign", nargs="+", default=[], metavar="CODE=FILE", help="the same sentences, as plain text, in other languages"
    )
    sources.add_argument("--false-alarms", type=float, default=5, metavar="PERCENT", help="that the detector may give (default: 5)")
    gender = verbs.add_parser("gender", help="WinoMT, English to German")
    gender.add_argument("--winomt", type=Path, required=True, metavar="FOLDER", help="with en.txt, en_pro.txt and en_anti.txt")
    senses = verbs.add_parser("senses", help="MuCoW's translation test suite")
    senses.add_argument("--mucow", type=Path, required=True, metavar="FOLDER", help="with SOURCE-TARGET.key.txt and .text.txt")
    for verb in (gender, senses):
        verb.add_argument("--everything", action="store_true", help="also words that the training text does not have")
        verb.set_defaults(sentences=None)
    for verb in (noise, sources):
        verb.add_argument("--seed", type=int, default=1)
        verb.add_argument("--sentences", type=int, metavar="N", help="the first N of the text only")
    for verb in verbs.choices.values():
        _add_common(verb)
    parser.epilog = "\n".join(verb.format_usage() for verb in verbs.choices.values())
    return parser.parse_args(arguments)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="a run's folder; with --source and --target any model's folder or repository, too")
    add("--split", choices=["test", "validation"], default="test", help="of a run: which of its sets (default: %(default)s)")
    add("--root", type=Path, metavar="FOLDER", help="where a recipe's relative files start (default: where the recipe says)")
    add("--source", metavar="FILE", help="instead of a run's own set: sentences, one a line, plain, .gz or .xz")
    add("--target", metavar="FILE", help="their translations, line by line")
    add("--languages", nargs=2, metavar="CODE", help="of these two files (default: en de)")
    add("--tokenized", action="store_true", help="these two files are split into tokens")
    add("--output", type=Path, default=Path("runs/limits"), metavar="FOLDER", help="default: %(default)s")


def chosen_measure(a: argparse.Namespace) -> Measure:
    """What the command line asks for.

    Raises:
        ValueError: `--foreign` is not CODE=FILE.
    """
    if a.name == "noise":
        return lambda subject: measure_noise(subject, [share / 100 for share in a.shares], a.seed, a.misspellings)
    if a.name == "sources":
        pairs = [given.partition("=") for given in a.foreign]
        if wrong := [code + sign + file for code, sign, file in pairs if not (code and file)]:
            raise ValueError(f"--foreign takes the code of a language and a file, such as fr=text.fr, not {' '.join(wrong)}.")
        foreign = {code: Path(file) for code, _, file in pairs}
        return lambda subject: measure_sources(subject, foreign, a.false_alarms / 100, a.seed)
    if a.name == "gender":
        return lambda subject: measure_gender(subject, a.winomt, a.everything)
    return lambda subject: measure_senses(subject, a.mucow, a.everything)


def main(a: argparse.Namespace) -> None:
    languages = None if a.languages is None else tuple(a.languages)
    wanted = Wanted(a.split, a.sentences, a.root, a.source, a.target, languages, a.tokenized)
    results = measure_models(a.name, a.models, wanted, chosen_measure(a), a.output)
    print(f"{TABLES[a.name](results)}\n{a.name}.json and {a.name}.md are in {a.output}.")


if __name__ == "__main__":
    run(main, parse)
