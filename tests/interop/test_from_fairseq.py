"""Checkpoints that fairseq itself has saved, and what fairseq's own code said of them: see `fairseq/record.py`."""

import json
import os
import shutil
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, FSMTTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.data.builtin.corpus import builtin_pairs
from vaswani_transformer.interop.conversion import convert_fairseq
from vaswani_transformer.interop.fairseq_tokenizer import fairseq_tokenizer, read_codes, read_dictionary
from vaswani_transformer.interop.from_fairseq import METERS, from_fairseq, read_fairseq

RECORDED = Path(__file__).parent / "fairseq"
KINDS = ("joined", "separate")
"""A joined, pruned dictionary and settings in `cfg`; two dictionaries, the names and clocks of 2018, settings in `args`."""


def convert(folder: Path, out: Path, **options: Any) -> Path:
    dictionaries = [folder / "dict.en.txt", folder / "dict.de.txt"]
    return convert_fairseq(folder / "model.pt", dictionaries, folder / "bpecodes", out, **options)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def converted(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert(RECORDED / kind, tmp_path_factory.mktemp(kind) / "out", licence="mit")


@pytest.fixture(scope="module")
def answers(kind: str) -> dict[str, Any]:
    return json.loads((RECORDED / kind / "answers.json").read_text())


@pytest.fixture(scope="module")
def loaded(converted: Path) -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase]:
    return VaswaniForConditionalGeneration.from_pretrained(converted), AutoTokenizer.from_pretrained(converted)


@pytest.fixture(scope="module")
def batch(loaded: tuple[Any, Any]) -> dict[str, torch.Tensor]:
    return loaded[1]([text for text, _ in builtin_pairs("test", 100)], padding=True, return_tensors="pt")


def test_ids_are_fairseqs(batch: dict[str, torch.Tensor], loaded: tuple[Any, Any], answers: dict[str, Any], kind: str) -> None:
    assert type(loaded[1]) is FSMTTokenizer
    rows = [row[kept.bool()].tolist() for row, kept in zip(batch["input_ids"], batch["attention_mask"], strict=True)]
    assert rows == answers["source_ids"]
    # of the pruned dictionary some segments are unknown
    assert (kind == "joined") == any(3 in row for row in rows)


def test_logits_are_fairseqs(batch: dict[str, torch.Tensor], loaded: tuple[Any, Any], answers: dict[str, Any]) -> None:
    for row, (target, expected) in enumerate(zip(answers["target_ids"], answers["logits"], strict=True)):
        with torch.no_grad():
            logits = loaded[0](
                **{name: tensor[row : row + 1] for name, tensor in batch.items()},
                decoder_input_ids=torch.tensor([[2, *target[:-1]]]),
            ).logits[0]
        torch.testing.assert_close(logits, torch.tensor(expected), atol=3e-5, rtol=0)


@pytest.mark.parametrize(("name", "search"), [("greedy", {"num_beams": 1}), ("beam", {})])
def test_translations_are_fairseqs(
    name: str,
    search: dict[str, Any],
    batch: dict[str, torch.Tensor],
    loaded: tuple[Any, Any],
    answers: dict[str, Any],
) -> None:
    tokens = loaded[0].generate(**batch, **search)[:, 1:]
    found = [[token for token in row if token != 1] for row in tokens.tolist()]
    assert found == answers[name]


def test_the_card_names_origin_and_licence(converted: Path) -> None:
    card = (converted / "README.md").read_text()
    assert "\nlicense: mit\n" in card and "**Origin:** `model.pt`\n" in card and "en → de" in card


def test_user_text_that_spells_a_control_token_stays_text(loaded: tuple[Any, Any]) -> None:
    ids = loaded[1]("a </s> b <pad> <s>")["input_ids"]
    assert ids.count(2) == 1 and 1 not in ids and 0 not in ids


def test_pre_tokenised_text_is_parted_as_by_subword_nmt(tmp_path: Path) -> None:
    """By hand: `l o` and `lo w</w>` are merged; `we`, `l` and a last `o` are in no dictionary."""
    (tmp_path / "codes").write_text("#version: 0.2\nl o\nlo w</w>\nw e\n")
    (tmp_path / "dict").write_text("low 5\nlo@@ 4\ne@@ 3\nr 2\n")
    symbols, merges = read_dictionary(tmp_path / "dict"), read_codes(tmp_path / "codes")
    assert symbols == ["<s>", "<pad>", "</s>", "<unk>", "low", "lo@@", "e@@", "r"]
    tokenizer = fairseq_tokenizer(symbols, symbols, merges, ("en", "de"))
    # low | lo@@ we@@ r | e@@ r | l@@ o
    assert tokenizer("low lower er lo")["input_ids"] == [4, 5, 3, 7, 6, 7, 3, 3, 2]
    assert tokenizer.decode([5, 4, 6, 7, 2], skip_special_tokens=True) == "lolow er"


