"""The model card: the facts in a run's files, in the words of `model_cards/template.md`.

For a task that is not translation, the words are those of `model_cards/task.md`. The card owns no number. Architecture comes from
`config.json`, search from `generation_config.json`, data and optimisation from `recipe.yaml`, results from `evaluation.json`, costs from
the files of cleaning and training, what the attention heads do from `heads.json`, and what the model cannot do from the folder `limits`,
where these have been measured. A missing value is an error that names the file.
"""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from safetensors import safe_open

from ..data.sources import parse_corpus
from ..evaluation.scores import ON_VALIDATION
from ..files.atomic_file import write_bytes, write_text
from ..files.checksums import file_sha256
from ..files.json_files import read_json
from ..inspection.figures import KINDS
from ..inspection.head_picture import SURE
from ..inspection.heads import MEASURES
from ..recipe import Recipe, TrainingSettings, load_recipe
from ..run_folder import TRANSFER, RunFolder
from . import markdown
from .curves import draw_curves

LIMITS = {"noise": "", "sources": "", "gender": " --winomt FOLDER", "senses": " --mucow FOLDER"}
"""The measurements of `RunFolder.limits` that a card shows, and what `benchmarks.limits` has to be given for each beside the run."""

_METRIC_NAMES = {"sacrebleu": "sacreBLEU", "chrf": "chrF", "paper_bleu": "BLEU as in the paper"}
_HUB_METRICS = {"sacrebleu": "sacrebleu", "chrf": "chrf", "paper_bleu": "bleu", "macro_f1": "f1", "entity_f1": "f1"} | dict.fromkeys(
    ("rouge1", "rouge2", "rougeL"), "rouge"
)
_LANGUAGE_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "mt": "Maltese", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip


class Facts(dict[str, Any]):
    """The content of one JSON file; asking for a missing value is an error that names the file and what writes it."""

    def __init__(self, content: dict[str, Any], origin: str) -> None:
        super().__init__({key: _facts(value, f"{origin}: {key}") for key, value in content.items()})
        self.origin = origin

    def __missing__(self, key: str) -> Any:
        raise ValueError(f"{self.origin} has no `{key}`, which the model card needs; run the stage that writes this file again.")


class Pictures(NamedTuple):
    """The pictures that a card shows, where they lie."""

    curves: Path
    heads: Path
    attention: Path

    @classmethod
    def beside(cls, card: Path) -> "Pictures":
        """Beside a `README.md` under their names in a run, in a folder of cards under the card's own."""
        run = RunFolder(card.parent)
        if card.name == run.card.name:
            return cls(run.curves, run.heads_picture, run.attention_picture)
        named = [card.with_name(f"{card.stem}_{picture.name}") for picture in (run.heads_picture, run.attention_picture)]
        return cls(card.with_suffix(".png"), *named)


def write_card(run: RunFolder, card: Path | None = None, model_id: str | None = None) -> Path:
    """Write the card of a run and its pictures beside it: of the training, and of the heads where they have been measured.

    Args:
        run: an evaluated run.
        card: the file to write, `README.md` in the run's folder by default. In a folder of cards, the picture of the training has the
            card's name, and those of the heads begin with it.
        model_id: see `render_card`.
    """
    card = card or run.card
    pictures = Pictures.beside(card)
    text = render_card(run, model_id=model_id, pictures=pictures)
    draw_curves(run.log, pictures.curves)
    if run.heads.is_file():
        for measured, shown in ((run.heads_picture, pictures.heads), (run.attention_picture, pictures.attention)):
            if shown != measured:
                write_bytes(shown, measured.read_bytes())
    write_text(card, text)
    return card


