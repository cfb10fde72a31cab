"""Sequence-level knowledge distillation (Kim and Rush, 2016): a teacher's translations take the place of the training targets.

What the run folder holds of it, in this order:

- `distilling/sources`: the clean training sources, each once, with the first of their references;
- `distilling/translations`: the same lines with the teacher's candidates, written window by window by `translation.job`, so that a
  stop loses at most one window. Complete, they go into the cache (`data.cache`), where students of the same teacher find them;
- `distilled`: the pairs that training reads, as line-aligned files, and what made them. `distilling` is removed then.

Every process of a training calls `distill`; all of them translate, and the first one does the rest.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from sacrebleu import BLEU

from ..data.cache import provide
from ..data.cleaning import clean
from ..data.sources.corpus import SentencePair
from ..data.sources.lines import LinesCorpus
from ..data.sources.text import file_lines
from ..data.workers import available_cores, in_chunks, map_in_order
from ..evaluation.bleu import sacrebleu_tokenizer
from ..evaluation.scores import decoding_settings
from ..files.atomic_folder import atomic_folder, discard, make_folder
from ..files.checksums import file_sha256, find_damage, write_checksums
from ..files.compression import compress
from ..files.json_files import read_json, write_json
from ..languages import language_prefix, target_languages
from ..recipe import DistillationSettings, Recipe, load_recipe
from ..run_folder import RunFolder
from ..shortlist import SHORTLIST_FILE
from ..translation.job import JobSettings, translate_file
from ..translation.loading import Engine, folder_sha256, load_engine
from ..translation.processes import processes, share
from ..translation.translate import Failure, Translator
from .corpora import held_out_pairs, read_pairs, settle_corpora
from .precision import emulates_bfloat16, in_float32_instead
from .state import newest_state

_FACTS = "distillation.json"
_NOT_DECISIVE = ("SHA256SUMS", "evaluation.json")
_CLEANING = "cleaning.json"
"""What cleaning did with the original pairs."""

Job = tuple[str, str, str]
"""What is translated in one go: the target language, the file of sources, and the file to write."""


def distill(recipe: Recipe, run: RunFolder, *, progress: bool = True) -> None:
    """Have the teacher of `recipe.data.distillation` translate the training sources, into `run.distilled`, or resume that.

    Nothing happens without a teacher, and where the translations are there already. Every process of a training calls this.

    Args:
        recipe: as `claim_run_folder` has written it.
        run: the claimed folder.
        progress: show a bar on standard error.

    Raises:
        FileNotFoundError: there is no such teacher, or a corpus is missing.
        ValueError: the teacher is no translator, has other languages, learnt another kind of text, or changed since the training began.
        KeyboardInterrupt: Ctrl-C or SIGTERM; what has been translated is safe.
    """
    is_main = processes().is_main_process
    if recipe.data.distillation is None:
        return
    if is_there := is_main and _is_there(recipe, run):
        discard(run.distilling)  # a kill may have left it
    if not share(is_main and not is_there):
        return
    recipe, settings = _on_this_machine(recipe)
    engine = load_engine(settings.teacher, dtype=settings.dtype)
    _check_text(recipe, engine.tokenizer)
    work = partial(_translate, engine=engine, settings=settings, progress=progress)
    if not is_main:
        if jobs := share(None):
            work(jobs)
        return
    if progress:
        print(
            f"{settings.teacher} translates the training sources; text passes between it and the student, whatever their vocabularies are"
        )
    facts = _facts(recipe, engine)
    translations = _provide_translations(recipe, run, facts, work)
    _write_pairs(recipe, run, translations, facts)
    discard(run.distilling)


def time_teacher(recipe: Recipe, sources: Sequence[str]) -> float:
    """Seconds of a source, where the teacher of `recipe.data.distillation` translates `sources` on this machine; nothing is written.

    Raises:
        FileNotFoundError, ValueError: as in `distill`.
    """
    recipe, settings = _on_this_machine(recipe)
    engine = load_engine(settings.teacher, dtype=settings.dtype)
    _check_text(recipe, engine.tokenizer)
    translator = _translator(engine, settings, recipe.translates_into[0])
    started = time.perf_counter()
    outcomes = [outcome for _, outcome in translator(sources)]
    if all(isinstance(outcome, Failure) for outcome in outcomes):
        raise ValueError(_no_translation(settings, len(outcomes)))
    return (time.perf_counter() - started) / len(outcomes)


def distilled_pairs(recipe: Recipe, run: RunFolder) -> Iterator[SentencePair]:
    """The pairs of `run.distilled`, and behind them the original ones if the recipe keeps them; not cleaned."""
    assert recipe.data.distillation is not None
    several = bool(recipe.target_languages)
    specs = [
        LinesCorpus(source=source, target=target, target_language=language if several else None)
        for language in recipe.translates_into
        for source, target in [_names(recipe, language)]
        if (run.distilled / source).is_file()  # a language without a pair has none
    ]
    originals = read_pairs(recipe, recipe.data.train) if recipe.data.distillation.keep_original else ()
    return chain(read_pairs(recipe, specs, run.distilled), originals)


def distilled_hashes(run: RunFolder) -> dict[str, str]:
    """SHA-256 of the files in `run.distilled` that hold the pairs."""
    return {file.name: file_sha256(file) for file in sorted(run.distilled.glob("*.gz"))}


def distillation_facts(run: RunFolder) -> dict[str, Any]:
    """What made the pairs in `run.distilled`: teacher, search and counts."""
    facts: dict[str, Any] = read_json(run.distilled / _FACTS)
    return facts


def _on_this_machine(recipe: Recipe) -> tuple[Recipe, DistillationSettings]:
    """The recipe, and what it says of the teacher: in float32 where it says bfloat16 and this machine would emulate it, which is told."""
    settings = recipe.data.distillation
    assert settings is not None
    on_cpu = processes().device.type == "cpu"
    if settings.dtype == "bfloat16" and emulates_bfloat16(on_cpu):
        if processes().is_main_process:
            print(in_float32_instead("The teacher", on_cpu), flush=True)
        settings = replace(settings, dtype="float32")
        recipe = replace(recipe, data=replace(recipe.data, distillation=settings))
    return recipe, settings


def _is_there(recipe: Recipe, run: RunFolder) -> bool:
    """Whether the pairs are there, undamaged and by the teacher as it is now; if its folder is gone, they are what is left of it."""
    hashes = settle_corpora(recipe, run)
    if not run.distilled.exists():
        return False
    if damage := find_damage(run.distilled, (_FACTS,)):
        raise ValueError(f"{damage}; to have it made again, delete {run.distilled} and run the same command.")
    assert recipe.data.distillation is not None
    teacher, facts = Path(recipe.data.distillation.teacher), distillation_facts(run)
    if not teacher.is_dir() and teacher != Path(facts["teacher"]):
        raise ValueError(
            f"{run.distilled} holds translations by {facts['teacher']}, and {teacher} is no folder that could show it is the same one; "
            "name the former, or choose another run folder."
        )
    if not teacher.is_dir() or _is_same_teacher(teacher, facts["teacher_sha256"]):
        return True
    if newest_state(run.state):
        raise ValueError(
            f"The teacher {teacher} is another one than that whose translations the training in {run.path} began with; put it back, or "
            "choose another run folder."
        )
    print(f"The teacher {teacher} has changed since it made the translations in {run.distilled}; it translates again.", flush=True)
    # `distilled` last: while it is there, the change is still found, even after a kill
    write_json(run.cleaning, {"file_hashes": hashes})
    for made_of_it in (run.tokenizer, run.encoded, run.initial, run.distilled):
        discard(made_of_it)
    return False


def _facts(recipe: Recipe, engine: Engine) -> dict[str, Any]:
    """All that decides the translations but the text."""
    settings = recipe.data.distillation
    assert settings is not None
    return {
        "teacher": settings.teacher,
        "teacher_sha256": _identity(engine.identity["model"], bool(getattr(engine.model.generation_config, "shortlist", False))),
        "search": decoding_settings(engine.model, _search(settings, engine.model)),
        "dtype": settings.dtype,
        "batch_tokens": settings.batch_tokens,
        "max_source_tokens": settings.max_source_tokens,
    }


def _is_same_teacher(teacher: Path, hashes: Mapping[str, str]) -> bool:
    """Whether the folder `teacher` writes the same words as when its files had `hashes`."""
    settings = teacher / "generation_config.json"
    uses_shortlist = settings.is_file() and bool(read_json(settings).get("shortlist"))
    return _identity(folder_sha256(teacher), uses_shortlist) == _identity(hashes, uses_shortlist)


def _identity(hashes: Mapping[str, str], uses_shortlist: bool) -> dict[str, str]:
    """The hashes of what a teacher's words depend on: not of code, since only installed code runs, nor of what its search does not use."""
    idle = _NOT_DECISIVE if uses_shortlist else (*_NOT_DECISIVE, SHORTLIST_FILE)
    return {name: digest for name, digest in hashes.items() if not name.endswith(".py") and name not in idle}