def test_an_entry_may_take_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "dict").write_text("a 3\nb 2\na 1 #fairseq:overwrite\n")
    assert read_dictionary(tmp_path / "dict")[4:] == ["<overwritten 4>", "b", "a"]


class Bomb:
    """An object whose unpickling would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change what is in a checkpoint: `model` and `settings`."""

    def apply(folder: Path) -> None:
        with torch.serialization.safe_globals([Namespace, *METERS]):
            state = torch.load(folder / "model.pt", weights_only=True)
        settings = vars(state["cfg"]["model"])
        content = {"model": state["model"], "settings": settings, "folder": folder}
        change(content)
        arguments = Namespace()
        vars(arguments).update(content["settings"])
        torch.save({"args": arguments, "model": content["model"]}, folder / "model.pt")

    return apply


def setting(name: str, value: Any) -> Callable[[Path], None]:
    return changed(lambda content: content["settings"].update({name: value}))


def written(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).write_bytes(content), None][1]


def other_dictionaries(folder: Path) -> None:
    for name in ("dict.en.txt", "dict.de.txt"):
        shutil.copy(RECORDED / "separate" / name, folder / name)


WEIGHT = "encoder.layers.0.fc1.weight"


def tensor(make: Callable[[torch.Tensor], Any], name: str = WEIGHT) -> Callable[[Path], None]:
    """Put what `make` makes of a tensor in its place."""
    return changed(lambda content: content["model"].update({name: make(content["model"][name])}))


def quantised(weight: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8)


