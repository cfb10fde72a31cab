"""A shortlist is learned from the model's own pairs, measured, and put beside the weights whole or not at all."""

import shutil
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data import shortlisting
from vaswani_transformer.data.encoding import encode_corpus
from vaswani_transformer.data.shortlisting import Coverage, coverage, make_shortlist, save_shortlist
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.files.checksums import verify, write_checksums
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.shortlist import SHORTLIST_FILE, Shortlist

PAIRS = [SentencePair(source, target, "train.en", i) for i, (source, target) in enumerate(
    [("A man reads.", "Yes."), ("The house is old.", "The dogs that the man sees are running.")] * 2, start=1
)]  # fmt: skip
RECIPE = """
name: run
source_language: en
target_language: de
data:
  train: [{format: lines, source: train.en, target: train.de}]
  validation: {format: lines, source: train.en, target: train.de}
  test: {}
tokenizer: {vocab_size: 300}
training: {updates: 1}
model: {preset: tiny}
batching: {target_tokens: 100}
"""


@pytest.fixture
def run(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.recipe.write_text(RECIPE, encoding="utf-8")
    torch.manual_seed(0)
    config = VaswaniConfig.from_preset("tiny", vocab_size=len(tokenizer), encoder_layers=1, decoder_layers=1)
    VaswaniForConditionalGeneration(config).save_pretrained(run.averaged)
    tokenizer.save_pretrained(run.averaged)
    write_checksums(run.averaged)
    for split in ("train", "validation"):
        encode_corpus(PAIRS, tokenizer, run.encoded / split, max_tokens=100)
    return run


def test_a_run_has_its_own_pairs(run: RunFolder, tokenizer: PreTrainedTokenizerBase) -> None:
    covered = make_shortlist(run.path)
    assert covered is not None
    assert (covered.tokens, covered.sentences) == (1.0, 1.0)  # what it was learned from, and room for all of it
    verify(run.averaged)
    found = Shortlist.read(run.averaged / SHORTLIST_FILE)
    assert (found.facts["source_language"], found.facts["target_language"], found.facts["sentence_pairs"]) == ("en", "de", "4")
    assert "shortlist" not in read_json(run.averaged / "generation_config.json")
    word, end = tokenizer("reads")["input_ids"][0], 2
    assert found.listed[word, 0] == word  # names can be copied
    assert end in found.frequent
    assert (found.listed[[0, 1, 2], 0] == -1).all()  # nothing copies control tokens


def test_files_give_the_same(run: RunFolder) -> None:
    make_shortlist(run.path)
    of_run = Shortlist.read(run.averaged / SHORTLIST_FILE)
    assert make_shortlist(run.averaged, PAIRS, ("en", "de"), use=["shortlist"]) is None
    of_files = Shortlist.read(run.averaged / SHORTLIST_FILE)
    assert torch.equal(of_run.listed, of_files.listed)
    assert torch.equal(of_run.frequent, of_files.frequent)
    assert of_run.facts == of_files.facts
    assert read_json(run.averaged / "generation_config.json")["shortlist"] is True
    verify(run.averaged)
    assert VaswaniForConditionalGeneration.from_pretrained(run.averaged).generation_config.shortlist is True


def test_the_rest_of_the_folder_stays(run: RunFolder) -> None:
    for name in (".git/HEAD", "onnx/model.onnx"):
        (run.averaged / name).parent.mkdir()
        (run.averaged / name).write_text(name)
    make_shortlist(run.averaged, PAIRS, ("en", "de"), use=["shortlist"])
    assert [(run.averaged / name).read_text() for name in (".git/HEAD", "onnx/model.onnx")] == [".git/HEAD", "onnx/model.onnx"]


def test_a_run_of_several_target_languages_names_them_all(run: RunFolder) -> None:
    lines = "{format: lines, source: train.en, target: train.de, target_language: %s}"
    text = RECIPE.replace("target_language: de", "target_language: mul")
    text = text.replace("[{format: lines, source: train.en, target: train.de}]", f"[{lines % 'fr'}, {lines % 'de'}]")
    text = text.replace("validation: {format: lines, source: train.en, target: train.de}", f"validation: {lines % 'de'}")
    run.recipe.write_text(text, encoding="utf-8")
    make_shortlist(run.path)
    own = Shortlist.read(run.averaged / SHORTLIST_FILE)
    for language in ("de", "fr"):
        own.check_languages("en", language)
    with pytest.raises(ValueError, match=r"from en into (de fr|fr de), not for cs"):
        own.check_languages("en", "cs")


def test_coverage_by_hand() -> None:
    shortlist = Shortlist(torch.tensor([[-1], [5], [6]]), torch.tensor([2]), 9)
    # The first may say 2 and 5, the second 2, 5 and 6; of the six tokens, the 6 and the 8 of the first are missing.
    assert coverage(shortlist, [[1], [1, 2]], [[5, 6, 8, 2], [6, 2]]) == Coverage(4 / 6, 1 / 2, 2.5)


def test_a_crash_leaves_the_folder_as_it_was(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file.name: file.read_bytes() for file in run.averaged.iterdir()}

    def crash(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shortlisting, "write_checksums", crash)
    with pytest.raises(KeyboardInterrupt):
        save_shortlist(run.averaged, Shortlist(torch.tensor([[1]]), torch.tensor([1]), 2), use=["shortlist"])
    assert {file.name: file.read_bytes() for file in run.averaged.iterdir()} == before


def test_a_pair_with_an_empty_side_is_none(run: RunFolder) -> None:
    blank = [SentencePair("", "", "train.en", 5), SentencePair("A man.", " ", "train.en", 6)]
    make_shortlist(run.averaged, [*PAIRS, *blank], ("en", "de"))
    assert Shortlist.read(run.averaged / SHORTLIST_FILE).facts["sentence_pairs"] == "4"
    before = (run.averaged / SHORTLIST_FILE).read_bytes()
    with pytest.raises(ValueError, match="no sentence pair with text on both sides"):
        make_shortlist(run.averaged, blank, ("en", "de"))
    assert (run.averaged / SHORTLIST_FILE).read_bytes() == before


def test_what_cannot_be_learned_is_refused(run: RunFolder, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ValueError, match="best = 0"):
        make_shortlist(run.path, best=0)
    (run.encoded / "train" / "index.json").write_text(
        (run.encoded / "train" / "index.json").read_text(encoding="utf-8").replace('"tokenizer_hash": "', '"tokenizer_hash": "0'),
        encoding="utf-8",
    )
    with pytest.raises(ValueError, match="encoded by another tokenizer"):
        make_shortlist(run.path)
    shutil.rmtree(run.encoded)
    with pytest.raises(FileNotFoundError, match="is gone, which holds the pairs"):
        make_shortlist(run.path)
    shutil.rmtree(run.averaged)
    with pytest.raises(FileNotFoundError, match="There is no averaged checkpoint"):
        make_shortlist(run.path)