def _search(settings: DistillationSettings, model: Any) -> dict[str, Any]:
    """The settings of `generate`: as many beams as asked for, else the teacher's own, and at least one for each candidate."""
    own = getattr(model.generation_config, "num_beams", None) or 1
    beams = settings.num_beams or max(own, settings.best)
    return {"num_beams": beams, **({"num_return_sequences": settings.best} if settings.best > 1 else {})}


def _provide_translations(recipe: Recipe, run: RunFolder, facts: Mapping[str, Any], work: Callable[[list[Job]], None]) -> Path:
    """The folder of the complete translations: from this run's earlier start, from the cache, or made now, with all processes."""
    sources, folder, mark = run.distilling / "sources", run.distilling / "translations", run.distilling / "decisive.json"
    if not sources.exists():
        with atomic_folder(sources) as unfinished:
            write_json(unfinished / _CLEANING, _write_sources(recipe, unfinished))
    decisive = {**facts, "teacher": None, "sources": {file.name: file_sha256(file) for file in sorted(sources.iterdir())}}
    if not mark.exists() or read_json(mark) != json.loads(json.dumps(decisive)):  # begun with another teacher
        discard(folder)
        write_json(mark, decisive)
    made = False

    def make() -> None:
        nonlocal made
        made = True
        make_folder(folder)
        write_json(folder / _CLEANING, read_json(sources / _CLEANING))
        jobs = [(language, str(sources / _lines(language)), str(folder / _lines(language))) for language in recipe.translates_into]
        share(jobs)
        work(jobs)
        write_checksums(folder)

    if find_damage(folder) is not None:
        provide(folder, "translations", decisive, make, depends_on_code=False)
    if not made:
        share(None)
    return folder


