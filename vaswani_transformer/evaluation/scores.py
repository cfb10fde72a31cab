"""Measure a translator on test sets, and record all that is needed to repeat the measurement in `evaluation.json`."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..data.examples import CutTexts, check_lengths, examples_of, references, text_ids
from ..data.sources.corpus import Corpus, SentencePair
from ..files.atomic_file import write_text
from ..files.checksums import file_sha256, verify
from ..files.json_files import read_json, write_json
from ..languages import target_languages
from ..provenance import command_line, versions
from ..recipe import Recipe, load_recipe
from ..run_folder import RunFolder
from ..translation.loading import load_checkpoint, local_folder
from ..translation.translate import translate
from .answers import answer_test_set, load_reader
from .bleu import METRICS, MetricResult, score
from .copied_share import copied_facts
from .label_scores import require_scorers
from .labels import score_test_sets
from .noise_scores import score_noise, text_with_masks
from .outcomes import Outcomes, shares
from .text_scores import outcomes_of_texts, score_texts

SAMPLES = 10
_OUTCOMES = "outcomes"
"""Of a test set, on the way to `RunFolder.outcomes`."""
ON_VALIDATION = "on_validation"
"""In `evaluation.json`, true if the recipe names no test set, so that the validation set was scored in its place."""

_NO_SEARCH = (
    "_",
    "output_",
    "use_cache",
    "transformers_version",
)  # entries of a GenerationConfig without effect on the text
_PACKAGES = ("vaswani_transformer", "torch", "transformers", "tokenizers", "sacrebleu", "sacremoses")


class PublishedScore(NamedTuple):
    """A score that others published on one of the test sets, shown beside ours."""

    test_set: str
    system: str
    metric: str
    score: float


def evaluate_run(
    run: RunFolder,
    recipe: Recipe | None = None,
    test_sets: Mapping[str, Corpus] | None = None,
    *,
    published: Sequence[PublishedScore] = (),
    progress: bool = True,
    count_copied: bool | None = None,
    **generate_kwargs: Any,
) -> dict[str, Any]:
    """Translate and score the run's test sets with its averaged checkpoint, and write `evaluation.json`.

    Args:
        run: a finished run.
        recipe: the run's own by default.
        test_sets: the recipe's by default, or its validation set if it has none.
        published: others' scores for the model card.
        progress: show bars.
        count_copied: see `evaluate_model`; as the recipe says by default.
        **generate_kwargs: search settings other than the checkpoint's own.

    Raises:
        FileNotFoundError: the run has no averaged checkpoint.
        ValueError: the checkpoint is damaged, a test set cannot be read, or `published` names one that is not there.
    """
    if not run.averaged.is_dir():
        raise FileNotFoundError(f"There is no averaged checkpoint {run.averaged}; finish the training of this run first.")
    recipe = recipe or load_recipe(run.recipe, in_run_folder=True)
    on_validation = test_sets is None and not recipe.data.test
    if test_sets is None:
        test_sets = recipe.data.test or _validation_sets(recipe)
    training = read_json(run.training) if run.training.is_file() else {}
    of_the_run = {
        "model": run.averaged.name,
        "averaged_checkpoints": training.get("averaged_checkpoints", []),
        ON_VALIDATION: on_validation,
    }
    if recipe.task != "translation":
        if count_copied:
            raise ValueError(f"What is copied is counted in translations, and {run.path} has `task: {recipe.task}`; leave that out.")
        evaluation = _evaluation_of(recipe)(run, recipe, test_sets, published, progress, generate_kwargs)
    else:
        evaluation = evaluate_model(
            run.averaged,
            test_sets,
            languages=recipe.languages,
            root=Path(recipe.data.root),
            batch_tokens=recipe.validation.batch_tokens,
            lowercase=recipe.validation.lowercase,
            published=published,
            progress=progress,
            count_copied=recipe.validation.count_copied if count_copied is None else count_copied,
            **generate_kwargs,
        )
    evaluation |= of_the_run
    outcomes = [(test_set, test_set.pop(_OUTCOMES)) for test_set in evaluation["test_sets"] if _OUTCOMES in test_set]
    write_json(run.evaluation, evaluation)
    _write_outcomes(run, outcomes)
    return evaluation


def _evaluation_of(recipe: Recipe) -> Callable[..., dict[str, Any]]:
    """What measures a run whose task is not translation."""
    if recipe.marks_answers:
        return _evaluate_answers
    return _evaluate_labels if recipe.facts.labels else _evaluate_noise if recipe.task == "pretraining" else _evaluate_texts


def _write_outcomes(run: RunFolder, outcomes: Sequence[tuple[dict[str, Any], Outcomes]]) -> None:
    """Write what each text gives to the scores, or remove what an earlier evaluation wrote."""
    if not outcomes:
        run.outcomes.unlink(missing_ok=True)
        return
    lines = (
        {"test_set": test_set["name"], "reference_sha256": test_set["reference_sha256"], **found._asdict()} for test_set, found in outcomes
    )
    write_text(run.outcomes, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def _evaluate_texts(
    run: RunFolder,
    recipe: Recipe,
    test_sets: Mapping[str, Corpus],
    published: Sequence[PublishedScore],
    progress: bool,
    generate_kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """The same for a run whose model writes text that is no translation."""
    _check_published(published, test_sets, tuple(recipe.facts.metrics))
    require_scorers(recipe.task)
    examples = examples_of(recipe)
    assert isinstance(examples, CutTexts)
    model, tokenizer = load_checkpoint(run.averaged)
    model.to(torch.accelerator.current_accelerator() or torch.device("cpu"))
    results = []
    for name, corpus in test_sets.items():
        pairs = list(corpus.pairs(recipe.data.root, recipe.columns_of(corpus)))
        sources, right = [pair.source for pair in pairs], [references(pair) for pair in pairs]
        started = time.perf_counter()
        read = examples.cut(sources, tokenizer)
        shown = {"progress": progress, "description": "Writing"}
        settings = {"batch_tokens": recipe.validation.batch_tokens, "copy_items": None, **shown, **generate_kwargs}
        written = translate(model, tokenizer, read, **settings)
        measured = {
            "name": name,
            "pairs": len(pairs),
            "cut": sum(short != whole for short, whole in zip(read, sources, strict=True)),
            "seconds": round(time.perf_counter() - started, 3),
        }
        sides = recipe.task, written, right, recipe.target_language
        compared = _compared(corpus, sources, [pair.target for pair in pairs], score_texts(*sides))
        samples = [
            {"source": sources[i], "reference": " / ".join(right[i]), "prediction": written[i]} for i in spread_evenly(len(pairs), SAMPLES)
        ]
        results.append(
            measured | compared | {"samples": samples, "published": _published(published, name), _OUTCOMES: outcomes_of_texts(*sides)}
        )
    return {
        **_of_a_task(recipe, run, model, results),
        "decoding": decoding_settings(model, generate_kwargs),
    }


def _evaluate_noise(
    run: RunFolder,
    recipe: Recipe,
    test_sets: Mapping[str, Corpus],
    published: Sequence[PublishedScore],
    progress: bool,
    generate_kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """The same for a pretrained model."""
    _check_published(published, test_sets, tuple(recipe.facts.metrics))
    if generate_kwargs:
        refused = ", ".join(f"`{name}`" for name in generate_kwargs)
        raise ValueError(f"{refused}: {run.path} has `task: pretraining`, whose scores need no search; leave it out.")
    verify(run.averaged)
    kind = AutoModelForMaskedLM if recipe.has_no_decoder else AutoModelForSeq2SeqLM
    model, tokenizer = kind.from_pretrained(run.averaged), AutoTokenizer.from_pretrained(run.averaged)
    model.to(torch.accelerator.current_accelerator() or torch.device("cpu"))
    results = []
    for name, corpus in test_sets.items():
        pairs = list(corpus.pairs(recipe.data.root, recipe.columns_of(corpus)))
        texts = [pair.source for pair in pairs]
        check_lengths(pairs, text_ids(texts, tokenizer), model.config.most_positions)
        started = time.perf_counter()
        found = score_noise(recipe, model, tokenizer, texts)
        measured = {
            "name": name,
            "pairs": len(texts),
            "labels": found.tokens,
            "perplexity": found.perplexity,
            "seconds": round(time.perf_counter() - started, 3),
        }
        sides = {"source": found.sources, "reference": found.targets, "prediction": found.predictions}
        samples = [{side: text_with_masks(ids[i], tokenizer) for side, ids in sides.items()} for i in spread_evenly(len(texts), SAMPLES)]
        compared = _compared(corpus, texts, texts, found.metrics)
        results.append(
            measured
            | compared
            | {
                "samples": samples,
                "published": _published(published, name),
                _OUTCOMES: shares("accuracy", found.targets, found.predictions),
            }
        )
    return _of_a_task(recipe, run, model, results)


def _evaluate_answers(
    run: RunFolder,
    recipe: Recipe,
    test_sets: Mapping[str, Corpus],
    published: Sequence[PublishedScore],
    progress: bool,
    generate_kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """The same for a run whose model marks answers in contexts."""
    if generate_kwargs:
        refused = ", ".join(f"`{name}`" for name in generate_kwargs)
        raise ValueError(
            f"{refused}: {run.path} has `answers: {{kind: span}}`, which marks answers and searches for no text; leave it out."
        )
    _check_published(published, test_sets, tuple(recipe.facts.metrics))
    model, tokenizer = load_reader(run.averaged)
    results = []
    for name, corpus in test_sets.items():
        found = answer_test_set(recipe, model, tokenizer, corpus)
        measured = {
            "name": name,
            "pairs": len(found.pairs),
            "windows": len(found.asked.windows),
            "without_answer": sum(not question.spans for question in found.asked.questions),
            "seconds": found.seconds,
        }
        compared = _compared(corpus, [pair.source for pair in found.pairs], [pair.target for pair in found.pairs], found.metrics)
        samples = list(found.asked.samples(found.answers, spread_evenly(len(found.pairs), SAMPLES)))
        results.append(
            measured
            | compared
            | {"samples": samples, "published": _published(published, name), _OUTCOMES: found.asked.outcomes(found.answers)}
        )
    return _of_a_task(recipe, run, model, results)


def _of_a_task(recipe: Recipe, run: RunFolder, model: PreTrainedModel, results: list[dict[str, Any]]) -> dict[str, Any]:
    """What `evaluation.json` holds of every task but translation."""
    return {
        "task": recipe.task,
        "weights_sha256": {file.name: file_sha256(file) for file in _weights(run.averaged)},
        "source_language": recipe.source_language,
        "test_sets": results,
        "batch_tokens": recipe.validation.batch_tokens,
        "precision": str(model.dtype).removeprefix("torch."),
        "device": _device_name(model.device),
        **_circumstances(),
    }


def _evaluate_labels(
    run: RunFolder,
    recipe: Recipe,
    test_sets: Mapping[str, Corpus],
    published: Sequence[PublishedScore],
    progress: bool,
    generate_kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """The same for a run whose model gives labels, and searches for no text."""
    if generate_kwargs:
        refused = ", ".join(f"`{name}`" for name in generate_kwargs)
        raise ValueError(f"{refused}: {run.path} has `task: {recipe.task}`, which gives labels and searches for no text; leave it out.")
    _check_published(published, test_sets, tuple(recipe.facts.metrics))
    model, scored = score_test_sets(recipe, run.averaged, test_sets)
    results = []
    for name, found in scored.items():
        texts, references, predictions = found.texts, found.references, found.predictions
        measured = {"name": name, "pairs": len(texts), "labels": found.labels, "seconds": found.seconds}
        samples = [
            {"source": texts[i], "reference": references[i], "prediction": predictions[i]} for i in spread_evenly(len(texts), SAMPLES)
        ]
        compared = _compared(test_sets[name], texts, references, found.metrics)
        results.append(measured | compared | {"samples": samples, "published": _published(published, name), _OUTCOMES: found.outcomes})
    return _of_a_task(recipe, run, model, results)


def evaluate_model(
    model_name: str | Path,
    test_sets: Mapping[str, Corpus],
    *,
    languages: tuple[str, str],
    root: Path = Path(),
    batch_tokens: int = 4096,
    lowercase: bool = False,
    published: Sequence[PublishedScore] = (),
    progress: bool = True,
    count_copied: bool = False,
    **generate_kwargs: Any,
) -> dict[str, Any]:
    """Translate and score `test_sets` with any sequence-to-sequence checkpoint.

    Args:
        model_name: a folder, or a repository of the Hub.
        test_sets: the corpora by name.
        languages: codes of source and target; a test set's own target language takes precedence.
        root: where relative file names of the test sets start.
        batch_tokens: see `translate`.
        lowercase: score without regard to case.
        published: others' scores, passed through.
        progress: show bars.
        count_copied: also count inline code, placeholders and numbers that are copied intact (see `copied_share`).
        **generate_kwargs: search settings other than the checkpoint's own.

    Returns:
        What `evaluation.json` holds.

    Raises:
        FileNotFoundError: there is no such model, or a file of a test set is missing.
        ValueError: a test set cannot be read, `published` or the tokenizer does not fit, or the model is one of ours for another task.
    """
    _check_published(published, test_sets)
    targets = {name: corpus.target_language or languages[1] for name, corpus in test_sets.items()}
    texts = {name: list(corpus.pairs(root, (languages[0], targets[name]))) for name, corpus in test_sets.items()}
    folder = local_folder(model_name)
    model, tokenizer = _load_translator(folder, model_name)
    settings = {"batch_tokens": batch_tokens, "progress": progress, **generate_kwargs}
    results = []
    for name, pairs in texts.items():
        hypotheses, measured = _translate(model, tokenizer, pairs, targets[name], settings)
        compared = _compare(hypotheses, pairs, test_sets[name], targets[name], lowercase)
        results.append({"name": name} | measured | compared | {"published": _published(published, name)})
        if count_copied:
            results[-1]["copied"] = copied_facts([pair.source for pair in pairs], [pair.target for pair in pairs], hypotheses)
    return {
        "model": str(model_name),
        "weights_sha256": {file.name: file_sha256(file) for file in _weights(folder)},
        "source_language": languages[0],
        "target_language": languages[1],
        "test_sets": results,
        "decoding": decoding_settings(model, generate_kwargs),
        "batch_tokens": batch_tokens,
        "precision": str(model.dtype).removeprefix("torch."),
        "device": _device_name(model.device),
        **_circumstances(),
    }


def _load_translator(folder: Path, name: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model in `folder` and its tokenizer; one of ours that writes something else is refused by `name`."""
    model, tokenizer = load_checkpoint(folder)
    stored = getattr(model.config, "task_specific_params", None) if isinstance(model.config, VaswaniConfig) else None
    if others := {"summarization", "text2text-generation"}.intersection(stored or ()):
        raise ValueError(
            f"{name} is made for {others.pop()}, and scores of files are those of translations; add the files to `data.test` in the "
            "recipe.yaml of its run, and evaluate the run."
        )
    model.to(torch.accelerator.current_accelerator() or torch.device("cpu"))
    return model, tokenizer


