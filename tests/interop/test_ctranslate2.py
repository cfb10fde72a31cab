import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, GenerationConfig, pipeline

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.translation.translate import translate

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
from vaswani_transformer.interop.ctranslate2 import CTranslate2Model, int8_overflows
from vaswani_transformer.interop.ctranslate2_export import export_ctranslate2

Saved = Callable[..., tuple[Path, VaswaniForConditionalGeneration]]
Batch = dict[str, torch.Tensor]

VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "concatenated": {"sinusoidal_layout": "concatenated"},
    "tensor2tensor": {"sinusoidal_layout": "tensor2tensor", "position_offset": 2},
    "learned": {"position_embedding_type": "learned", "max_position_embeddings": 60, "position_offset": 1},
    "three embeddings": {"tie_word_embeddings": False},
    "embeddings as they are": {"scale_embedding": False, "layer_norm_eps": 1e-3},
    "biases, gelu": {"attention_bias": True, "activation_function": "gelu"},
    "unscaled": {"attention_score": "dot_product", "attention_bias": True},
    "narrow heads": {"head_dim": 4},
    "narrow keys": {"head_dim": 4, "value_head_dim": 8, "attention_bias": True},
    "narrow values": {"head_dim": 16, "value_head_dim": 8},
    "one head": {"encoder_attention_heads": 1, "decoder_attention_heads": 1},
    "stacks that differ": {
        "encoder_layers": 1,
        "decoder_layers": 3,
        "encoder_attention_heads": 2,
        "head_dim": 8,
    },
    "ids to spare": {"vocab_size": 310},
}


def load(folder: Path) -> CTranslate2Model:
    return CTranslate2Model.from_pretrained(folder, device="cpu", intra_threads=1)


@pytest.fixture
def pair(saved: Saved, tmp_path: Path) -> tuple[VaswaniForConditionalGeneration, CTranslate2Model]:
    """A model, and its export."""
    folder, model = saved()
    return model, load(export_ctranslate2(folder, tmp_path / "out"))


def sources(batch: Batch) -> list[list[int]]:
    return [row[kept.bool()].tolist() for row, kept in zip(*batch.values(), strict=True)]


def tokens(sequences: torch.Tensor) -> list[list[int]]:
    """Without what stands behind the end, which Hugging Face fills in its own way."""
    rows = [row[: row.index(2) + 1] if 2 in row else row for row in sequences.tolist()]
    return [[token for token in row if token != 0] for row in rows]


def log_probabilities(model: VaswaniForConditionalGeneration, batch: Batch, target: torch.Tensor) -> torch.Tensor:
    """Of each token of `target` `[B, T]` behind the start token, `[B, T]`, as PyTorch computes them."""
    start = torch.full((len(target), 1), 1)
    with torch.no_grad():
        scores = model(**batch, decoder_input_ids=torch.cat((start, target[:, :-1]), 1)).logits
    return scores.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)


def scored(engine: CTranslate2Model, batch: Batch, target: torch.Tensor) -> torch.Tensor:
    """The same as the engine computes them; it scores the end too, which is left out."""
    names = [[[engine.target_names[token] for token in row] for row in rows] for rows in (sources(batch), target.tolist())]
    return torch.tensor([result.log_probs[: target.shape[1]] for result in engine.engine.score_batch(*names)])