def compressed(folder: Path) -> None:
    """A file of torch.save whose entries are deflated, with 64 MB of zeros that take little of it."""
    changed(lambda content: content["model"].update({WEIGHT: torch.zeros(2**24)}))(folder)
    with (
        zipfile.ZipFile(folder / "model.pt") as plain,
        zipfile.ZipFile(folder / "small.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as small,
    ):
        for entry in plain.infolist():
            with plain.open(entry) as source, small.open(entry.filename, "w") as target:
                shutil.copyfileobj(source, target, 2**24)
    os.replace(folder / "small.pt", folder / "model.pt")


def many_names(content: dict[str, Any]) -> None:
    weight = content["model"][WEIGHT]
    content["model"].update({f"encoder.layers.{number}.fc1.weight": weight.expand_as(weight) for number in range(10_000)})


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (written("model.pt", b""), r"model\.pt is empty, 0 bytes long"),
    "noise": (written("model.pt", b"\x80\x02 what is this?" * 50), r"model\.pt cannot be read as a file of torch\.save"),
    "cut off": (lambda f: (f / "model.pt").write_bytes((f / "model.pt").read_bytes()[:5000]) and None, "cannot be read"),
    "missing": (lambda folder: (folder / "model.pt").unlink(), r"There is no file .*model\.pt"),
    "code": (
        changed(lambda content: content["model"].update(x=Bomb(content["folder"].parent / "exploded"))),
        "would have to run .*Nothing was run",
    ),
    "no checkpoint": (lambda folder: torch.save([1, 2], folder / "model.pt"), "is no checkpoint of fairseq's"),
    "no tensors": (changed(lambda content: content["model"].update(x="y")), "not all that is under `model` is a tensor"),
    "a key is missing": (
        changed(lambda content: content["model"].pop("encoder.layers.0.fc1.weight")),
        r"lacks: model\.encoder\.layers\.0\.fc1\.weight",
    ),
    "a key too many": (
        changed(lambda content: content["model"].update({"encoder.layer_norm.weight": torch.ones(16)})),
        r"has too much: model\.encoder\.layer_norm\.weight",
    ),
    "no numbers": (
        changed(lambda content: content["model"]["encoder.layers.0.fc1.weight"].fill_(torch.inf)),
        "holds NaN or infinity",
    ),
    "another size": (setting("encoder_ffn_embed_dim", 64), r"and its settings ask for \(64, 16\)"),
    "fewer layers": (setting("decoder_layers", 1), r"has too much: model\.decoder\.layers\.1"),
    "no sizes": (changed(lambda content: content["settings"].pop("encoder_layers")), "settings lack encoder_layers"),
    "untied": (
        changed(lambda content: content["model"].update({"encoder.embed_tokens.weight": torch.ones(200, 16)})),
        "are one matrix, and it holds two that differ",
    ),
    "pre-norm": (setting("encoder_normalize_before", True), "normalises before each sub-layer of the encoder"),
    "learned positions": (setting("decoder_learned_pos", True), "learns the decoder's positions"),
    "another architecture": (setting("arch", "fconv_wmt_en_de"), "of the architecture 'fconv_wmt_en_de'"),
    "another activation": (setting("activation_fn", "linear"), "activation function is 'linear'"),
    "another model's dictionary": (other_dictionaries, "embeds 200 tokens; it is the dictionary of another model"),
    "an empty dictionary": (written("dict.de.txt", b""), r"dict\.de\.txt is empty, 0 bytes long"),
    "no dictionary": (written("dict.en.txt", b"<html>\n"), r"dict\.en\.txt:1 is not a symbol and its count"),
    "a symbol twice": (written("dict.en.txt", b"a 2\na 1\n"), r"dict\.en\.txt:2 repeats the symbol 'a'"),
    "not UTF-8": (written("dict.en.txt", b"\xff\xfe 1\n"), "is not UTF-8 text"),
    "empty codes": (written("bpecodes", b""), "bpecodes is empty"),
    "no codes": (written("bpecodes", b"what is this again\n"), "bpecodes:1 is not a pair of symbols"),
    "codes of the first version": (written("bpecodes", b"t h\ne </w>\n"), "version 0.1"),
    "another model's codes": (written("bpecodes", "ж д\nа я</w>\n".encode()), "codes are another model's"),
    "a number as a name": (changed(lambda content: content["model"].update({7: torch.ones(1)})), "7 is Tensor; not all that is under"),
    "a number as a setting": (changed(lambda content: content["settings"].update({7: 1})), "the setting 7 is int"),
    "a tensor as a setting": (setting("no_cross_attention", torch.ones(2)), "the setting 'no_cross_attention' is Tensor"),
    "a list as the activation": (setting("activation_fn", ["relu"]), r"activation function is \['relu'\]"),
    "stride 0": (tensor(lambda _: torch.ones(1, 1).expand(10**6, 10**6)), "of 1,000,000,000,000 numbers, of which the file has fewer"),
    "sparse": (tensor(lambda weight: weight.to_sparse()), "is sparse or nested"),
    "nothing": (tensor(lambda _: torch.empty(10**6, 10**6, device="meta")), "is of the device meta"),
    "quantised": (tensor(quantised), r"is of the type torch\.qint8"),
    "complex": (tensor(lambda weight: weight.to(torch.complex64)), r"is of the type torch\.complex64"),
    "whole numbers": (tensor(lambda weight: weight.long()), r"is of the type torch\.int64"),
    "a single number": (tensor(lambda _: torch.tensor(1.0)), "is a single number"),
    "one matrix under many names": (changed(many_names), "gives the same numbers more than 4 names"),
    "compressed": (compressed, r"cannot be read as a file of torch\.save \([\d,]+ bytes would unpack to 67,"),
    "no heads": (setting("encoder_attention_heads", 0), "encoder_attention_heads is 0; it must be a whole number from 1"),
    "heads that do not divide": (setting("decoder_attention_heads", 3), "width is 16 and its decoder_attention_heads 3"),
    "a huge width": (setting("encoder_embed_dim", 10**12), "encoder_embed_dim is 1,000,000,000,000, and no weight is larger"),
    "a huge inner width": (setting("decoder_ffn_embed_dim", 10**12), "decoder_ffn_embed_dim is 1,000,000,000,000"),
    "huge numbers of layers": (setting("encoder_layers", 10**12), "encoder_layers is 1,000,000,000,000"),
    "a layer more": (setting("encoder_layers", 3), "lack the layer 2 of the encoder that its settings state"),
    "a truth as a size": (setting("encoder_layers", True), "encoder_layers is True"),
    "dropout as text": (setting("dropout", "much"), "dropout is 'much'; it must be a number from 0"),
    "dropout of everything": (setting("attention_dropout", 1.5), "attention_dropout is 1.5"),
    "no languages": (setting("source_lang", None), "does not say which languages"),
}  # fmt: skip


@pytest.mark.parametrize(("attack", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_wrong_is_said_in_a_sentence_and_nothing_written(attack: Callable[[Path], None], sentence: str, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    shutil.copytree(RECORDED / "joined", folder)
    attack(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as refusal:
        convert(folder, tmp_path / "out")
    assert "\n" not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_a_conversion_gone_wrong_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vaswani_transformer.interop import from_fairseq as module

    monkeypatch.setattr(module, "EPSILON", 0.1)
    with pytest.raises(ValueError, match="nothing was converted"):
        convert(RECORDED / "joined", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_three_matrices_and_unscaled_embeddings() -> None:
    checkpoint = read_fairseq(RECORDED / "separate" / "model.pt")
    checkpoint.settings.update(share_decoder_input_output_embed=False, no_scale_embedding=True, activation_fn="gelu")
    checkpoint.tensors["decoder.embed_out"] = checkpoint.tensors["decoder.embed_tokens.weight"] * 2
    model = from_fairseq(checkpoint)
    assert not model.config.tie_word_embeddings and not model.config.scale_embedding
    assert model.lm_head.weight.equal(model.model.decoder.embed_tokens.weight * 2)