def _translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[SentencePair],
    target_language: str,
    settings: Mapping[str, Any],
) -> tuple[list[str], dict[str, Any]]:
    """Translations, and facts about how they were made: for a model of several target languages, the one asked for."""
    chosen = target_language if target_languages(tokenizer) else None
    started = time.perf_counter()
    sources = [pair.source for pair in pairs]
    hypotheses = translate(model, tokenizer, sources, target_language=chosen, **settings)
    measured = {"pairs": len(pairs), "seconds": round(time.perf_counter() - started, 3)}
    return hypotheses, measured if chosen is None else {**measured, "tgt_lang": chosen}


def score_lines(evaluation: Mapping[str, Any]) -> list[str]:
    """The scores as text: test set, metric, points, signature; preceded by a warning if the validation set stands in for a test set."""
    remark = ["The recipe names no test set, so these are scores on the validation set:"] if evaluation.get(ON_VALIDATION) else []
    scores = [
        f"{test_set['name']}  {metric:<10}  {result['score']:6.2f}  {result['signature']}"
        for test_set in evaluation["test_sets"]
        for metric, result in test_set["metrics"].items()
    ]
    return remark + scores + [line for test_set in evaluation["test_sets"] if "copied" in test_set for line in _copied_lines(test_set)]


def _copied_lines(test_set: Mapping[str, Any]) -> Iterator[str]:
    facts = test_set["copied"]
    for name, found in {**facts["classes"], "all but formatted_number": facts["together"]}.items():
        if found["items_in_source"]:
            of_reference = found["share_of_reference"]
            of_these = "none of them copied" if of_reference is None else f"{of_reference:.1%} of these copied"
            yield (
                f"{test_set['name']}  {name:<24}  {found['items_in_source']:5} in the source, {found['share']:.1%} copied; "
                f"{found['by_reference']:5} in the reference, too, {of_these}"
            )