@pytest.fixture
def target() -> torch.Tensor:
    """40 translations of 9 random tokens."""
    return torch.randint(3, 290, (40, 9), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_the_engine_computes_the_same(settings: dict[str, Any], saved: Saved, tmp_path: Path, batch: Batch, target: torch.Tensor) -> None:
    folder, model = saved(**settings)
    engine = load(export_ctranslate2(folder, tmp_path / "out"))
    theirs = scored(engine, batch, target)
    torch.testing.assert_close(theirs, log_probabilities(model, batch, target), atol=1e-4, rtol=1e-5)
    assert tokens(engine.generate(**batch, num_beams=1)) == tokens(model.generate(**batch, num_beams=1))


GREEDY_AS_OURS: list[dict[str, Any]] = [
    {},
    {"max_new_tokens": 5},
    {"max_length": 6},
    {"extra_length": 3},
    {"extra_length": None},
    {"min_new_tokens": 8},
    {"min_length": 8},
    {"no_repeat_ngram_size": 2},
    {"repetition_penalty": 1.5},
    {"eos_token_id": [2, 40, 41]},
    {"bad_words_ids": [[2], [50], [60, 61]]},
]


@pytest.mark.parametrize("settings", GREEDY_AS_OURS, ids=str)
def test_greedy_search_is_ours(
    settings: dict[str, Any],
    pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model],
    batch: Batch,
) -> None:
    model, engine = pair
    theirs = engine.generate(**batch, num_beams=1, **settings)
    assert tokens(theirs) == tokens(model.generate(**batch, num_beams=1, **settings))
    assert theirs.dtype == torch.long and (theirs[:, 0] == 1).all()


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_with_early_stopping_beam_search_is_hugging_faces(
    penalty: float,
    wanted: int,
    pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model],
    batch: Batch,
) -> None:
    model, engine = pair
    settings = {
        "num_beams": 4,
        "num_return_sequences": wanted,
        "length_penalty_type": None,
        "length_penalty": penalty,
        "early_stopping": True,
        "max_new_tokens": 12,
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    ours, theirs = model.generate(**batch, **settings), engine.generate(**batch, **settings)
    assert tokens(theirs.sequences) == tokens(ours.sequences)
    torch.testing.assert_close(theirs.sequences_scores, ours.sequences_scores, atol=1e-4, rtol=1e-5)


def test_gnmt_search_ranks_by_the_papers_formula_and_never_beats_ours(
    pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model], batch: Batch
) -> None:
    model, engine = pair
    settings: dict[str, Any] = {"num_beams": 4, "return_dict_in_generate": True}
    ours, theirs = model.generate(**batch, **settings), engine.generate(**batch, **settings)
    same = [mine == its for mine, its in zip(tokens(ours.sequences), tokens(theirs.sequences), strict=True)]
    # A random model ends where no beam would, which the engine passes over; a trained one hardly ever does.
    assert sum(same) >= 30
    assert (theirs.sequences_scores <= ours.sequences_scores + 1e-4).all()
    assert (theirs.sequences_scores - ours.sequences_scores)[torch.tensor(same)].abs().max() < 1e-4
    target = theirs.sequences[:, 1:]
    real = (target != 0).double()
    summed = (log_probabilities(model, batch, target) * real).sum(1)
    expected = summed / ((5 + real.sum(1)) / 6) ** 0.6
    torch.testing.assert_close(theirs.sequences_scores.double(), expected, atol=1e-4, rtol=1e-4)


def test_n_best_come_best_first(pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model], batch: Batch) -> None:
    _, engine = pair
    found = engine.generate(**batch, num_return_sequences=4, return_dict_in_generate=True, output_scores=True)
    ended = torch.tensor([2 in row for row in found.sequences.tolist()]).view(40, 4)
    scores = found.sequences_scores.view(40, 4)
    for row, row_ended in zip(scores.tolist(), ended.tolist(), strict=True):
        ranked = list(zip(row_ended, row, strict=True))
        assert ranked == sorted(ranked, reverse=True)
    assert len(set(map(tuple, tokens(found.sequences)[:4]))) == 4


@pytest.mark.parametrize("beams", [1, 4])
def test_a_sentence_is_translated_alone_as_in_any_batch(
    beams: int, pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model], batch: Batch
) -> None:
    _, engine = pair
    settings = {"num_beams": beams, "extra_length": 1}
    together = tokens(engine.generate(**batch, **settings))
    rows = sources(batch)
    alone = [tokens(engine.generate(torch.tensor([row]), **settings))[0] for row in rows]
    assert together == alone
    assert all(len(found) - 1 <= len(row) + 1 for found, row in zip(together, rows, strict=True))
    left = [torch.tensor([0] * (12 - len(row)) + row) for row in rows]
    assert tokens(engine.generate(input_ids=torch.stack(left), **settings)) == together


REFUSED: list[dict[str, Any]] = [
    {"do_sample": True, "num_beams": 1},
    {"forced_bos_token_id": 3},
    {"sequence_bias": [[[3], 1.0]]},
    {"suppress_tokens": [5]},
    {"decoder_start_token_id": 2},
    {"output_attentions": True},
    {"decoder_input_ids": torch.tensor([[1, 5]])},
    {"streamer": object()},
    {"beam_width": 3},
]


@pytest.mark.parametrize("settings", REFUSED, ids=lambda settings: next(iter(settings)))
def test_what_the_engine_cannot_follow_is_refused_by_name(
    settings: dict[str, Any], pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model], batch: Batch
) -> None:
    _, engine = pair
    with pytest.raises(ValueError, match=f"cannot search with .*{next(iter(settings))}="):
        engine.generate(**batch, **settings)


def test_other_mistakes_get_a_sentence(pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model], batch: Batch) -> None:
    _, engine = pair
    with pytest.raises(ValueError, match="got no source"):
        engine.generate()
    with pytest.raises(ValueError, match="leaves no room"):
        engine.generate(**batch, max_length=1)
    with pytest.raises(ValueError, match="token id 9999"):
        engine.generate(torch.tensor([[9999, 2]]))
    with pytest.raises(ValueError, match="has 5000 tokens, and this model has positions for 4096"):
        engine.generate(torch.full((1, 5000), 7))
    with pytest.raises(ValueError, match="length_penalty_type is 'wu'"):
        engine.generate(**batch, length_penalty_type="wu")
    with pytest.raises(ValueError, match="cannot be trained"):
        engine.train()


