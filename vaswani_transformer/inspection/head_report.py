"""The heads of one model, measured and written: `heads.json`, its picture, its table, and one sentence's cross-attention."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.encoding import EncodedCorpus
from ..evaluation.scores import decoding_settings, text_sha256
from ..files.checksums import file_sha256
from ..files.json_files import read_json, write_json
from ..languages import target_languages
from ..provenance import command_line, versions
from ..recipe import load_recipe
from ..run_folder import RunFolder
from ..tokenizer_identity import tokenizer_hash
from ..translation.loading import load_checkpoint, local_folder
from .dependencies import write_dependency_figures
from .figures import KINDS, small_multiples, write_figure
from .head_picture import draw_heads
from .head_worth import RESAMPLES, HeadWorth, Worth
from .heads import MEASURES, HeadName, MeasuredHeads, Side, measure_heads
from .maps import attention_maps

EXAMPLE_RULE = "the first sentence of median length, in the layer whose heads look most along the diagonal"


@dataclass(frozen=True)
class HeadText:
    """The text that heads are measured on, and how translations of it are scored."""

    name: str
    pairs: Sequence[tuple[str, str]]
    languages: tuple[str, str]
    """Of the sources and of the translations."""
    tokenized: bool = False
    lowercase: bool = False
    batch_tokens: int = 4096

    def facts(self) -> dict[str, Any]:
        """What tells this text from every other."""
        return {
            "name": self.name,
            "pairs": len(self.pairs),
            "source_sha256": text_sha256(source for source, _ in self.pairs),
            "reference_sha256": text_sha256(target for _, target in self.pairs),
            "languages": list(self.languages),
            "tokenized": self.tokenized,
            "lowercase": self.lowercase,
        }


def report_heads_of_run(run: RunFolder, *, sentences: int | None = None, worth: bool = False, progress: bool = True) -> dict[str, Any]:
    """Measure the heads of a run's averaged checkpoint on its validation set, and write `heads.json` and its pictures.

    Of several validation sets it takes the first. Frequencies, for rare tokens, are those of the training data where they are still there.

    Args:
        run: a finished run.
        sentences: measure on the first of the validation set only.
        worth: also translate the text once without each head; see `report_heads`.
        progress: show bars.

    Raises:
        FileNotFoundError: the run has no averaged checkpoint.
        ValueError: the checkpoint is damaged, the run's task is not translation, or the validation set cannot be read.
    """
    if not run.averaged.is_dir():
        raise FileNotFoundError(f"There is no averaged checkpoint {run.averaged}; finish the training of this run first.")
    encoded = run.encoded / "train"
    corpus = EncodedCorpus.open(encoded) if encoded.is_dir() else None
    return report_heads(run.averaged, validation_text(run, sentences), run, corpus=corpus, worth=worth, progress=progress)


def validation_text(run: RunFolder, sentences: int | None = None) -> HeadText:
    """The first of a run's validation sets, or its first `sentences`.

    Raises:
        ValueError: the run's task is not translation, or the validation set cannot be read.
    """
    recipe = load_recipe(run.recipe, in_run_folder=True)
    if recipe.task != "translation":
        raise ValueError(
            f"Heads are measured on pairs of sentences, and {run.recipe} has `task: {recipe.task}`; name the run of a translator, or a "
            "model with a decoder and files: --source, --target and --output."
        )
    corpus = recipe.data.validations[0]
    languages = recipe.languages_of(corpus)
    pairs = [(pair.source, pair.target) for pair in corpus.pairs(Path(recipe.data.root), languages)][:sentences]
    return HeadText("validation", pairs, languages, corpus.tokenized, recipe.validation.lowercase, recipe.validation.batch_tokens)


def report_heads(
    model_name: str | Path,
    text: HeadText,
    files: RunFolder,
    *,
    corpus: EncodedCorpus | None = None,
    worth: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Measure the heads of any encoder-decoder, and write `heads.json` and its pictures.

    With `worth`, the text is translated once with all heads, once without each head, and once for each layer with its best head only:
    1 + heads + layers times the time of `vaswani evaluate` on this text. `heads.json` is written after each of them, and the same call
    goes on where an earlier one stopped. What an earlier call has found is kept if weights, text and search are the same.

    Args:
        model_name: a folder, or a repository of the Hub.
        text: what to measure on.
        files: where the files go, under the names that they have in a run.
        corpus: encoded training data, whose frequencies tell which tokens are rare; by default those of `text` do.
        worth: see above.
        progress: show bars.

    Returns:
        What `heads.json` holds.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: the model is damaged or has no heads that can be measured, or masked.
    """
    folder = local_folder(model_name)
    model, tokenizer = load_checkpoint(folder)
    model.to(torch.accelerator.current_accelerator() or torch.device("cpu"))
    asked = text.languages[1] if target_languages(tokenizer) else None
    fits = corpus is not None and corpus.tokenizer_hash == tokenizer_hash(tokenizer)
    counts = _frequencies(corpus, model.config.vocab_size) if corpus is not None and fits else None
    measured = measure_heads(model, tokenizer, text.pairs, tgt_lang=asked, frequencies=counts, progress=progress)
    report = {
        "weights_sha256": {file.name: file_sha256(file) for file in sorted(folder.glob("*.safetensors"))},
        "text": text.facts() | {"source_tokens": measured.source_tokens, "target_tokens": measured.target_tokens},
        "frequencies": "training data" if counts else "this text",
        "search": decoding_settings(model, {}) | {"batch_tokens": text.batch_tokens},
        **_measures(measured),
        "example": _draw_example(model, tokenizer, text, _most_diagonal(measured), asked, files),
        "command": command_line(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions("vaswani_transformer", "torch", "transformers", "sacrebleu"),
    }
    _keep_what_is_known(report, files.heads)
    if worth:
        _write(report, files)
        scoring = {"tokenized": text.tokenized, "lowercase": text.lowercase}
        settings: dict[str, Any] = {"target_language": asked, "batch_tokens": text.batch_tokens}
        found = HeadWorth(model, tokenizer, text.pairs, text.languages[1], **scoring, **settings)
        for _ in _add_worth(report, found, progress):
            write_json(files.heads, report)
    _write(report, files)
    return report


def _measures(measured: MeasuredHeads) -> dict[str, Any]:
    """What is known of the heads before any is masked."""
    heads = [
        {**name._asdict(), "measures": values, "outstanding": measured.outstanding(name), "worth": None}
        for name, values in measured.heads.items()
    ]
    return {"chance": measured.chance, "queries": measured.queries, "heads": heads, "layers": [], "bleu": None}


def draw_dependencies(model_name: str | Path, text: HeadText, folder: Path, *, progress: bool = True) -> list[dict[str, Any]]:
    """Figures 3 to 5 of the paper for any encoder-decoder; see `dependencies.write_dependency_figures`."""
    model, tokenizer = load_checkpoint(local_folder(model_name))
    model.to(torch.accelerator.current_accelerator() or torch.device("cpu"))
    asked = text.languages[1] if target_languages(tokenizer) else None
    return write_dependency_figures(model, tokenizer, text.pairs, folder, language=text.languages[0], tgt_lang=asked, progress=progress)


def heads_table(report: Mapping[str, Any]) -> str:
    """The report as a table for a terminal, a head a line; layers and heads are counted from 1."""
    has_worth = report["bleu"] is not None
    title = "BLEU   change" if has_worth else ""
    lines = []
    for kind, name in KINDS.items():
        lines += [f"{name:<24}" + "".join(f"{measure:>10}" for measure in MEASURES) + f"  {title}".rstrip()]
        lines += [f"{'  even attention':<24}" + _cells(report["chance"][kind])]
        for head in (head for head in report["heads"] if head["kind"] == kind):
            worth = head["worth"]
            tail = f"{worth['bleu']:7.2f} {worth['difference']:+7.2f}{_mark(worth)}" if worth else ""
            lines += [f"  layer {head['layer'] + 1}, head {head['head'] + 1:<9}"[:24].ljust(24) + _cells(head["measures"]) + tail]
        lines += [""]
    if has_worth:
        lines += [f"BLEU with all heads: {report['bleu']['score']:.2f} ({report['bleu']['signature']}). * p < 0.01 (paired bootstrap)."]
        lines += [
            f"Only head {best['head'] + 1} of layer {best['layer'] + 1}, {KINDS[best['kind']].lower()}: {best['bleu']:.2f} "
            f"{best['difference']:+.2f}{_mark(best)}"
            for best in report["layers"]
        ]
    return "\n".join(lines)


def _cells(values: Mapping[str, float | None]) -> str:
    return "".join(f"{'-' if values[name] is None else format(values[name], '.2f'):>10}" for name in MEASURES)


def _mark(worth: Mapping[str, Any]) -> str:
    return "*" if worth["p"] < 0.01 else ""


def _frequencies(corpus: EncodedCorpus, entries: int) -> dict[Side, Tensor]:
    return {"source": torch.from_numpy(corpus.source.counts(entries)), "target": torch.from_numpy(corpus.target.counts(entries))}


def _most_diagonal(measured: MeasuredHeads) -> int:
    """The layer of cross-attention whose heads have the largest mean share on the diagonal."""
    shares: dict[int, list[float]] = {}
    for name, values in measured.heads.items():
        if name.kind == "cross":
            shares.setdefault(name.layer, []).append(values["diagonal"] or 0.0)
    return max(shares, key=lambda layer: statistics.fmean(shares[layer]))


def _draw_example(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: HeadText, layer: int, tgt_lang: str | None, files: RunFolder
) -> dict[str, Any]:
    """Draw the cross-attention of one sentence and its own translation, all heads of `layer`, chosen by `EXAMPLE_RULE`."""
    lengths = [len(source.split()) for source, _ in text.pairs]
    number = lengths.index(sorted(lengths)[len(lengths) // 2])
    maps = attention_maps(model, tokenizer, text.pairs[number][0], level="word", tgt_lang=tgt_lang)
    write_figure(small_multiples(maps, "cross", layer), files.attention_picture)
    return {"sentence": number, "source": maps.source_text, "translation": maps.target_text, "layer": layer, "rule": EXAMPLE_RULE}


def _keep_what_is_known(report: dict[str, Any], path: Path) -> None:
    """Take over what an earlier report of the same weights, text and search has found about BLEU."""
    if not path.is_file():
        return
    earlier = read_json(path)
    if any(earlier.get(key) != report[key] for key in ("weights_sha256", "text", "search")):
        return
    known = {_name(head): head["worth"] for head in earlier["heads"]}
    for head in report["heads"]:
        head["worth"] = known.get(_name(head))
    report["bleu"], report["layers"] = earlier["bleu"], earlier["layers"]


def _add_worth(report: dict[str, Any], found: HeadWorth, progress: bool) -> Iterator[None]:
    """Fill in what is missing, best head of each layer last; stop for a moment after each translation."""
    report["bleu"] = {"score": found.bleu, "signature": found.signature, "resamples": RESAMPLES}
    layers = dict.fromkeys((head["kind"], head["layer"]) for head in report["heads"])
    missing = [head for head in report["heads"] if head["worth"] is None]
    done = {(best["kind"], best["layer"]) for best in report["layers"]}
    with tqdm(total=len(missing) + len(layers) - len(done), unit="translation", desc="Masking heads", disable=not progress) as bar:
        for head in missing:
            head["worth"] = _worth(found.without(_name(head)), found.bleu)
            bar.update()
            yield
        for layer in layers:
            if layer in done:
                continue
            best = _name(min((head for head in report["heads"] if _name(head)[:2] == layer), key=lambda head: head["worth"]["bleu"]))
            report["layers"].append(best._asdict() | _worth(found.all_but(best), found.bleu))
            bar.update()
            yield


def _worth(worth: Worth, whole: float) -> dict[str, float]:
    return {"bleu": worth.bleu, "difference": worth.bleu - whole, "p": worth.p}


def _name(head: Mapping[str, Any]) -> HeadName:
    return HeadName(head["kind"], head["layer"], head["head"])


def _write(report: dict[str, Any], files: RunFolder) -> None:
    """The pictures first, so that a report has them."""
    figure = draw_heads(report)
    for path in (files.heads_picture, files.heads_picture.with_suffix(".svg")):
        write_figure(figure, path)
    write_json(files.heads, report)