def decoding_settings(model: PreTrainedModel, generate_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The search settings that `generate` uses: those of `generation_config.json`, overridden by the call's own."""
    stored = model.generation_config.to_diff_dict() if model.generation_config is not None else {}
    stored = {key: value for key, value in stored.items() if not key.startswith(_NO_SEARCH)}
    return stored | dict(generate_kwargs)


def text_sha256(sentences: Iterable[str]) -> str:
    """SHA-256 of the text with one sentence a line: that of the plain UTF-8 file, whatever container it came in."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(sentence.encode() + b"\n")
    return digest.hexdigest()


def _compare(
    hypotheses: Sequence[str],
    pairs: Sequence[SentencePair],
    corpus: Corpus,
    target_language: str,
    lowercase: bool,
) -> dict[str, Any]:
    """The results of one translated test set: scores, hashes of both sides, sample translations."""
    references = [pair.target for pair in pairs]
    scores = score(
        hypotheses,
        references,
        target_language=target_language,
        tokenized=corpus.tokenized,
        lowercase=lowercase,
    )
    samples = [
        {"source": pairs[i].source, "reference": pairs[i].target, "translation": hypotheses[i]} for i in spread_evenly(len(pairs), SAMPLES)
    ]
    return _compared(corpus, [pair.source for pair in pairs], references, scores) | {"samples": samples}


def _compared(corpus: Corpus, sources: Iterable[str], references: Iterable[str], scores: Mapping[str, MetricResult]) -> dict[str, Any]:
    """What is recorded of a test set for every task: the corpus, hashes of both sides, scores."""
    return {
        "corpus": {key: value for key, value in dataclasses.asdict(corpus).items() if value is not None},
        "source_sha256": text_sha256(sources),
        "reference_sha256": text_sha256(references),
        "metrics": {metric: result._asdict() for metric, result in scores.items()},
    }


def _published(published: Sequence[PublishedScore], test_set: str) -> list[dict[str, Any]]:
    """Others' scores on one test set."""
    return [entry._asdict() for entry in published if entry.test_set == test_set]


def spread_evenly(total: int, wanted: int) -> list[int]:
    """`wanted` numbers below `total` at equal distances, including the first and the last, so that samples are not hand-picked."""
    count = min(wanted, total)
    return [round(i * (total - 1) / max(count - 1, 1)) for i in range(count)]


def _validation_sets(recipe: Recipe) -> dict[str, Corpus]:
    """The validation corpora by name: `validation`, or `validation_1_de`, `validation_2_fr` if there are several."""
    corpora = recipe.data.validations
    if len(corpora) == 1:
        return {"validation": corpora[0]}
    return {f"validation_{number}_{recipe.languages_of(corpus)[1]}": corpus for number, corpus in enumerate(corpora, start=1)}


def _weights(folder: Path) -> list[Path]:
    """The files that hold the weights; old repositories of the Hub have no safetensors."""
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))


def _check_published(published: Sequence[PublishedScore], test_sets: Mapping[str, Corpus], metrics: Sequence[str] = tuple(METRICS)) -> None:
    for entry in published:
        if entry.test_set not in test_sets:
            raise ValueError(
                f"The published score of {entry.system} is for the test set '{entry.test_set}', which is not among "
                f"{', '.join(test_sets) or 'none'}."
            )
        if entry.metric not in metrics:
            raise ValueError(f"The published score of {entry.system} is in {entry.metric}, which is not among {', '.join(metrics)}.")


def _circumstances() -> dict[str, Any]:
    """How, when and with what software the measurement was made."""
    return {
        "command": command_line(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(*_PACKAGES),
    }


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU (threads: {torch.get_num_threads()})" if device.type == "cpu" else device.type
