"""A teacher translates once, whatever interrupts it, and its students train on exactly what it says."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from transformers import MarianMTModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.training.conftest import SOURCE, TARGET
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.data.shortlisting import make_shortlist
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.files.checksums import file_sha256
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import DistillationSettings, Recipe, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import distillation, rehearsal
from vaswani_transformer.training.distillation import distill, time_teacher
from vaswani_transformer.training.engine import train, translate_sources
from vaswani_transformer.training.preparation import claim_run_folder, open_prepared_data, prepare_data
from vaswani_transformer.training.rehearsal import describe, rehearse
from vaswani_transformer.translation.job import JobSettings
from vaswani_transformer.translation.loading import load_engine
from vaswani_transformer.translation.translate import translate

MakeRecipe = Callable[..., Recipe]

PAIR = ("source.en-de.gz", "target.en-de.gz")


def write_teacher(folder: Path, seed: int = 0, **tokens: Any) -> Path:
    """It knows nothing and says much."""
    tokenizer = train_tokenizer([*SOURCE, *TARGET] * 3, vocab_size=300, **tokens)
    torch.manual_seed(seed)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.7)
    model.generation_config.update(num_beams=2, extra_length=4, allow_custom_entries=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    return write_teacher(tmp_path / "teacher")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def taught(make_recipe: MakeRecipe, teacher: Path) -> Callable[..., Recipe]:
    """The recipe with this teacher."""

    def make(training: dict[str, Any] | None = None, **settings: Any) -> Recipe:
        recipe = make_recipe(**(training or {}))
        settings = {"teacher": str(teacher), **settings}
        return replace(recipe, data=replace(recipe.data, distillation=DistillationSettings(**settings)))

    return make


def distilled(recipe: Recipe, run: RunFolder) -> list[tuple[str, str]]:
    claim_run_folder(recipe, run)
    distill(recipe, run, progress=False)
    return pairs_of(run)


def pairs_of(run: RunFolder) -> list[tuple[str, str]]:
    sides = [gzip.decompress((run.distilled / name).read_bytes()).decode().split("\n")[:-1] for name in PAIR]
    return list(zip(*sides, strict=True))


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def sources_of(corpus: Path) -> list[str]:
    return (corpus / "train.en").read_text(encoding="utf-8").split("\n")[:-1]


def test_the_pairs_are_what_one_translates_by_hand(taught: MakeRecipe, run: RunFolder, corpus: Path, teacher: Path) -> None:
    pairs = distilled(taught(num_beams=1), run)
    engine = load_engine(str(teacher))
    expected = translate(engine.model, engine.tokenizer, sources_of(corpus), num_beams=1)
    assert [source for source, _ in pairs] == sources_of(corpus)
    assert [target for _, target in pairs] == [" ".join(text.splitlines()) for text in expected]
    assert len(set(expected)) > 30  # the teacher does not say the same to everything
    facts = read_json(run.distilled / "distillation.json")
    assert facts["teacher_sha256"]["model.safetensors"] == file_sha256(teacher / "model.safetensors") and facts["search"]["num_beams"] == 1
    assert (facts["sources"], facts["untranslated"], facts["pairs"]) == (60, 0, 60)
    assert not run.distilling.exists()


def test_a_teacher_in_bfloat16_takes_float32_where_a_processor_has_none(
    taught: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(distillation, "emulates_bfloat16", lambda on_cpu: True)
    pairs, facts = [], []
    for dtype in ("float32", "bfloat16"):
        run = RunFolder(tmp_path / dtype)
        pairs.append(distilled(taught(dtype=dtype), run))
        facts.append(distillation.distillation_facts(run))
        assert ("The teacher computes in float32.\n" in capsys.readouterr().out) is (dtype == "bfloat16")
    assert pairs[0] == pairs[1] and facts[0] == facts[1] and facts[0]["dtype"] == "float32"


def test_the_best_candidates_make_a_pair_each(taught: MakeRecipe, tmp_path: Path) -> None:
    one, three = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "three")
    single, several = distilled(taught(num_beams=3), one), distilled(taught(best=3), three)
    assert len(several) == 3 * len(single) == 180
    assert several[::3] == single  # best first, by as many beams as there are candidates
    assert [source for source, _ in several] == [source for source, _ in single for _ in range(3)]
    assert sum(len(set(several[i : i + 3])) == 3 for i in range(0, 180, 3)) > 30  # bytes that are no text may look alike


def test_the_closest_is_the_candidate_with_the_highest_sentence_bleu(taught: MakeRecipe, tmp_path: Path, corpus: Path) -> None:
    every = distilled(taught(best=4), RunFolder(tmp_path / "every"))
    chosen = distilled(taught(best=4, closest=True), RunFolder(tmp_path / "chosen"))
    references = (corpus / "train.de").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(chosen) == len(references) == 60
    for number, reference in enumerate(references):
        candidates = every[4 * number : 4 * number + 4]
        points = [sacrebleu.sentence_bleu(text, [reference]).score for _, text in candidates]
        assert chosen[number] == candidates[points.index(max(points))]


def test_a_source_is_translated_once_and_none_that_is_held_out(taught: MakeRecipe, run: RunFolder, corpus: Path) -> None:
    held_out = (corpus / "validation.en").read_text(encoding="utf-8").split("\n")[0]
    for side, lines in (("en", [SOURCE[0], held_out, "", "one two"]), ("de", [TARGET[1], "x", "y", "a\tb"])):
        with open(corpus / f"train.{side}", "a", encoding="utf-8") as stream:
            stream.write("".join(f"{line}\n" for line in lines))
    pairs = distilled(taught(), run)
    sources = [source for source, _ in pairs]
    assert len(sources) == len(set(sources)) == len(set(sources_of(corpus)) - {held_out, ""})
    assert read_json(run.distilled / "distillation.json")["original_cleaning"]["dropped"]["held_out"] == 1


def test_an_interrupted_teacher_goes_on_to_the_same_bytes(taught: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distillation, "JobSettings", lambda *a, **k: JobSettings(*a, window=7, **k))
    undisturbed, stopped = RunFolder(tmp_path / "undisturbed"), RunFolder(tmp_path / "stopped")
    distilled(taught(best=2), undisturbed)
    asked: list[int] = []

    class Stopping(distillation.Translator):
        def __call__(self, sentences: Any) -> Iterator[Any]:
            asked.append(len(sentences))
            if len(asked) == 4:
                raise KeyboardInterrupt
            return super().__call__(sentences)

    monkeypatch.setattr(distillation, "Translator", Stopping)
    with pytest.raises(KeyboardInterrupt):
        distilled(taught(best=2), stopped)
    assert not stopped.distilled.exists()
    distilled(taught(best=2), stopped)
    assert sum(asked) == 60 + 7  # nothing is translated twice but the window that was stopped
    assert content(stopped.distilled) == content(undisturbed.distilled)


KILLED = """
import os, signal, sys
from pathlib import Path
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import distillation
from vaswani_transformer.training.preparation import claim_run_folder
from vaswani_transformer.translation.job import JobSettings
from vaswani_transformer.translation.output import FileOutput
recipe, run, place = load_recipe(sys.argv[1]), RunFolder(Path(sys.argv[2])), sys.argv[3]
distillation.JobSettings = lambda *a, **k: JobSettings(*a, window=7, **k)
def kill(*arguments, **settings):
    os.kill(os.getpid(), signal.SIGKILL)
