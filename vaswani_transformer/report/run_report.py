"""A run as one page: what it is, how far it is, its curves, and how its translations improved.

The page owns no number: all come from the files of the run folder, and whatever is not there yet is left out.
"""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..evaluation.scores import ON_VALIDATION, spread_evenly
from ..files.atomic_file import write_text
from ..files.json_files import read_json, read_json_lines
from ..recipe import Recipe, load_recipe
from ..run_folder import RunFolder
from ..tasks import TASKS
from .curves import draw_course, png_bytes, write_png
from .model_card import readable_duration

_FORMATS = (".html", ".png")
_STAGES_OF_A_SAMPLE = 8


class Sample(NamedTuple):
    """A sentence of the validation set, and its translations by update."""

    source: str
    reference: str
    translations: list[tuple[int, str]]


def write_report(run: RunFolder, page: Path) -> str | None:
    """Turn the folder of a finished, stopped or running training into one file.

    Args:
        run: needs a log; every other file makes the page richer.
        page: the file to write, `.html` with the picture in it, or `.png`, the picture alone.

    Returns:
        One sentence about what was left out; None if nothing was.

    Raises:
        FileNotFoundError: this is no run folder, or it has no log yet.
        ValueError: the log is empty or damaged, another file is damaged, or the format of `page` is not one of those above.
        OSError: `page` cannot be written; an existing file is untouched.
    """
    if page.suffix not in _FORMATS:
        raise ValueError(f"A report is written as {' or '.join(_FORMATS)}; {page} has another ending.")
    records, remark = _read_log(run)
    recipe = load_recipe(run.recipe, in_run_folder=True) if run.recipe.is_file() else None
    heading = _heading(run, recipe)
    facts = _facts(run, recipe, records)
    if page.suffix == ".png":
        words = [f"{name}: {value}" for name, value in facts.items() if name in ("Updates", "Parameters") or name.startswith("Best ")]
        write_png(draw_course(records, "  |  ".join([heading, *words])), page)
        return remark
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    evaluation = read_json(run.evaluation) if run.evaluation.is_file() else {}
    text = environment.get_template("run_report.html").render(
        heading=heading,
        facts=facts,
        remark=remark,
        picture=base64.b64encode(png_bytes(draw_course(records))).decode(),
        test_sets=evaluation.get("test_sets", []),
        on_validation=evaluation.get(ON_VALIDATION, False),
        samples=collect_samples(records),
        labels=recipe is not None and recipe.facts.labels,
    )
    write_text(page, text)
    return remark


def collect_samples(records: Sequence[dict[str, Any]]) -> list[Sample]:
    """The last validation's sentences with their translations from a few evenly spaced validations, including the first and the last."""
    by_update = {r["update"]: r for r in records if r["kind"] == "validation" and r.get("samples")}
    validations = [by_update[update] for update in sorted(by_update)]
    chosen = [validations[i] for i in spread_evenly(len(validations), _STAGES_OF_A_SAMPLE)]
    return [
        Sample(
            sample["source"],
            sample["reference"],
            [
                (validation["update"], other.get("translation") or other.get("prediction", ""))
                for validation in chosen
                for other in validation["samples"]
                if (other["source"], other["reference"]) == (sample["source"], sample["reference"])
            ],
        )
        for sample in (validations[-1]["samples"] if validations else [])
    ]


def _read_log(run: RunFolder) -> tuple[list[dict[str, Any]], str | None]:
    """The records, and a sentence about the log if one is needed."""
    if not run.path.is_dir():
        raise FileNotFoundError(f"There is no run folder {run.path}; name one that `vaswani train` wrote.")
    if not run.log.is_file():
        if not run.recipe.is_file():
            raise FileNotFoundError(
                f"{run.path} is not a run folder: it has neither {run.recipe.name} nor {run.log.name}; name one that `vaswani train` wrote."
            )
        raise FileNotFoundError(f"There is no training log {run.log} yet; begin the training first.")
    content = run.log.read_bytes()
    records = list(read_json_lines(run.log, growing=True))
    for number, record in enumerate(records, start=1):
        if not (isinstance(record, dict) and "kind" in record and isinstance(record.get("update"), int)):
            raise ValueError(f"{run.log}:{number} is not a record of a training log, which has a `kind` and an `update`; remove that line.")
    is_cut = bool(content) and not content.endswith(b"\n")
    if not records:
        state = "only part of a record" if is_cut else "no record"
        raise ValueError(f"{run.log} holds {state} yet; wait for the first interval, or lower `training.log_every`.")
    if is_cut:
        return (
            records,
            f"The last line of {run.log.name} is cut off and was left out: it is being written, or a kill cut it.",
        )
    return records, None