def test_settings_may_come_as_a_configuration(pair: tuple[VaswaniForConditionalGeneration, CTranslate2Model], batch: Batch) -> None:
    _, engine = pair
    given = GenerationConfig(num_beams=1, max_new_tokens=4)
    assert engine.generate(**batch, generation_config=given).shape[1] <= 5


@pytest.mark.parametrize(("quantization", "most"), [("int8", 0.5), ("int8_float32", 0.5), ("float16", 0.02), ("bfloat16", 0.15)])
def test_smaller_weights_stay_near(
    quantization: str, most: float, saved: Saved, tmp_path: Path, batch: Batch, target: torch.Tensor
) -> None:
    folder, model = saved()
    whole, small = (export_ctranslate2(folder, tmp_path / str(kind), kind) for kind in (None, quantization))
    assert (small / "model.bin").stat().st_size < 0.85 * (whole / "model.bin").stat().st_size
    overflows = quantization.startswith("int8") and int8_overflows()
    with pytest.warns(UserWarning, match="overflow on this processor") if overflows else nullcontext():
        engine = load(small)  # where this machine cannot compute in it, in float32
    off = (scored(engine, batch, target) - log_probabilities(model, batch, target)).abs().max()
    assert off > 1e-4
    assert off < most or overflows


@pytest.mark.parametrize(
    ("processor", "variable", "saturates", "overflows"),
    [
        ("AMD EPYC", None, True, True),
        ("AMD EPYC", None, False, False),
        ("AMD EPYC", "0", True, True),
        ("AMD EPYC", "1", True, False),
        ("Intel(R) Xeon(R)", None, True, False),  # takes MKL by itself
    ],
)
def test_int8_overflows_by_onednn_without_vnni(
    processor: str, variable: str | None, saturates: bool, overflows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaswani_transformer.interop.ctranslate2.hardware", lambda *_: {"cpu": processor})
    monkeypatch.setattr("vaswani_transformer.interop.ctranslate2.int8_saturates", lambda: saturates)
    monkeypatch.delenv("CT2_USE_MKL", raising=False)
    if variable is not None:
        monkeypatch.setenv("CT2_USE_MKL", variable)
    assert int8_overflows() is overflows


def test_a_precision_that_the_device_lacks_is_named(saved: Saved, tmp_path: Path) -> None:
    import ctranslate2

    folder, _ = saved()
    out = export_ctranslate2(folder, tmp_path / "out", "bfloat16")
    if "bfloat16" in ctranslate2.get_supported_compute_types("cpu"):
        pytest.skip("this CPU computes in bfloat16")
    with pytest.raises(ValueError, match="bfloat16"):
        CTranslate2Model.from_pretrained(out, device="cpu", compute_type="bfloat16")


def test_pipeline_and_translate_take_it_as_it_is(saved: Saved, tmp_path: Path, sentences: list[str]) -> None:
    folder, model = saved()
    out = export_ctranslate2(folder, tmp_path / "out")
    engine, tokenizer = load(out), AutoTokenizer.from_pretrained(out)
    expected = translate(model, tokenizer, sentences, num_beams=1)
    assert translate(engine, tokenizer, sentences, num_beams=1) == expected
    translator = pipeline("translation", model=engine, tokenizer=tokenizer)
    found = translator(sentences, batch_size=3, num_beams=1)
    assert [record["translation_text"] for record in found] == expected
    assert len(translator("The house is old.", num_return_sequences=2, num_beams=4)) == 2


def test_the_folder_is_all_that_is_needed(saved: Saved, tmp_path: Path) -> None:
    folder, model = saved()
    out = export_ctranslate2(folder, tmp_path / "out")
    assert {file.name for file in out.iterdir()} == {
        *("model.bin", "config.json", "shared_vocabulary.json", "generation_config.json"),
        *("tokenizer.json", "tokenizer_config.json"),
    }
    config = json.loads((out / "config.json").read_text())
    assert not {"auto_map", "custom_pipelines", "_name_or_path"} & config.keys()
    assert config["decoder_start_token"] == "<s>" and config["eos_token"] == "</s>"
    engine = load(out)
    assert engine.generation_config.length_penalty_type == "gnmt"
    assert engine.config.d_model == model.config.d_model


def test_what_is_no_export_is_refused(saved: Saved, tmp_path: Path) -> None:
    folder, _ = saved()
    with pytest.raises(FileNotFoundError, match=r"model\.bin is missing; make one with vaswani export"):
        load(folder)
    with pytest.raises(ValueError, match="no quantization 'int4'; choose one of int8,"):
        export_ctranslate2(folder, tmp_path / "out", "int4")
    other, _ = saved(activation_function="mish")
    with pytest.raises(ValueError, match="no activation function 'mish', only relu,"):
        export_ctranslate2(other, tmp_path / "out")
    near, _ = saved(attention_window=4)
    with pytest.raises(ValueError, match=r"CTranslate2 has no self-attention within a window of 4 positions, .* use it with this package"):
        export_ctranslate2(near, tmp_path / "out")
    assert not (tmp_path / "out").exists()
