import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from transformers import MarianMTModel, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForMaskedLM, add_mask_token, train_tokenizer
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.evaluation.bleu import score
from vaswani_transformer.evaluation.scores import PublishedScore, evaluate_model, evaluate_run
from vaswani_transformer.files.atomic_file import write_text
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import parse_recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.translation.translate import translate

ROOT = Path(__file__).parents[2]
SOURCES = [f"Sentence {number} of the dogs." for number in range(25)]
REFERENCES = [f"Satz {number} der Hunde." for number in range(25)]


@pytest.fixture
def run(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> RunFolder:
    """A run as training leaves it: an averaged checkpoint, a recipe, a note of what was averaged."""
    run = RunFolder(tmp_path / "run")
    model.float().save_pretrained(run.averaged)
    tokenizer.save_pretrained(run.averaged)
    (tmp_path / "test.en").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "test.de.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(REFERENCES) + "\n")
    lines = {"format": "lines", "source": "test.en", "target": "test.de.gz"}
    recipe = {
        "name": "toy",
        "source_language": "en",
        "target_language": "de",
        "data": {"root": str(tmp_path), "train": [lines], "validation": lines, "test": {"toy_test": lines}},
        "tokenizer": {"vocab_size": 300},
        "training": {"updates": 10},
    }
    write_text(run.recipe, parse_recipe(recipe).to_yaml())
    write_json(run.training, {"averaged_checkpoints": ["step-9", "step-10"]})
    return run


def test_everything_that_is_needed_to_measure_again_is_written(
    run: RunFolder, model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    evaluation = evaluate_run(run, progress=False)
    assert read_json(run.evaluation) == evaluation
    assert not list(run.path.glob(".*"))

    (test_set,) = evaluation["test_sets"]
    assert (test_set["name"], test_set["pairs"]) == ("toy_test", 25)
    assert test_set["source_sha256"] == hashlib.sha256((tmp_path / "test.en").read_bytes()).hexdigest()
    unpacked = gzip.decompress((tmp_path / "test.de.gz").read_bytes())
    assert test_set["reference_sha256"] == hashlib.sha256(unpacked).hexdigest()

    translations = translate(model, tokenizer, SOURCES)
    expected = score(translations, REFERENCES, target_language="de", tokenized=False)
    assert test_set["metrics"] == {name: result._asdict() for name, result in expected.items()}
    # ten of 25, first and last among them, 24/9 apart: 0 2.67 5.33 8 10.67 13.33 16 18.67 21.33 24
    spread = [0, 3, 5, 8, 11, 13, 16, 19, 21, 24]
    assert [sample["source"] for sample in test_set["samples"]] == [SOURCES[i] for i in spread]
    assert [sample["translation"] for sample in test_set["samples"]] == [translations[i] for i in spread]

    weights = (run.averaged / "model.safetensors").read_bytes()
    assert evaluation["weights_sha256"] == {"model.safetensors": hashlib.sha256(weights).hexdigest()}
    assert evaluation["averaged_checkpoints"] == ["step-9", "step-10"]
    assert evaluation["decoding"]["num_beams"] == 2
    assert evaluation["date"].endswith("+00:00")
    assert {"python", "torch", "transformers", "tokenizers", "sacrebleu"} <= evaluation["versions"].keys()


def test_settings_of_the_call_override_the_checkpoint_and_are_recorded(run: RunFolder) -> None:
    evaluation = evaluate_run(run, progress=False, num_beams=1, max_new_tokens=3)
    assert (evaluation["decoding"]["num_beams"], evaluation["decoding"]["max_new_tokens"]) == (1, 3)
    assert all(len(sample["translation"].split()) <= 3 for sample in evaluation["test_sets"][0]["samples"])


def test_published_scores_stand_beside_their_test_set(run: RunFolder) -> None:
    peer = PublishedScore("toy_test", "Somebody et al.", "sacrebleu", 41.02)
    evaluation = evaluate_run(run, progress=False, published=[peer])
    assert evaluation["test_sets"][0]["published"] == [peer._asdict()]
    with pytest.raises(ValueError, match="'other', which is not among toy_test"):
        evaluate_run(run, progress=False, published=[peer._replace(test_set="other")])
    with pytest.raises(ValueError, match="in BLEU, which is not among sacrebleu"):
        evaluate_run(run, progress=False, published=[peer._replace(metric="BLEU")])


def test_a_failed_evaluation_leaves_the_old_one(run: RunFolder, tmp_path: Path) -> None:
    write_json(run.evaluation, {"old": True})
    (tmp_path / "test.en").write_text("one line only\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"test\.en"):
        evaluate_run(run, progress=False)
    assert read_json(run.evaluation) == {"old": True}


def test_what_does_not_fit_is_refused_in_a_sentence(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="finish the training"):
        evaluate_run(RunFolder(tmp_path / "nothing"))
    nothing = LinesCorpus(source="nowhere.en", target="nowhere.de")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.en"):
        evaluate_model("somebody/absent", {"toy": nothing}, languages=("en", "de"), root=tmp_path)

    (tmp_path / "test.en").write_text("A man reads.\n", encoding="utf-8")
    for absent in ("somebody/absent", "no such/place/at all"):
        with pytest.raises(FileNotFoundError, match="neither a folder nor a repository"):
            evaluate_model(absent, {}, languages=("en", "de"))

    model.resize_token_embeddings(200)
    model.save_pretrained(tmp_path / "small")
    tokenizer.save_pretrained(tmp_path / "small")
    files = LinesCorpus(source="test.en", target="test.en")
    with pytest.raises(ValueError, match="they do not belong together"):
        evaluate_model(tmp_path / "small", {"toy": files}, languages=("en", "de"), root=tmp_path)


def test_samples_of_a_pretraining_hold_masks_and_no_control_tokens(tmp_path: Path) -> None:
    run, tokenizer = RunFolder(tmp_path / "run"), add_mask_token(train_tokenizer(SOURCES, 270))
    sizes = {"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    VaswaniForMaskedLM(VaswaniConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(run.averaged)
    tokenizer.save_pretrained(run.averaged)
    (tmp_path / "texts.en").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    texts = {"format": "plain_lines", "path": "texts.en"}
    recipe = parse_recipe({
        "name": "toy", "task": "pretraining", "source_language": "en", "noise": {"kind": "masking", "share": 0.3},
        "data": {"root": str(tmp_path), "train": [texts], "validation": texts, "test": {"toy": texts}},
        "tokenizer": {"vocab_size": 270}, "training": {"updates": 1},
    })  # fmt: skip
    samples = evaluate_run(run, recipe, progress=False)["test_sets"][0]["samples"]
    assert all("</s>" not in sample["source"] for sample in samples) and any("<mask>" in sample["source"] for sample in samples)


def test_the_command_scores_any_model_on_any_files(run: RunFolder, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "vaswani_transformer", "evaluate", str(run.averaged), "--source", str(tmp_path / "test.en"), "--reference",
        str(tmp_path / "test.de.gz"), "--num-beams", "1", "--lowercase", "--output", str(tmp_path / "scores.json"),
    ]  # fmt: skip
    process = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    written = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert "case:lc" in process.stdout and "paper_bleu" in process.stdout
    assert written["decoding"]["num_beams"] == 1
    assert written["command"].startswith("vaswani evaluate ")


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}


def test_a_recipe_without_test_sets_is_measured_on_its_validation_corpora(run: RunFolder) -> None:
    assert evaluate_run(run, progress=False)["on_validation"] is False
    recipe = yaml.safe_load(run.recipe.read_text(encoding="utf-8"))
    validation = recipe["data"]["validation"]
    languages = [validation | {"target_language": language} for language in ("de", "fr")]
    recipe["data"] |= {"test": {}, "train": languages, "validation": [*languages, languages[0]]}
    write_text(run.recipe, yaml.safe_dump(recipe))
    evaluation = evaluate_run(run, progress=False)
    assert evaluation["on_validation"] is True
    assert [test_set["name"] for test_set in evaluation["test_sets"]] == ["validation_1_de", "validation_2_fr", "validation_3_de"]