def _heading(run: RunFolder, recipe: Recipe | None) -> str:
    if recipe is None:
        return run.path.resolve().name
    return f"{recipe.name}: {recipe.subject}"


def _facts(run: RunFolder, recipe: Recipe | None, records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The head of the page as names and values.

    While a training runs, its log is newer than `training.json`, which is as old as the last saved state. So each counter is taken
    from the file where it is higher.
    """
    training = read_json(run.training) if run.training.is_file() else {}

    def furthest(in_training: str, in_log: str) -> Any:
        return max([training.get(in_training) or 0, *(record.get(in_log) or 0 for record in records)])

    updates = furthest("updates", "update")
    planned = training.get("planned_updates") if recipe is None or recipe.training.updates is None else recipe.training.updates
    of = f" of {planned:,} ({updates / planned:.0%})" if planned else ""
    early = ", stopped early" if training.get("stopped_early") else ""
    metric, title = next(iter((TASKS["translation"] if recipe is None else recipe.facts).metrics.items()))
    source, target = (furthest(name, name) for name in ("source_tokens", "target_tokens"))
    facts = {
        "Updates": f"{updates:,}{of}{early}",
        "Epochs": f"{furthest('epochs', 'epoch'):.2f}",
        "Tokens seen": f"{source:,} source, {target:,} target",
        "Training time": readable_duration(furthest("seconds", "seconds")),
        f"Best {title}": _best(records, metric),
        "Peak memory": f"{training['peak_memory_bytes'] / 1e9:.1f} GB (first rank)" if training.get("peak_memory_bytes") else "",
        "Parameters": f"{training['parameters']:,}" if "parameters" in training else "",
        "Model": _architecture(run, recipe),
        "Hardware": _hardware(training),
        "Software": ", ".join(f"{name} {version}" for name, version in training.get("versions", {}).items()),
        "Last record": datetime.fromtimestamp(run.log.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return {name: value for name, value in facts.items() if value}


def _best(records: Sequence[dict[str, Any]], metric: str) -> str:
    scored = [record for record in records if record.get(metric) is not None]
    if not scored:
        return ""
    best = max(scored, key=lambda record: float(record[metric]))
    chrf = f" (chrF {best['chrf']:.2f})" if best.get("chrf") is not None else ""
    return f"{best[metric]:.2f} after update {best['update']:,}{chrf}"


def _architecture(run: RunFolder, recipe: Recipe | None) -> str:
    """A fine-tuned model is described in the folder it began with, any other in the recipe."""
    initial = run.initial / "config.json"
    if initial.is_file():
        config = read_json(initial)
    elif recipe is not None and recipe.init_from is None:
        config = recipe.model_config().to_dict()
    else:
        return ""
    return (
        f"{config['encoder_layers']} + {config['decoder_layers']} layers, width {config['d_model']}, feed-forward "
        f"{config['encoder_ffn_dim']}, {config['encoder_attention_heads']} heads"
    )


def _hardware(training: dict[str, Any]) -> str:
    hardware = training.get("hardware", {})
    names = ("gpu", "processes") if "gpu" in hardware else ("cpu", "threads", "processes")
    words = [str(hardware[name]) if name in ("cpu", "gpu") else f"{name}: {hardware[name]}" for name in names if name in hardware]
    return ", ".join([*words, *([training["precision"]] if "precision" in training else [])])