def _lines(language: str) -> str:
    return f"{language}.jsonl.gz"


def _names(recipe: Recipe, language: str) -> tuple[str, str]:
    pair = f"{recipe.source_language}-{language}"
    return f"source.{pair}.gz", f"target.{pair}.gz"


def _write_sources(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Every source that training may see, once for each target language; returns what cleaning said of the original pairs."""
    pairs, report = clean(read_pairs(recipe, recipe.data.train), recipe.data.cleaning, held_out_pairs(recipe), available_cores())
    seen: set[bytes] = set()
    counts = dict.fromkeys(recipe.translates_into, 0)
    for language in counts:
        _append(folder / _lines(language), ())
    for chunk in in_chunks(pairs):
        lines: dict[str, list[str]] = {}
        for pair in chunk:
            language = pair.language or recipe.target_language
            key = hashlib.blake2b(f"{language}\n{pair.source}".encode(), digest_size=8).digest()
            if key not in seen:
                seen.add(key)
                lines.setdefault(language, []).append(json.dumps({"text": pair.source, "reference": pair.target}, ensure_ascii=False))
        for language, new in lines.items():
            counts[language] += len(new)
            _append(folder / _lines(language), new)
    return {**report.to_dict(), "sources": counts}


def _append(file: Path, lines: Iterable[str]) -> None:
    with open(file, "ab") as stream:
        stream.write(compress("".join(f"{line}\n" for line in lines).encode(), file.name))


def _translate(jobs: Sequence[Job], *, engine: Engine, settings: DistillationSettings, progress: bool) -> None:
    """Every process of the training does this. A file that is complete stays."""
    for language, source, target in jobs:
        if share(Path(target).exists() and not Path(f"{target}.progress.json").exists()):
            continue
        translator = _translator(engine, settings, language)
        job = JobSettings("jsonl", hypotheses=settings.best)
        translate_file(source, target, translator, job, engine.identity | _search(settings, engine.model), progress=progress)


def _translator(engine: Engine, settings: DistillationSettings, language: str) -> Translator:
    return Translator(
        engine.model,
        engine.tokenizer,
        target_language=language if target_languages(engine.tokenizer) else None,
        batch_tokens=settings.batch_tokens,
        max_source_tokens=settings.max_source_tokens,
        **_search(settings, engine.model),
    )


def _write_pairs(recipe: Recipe, run: RunFolder, translations: Path, facts: Mapping[str, Any]) -> None:
    """From candidates to the pairs that training reads."""
    settings = recipe.data.distillation
    assert settings is not None
    tokenized = any(spec.tokenized for spec in recipe.data.train)
    counts = {"sources": 0, "untranslated": 0, "pairs": 0}
    with atomic_folder(run.distilled) as unfinished:
        for language in recipe.translates_into:
            choose = partial(_chosen, closest=settings.closest, tokenizer=sacrebleu_tokenizer(language, tokenized))
            source_file, target_file = (unfinished / name for name in _names(recipe, language))
            chunks = in_chunks(file_lines(translations / _lines(language)))
            for lines, chosen in map_in_order(choose, chunks, available_cores()):
                pairs = [pair for pairs in chosen for pair in pairs]
                _append(source_file, (source for source, _ in pairs))
                _append(target_file, (target for _, target in pairs))
                counts["sources"] += len(lines)
                counts["untranslated"] += sum(not pairs for pairs in chosen)
                counts["pairs"] += len(pairs)
        if not counts["pairs"]:
            raise ValueError(_no_translation(settings, counts["sources"]))
        chosen_by = {"best": settings.best, "closest": settings.closest, "keep_original": settings.keep_original}
        write_json(unfinished / _FACTS, {**facts, **chosen_by, **counts, "original_cleaning": read_json(translations / _CLEANING)})
        write_checksums(unfinished)


def _no_translation(settings: DistillationSettings, sources: int) -> str:
    return f"{settings.teacher} translated none of {sources:,} training sources; try it on one of them first."


def _chosen(lines: Sequence[str], closest: bool, tokenizer: str) -> list[list[tuple[str, str]]]:
    """The pairs of each source: one for each candidate, or that of the closest to the reference; none if there is no translation."""
    metric = BLEU(tokenize=tokenizer, effective_order=True)
    chosen = []
    for line in lines:
        record = json.loads(line)
        entries = record.get("translations", [record])
        candidates = [] if "error" in record else [entry["translation"] for entry in entries if entry["translation"].strip()]
        if closest and candidates:
            candidates = [max(candidates, key=lambda text: metric.sentence_score(text, [record["reference"]]).score)]
        chosen.append([(_one_line(record["text"]), _one_line(text)) for text in candidates])
    return chosen


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _check_text(recipe: Recipe, tokenizer: Any) -> None:
    """Refuse a teacher of other languages, or of another kind of text, where its folder or its tokenizer tells."""
    assert recipe.data.distillation is not None
    teacher = Path(recipe.data.distillation.teacher)
    if hasattr(tokenizer, "src_lang"):
        raise ValueError(
            f"{teacher} is told its languages by tokens of its own, which distillation does not set; take one of one direction."
        )
    known = target_languages(tokenizer)
    for language in recipe.translates_into if known else ():
        language_prefix(tokenizer, language)
    source, targets, tokenized = _stated(teacher, tokenizer)
    taught = {_base(language) for language in targets}
    if source and (_base(source) != _base(recipe.source_language) or not {_base(code) for code in recipe.translates_into} <= taught):
        raise ValueError(
            f"The teacher {teacher} translates {source} into {', '.join(targets)}, and the recipe {recipe.source_language} into "
            f"{', '.join(recipe.translates_into)}; take a teacher of these languages."
        )
    if not known and len(recipe.translates_into) > 1:
        raise ValueError(
            f"The teacher {teacher} has one target language, and the recipe {len(recipe.translates_into)}; take one that has all."
        )
    if tokenized is not None and not {spec.tokenized for spec in recipe.data.train} <= tokenized:
        learnt, given = ("text split into tokens", "plain text")[:: 1 if True in tokenized else -1]
        raise ValueError(
            f"The teacher {teacher} learnt from {learnt}, and a training corpus of the recipe is {given} (`tokenized`); take a teacher "
            "of the same kind of text."
        )


def _stated(teacher: Path, tokenizer: Any) -> tuple[str | None, tuple[str, ...], set[bool] | None]:
    """Source, targets, and whether its text was tokenized, as far as the teacher's run, its scores or its tokenizer tell."""
    run = RunFolder(teacher.absolute().parent)
    if run.recipe.is_file():
        recipe = load_recipe(run.recipe, in_run_folder=True)
        return recipe.source_language, recipe.translates_into, {spec.tokenized for spec in recipe.data.train}
    evaluation = RunFolder(teacher).evaluation
    if evaluation.is_file():
        scores = read_json(evaluation)
        sets = [test_set["corpus"] for test_set in scores["test_sets"]]
        targets = tuple(dict.fromkeys(spec.get("target_language") or scores["target_language"] for spec in sets))
        return scores["source_language"], targets or (scores["target_language"],), None
    source, target = getattr(tokenizer, "source_lang", None), getattr(tokenizer, "target_lang", None)
    return (source, (target,), None) if source and target else (None, (), None)


def _base(code: str) -> str:
    """`pt` of `pt-BR` and of `pt_BR`."""
    return code.replace("_", "-").partition("-")[0].lower()