def render_card(run: RunFolder, *, model_id: str | None = None, pictures: Pictures | None = None) -> str:
    """The card as Markdown with the Hub's metadata on top.

    Args:
        run: an evaluated run.
        model_id: the name that a reader loads: the repository's id, or the recipe's name while there is none.
        pictures: what the card links to; by default what lies beside the run's own card.

    Raises:
        FileNotFoundError: a stage has not run yet; the sentence says which.
        ValueError: a file lacks a value that the card needs, or the scores, or what was measured of heads or limits, do not belong to the
            weights.
    """
    recipe = load_recipe(_written(run.recipe, "train first"), in_run_folder=True)
    training, evaluation = training_and_scores(run)
    weights = run.averaged / "model.safetensors"
    return (
        card_environment()
        .get_template("template.md" if recipe.task == "translation" else "task.md")
        .render(
            metadata=markdown.front_matter(card_metadata(recipe, evaluation)),
            model_id=model_id or recipe.name,
            pictures=pictures or Pictures.beside(run.card),
            recipe=recipe,
            licences=recipe.data.licences,
            remarks=_remarks(recipe),
            origin=readable_origin(recipe.init_from),
            teacher=readable_origin(recipe.data.distillation.teacher) if recipe.data.distillation else None,
            transfer=_read(run.initial / TRANSFER, "train first") if recipe.init_from else None,
            source=_LANGUAGE_NAMES.get(recipe.source_language, recipe.source_language),
            target=", ".join(_LANGUAGE_NAMES.get(code, code) for code in recipe.translates_into),
            pipeline_tag=recipe.pipeline_tag,
            has_no_decoder=recipe.has_no_decoder,
            metric_names=metric_names(recipe),
            config=_read(run.averaged / "config.json", "finish the training first"),
            search=None if recipe.has_no_decoder else _read(run.averaged / "generation_config.json", "finish the training first"),
            evaluation=evaluation,
            scored_set="validation" if evaluation.get(ON_VALIDATION) else "test",
            tgt_lang=evaluation["test_sets"][0].get("tgt_lang"),
            cleaning=_read(run.cleaning, "train first"),
            training=training,
            parameters=count_parameters(weights),
            weight_bytes=weights.stat().st_size,
            heads=_heads(run, weights),
            limits=_limits(run, weights),
            kinds=KINDS,
            measures=MEASURES,
            sure=SURE,
        )
    )


def card_metadata(recipe: Recipe, evaluation: dict[str, Any]) -> ModelCardData:
    """The Hub's metadata: languages, licence, task, data sets and every score as an entry of the model index."""
    names = {spec.dataset_name.repository for spec in recipe.data.train}
    trained_on = sorted(name for name in names if name and not (Path(recipe.data.root) / name).exists())  # a folder is not on the Hub
    return ModelCardData(
        model_name=recipe.name,
        language=list(dict.fromkeys([recipe.source_language, *recipe.translates_into])),
        **recipe.data.licences.metadata(),
        **origin_metadata(recipe.init_from),
        library_name="transformers",
        pipeline_tag=recipe.pipeline_tag,
        tags=[recipe.pipeline_tag, "vaswani", "transformer", "attention-is-all-you-need"],
        datasets=trained_on or None,
        metrics=sorted({_HUB_METRICS.get(name, name) for test_set in evaluation["test_sets"] for name in test_set["metrics"]}),
        eval_results=[
            _eval_result(recipe, evaluation, test_set, name) for test_set in evaluation["test_sets"] for name in test_set["metrics"]
        ],
    )


def _remarks(recipe: Recipe) -> dict[str, str]:
    """What the recipe tells the reader of a score, by the test set's name."""
    return {name: spec.remark for name, spec in recipe.data.test.items() if spec.remark is not None}


def count_parameters(weights: Path) -> int:
    """The number of parameters in a safetensors file, from its header alone; a tied matrix is stored, and counted, once."""
    with safe_open(weights, framework="numpy") as tensors:
        return sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118


def metric_names(recipe: Recipe) -> dict[str, str]:
    """The names of the task's scores."""
    return _METRIC_NAMES if recipe.task == "translation" else recipe.facts.metrics


def _eval_result(recipe: Recipe, evaluation: dict[str, Any], test_set: dict[str, Any], metric: str) -> EvalResult:
    """One score. The Hub tells test sets apart by type, config and split alone, so these must differ between them."""
    spec = parse_corpus(test_set["corpus"])
    name = spec.dataset_name
    source = evaluation["source_language"]
    pair = f"{source}-{spec.target_language or evaluation['target_language']}" if recipe.task == "translation" else source
    split = name.split or ("validation" if evaluation.get(ON_VALIDATION) else "test")
    return EvalResult(
        task_type=recipe.pipeline_tag,
        task_name=f"{recipe.task.replace('_', ' ').capitalize()} {pair}",
        dataset_type=name.repository or test_set["name"],
        dataset_name=test_set["name"],
        dataset_config=name.configuration or pair,
        dataset_split=split if spec.limit is None else f"{split}[:{spec.limit}]",
        dataset_args={key: test_set[key] for key in ("pairs", "source_sha256", "reference_sha256")},
        metric_type=_HUB_METRICS.get(metric, metric),
        metric_name=metric_names(recipe)[metric],
        metric_value=round(test_set["metrics"][metric]["score"], 2),
        metric_args={"signature": test_set["metrics"][metric]["signature"]},
    )


def origin_metadata(origin: str | None) -> dict[str, Any]:
    """The Hub's link to the base model, if it is a repository; the Hub could not find a folder."""
    is_repository = origin is not None and re.fullmatch(r"[\w.-]+/[\w.-]+", origin) and not Path(origin).exists()
    return {"base_model": origin, "base_model_relation": "finetune"} if is_repository else {}