claim_run_folder(recipe, run)
for place in sys.argv[3:]:
    if os.fork() == 0:
        if place == "window":
            record = FileOutput._record
            FileOutput._record = lambda self, progress: kill() if progress.lines == 28 else record(self, progress)
        else:
            setattr(distillation, place, kill)
        distillation.distill(recipe, run, progress=False)
    print(os.WTERMSIG(os.wait()[1]))
"""


def test_a_kill_at_any_place_loses_nothing(taught: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While sources are written, while a window is recorded, before and after the translations are sealed, in the pairs, at the end."""
    monkeypatch.setattr(distillation, "JobSettings", lambda *a, **k: JobSettings(*a, window=7, **k))
    recipe = taught(best=2)
    undisturbed, killed = RunFolder(tmp_path / "undisturbed"), RunFolder(tmp_path / "killed")
    distilled(recipe, undisturbed)
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe.to_yaml(), encoding="utf-8")
    places = ["_append", "window", "write_checksums", "_write_pairs", "map_in_order", "discard"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", KILLED, str(file), str(killed.path), *places]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.stdout.split() == [str(int(signal.SIGKILL))] * len(places), ended.stdout + ended.stderr
    distilled(recipe, killed)
    assert content(killed.distilled) == content(undisturbed.distilled)
    assert not killed.distilling.exists()
    assert not [file for file in killed.path.rglob("*") if "unfinished" in file.name or file.name.endswith(".partial")]


def test_students_of_one_teacher_translate_once(
    taught: MakeRecipe, tmp_path: Path, cache: None, monkeypatch: pytest.MonkeyPatch, teacher: Path
) -> None:
    runs = [RunFolder(tmp_path / name) for name in "abcd"]
    first = distilled(taught(best=2), runs[0])
    monkeypatch.delattr(distillation, "translate_file")
    monkeypatch.setattr("vaswani_transformer.data.cache._code", lambda: {"bpe.py": "a later version"})
    moved = Path(shutil.move(teacher, tmp_path / "elsewhere"))
    write_json(moved / "evaluation.json", {"source_language": "en", "target_language": "de", "test_sets": []})  # it is the same teacher
    other_seed = taught({"seed": 7}, best=2, teacher=str(moved))
    assert distilled(other_seed, runs[1]) == first
    assert len(distilled(taught(best=2, closest=True, teacher=str(moved)), runs[2])) == 60
    with pytest.raises(NameError):  # another search is another translation
        distilled(taught(best=3, teacher=str(moved)), runs[3])


def test_a_student_trains_on_the_pairs_and_resumes_with_them(
    taught: MakeRecipe, run: RunFolder, teacher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = taught({"updates": 4}, best=2)
    assert train(recipe, run)
    data = open_prepared_data(run)
    decoded = [data.tokenizer.decode(data.train.target[i], skip_special_tokens=True) for i in range(len(data.train))]
    facts = read_json(run.cleaning)
    assert facts["kept"] == len(decoded) and facts["pairs_in"] == 120
    said = iter(target.strip() for _, target in pairs_of(run))
    assert len(decoded) > 60 and all(text in said for text in decoded)  # in their order, without what cleaning dropped
    assert facts["distillation"] == read_json(run.distilled / "distillation.json")
    monkeypatch.delattr(distillation, "load_engine")
    shutil.rmtree(teacher)  # its translations are there
    assert train(replace(recipe, training=replace(recipe.training, updates=6)), run)
    with pytest.raises(ValueError, match=r"data\.distillation\.best"):
        train(taught({"updates": 6}), run)


def test_original_pairs_may_be_kept(taught: MakeRecipe, tmp_path: Path, cache: None) -> None:
    alone, mixed = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "mixed")
    distilled(taught(), alone)
    distilled(taught(keep_original=True), mixed)
    assert pairs_of(mixed) == pairs_of(alone)
    kept = len(prepare_data(taught(), alone).train)
    assert len(prepare_data(taught(keep_original=True), mixed).train) == kept + 60


def test_sources_that_cannot_be_translated_are_counted(taught: MakeRecipe, run: RunFolder, tmp_path: Path) -> None:
    pairs = distilled(taught(max_source_tokens=4), run)
    facts = read_json(run.distilled / "distillation.json")
    assert 0 < len(pairs) < 60 and facts["untranslated"] == 60 - len(pairs)
    with pytest.raises(ValueError, match="translated none of 60 training sources"):
        distilled(taught(max_source_tokens=1), RunFolder(tmp_path / "none"))


def test_a_teacher_that_writes_nothing_is_told(taught: MakeRecipe, run: RunFolder, teacher: Path) -> None:
    settings = read_json(teacher / "generation_config.json")
    size = read_json(teacher / "config.json")["vocab_size"]
    silent = [token for token in range(size) if token != settings["eos_token_id"]]
    write_json(teacher / "generation_config.json", {**settings, "suppress_tokens": silent})
    with pytest.raises(ValueError, match="translated none of 60 training sources"):
        distilled(taught(best=2), run)


def test_whoever_trains_chooses_the_micro_batches_and_not_who_translated(taught: MakeRecipe, run: RunFolder) -> None:
    recipe = taught({"updates": 1, "batching": {"micro_batches": None}})
    translate_sources(recipe, run)
    translated = content(run.distilled)
    assert train(replace(recipe, batching=replace(recipe.batching, micro_batches=2)), run)
    assert content(run.distilled) == translated
    assert load_recipe(run.recipe, in_run_folder=True).batching.micro_batches == 2
    translate_sources(recipe, run)  # what the training has chosen stays
    assert load_recipe(run.recipe, in_run_folder=True).batching.micro_batches == 2


def test_a_shortlist_makes_another_teacher_only_where_its_search_uses_it(taught: MakeRecipe, run: RunFolder, teacher: Path) -> None:
    recipe = taught({"updates": 1})
    assert train(recipe, run)
    languages, pairs = ("en", "de"), [SentencePair("The dog.", "Der Hund.", "train.en", 1)]
    make_shortlist(teacher, pairs, languages)
    assert train(replace(recipe, training=replace(recipe.training, updates=2)), run)
    make_shortlist(teacher, pairs, languages, use=["shortlist"])
    with pytest.raises(ValueError, match="is another one than that whose translations"):
        train(recipe, run)


def test_a_teacher_that_changed_translates_again_unless_training_has_begun(
    taught: MakeRecipe, run: RunFolder, teacher: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = taught({"updates": 4})
    before = distilled(recipe, run)
    prepare_data(recipe, run)
    assert "translates again" not in capsys.readouterr().out
    write_teacher(teacher, seed=1)
    assert distilled(recipe, run) != before
    assert f"The teacher {teacher} has changed" in capsys.readouterr().out
    train(recipe, run)
    write_teacher(teacher, seed=2)
    with pytest.raises(ValueError, match="is another one than that whose translations"):
        train(recipe, run)


def test_data_of_another_teacher_are_told_by_no_facts(taught: MakeRecipe, run: RunFolder, teacher: Path, tmp_path: Path) -> None:
    recipe = taught()
    distilled(recipe, run)
    prepare_data(recipe, run)
    write_teacher(teacher, seed=1)
    for folder in (run, RunFolder(tmp_path / "fresh")):
        distilled(recipe, folder)
        prepare_data(recipe, folder)
    assert read_json(run.cleaning) == read_json(tmp_path / "fresh" / "cleaning.json")


def test_a_teacher_that_cannot_be_the_same_is_refused(taught: MakeRecipe, run: RunFolder, teacher: Path, tmp_path: Path) -> None:
    before = distilled(taught(), run)
    with pytest.raises(ValueError, match="nowhere is no folder that could show it is the same one"):
        distilled(taught(teacher=str(tmp_path / "nowhere")), run)
    moved = teacher.rename(tmp_path / "moved")
    assert distilled(taught(teacher=str(moved)), run) == before
    moved.rename(tmp_path / "lost")
    assert distilled(taught(), run) == before  # by its old name; its folder is gone


def test_another_spelling_of_a_folder_that_is_gone_is_the_same_teacher(taught: MakeRecipe, run: RunFolder, teacher: Path) -> None:
    recipe = taught(teacher=f"{teacher}/")
    before = distilled(recipe, run)
    teacher.rename(teacher.with_name("lost"))
    assert distilled(recipe, run) == before


def test_half_of_another_teachers_work_is_not_used(taught: MakeRecipe, run: RunFolder, teacher: Path, tmp_path: Path) -> None:
    recipe = taught()
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(distillation, "_write_pairs")
        with pytest.raises(NameError):
            distilled(recipe, run)
    assert (run.distilling / "translations" / "SHA256SUMS").exists()
    write_teacher(teacher, seed=1)
    assert distilled(recipe, run) == distilled(recipe, RunFolder(tmp_path / "fresh"))


def test_changed_corpora_are_translated_again(taught: MakeRecipe, run: RunFolder, corpus: Path) -> None:
    assert len(distilled(taught(), run)) == 60
    for side in ("en", "de"):
        with open(corpus / f"train.{side}", "a", encoding="utf-8") as stream:
            stream.write("eleven\n")
    assert len(distilled(taught(), run)) == 60  # identical sides are dropped
    with open(corpus / "train.en", "a", encoding="utf-8") as stream:
        stream.write("twelve\n")
    with open(corpus / "train.de", "a", encoding="utf-8") as stream:
        stream.write("zwoelf\n")
    assert distilled(taught(), run)[-1][0] == "twelve"


def test_several_target_languages_have_a_file_each(make_recipe: MakeRecipe, run: RunFolder, tmp_path: Path, corpus: Path) -> None:
    teacher = write_teacher(tmp_path / "of_two", target_languages=("de", "fr"))
    lines = {"format": "lines", "source": "train.en", "target": "train.de"}
    split = {"format": "lines", "source": "validation.en", "target": "validation.de", "target_language": "de"}
    data = {
        "root": str(corpus), "train": [{**lines, "target_language": code} for code in ("de", "fr")], "validation": split, "test": {},
        "distillation": {"teacher": str(teacher)},
    }  # fmt: skip
    recipe = make_recipe(fine={"data": data, "target_language": "mul"})
    german = distilled(recipe, run)
    french = gzip.decompress((run.distilled / "target.en-fr.gz").read_bytes()).decode().split("\n")[:-1]
    model, tokenizer, _ = load_engine(str(teacher))
    for language, found in (("de", [target for _, target in german]), ("fr", french)):
        expected = translate(model, tokenizer, sources_of(corpus), target_language=language)
        assert found == [" ".join(text.splitlines()) for text in expected if text.strip()] and len(found) > 40
    assert prepare_data(recipe, run).train.target_languages == ["de", "fr"]


def test_a_language_without_a_pair_left_is_no_mistake(make_recipe: MakeRecipe, run: RunFolder, tmp_path: Path, corpus: Path) -> None:
    teacher = write_teacher(tmp_path / "of_two", target_languages=("de", "fr"))
    lines = {"format": "lines", "source": "train.en"}
    split = {"format": "lines", "source": "validation.en", "target": "validation.de", "target_language": "de"}
    data = {
        "root": str(corpus), "validation": split, "test": {}, "distillation": {"teacher": str(teacher)},
        "train": [{**lines, "target": "train.de", "target_language": "de"}, {**lines, "target": "train.en", "target_language": "fr"}],
    }  # fmt: skip
    recipe = make_recipe(fine={"data": data, "target_language": "mul"})
    german = distilled(recipe, run)
    model, tokenizer, _ = load_engine(str(teacher))
    expected = translate(model, tokenizer, sources_of(corpus), target_language="de")
    assert len(german) == sum(bool(text.strip()) for text in expected)
    assert 0 < len(prepare_data(recipe, run).train) <= len(german)


def test_a_teacher_may_be_another_encoder_decoder(
    taught: MakeRecipe, run: RunFolder, tmp_path: Path, model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, corpus: Path
) -> None:
    folder = tmp_path / "marian"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    said = [target for _, target in distilled(taught(teacher=str(folder), num_beams=1), run)]
    expected = translate(model, tokenizer, sources_of(corpus), num_beams=1)
    assert said == [" ".join(text.splitlines()) for text in expected] and len(set(said)) > 10


def test_a_teacher_that_is_told_its_languages_by_tokens_is_refused(
    taught: MakeRecipe, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PreTrainedTokenizerFast, "src_lang", "en_XX", raising=False)
    with pytest.raises(ValueError, match="is told its languages by tokens of its own"):
        distilled(taught(), run)


def test_a_rehearsal_tries_the_teacher(taught: MakeRecipe, teacher: Path) -> None:
    found = rehearse(taught({"updates": 3}), updates=2)
    assert found.cleaning["kept"] == 60 and 0 < found.teacher_seconds < 10
    page = describe(replace(found, teacher_seconds=7.0))
    assert f"Before it trains, {teacher} translates the sources: 7 s each on this machine,\n  7 min for 60;" in page
    with pytest.raises(FileNotFoundError, match="neither a folder nor a repository"):
        rehearse(taught({"updates": 3}, teacher="absent"), updates=2)


def test_a_teacher_is_timed_on_sources_of_the_whole_corpus(taught: MakeRecipe, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []
    monkeypatch.setattr(rehearsal, "_TRANSLATED", 3)
    monkeypatch.setattr(rehearsal, "time_teacher", lambda recipe, sources: asked.append(sources) or 2.0)
    assert rehearse(taught({"updates": 3}), updates=2).teacher_seconds == 2.0
    assert asked == [[sources_of(corpus)[number] for number in (0, 29, 59)]]
    with pytest.raises(ValueError, match="translated none of 2 training sources"):
        time_teacher(taught(max_source_tokens=1), SOURCE[:2])


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ({"source_language": "en", "target_language": "fr"}, "translates en into fr, and the recipe en into de"),
        ({"source_language": "de", "target_language": "en"}, "translates de into en, and the recipe en into de"),
        ({"source_language": "en", "target_language": "de-AT"}, None),
    ],
)
def test_a_teacher_of_other_languages_is_refused(
    taught: MakeRecipe, run: RunFolder, teacher: Path, scores: dict[str, str], sentence: str | None
) -> None:
    write_json(teacher / "evaluation.json", {**scores, "test_sets": [{"corpus": {}}]})
    if sentence is None:
        assert distilled(taught(), run)
    else:
        with pytest.raises(ValueError, match=sentence):
            distilled(taught(), run)


def test_a_teacher_of_another_kind_of_text_is_refused(taught: MakeRecipe, run: RunFolder, teacher: Path) -> None:
    learnt = taught()
    tokenized = replace(learnt, data=replace(learnt.data, train=tuple(replace(spec, tokenized=True) for spec in learnt.data.train)))
    RunFolder(teacher.parent).recipe.write_text(tokenized.to_yaml(), encoding="utf-8")
    with pytest.raises(ValueError, match="learnt from text split into tokens, and a training corpus of the recipe is plain text"):
        distilled(taught(), run)
    RunFolder(teacher.parent).recipe.write_text(learnt.to_yaml(), encoding="utf-8")
    assert distilled(taught(), run)


def test_what_is_no_teacher_is_refused(taught: MakeRecipe, run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="neither a folder nor a repository"):
        distilled(taught(teacher=str(tmp_path / "absent")), run)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        distilled(taught(teacher=str(tmp_path / "empty")), RunFolder(tmp_path / "other"))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"best": 3, "num_beams": 2}, "need as many beams"),
        ({"closest": True}, "set `best`"),
        ({"best": 0}, "`best` must be at least 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(taught: MakeRecipe, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        taught(**settings)


def test_the_translations_are_one_json_object_a_line(taught: MakeRecipe, run: RunFolder) -> None:
    """What the cache keeps can be read without this package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(distillation, "_write_pairs")
        with pytest.raises(NameError):
            distilled(taught(best=2), run)
    lines = gzip.decompress((run.distilling / "translations" / "de.jsonl.gz").read_bytes()).decode().splitlines()
    first = json.loads(lines[0])
    assert (first["text"], first["reference"], len(first["translations"])) == ("zero", "null", 2)
