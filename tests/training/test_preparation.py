"""Stages are done once, done again when their input changed, and refuse what does not fit."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from vaswani_transformer import VaswaniConfig, VaswaniForMaskedLM, train_tokenizer
from vaswani_transformer.data.sources.hub import HubCorpus
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.checksums import CHECKSUMS, find_damage
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.recipe import CleaningSettings, Recipe, load_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import preparation
from vaswani_transformer.training.corpora import content_of
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.preparation import claim_run_folder, open_prepared_data, prepare_data, settle_micro_batches, sole_training


def test_what_is_there_is_not_done_again(
    make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare_data(make_recipe(), run)
    for name in ("train_tokenizer", "encode_corpus", "cleaned"):
        monkeypatch.delattr(preparation, name)
    for file in corpus.glob("*.??"):  # prepared data do not need the text they came from
        file.unlink()
    second = prepare_data(make_recipe(), run)
    assert len(first.train) == len(second.train) == 60
    assert second.tokenizer.get_vocab() == first.tokenizer.get_vocab()


def test_a_changed_corpus_is_prepared_anew(make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path) -> None:
    prepare_data(make_recipe(), run)
    for side, word in (("en", "ten"), ("de", "zehn")):
        with open(corpus / f"train.{side}", "a", encoding="utf-8") as stream:
            stream.write(f"{word}\n")
    assert len(prepare_data(make_recipe(), run).train) == 61
    assert read_json(run.cleaning)["kept"] == 61


def test_ranks_that_cannot_share_an_update_are_refused_before_anything_is_written(
    make_recipe: Callable[..., Recipe], run: RunFolder
) -> None:
    recipe = make_recipe({"micro_batches": 4})
    with pytest.raises(ValueError, match=r"3 processes cannot share 4 micro-batches equally.*multiple of 3"):
        claim_run_folder(recipe, run, ranks=3)
    assert not run.recipe.exists()
    claim_run_folder(recipe, run, ranks=2)
    with pytest.raises(ValueError, match="3 processes cannot share"):  # also those that would resume it
        claim_run_folder(recipe, run, ranks=3)


def test_an_interrupted_preparation_goes_on(make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(preparation, "encode_corpus", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare_data(make_recipe(), run)
    assert run.tokenizer.exists()
    assert not run.encoded.exists()
    assert len(prepare_data(make_recipe(), run).train) == 60


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _prepared(run: RunFolder) -> dict[str, bytes]:
    files = [run.cleaning, *run.tokenizer.rglob("*"), *run.encoded.rglob("*")]
    return {str(file.relative_to(run.path)): file.read_bytes() for file in files if file.is_file()}


def test_runs_of_the_same_data_share_one_preparation(
    make_recipe: Callable[..., Recipe], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [RunFolder(tmp_path / f"seed-{seed}") for seed in (1, 2, 3)]
    prepare_data(make_recipe(seed=1), runs[0])
    for name in ("train_tokenizer", "encode_corpus", "cleaned"):
        monkeypatch.delattr(preparation, name)
    for seed in (2, 3):
        prepare_data(make_recipe(seed=seed, updates=seed), runs[seed - 1])
    shutil.rmtree(cache)
    assert _prepared(runs[0]) == _prepared(runs[1]) == _prepared(runs[2])
    assert len(open_prepared_data(runs[2]).train) == 60


def test_a_run_without_the_cache_prepares_the_same(
    make_recipe: Callable[..., Recipe], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [RunFolder(tmp_path / name) for name in "abc"]
    for run, setting in zip(runs, (str(cache), str(cache), "off"), strict=True):
        monkeypatch.setenv("VASWANI_CACHE", setting)
        prepare_data(make_recipe(), run)
    assert _prepared(runs[0]) == _prepared(runs[1]) == _prepared(runs[2])


def test_what_decides_the_content_is_prepared_anew(make_recipe: Callable[..., Recipe], tmp_path: Path, cache: Path, corpus: Path) -> None:
    recipe = make_recipe()
    prepare_data(recipe, RunFolder(tmp_path / "a"))
    fewer = replace(recipe, data=replace(recipe.data, cleaning=CleaningSettings(max_words=2)))
    assert len(prepare_data(fewer, RunFolder(tmp_path / "b")).train) < 60
    larger = replace(recipe, tokenizer=replace(recipe.tokenizer, vocab_size=270))
    assert len(prepare_data(larger, RunFolder(tmp_path / "c")).tokenizer) == 270
    for side, word in (("en", "ten"), ("de", "zehn")):
        with open(corpus / f"train.{side}", "a", encoding="utf-8") as stream:
            stream.write(f"{word}\n")
    assert len(prepare_data(recipe, RunFolder(tmp_path / "d")).train) == 61


def test_a_shorter_limit_takes_the_vocabulary_and_encodes_anew(
    make_recipe: Callable[..., Recipe], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_data(make_recipe(), RunFolder(tmp_path / "a"))
    monkeypatch.delattr(preparation, "train_tokenizer")
    assert len(prepare_data(make_recipe({"max_sentence_tokens": 9}), RunFolder(tmp_path / "b")).train) < 60


def _streaming(recipe: Recipe, corpus: Path) -> Recipe:
    """The same pairs as a data set in `translation` format, streamed."""
    for split in ("train", "validation"):
        sides = [(corpus / f"{split}.{code}").read_text(encoding="utf-8").splitlines() for code in recipe.languages]
        rows = [dict(zip(recipe.languages, pair, strict=True)) for pair in zip(*sides, strict=True)]
        (corpus / "numbers" / "data").mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table({"translation": rows}), corpus / "numbers" / "data" / f"{split}.parquet")
    train, validation = (HubCorpus(path="numbers", split=split, streaming=True) for split in ("train", "validation"))
    return replace(recipe, data=replace(recipe.data, train=(train,), validation=validation))


def test_a_streamed_data_set_trains_like_files_and_is_read_by_one_process(
    make_recipe: Callable[..., Recipe],
    run: RunFolder,
    corpus: Path,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    files = prepare_data(make_recipe(), RunFolder(tmp_path / "files")).train
    recipe = _streaming(make_recipe(), corpus)
    prepare_data(recipe, run)
    monkeypatch.delattr("datasets.load_dataset")
    for data in (open_prepared_data(run), prepare_data(recipe, run)):
        assert [side.tolist() for i in range(60) for side in data.train.pair(i)] == [
            side.tolist() for i in range(60) for side in files.pair(i)
        ]
        assert data.train.where(16) == "numbers train:17"
    assert train(recipe, run)
    assert read_json(run.cleaning)["text_sha256"] == read_json(tmp_path / "files" / "cleaning.json")["text_sha256"]


def test_a_streamed_data_set_says_that_nothing_is_shared(
    make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    prepare_data(make_recipe(), RunFolder(tmp_path / "files"))
    assert "streamed" not in capsys.readouterr().out
    prepare_data(_streaming(make_recipe(), corpus), run)
    assert "A corpus is streamed, so its text is not known beforehand" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["train", "keep"])
def test_where_all_pairs_are_dropped_the_reasons_are_told(
    make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path, tmp_path: Path, method: str
) -> None:
    recipe = make_recipe()
    if method == "keep":
        assert train(recipe, RunFolder(tmp_path / "origin"))
        keep = {"init_from": str(tmp_path / "origin" / "averaged"), "tokenizer": {"method": "keep"}, "model": {}}
        recipe = make_recipe(fine=keep)
    lines = (corpus / "validation.en").read_text(encoding="utf-8") + "one two three four five six\n" * 3 + "\n"
    for side in ("en", "de"):
        (corpus / f"train.{side}").write_text(lines, encoding="utf-8")
    strict = replace(recipe, data=replace(recipe.data, cleaning=CleaningSettings(max_words=5, drop_identical_sides=False)))
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"dropped all 8 training pairs \(1 empty_side, 3 too_long, 4 held_out; also in .*cleaning\.json"
        ):
            prepare_data(strict, run)
        facts = read_json(run.cleaning)
        assert (facts["pairs_in"], facts["kept"], facts["dropped"]["too_long"]) == (8, 0, 3)
        assert facts["file_hashes"]["train"].keys() == {"train.en", "train.de"}


@pytest.mark.parametrize("tokenizer", [{"vocab_size": 280}, {"method": "keep"}, {"method": "extend", "vocab_size": 290}])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("runs/mine", r"mine is the folder of a run; give a model in it: .*mine/averaged\.$"),
        ("runs/begun", "begun is the folder of a run that has no averaged model yet; finish its training first"),
        ("runs/absent/averaged", "absent/averaged is neither a folder nor a repository that the Hub can give us"),
        ("encoder", r"encoder holds an encoder alone \(VaswaniForMaskedLM\), which writes no text"),
    ],
)
def test_a_wrong_folder_to_start_from_is_told_before_anything_is_prepared(
    make_recipe: Callable[..., Recipe], run: RunFolder, tmp_path: Path, name: str, sentence: str, tokenizer: dict[str, Any]
) -> None:
    for begun in ("mine/averaged", "begun"):
        (tmp_path / "runs" / begun).mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "averaged" / "config.json").touch()
    (tmp_path / "runs" / "begun" / "recipe.yaml").touch()
    VaswaniForMaskedLM(VaswaniConfig.from_preset("tiny", vocab_size=259)).save_pretrained(tmp_path / "encoder")
    train_tokenizer(["zero one two"], 259).save_pretrained(tmp_path / "encoder")
    recipe = make_recipe(fine={"init_from": str(tmp_path / name), "tokenizer": tokenizer, "model": {}})
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        prepare_data(recipe, run)
    assert not run.tokenizer.exists() and not run.encoded.exists()


def test_the_report_counts_pairs_that_only_tokens_show_to_be_long(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make_recipe({"max_sentence_tokens": 9})
    kept = len(prepare_data(recipe, run).train)
    report = read_json(run.cleaning)
    assert 0 < kept == report["kept"] < 60
    assert report["dropped"]["too_many_tokens"] == 60 - kept
    assert report["tokenizer"]["vocab_size"] == 280


def test_a_learned_table_of_positions_limits_the_length(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make_recipe()
    positions = {"position_embedding_type": "learned", "max_position_embeddings": 12}
    data = prepare_data(replace(recipe, model={**recipe.model, **positions}), run)
    assert max(data.train.source_lengths.max(), data.train.target_lengths.max()) == 12


def test_settings_that_decide_nothing_so_far_may_change(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    claim_run_folder(make_recipe(), run)
    free = {
        "updates": 99, "log_every": 1, "validate_every": 3, "checkpoint_every": 3, "average_checkpoints": 7, "keep_last_checkpoints": 9,
        "keep_best_checkpoints": 3, "best_checkpoint_metric": "loss", "patience": 3, "trackers": ["wandb"],
        "gradient_checkpointing": True, "compile": True,
    }  # fmt: skip
    claim_run_folder(make_recipe(**free), run)
    assert "updates: 99" in run.recipe.read_text(encoding="utf-8")
    recipe = make_recipe()
    looks = replace(recipe.validation, sentences=2, num_beams=3, batch_tokens=100)
    claim_run_folder(replace(recipe, name="other", validation=looks), run)


def test_what_only_describes_a_corpus_may_change_and_shares_what_was_prepared(
    make_recipe: Callable[..., Recipe], run: RunFolder, tmp_path: Path
) -> None:
    recipe = make_recipe()
    claim_run_folder(recipe, run)
    train = tuple(replace(spec, licence="cc-by-4.0", attribution="Somebody") for spec in recipe.data.train)
    test = {name: replace(spec, remark="A remark.") for name, spec in recipe.data.test.items()}
    described = replace(recipe, data=replace(recipe.data, train=train, test=test, licence="mit"))
    claim_run_folder(described, run)
    assert "attribution: Somebody" in run.recipe.read_text(encoding="utf-8")
    assert content_of(described, {}) == content_of(recipe, {})
    longer = replace(described, data=replace(described.data, train=(replace(train[0], limit=3), *train[1:])))
    with pytest.raises(ValueError, match=r"`data\.train` .*That decides what is computed"):
        claim_run_folder(longer, run)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda recipe: replace(recipe, data=replace(recipe.data, validation=recipe.data.train[0])), r"data\.validation\.source"),
        (lambda recipe: replace(recipe, data=replace(recipe.data, test={"x": recipe.data.validation})), r"data\.test"),
        (lambda recipe: replace(recipe, training=replace(recipe.training, precision="bfloat16")), r"training\.precision"),
        (lambda recipe: replace(recipe, model={**recipe.model, "dropout": 0.2}), r"model\.dropout"),
        (lambda recipe: replace(recipe, tokenizer=replace(recipe.tokenizer, min_frequency=3)), r"tokenizer\.min_frequency"),
    ],
)  # fmt: skip
def test_what_decides_the_outcome_may_not_change(
    make_recipe: Callable[..., Recipe], run: RunFolder, change: Callable[[Recipe], Recipe], named: str
) -> None:
    claim_run_folder(make_recipe(), run)
    with pytest.raises(ValueError, match=rf"`{named}.*That decides what is computed: put it back, choose"):
        claim_run_folder(change(make_recipe()), run)


def test_a_setting_that_is_younger_than_the_run_has_its_default_there(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    claim_run_folder(make_recipe(), run)
    lines = run.recipe.read_text(encoding="utf-8").splitlines(keepends=True)
    write_text(run.recipe, "".join(line for line in lines if "label_smoothing" not in line))
    claim_run_folder(make_recipe(), run)
    with pytest.raises(ValueError, match=r"label_smoothing` \(0\.1 there, 0\.2 now\)"):
        claim_run_folder(make_recipe(label_smoothing=0.2), run)


def test_what_a_crash_left_is_swept_away(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    (run.state / ".update-4.unfinished").mkdir(parents=True)
    claim_run_folder(make_recipe(), run)
    assert not list(run.state.iterdir())


_LOCK = """
import fcntl, sys
stream = open(sys.argv[1], "w")
fcntl.flock(stream, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_training_is_kept_out_until_the_first_is_gone(run: RunFolder) -> None:
    run.path.mkdir()
    command = [sys.executable, "-c", _LOCK, str(run.lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        with (
            pytest.raises(ValueError, match=f"Another process is training in {run.path}"),
            sole_training(run),
        ):
            pass
        other.kill()
    with sole_training(run):
        pass


def test_a_kill_while_old_data_are_removed_does_not_mix_old_and_new(
    make_recipe: Callable[..., Recipe], run: RunFolder, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*arguments: object, **settings: object) -> None:
        raise Killed

    prepare_data(make_recipe(), run)
    for side, letters in (
        ("en", "abcdefgh"),
        ("de", "ijklmnop"),
    ):  # other words, which need another vocabulary
        lines = [f"{letter * 3} {letter * count}\n" for letter in letters for count in range(1, 6)]
        (corpus / f"train.{side}").write_text("".join(lines), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", kill)
        with pytest.raises(Killed):
            prepare_data(make_recipe(), run)
    data = prepare_data(make_recipe(), run)
    fresh = prepare_data(make_recipe(), RunFolder(run.path.with_name("fresh")))
    assert data.tokenizer.get_vocab() == fresh.tokenizer.get_vocab()


def test_every_difference_is_named(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    claim_run_folder(make_recipe(), run)
    other = make_recipe({"micro_batches": 4}, seed=7)
    with pytest.raises(ValueError, match=r"`batching\.micro_batches` \(2 there, 4 now\), `training\.seed` \(1 there, 7 now\)"):
        claim_run_folder(other, run)
    assert "seed: 1" in run.recipe.read_text(encoding="utf-8")


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def _exchange_two_ids(run: RunFolder) -> None:
    path = run.tokenizer / "tokenizer.json"
    tree = read_json(path)
    vocabulary = tree["model"]["vocab"]
    one, other = list(vocabulary)[100:102]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    write_text(path, json.dumps(tree))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda run: _flip(run.encoded / "train" / "target.bin", 40), r"encoded.train.target\.bin"),
        (lambda run: _flip(run.encoded / "validation" / "source.bin", 4), r"encoded.validation.source\.bin"),
        (lambda run: _flip(run.encoded / "train" / "source_offsets.bin", 8), r"encoded.train.source_offsets\.bin"),
        (_exchange_two_ids, r"tokenizer.tokenizer\.json"),
    ],
)
def test_damaged_prepared_data_are_not_trained_on(
    make_recipe: Callable[..., Recipe], run: RunFolder, damage: Callable[[RunFolder], None], named: str
) -> None:
    first = _prepared_by(make_recipe(), run)
    damage(run)
    with pytest.raises(ValueError, match=rf"{named} is damaged: .*, to have it made again, delete .*(tokenizer|train|validation) and run"):
        prepare_data(make_recipe(), run)
    folder = next(path for path in (run.tokenizer, *run.encoded.iterdir()) if find_damage(path))
    shutil.rmtree(folder)
    assert _prepared_by(make_recipe(), run) == first


def _prepared_by(recipe: Recipe, run: RunFolder) -> dict[str, bytes]:
    prepare_data(recipe, run)
    return _prepared(run)


def test_a_run_of_an_earlier_version_goes_on_unverified_and_says_so(
    make_recipe: Callable[..., Recipe], run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare_data(make_recipe(), run)
    for folder in (run.tokenizer, run.encoded / "train", run.encoded / "validation"):
        (folder / CHECKSUMS).unlink()
    prepare_data(make_recipe(), run)
    assert capsys.readouterr().out.count("is used unverified: it has no SHA256SUMS") == 3


def test_a_tokenizer_that_is_made_again_must_be_the_one_that_wrote_the_ids(
    make_recipe: Callable[..., Recipe], run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_data(make_recipe(), run)
    shutil.rmtree(run.tokenizer)
    other = replace(make_recipe(), tokenizer=replace(make_recipe().tokenizer, vocab_size=270))
    with pytest.raises(ValueError, match="was made again and is not the tokenizer that wrote the ids"):
        prepare_data(other, run)


def test_all_validation_pairs_count_however_long(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    """`validation.batch_tokens` is about memory."""
    recipe = make_recipe()
    few = replace(recipe, validation=replace(recipe.validation, batch_tokens=5))
    assert len(prepare_data(few, run).validation) == 4


def test_validation_pairs_beyond_a_learned_table_are_told(
    make_recipe: Callable[..., Recipe], run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe()
    positions = {"position_embedding_type": "learned", "max_position_embeddings": 10}
    left = len(prepare_data(replace(recipe, model={**recipe.model, **positions}), run).validation)
    assert 0 < left < 4
    assert f"{4 - left} pairs of `data.validation` are left out, because one of their sides has more than 10" in capsys.readouterr().out


def test_a_run_keeps_the_micro_batches_it_began_with(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    open_recipe = make_recipe({"micro_batches": None})
    claim_run_folder(open_recipe, run, ranks=4)
    assert load_recipe(run.recipe, in_run_folder=True) == make_recipe({"micro_batches": 4})
    claim_run_folder(open_recipe, run, ranks=1)
    assert settle_micro_batches(open_recipe, run, ranks=1).batching.micro_batches == 4
    with pytest.raises(ValueError, match=r"`batching\.micro_batches` \(4 there, 2 now\)"):
        claim_run_folder(make_recipe({"micro_batches": 2}), run)