def readable_origin(origin: str | None) -> str | None:
    """A fine-tuning's `init_from`, or a teacher; for a folder, its own name and its run's, which tell others more than its path."""
    return origin if origin is None or not Path(origin).is_absolute() else "/".join(Path(origin).parts[-2:])


def card_environment() -> Environment:
    """The environment of the cards' templates: where they are, and what they may call."""
    beside = Path(__file__).parent
    checkout = beside.parents[1] / "model_cards"
    environment = Environment(
        loader=FileSystemLoader([beside, checkout]),  # an installed package has the template beside this module
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,  # with `finalize`, which escapes for Markdown before this would escape for HTML
        finalize=markdown.slot,
    )
    environment.filters.update(
        address=markdown.address,
        code=markdown.code,
        corpus=lambda corpus: markdown.Markdown(corpus.describe(markdown.code)),
        python=markdown.python,
        integer=lambda number: f"{number:,}",
        markdown=markdown.Markdown,
        percent=lambda share: "none" if share is None else f"{share:.1%}",
        points=lambda number: f"{number:.2f}",
        signed=lambda number: markdown.Markdown(f"{number:+.2f}"),
        scientific=lambda number: f"{number:.2e}",
        duration=readable_duration,
        optimiser=_optimiser,
        megabytes=lambda number: f"{number / 1e6:,.1f} MB",
    )
    return environment


def _optimiser(settings: TrainingSettings) -> str:
    """The rule of the updates and its settings, apart from the learning rate."""
    scale = settings.muon_learning_rate_scale
    longer = f", at {scale:g} times the learning rate" if scale != 1 else ""
    rule = "Adam" if settings.optimizer == "adam" else f"Muon for the matrices of the layers{longer}; Adam for all else"
    decay = f" with a decoupled weight decay of {settings.weight_decay}" if settings.weight_decay else ""
    betas = " and ".join(map(str, settings.adam_betas))
    return f"{rule}{decay}, betas {betas}, epsilon {settings.adam_epsilon}"


def readable_duration(seconds: float) -> str:
    """`12 h 3 min`, `4 min 20 s` or `7 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def training_and_scores(run: RunFolder) -> tuple[Facts, Facts]:
    """What the complete training cost, and the scores of the weights that it ended with.

    Raises:
        FileNotFoundError: a stage has not run yet; the sentence says which.
        ValueError: the training has not finished, or the scores are of other weights.
    """
    evaluation = _read(run.evaluation, f"evaluate the run first (vaswani evaluate {run.path})")
    weights = _written(run.averaged / "model.safetensors", "finish the training first")
    training = _read(run.training, "train first")
    again = f"evaluate the run again (vaswani evaluate {run.path})"
    if not training["averaged_checkpoints"]:
        raise ValueError(
            f"The training of {run.path} has not finished, so {run.averaged} is missing or of an earlier one; finish it, then {again}."
        )
    if evaluation["weights_sha256"].get(weights.name) != file_sha256(weights):
        raise ValueError(f"{run.evaluation} was made with other weights than {weights}; {again}.")
    if not evaluation["test_sets"]:
        raise ValueError(f"{run.evaluation} holds no scores; {again}.")
    return training, evaluation


def _heads(run: RunFolder, weights: Path) -> Facts | None:
    """What the heads of these weights do, if it has been measured."""
    if not run.heads.is_file():
        return None
    again = f"measure the heads again (vaswani heads {run.path})"
    heads = _read(run.heads, again)
    if heads["weights_sha256"].get(weights.name) != file_sha256(weights):
        raise ValueError(f"{run.heads} was made with other weights than {weights}; {again}, or remove that file.")
    for picture in (run.heads_picture, run.attention_picture):
        _written(picture, again)
    return heads


def _limits(run: RunFolder, weights: Path) -> dict[str, Facts | None] | None:
    """What has been measured of these weights' limits, None for what has not; None if nothing has."""
    found: dict[str, Facts | None] = dict.fromkeys(LIMITS)
    for name, texts in LIMITS.items():
        file = run.limit(name)
        if file.is_file():
            again = f"measure it again (python -m benchmarks.limits {name} {run.path}{texts})"
            limit = _read(file, again)
            if limit["weights_sha256"].get(weights.name) != file_sha256(weights):
                raise ValueError(f"{file} was made with other weights than {weights}; {again}, or remove that file.")
            found[name] = limit
    return found if any(found.values()) else None


def _facts(value: Any, origin: str) -> Any:
    if isinstance(value, dict):
        return Facts(value, origin)
    return [_facts(item, origin) for item in value] if isinstance(value, list) else value


def _read(path: Path, remedy: str) -> Facts:
    return Facts(read_json(_written(path, remedy)), str(path))


def _written(path: Path, remedy: str) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"There is no {path} yet: {remedy}.")
    return path
