"""What drafts save in greedy search: passes through the decoder and time, and whether the translations stay the same.

    python -m benchmarks.parallel runs/NAME/averaged --source FILE
    python -m benchmarks.parallel MODEL --source FILE --sentences 100 --types float32 --batch-sizes 1

One process; plain greedy search, drafts of parallel heads (if the model has them), of the source and of both by turns, on packed weights;
and heads that propose within the model's shortlist, if it has one. With --times-as-wide 2, the model computes the same function with four
times the weights: the translations are its own, and the time is that of a wider one.
All sentences of the file are compared with those of plain greedy search. Writes results.json and table.md into --output after each setting,
and prints the table at the end.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from benchmarks.interleaved import Measurement, cpu_ratios, interleave, wall_ratios
from benchmarks.machine import circumstances
from benchmarks.report import Results, Row, markdown_table, on_what, ratio_cell
from benchmarks.widened import widened
from vaswani_transformer.blockwise_search import BlockwiseSearch
from vaswani_transformer.evaluation.scores import spread_evenly, text_sha256
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.compression import open_bytes
from vaswani_transformer.files.json_files import write_json
from vaswani_transformer.packing import WeightType
from vaswani_transformer.shortlist import SHORTLIST_FILE
from vaswani_transformer.translation.loading import folder_sha256, load_checkpoint, local_folder

Batch = dict[str, torch.Tensor]
PLAIN = "none"
TITLES = {PLAIN: "plain greedy", "heads": "heads", "source": "source", "source+heads": "source, else heads"}
WITHIN = ", shortlist"
"""Ends the names of drafts whose heads propose within the shortlist."""


@contextmanager
def watched() -> Iterator[list[BlockwiseSearch]]:
    """All searches with drafts that run meanwhile."""
    searches: list[BlockwiseSearch] = []
    run = BlockwiseSearch.run

    def noted(self: BlockwiseSearch) -> torch.Tensor:
        searches.append(self)
        return run(self)

    BlockwiseSearch.run = noted  # type: ignore[method-assign]
    try:
        yield searches
    finally:
        BlockwiseSearch.run = run  # type: ignore[method-assign]


def batches_of(tokenizer: Any, sentences: Sequence[str], size: int) -> list[Batch]:
    """The sentences in batches of similar lengths."""
    by_length = sorted(sentences, key=lambda text: len(tokenizer(text).input_ids))
    parts = [by_length[start : start + size] for start in range(0, len(by_length), size)]
    encoded = [tokenizer(part, padding=True, return_tensors="pt") for part in parts]
    return [{"input_ids": batch.input_ids, "attention_mask": batch.attention_mask} for batch in encoded]


def search_of(draft: str) -> dict[str, Any]:
    """The settings of `generate` for a draft such as "heads", "heads, 3 tokens" or "source+heads, 3 tokens, shortlist"."""
    who, *details = draft.removesuffix(WITHIN).split(", ")
    tokens = int(details[0].split()[0]) if details else None
    return {"num_beams": 1, "draft": who, "draft_shortlist": draft.endswith(WITHIN), "draft_tokens": tokens}


def title_of(draft: str) -> str:
    """What a table calls such a draft."""
    who, *details = draft.split(", ")
    return ", ".join([TITLES[who], *details])


def drafts_for(model: Any, asked: Sequence[str], tokens: Sequence[int]) -> list[str]:
    """Plain greedy search and the `asked` drafts that `model` can make, those of heads with as many `tokens`, or with its own number."""
    endings = [f", {number} tokens" for number in tokens] or [""]
    if (Path(model.name_or_path) / SHORTLIST_FILE).is_file():
        endings = [ending + within for ending in endings for within in ("", WITHIN)]
    drafts = []
    for who in TITLES:
        if who not in (PLAIN, *asked):
            continue
        if "heads" not in who:
            drafts.append(who)
        elif model.parallel_heads is not None:
            drafts += [who + ending for ending in endings]
    return drafts


def translated(model: Any, batches: Sequence[Batch], draft: str) -> list[list[int]]:
    """The tokens of every sentence, without what pads its batch."""
    found = []
    for batch in batches:
        for row in model.generate(**batch, **search_of(draft)).tolist():
            while len(row) > 1 and row[-1] == model.config.pad_token_id:
                row.pop()
            found.append(row[1:])
    return found


def effect(model: Any, batches: Sequence[Batch], draft: str, plain: Sequence[Sequence[int]]) -> Row:
    """Passes of the decoder, tokens found in each, and how many translations are those of plain greedy search."""
    with watched() as searches:
        found = translated(model, batches, draft)
    tokens, sizes = sum(map(len, found)), [len(batch["input_ids"]) for batch in batches]
    if draft == PLAIN:
        rest = iter(plain)
        passes, blocks = sum(max(len(next(rest)) for _ in range(size)) for size in sizes), tokens
    else:
        passes, blocks = sum(search.passes for search in searches), sum(search.blocks for search in searches)
    return {
        "passes": passes,
        "block": tokens / blocks,
        "same": sum(ours == theirs for ours, theirs in zip(found, plain, strict=True)),
        "compared": len(plain),
    }


def measured(model: Any, tokenizer: Any, sentences: Sequence[str], size: int, a: argparse.Namespace) -> list[Row]:
    """One row for each kind of draft that the model has."""
    drafts = drafts_for(model, a.drafts, a.draft_tokens)
    every = batches_of(tokenizer, sentences, size)
    chosen = spread_evenly(len(sentences), a.sentences or len(sentences))
    timed = batches_of(tokenizer, [sentences[number] for number in chosen], size)
    plain = translated(model, every, PLAIN)
    effects = {draft: effect(model, every, draft, plain) for draft in drafts}
    runs: dict[str, Callable[[], Any]] = {draft: partial(translated, model, timed, draft) for draft in drafts}
    times = interleave(runs, a.repeats, title=f"batches of {size}")
    count = sum(len(batch["input_ids"]) for batch in timed)
    return [timed_row(draft, times, count) | {"batch_size": size, **effects[draft]} for draft in drafts]


def timed_row(draft: str, times: dict[str, Measurement], sentences: int) -> Row:
    """The speed of one kind of draft, and how many times that of plain greedy search it is."""
    own = times[draft]
    return {
        "draft": draft,
        "sentences_per_second": sentences / own.median_seconds,
        "sentences_per_cpu_second": sentences / own.median_cpu_seconds,
        "ratio": wall_ratios(times, PLAIN)[draft]._asdict(),
        "cpu_ratio": cpu_ratios(times, PLAIN)[draft]._asdict(),
        "all_seconds": own.seconds,
        "all_cpu_seconds": own.cpu_seconds,
    }


def benchmark_parallel(a: argparse.Namespace) -> Results:
    """Measure every type and batch size.

    Raises:
        FileNotFoundError: there is no such model or file.
        ValueError: a number is below 1, the file is empty, or the model cannot be widened or packed so here.
    """
    if min([a.sentences or 1, a.repeats, a.threads, a.times_as_wide, *a.batch_sizes, *a.draft_tokens]) < 1:
        raise ValueError("Give numbers of 1 or more.")
    with open_bytes(Path(a.source)) as lines:
        sentences = [text for line in lines if (text := line.decode("utf-8").strip())]
    if not sentences:
        raise ValueError(f"{a.source} has no sentences.")
    torch.set_num_threads(a.threads)
    folder = local_folder(a.model)
    results: Results = circumstances(torch.device("cpu")) | {
        "model": {"name": a.model, "sha256": folder_sha256(folder), "times_as_wide": a.times_as_wide},
        "source": {"name": Path(a.source).name, "sha256": text_sha256(sentences), "sentences": len(sentences)},
        "timed": min(a.sentences or len(sentences), len(sentences)),
        "threads": a.threads,
        "rows": [],
    }
    for kind in a.types:
        checkpoint = load_checkpoint(folder)
        model = checkpoint.model.eval()
        if a.times_as_wide > 1:
            model = widened(model, a.times_as_wide)
        model.pack_weights(kind)
        for size in a.batch_sizes:
            results["rows"] += [{"type": kind, **row} for row in measured(model, checkpoint.tokenizer, sentences, size, a)]
            write_json(a.output / "results.json", results)
            write_text(a.output / "table.md", table(results))
    return results


def table(results: Results) -> str:
    """The rows in Markdown, and on what they were measured."""
    header = ("weights", "batch", "draft", "tokens a block", "passes", "sentences/s", "times as fast", "same translation")
    cells = (
        (
            row["type"],
            str(row["batch_size"]),
            title_of(row["draft"]),
            f"{row['block']:.2f}",
            f"{row['passes']:,}",
            f"{row['sentences_per_cpu_second']:.1f}",
            ratio_cell(row["cpu_ratio"]),
            f"{row['same']:,} of {row['compared']:,}",
        )
        for row in results["rows"]
    )
    timed = f"{results['timed']} sentences timed on {results['threads']} thread(s), by the processor's clock."
    if results["model"].get("times_as_wide", 1) > 1:
        timed = f"The model computes the same with {results['model']['times_as_wide']} times its width. {timed}"
    return f"{markdown_table(header, cells, left=3)}\n\n{timed} {on_what(results)}\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what drafts save in greedy search.")
    add = parser.add_argument
    add("model", help="a folder of ours, such as runs/NAME/averaged, or a repository of the Hub")
    add("--source", required=True, help="sentences, one a line: plain, .gz or .xz")
    add("--sentences", type=int, help="how many to time, evenly spaced (default: all); all are compared")
    add("--types", nargs="+", choices=get_args(WeightType), default=["float32", "bfloat16"])
    add("--batch-sizes", type=int, nargs="+", default=[1, 32])
    own = [who for who in TITLES if who != PLAIN]
    add("--drafts", nargs="+", choices=own, default=own, help="who drafts, beside plain greedy search (default: all that can)")
    add("--draft-tokens", type=int, nargs="+", default=[], help="how many tokens heads propose a step (default: the model's number)")
    add("--times-as-wide", type=int, default=1, help="widen the model so many times; it computes the same (default: %(default)s)")
    add("--repeats", type=int, default=5)
    add("--threads", type=int, default=1)
    add("--output", type=Path, default=Path("runs/parallel_benchmark"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        arguments = parse()
        print(f"{table(benchmark_parallel(arguments))}\nresults.json and table.md are in {arguments.output}.")
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
