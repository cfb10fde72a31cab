"""A translator in the browser beside PyTorch: what it says, how fast, how large.

    python -m benchmarks.browser runs/builtin_tiny/published

Makes two Spaces of the model, in float32 and in int8, and translates the same sentences with each under node, whose JavaScript and
WebAssembly are those of Chromium, and with PyTorch, one sentence at a time on one thread, by turns. Times are those of the processor, so
that other programs disturb them little. Needs npm and node. Writes results.json and table.md into --output and prints the table. The
sentences are the built-in corpus' test set unless files are given.
"""

import argparse
import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, get_args

import sacrebleu
import torch

from benchmarks.command_line import run
from benchmarks.machine import circumstances
from benchmarks.report import Results, Row, markdown_table
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.hub.publish import PublishError
from vaswani_transformer.hub.static_space import assemble_static_space
from vaswani_transformer.hub.static_space_check import node_translations
from vaswani_transformer.interop.browser_onnx import Precision
from vaswani_transformer.translation.loading import load_checkpoint, local_folder

_SEARCHES = {"beam": {}, "greedy": {"beams": 1}}
_WARM_UP = 5
"""Sentences before the clock starts: the first are slower everywhere."""


def benchmark_browser(model: str, pairs: Sequence[tuple[str, str]], rounds: int, output: Path) -> Results:
    """Translate the sources of `pairs` with every contestant in `rounds` rounds; write `results.json` and `table.md` into `output`.

    Raises:
        PublishError: `model` is no published folder.
        OSError: npm or node is missing.
        ValueError: there is no sentence, or no round.
    """
    if not pairs or rounds < 1:
        raise ValueError("Give at least one sentence and one round.")
    torch.set_num_threads(1)
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    with TemporaryDirectory() as scratch:
        spaces = {
            precision: assemble_static_space(local_folder(model), Path(scratch) / precision, precision=precision)
            for precision in get_args(Precision)
        }
        pytorch = PyTorch(model, read_json(spaces["int8"] / "space.json")["search"])
        sizes = {f"the model in {precision}": _sizes(*(space / "onnx").iterdir()) for precision, space in spaces.items()}
        sizes["onnxruntime-web"] = _sizes(*(spaces["int8"] / "vendor").glob("ort*"))
        timed: dict[tuple[str, str], list[tuple[list[str], float]]] = {}
        for _, search in itertools.product(range(rounds), _SEARCHES):
            timed.setdefault(("PyTorch, float32", search), []).append(pytorch.translate(sources, search))
            for precision, space in spaces.items():
                timed.setdefault((f"browser, {precision}", search), []).append(_in_browser(space, sources, search))
    rows = [_row(name, search, found, timed["PyTorch, float32", search], references) for (name, search), found in timed.items()]
    results: Results = {"model": model, "sentences": len(pairs), "rounds": rounds, "bytes": sizes, "rows": rows}
    results |= circumstances(torch.device("cpu"), ("torch", "transformers", "onnxruntime"))
    write_json(output / "results.json", results)
    write_text(output / "table.md", table(results))
    return results


class PyTorch:
    """The model in float32, its weights not packed."""

    def __init__(self, model: str, search: dict[str, Any]) -> None:
        self.model, self.tokenizer = load_checkpoint(local_folder(model), torch.float32)
        self.beams, self.settings = search["beams"], {"length_penalty": search["alpha"], "extra_length": search["extraLength"]}

    def translate(self, sources: Sequence[str], search: str) -> tuple[list[str], float]:
        """Translations, and the seconds of processor time that they took."""
        found, start = [], 0.0
        settings = {**self.settings, "length_penalty_type": "gnmt", "num_beams": self.beams} if search == "beam" else {"num_beams": 1}
        for number, source in enumerate([*sources[:_WARM_UP], *sources]):
            if number == min(_WARM_UP, len(sources)):
                start = process_time()
            output = self.model.generate(**self.tokenizer(source, return_tensors="pt"), **settings)
            found.append(self.tokenizer.decode(output[0], skip_special_tokens=True))
        return found[-len(sources) :], process_time() - start


def _sizes(*files: Path) -> list[int]:
    """Bytes of the files, as they are and compressed as web servers do."""
    contents = [file.read_bytes() for file in files]
    return [sum(map(len, contents)), sum(len(gzip.compress(content, 6)) for content in contents)]


def _in_browser(space: Path, sources: Sequence[str], search: str) -> tuple[list[str], float]:
    answers = node_translations(space, [(source, _SEARCHES[search]) for source in (*sources[:_WARM_UP], *sources)])[-len(sources) :]
    return [answer["translations"][0]["text"] for answer in answers], sum(answer["seconds"] for answer in answers)


def _row(name: str, search: str, found: list[Any], baseline: list[Any], references: list[str]) -> Row:
    texts, expected = found[0][0], baseline[0][0]
    return {
        "name": name,
        "search": search,
        "sentences_per_second": len(texts) / median(seconds for _, seconds in found),
        "times_pytorch": median(slow / fast for (_, slow), (_, fast) in zip(found, baseline, strict=True)),
        "equal": sum(a == b for a, b in zip(texts, expected, strict=True)) / len(texts),
        "bleu": sacrebleu.corpus_bleu(texts, [references]).score,
    }


def table(results: Results) -> str:
    """The results in Markdown."""
    header = ("translator", "search", "sentences a second of a core", "times PyTorch's time", "equal to PyTorch", "sacreBLEU")
    cells = (
        (
            row["name"],
            row["search"],
            f"{row['sentences_per_second']:.1f}",
            f"{row['times_pytorch']:.2f}",
            f"{100 * row['equal']:.1f} %",
            f"{row['bleu']:.2f}",
        )
        for row in results["rows"]
    )
    sizes = ((name, *(f"{size / 1e6:.1f}" for size in pair)) for name, pair in results["bytes"].items())
    loaded = markdown_table(("what the browser loads", "MB", "MB with gzip"), sizes, left=1)
    return f"{markdown_table(header, cells, left=2)}\n\n{loaded}\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a translator in the browser beside PyTorch.")
    add = parser.add_argument
    add("model", help="a published folder, such as runs/NAME/published")
    add("--source", type=Path, help="sentences, one a line, in place of the built-in corpus")
    add("--reference", type=Path, help="their translations")
    add("--sentences", type=int, default=200, help="how many (default: %(default)s)")
    add("--rounds", type=int, default=3, help="how often each contestant has its turn (default: %(default)s)")
    add("--output", type=Path, default=Path("runs/browser_benchmark"))
    return parser.parse_args()


def main(a: argparse.Namespace) -> None:
    if a.source and a.reference:
        lines = [file.read_text(encoding="utf-8").splitlines() for file in (a.source, a.reference)]
        pairs = list(zip(*lines, strict=True))[: a.sentences]
    else:
        pairs = list(builtin_pairs("test", a.sentences))
    results = benchmark_browser(a.model, pairs, a.rounds, a.output)
    print(f"{table(results)}\nresults.json and table.md are in {a.output}.")


if __name__ == "__main__":
    run(main, parse, PublishError)
