"""Marian models of random weights with sentencepiece tokenizers, through files, as ours."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

from tests.conftest import BEAM_SEARCH_KNOWS_TARGETS
from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.interop.conversion import convert_marian
from vaswani_transformer.interop.marian import export_marian

sentencepiece = pytest.importorskip("sentencepiece", reason="the extra `marian` is not installed")

Tokens = list[list[int]]
Save = Callable[..., Path]


@pytest.fixture(scope="session")
def pieces() -> dict[str, tuple[bytes, list[str]]]:
    """Of each language a sentencepiece model and its entries."""
    trained = {}
    sides = zip(*builtin_pairs("train", 1000), strict=True)
    for name, texts, size in zip(("source", "target"), sides, (160, 180), strict=True):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=model, vocab_size=size, bos_id=-1, minloglevel=2, num_threads=1
        )  # fmt: skip
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        trained[name] = (model.getvalue(), [processor.id_to_piece(i) for i in range(size)])
    return trained


@pytest.fixture
def marian(tmp_path: Path, pieces: dict[str, tuple[bytes, list[str]]]) -> Save:
    """Save a Marian model as OPUS-MT's are, and return its folder."""

    def save(separate: bool = False, **settings: Any) -> Path:
        folder = tmp_path / "marian"
        folder.mkdir()
        lists = [pieces["source"][1], pieces["target"][1]]
        vocabularies = []
        for names in lists if separate else [[*lists[0], *lists[1]]]:
            names = list(dict.fromkeys(["</s>", "<unk>", "<pad>", *names]))
            vocabularies.append({name: number for number, name in enumerate(names)})
        files = {}
        for name, vocabulary in zip(("vocab", "target_vocab"), vocabularies, strict=False):
            files["vocab" if name == "vocab" else "target_vocab_file"] = str(folder / f"{name}.json")
            (folder / f"{name}.json").write_text(json.dumps(vocabulary))
        for name in ("source", "target"):
            (folder / f"{name}.spm").write_bytes(pieces[name][0])
            files[f"{name}_spm"] = str(folder / f"{name}.spm")
        MarianTokenizer(**files, source_lang="en", target_lang="de", separate_vocabs=separate).save_pretrained(folder)
        torch.manual_seed(3)
        config = MarianConfig(
            vocab_size=len(vocabularies[0]), decoder_vocab_size=len(vocabularies[-1]), share_encoder_decoder_embeddings=not separate,
            d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
            decoder_ffn_dim=40, activation_function="swish", scale_embedding=True, max_position_embeddings=128, init_std=0.3,
            pad_token_id=2, eos_token_id=0, decoder_start_token_id=2, forced_eos_token_id=0, **settings,
        )  # fmt: skip
        model = MarianMTModel(config).eval()
        torch.nn.init.normal_(model.final_logits_bias, std=2.0)
        with torch.no_grad():
            model.final_logits_bias[0, 0] = 7.0  # the end within reach
        model.generation_config = GenerationConfig(
            num_beams=4, max_length=40, bad_words_ids=[[2]], forced_eos_token_id=0,
            decoder_start_token_id=2, pad_token_id=2, eos_token_id=0,
        )  # fmt: skip
        model.save_pretrained(folder)
        (folder / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# Somebody's model\n")
        return folder

    return save


VARIANTS: dict[str, dict[str, Any]] = {
    "one vocabulary": {},
    "two vocabularies": {"separate": True},
    "three embeddings": {"tie_word_embeddings": False},
    "two vocabularies, three embeddings": {"separate": True, "tie_word_embeddings": False},
}


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_the_same_tokens_and_logits_for_100_sentences(settings: dict[str, Any], marian: Save, tmp_path: Path) -> None:
    if settings.get("separate") and not BEAM_SEARCH_KNOWS_TARGETS:
        pytest.skip("MarianMTModel itself cannot search with beams here: this transformers counts the source's vocabulary")
    folder = marian(**settings)
    out = convert_marian(folder, tmp_path / "out")
    theirs, tokenizer = MarianMTModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(out)
    ours, loading = VaswaniForConditionalGeneration.from_pretrained(out, output_loading_info=True)
    assert type(tokenizer) is MarianTokenizer and not any(loading.values())
    texts = [source for source, _ in builtin_pairs("test", 100)]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    assert batch["input_ids"].equal(MarianTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")["input_ids"])
    lengths = set()
    for search in ({"num_beams": 1}, {}, {"early_stopping": True, "length_penalty": 1.3}):
        translated = ours.generate(**batch, **search)
        assert translated.equal(theirs.generate(**batch, **search))
        lengths |= {int((row == 0).long().argmax()) for row in translated}
    assert len(lengths) > 3  # not one constant answer
    with torch.no_grad():
        logits = [each(**batch, decoder_input_ids=translated).logits for each in (ours, theirs)]
    torch.testing.assert_close(*logits, atol=1e-5, rtol=0)


def test_the_card_names_origin_and_licence(marian: Save, tmp_path: Path) -> None:
    card = (convert_marian(marian(), tmp_path / "out") / "README.md").read_text()
    assert "\nlicense: cc-by-4.0\n" in card and "**Origin:** marian\n" in card and "en → de" in card
    assert "compared with `MarianMTModel` itself on 8 sentences" in card and str(tmp_path) not in card
    card = convert_marian(tmp_path / "marian", tmp_path / "own", origin="a paper", licence="mit") / "README.md"
    assert "\nlicense: mit\n" in card.read_text() and "**Origin:** a paper\n" in card.read_text()


@pytest.mark.parametrize("separate", [False, True])
def test_there_and_back_is_the_same_model(separate: bool, marian: Save, tmp_path: Path) -> None:
    if separate and not BEAM_SEARCH_KNOWS_TARGETS:
        pytest.skip("MarianMTModel itself cannot search with beams here: this transformers counts the source's vocabulary")
    folder = marian(separate)
    back = export_marian(convert_marian(folder, tmp_path / "out"), tmp_path / "back")
    models = [MarianMTModel.from_pretrained(each) for each in (folder, back)]
    for name, tensor in models[0].named_parameters():
        if "embed_positions" not in name:  # a longer table of the same sinusoids
            torch.testing.assert_close(models[1].state_dict()[name], tensor.data, atol=1e-7, rtol=0)
    assert models[1].final_logits_bias.equal(models[0].final_logits_bias)


def test_weights_of_torch_save_do_as_well(marian: Save, tmp_path: Path) -> None:
    folder = marian()
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert (convert_marian(folder, tmp_path / "out") / "model.safetensors").is_file()


class Bomb:
    """An object whose unpickling would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def changed_weights(**tensors: torch.Tensor | None) -> Callable[[Path], None]:
    """Put tensors in, or with `None` take them out; in their names, `__` stands for a dot."""

    def apply(folder: Path) -> None:
        weights: dict[str, Any] = load_file(folder / "model.safetensors")
        weights |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
        kept = {name: tensor for name, tensor in weights.items() if tensor is not None}
        save_file(kept, folder / "model.safetensors", {"format": "pt"})

    return apply


def changed_json(name: str, **changes: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**content, **changes}))

    return apply


def emptied(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(b"") and None


def with_bomb(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Bomb(folder.parent / "exploded")}, folder / "pytorch_model.bin")


def with_stride_0(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({**weights, "model.shared.weight": torch.ones(1, 1).expand(10**6, 10**6)}, folder / "pytorch_model.bin")


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no model": (lambda folder: (folder / "config.json").unlink(), r"has no config\.json"),
    "another kind": (changed_json("config.json", model_type="t5"), "of the type 't5', not a Marian model"),
    "empty configuration": (emptied("config.json"), "is not the configuration of a model"),
    "empty weights": (emptied("model.safetensors"), "do not make a Marian model"),
    "empty vocabulary": (emptied("vocab.json"), "tokenizer .* cannot be read"),
    "empty pieces": (emptied("source.spm"), "tokenizer .* cannot be read"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "has no weights"),
    "no tokenizer": (lambda folder: (folder / "target.spm").unlink(), r"has no target\.spm"),
    "a key is missing": (
        changed_weights(model__decoder__layers__0__fc1__weight=None),
        r"lacks: model\.decoder\.layers\.0\.fc1\.weight",
    ),
    "a key too many": (
        changed_weights(model__encoder__layernorm_embedding__weight=torch.ones(32)),
        r"has too much: model\.encoder\.layernorm_embedding\.weight",
    ),
    "another size": (changed_json("config.json", encoder_ffn_dim=64), r"and config\.json asks for \(64"),
    "no numbers": (changed_weights(model__decoder__layers__0__fc1__bias=torch.full((40,), torch.nan)), "NaN"),
    "other positions": (
        changed_weights(model__encoder__embed_positions__weight=torch.zeros(128, 32)),
        "are not the sinusoids",
    ),
    "a tokenizer too large": (changed_json("vocab.json", superfluous=5000), "the token id 5000, and the model embeds"),
    "another padding": (changed_json("config.json", pad_token_id=1), "pad_token_id is 2 and the model's 1"),
    "a huge width": (changed_json("config.json", d_model=10**12), r"d_model is 1,000,000,000,000, and no weight is larger"),
    "a huge vocabulary": (changed_json("config.json", vocab_size=10**12), "vocab_size is 1,000,000,000,000"),
    "huge numbers of layers": (changed_json("config.json", decoder_layers=10**9), "decoder_layers is 1,000,000,000"),
    "a layer more": (changed_json("config.json", encoder_layers=3), "lack the layer 2 of the encoder"),
    "no heads": (changed_json("config.json", encoder_attention_heads=0), "encoder_attention_heads is 0; it must be a whole number from 1"),
    "endless positions": (changed_json("config.json", max_position_embeddings=10**12), "max_position_embeddings is 1,000,000,000,000"),
    "stride 0": (with_stride_0, "of 1,000,000,000,000 numbers, of which the file has fewer"),
    "code": (with_bomb, "would have to run .*which may do anything. Nothing was run"),
}  # fmt: skip


@pytest.mark.parametrize(("attack", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_wrong_is_said_in_a_sentence_and_nothing_written(
    attack: Callable[[Path], None], sentence: str, marian: Save, tmp_path: Path
) -> None:
    folder = marian()
    attack(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as refusal:
        convert_marian(folder, tmp_path / "out")
    assert "\n" not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["marian"]


def test_a_comparison_that_fails_writes_nothing(marian: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vaswani_transformer.interop import from_marian

    monkeypatch.setattr(from_marian, "EPSILON", 0.1)
    with pytest.raises(ValueError, match="nothing was converted"):
        convert_marian(marian(), tmp_path / "out")
    assert not (tmp_path / "out").exists()
