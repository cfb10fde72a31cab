"""Tiny translators of every family with random weights, in float64, each with a tokenizer of the family's own class."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import sentencepiece
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    MT5Config,
    MT5ForConditionalGeneration,
    NllbTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)

TEXTS = ["A man reads the book.", "Two dogs don't run.", "Für dich, mein Kind!", "Ein Mann liest.", "我们 是 学生。", "你好吗"] * 4
_PIECES_APART = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
CONTROLS = ["<s>", "<pad>", "</s>", "<unk>"]
SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "dropout": 0.3, "attention_dropout": 0.2, "init_std": 0.5,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2, "max_position_embeddings": 64,
    "forced_eos_token_id": None,
}  # fmt: skip
T5_SIZES: dict[str, Any] = {
    "d_model": 16, "d_kv": 8, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 2, "d_ff": 16, "dropout_rate": 0.3,
    "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "initializer_factor": 3.0, "is_gated_act": False,
    "relative_attention_num_buckets": 4, "relative_attention_max_distance": 6,
}  # fmt: skip


class Translator(NamedTuple):
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    begins: list[str]
    """What the decoder reads and writes before the translation: its start, and a language where one is forced."""


def _pieces() -> list[tuple[str, float]]:
    """Entries of a Unigram vocabulary with their scores, without controls: every character, and a few beginnings of words."""
    characters = {"\u2581", *"".join(TEXTS)} - {" "}
    return [("\u2581m", -3.0), ("\u2581A", -3.0), ("an", -3.0), *((character, -5.0) for character in sorted(characters))]


@cache
def _merges(byte_level: bool) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of a BPE over bytes, or over characters behind SentencePiece's mark."""
    tokenizer = Tokenizer(models.BPE(unk_token=None if byte_level else "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else _PIECES_APART
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if byte_level else []
    trainer = trainers.BpeTrainer(
        vocab_size=290 if byte_level else 90, special_tokens=CONTROLS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def _sentencepiece(folder: Path) -> tuple[str, list[str]]:
    """A trained file and its entries."""
    (folder / "texts").write_text("\n".join(TEXTS), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "texts"), model_prefix=str(folder / "spm"), vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    return str(folder / "spm.model"), [model.id_to_piece(number) for number in range(3, model.get_piece_size())]


def _written(folder: Path, entries: list[str]) -> str:
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps({entry: number for number, entry in enumerate(entries)}, ensure_ascii=False), encoding="utf-8")
    return str(path)


def marian(folder: Path, separate: bool = True) -> Translator:
    """Two vocabularies by default, the target's in another order than the source's."""
    file, pieces = _sentencepiece(folder)
    source, target = ([*CONTROLS, *entries] for entries in (pieces, pieces[::-1]))
    tokenizer = MarianTokenizer(
        file, file, _written(folder, source), _written(folder, target) if separate else None, separate_vocabs=separate, eos_token="</s>"
    )
    config = MarianConfig(vocab_size=len(source), decoder_vocab_size=len(target), share_encoder_decoder_embeddings=not separate, **SIZES)
    return Translator(MarianMTModel(config), tokenizer, ["</s>"])


def t5(folder: Path) -> Translator:
    tokenizer = T5Tokenizer([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *_pieces()], extra_ids=2)
    by_task = {"translation_en_to_de": {"prefix": "mein: ", "num_beams": 3}, "translation_en_to_zh": {"prefix": "dich: ", "num_beams": 2}}
    config = T5Config(vocab_size=len(tokenizer), task_specific_params=by_task, **T5_SIZES)
    return Translator(T5ForConditionalGeneration(config), tokenizer, ["<pad>"])


def mt5(folder: Path) -> Translator:
    tokenizer = T5Tokenizer([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *_pieces()], extra_ids=2)
    return Translator(MT5ForConditionalGeneration(MT5Config(vocab_size=len(tokenizer), **T5_SIZES)), tokenizer, ["<pad>"])


def bart(folder: Path) -> Translator:
    tokenizer = BartTokenizer(*_merges(byte_level=True))
    model = BartForConditionalGeneration(BartConfig(vocab_size=len(tokenizer), **SIZES))
    model.generation_config.forced_bos_token_id = 0
    return Translator(model, tokenizer, ["</s>", "<s>"])


def mbart(folder: Path) -> Translator:
    entries = [(name, 0.0) for name in CONTROLS] + _pieces() + [(name, 0.0) for name in ("en_XX", "de_DE", "zh_CN", "<mask>")]
    tokenizer = MBartTokenizer(entries, src_lang="en_XX", tgt_lang="de_DE")
    config = MBartConfig(vocab_size=len(tokenizer), **SIZES)
    return Translator(MBartForConditionalGeneration(config), tokenizer, ["</s>", "de_DE"])


def mbart50(folder: Path) -> Translator:
    entries = [(name, 0.0) for name in ("<unk>", "<s>", "</s>")] + _pieces()
    tokenizer = MBart50Tokenizer(entries, src_lang="en_XX", tgt_lang="de_DE")
    config = MBartConfig(vocab_size=len(tokenizer), **SIZES)
    return Translator(MBartForConditionalGeneration(config), tokenizer, ["</s>", "de_DE"])


def nllb(folder: Path) -> Translator:
    tokenizer = NllbTokenizer(*_merges(byte_level=False), src_lang="eng_Latn", tgt_lang="deu_Latn")
    config = M2M100Config(vocab_size=len(tokenizer), **SIZES)
    return Translator(M2M100ForConditionalGeneration(config), tokenizer, ["</s>", "deu_Latn"])


def m2m100(folder: Path) -> Translator:
    file, pieces = _sentencepiece(folder)
    tokenizer = M2M100Tokenizer(_written(folder, [*CONTROLS, *pieces]), file, src_lang="en", tgt_lang="de")
    config = M2M100Config(vocab_size=len(tokenizer) + 200, **SIZES)
    return Translator(M2M100ForConditionalGeneration(config), tokenizer, ["</s>", "__de__"])


FAMILIES: dict[str, Callable[[Path], Translator]] = {
    "marian": marian, "t5": t5, "mt5": mt5, "bart": bart, "mbart": mbart, "mbart50": mbart50, "nllb": nllb, "m2m100": m2m100,
}  # fmt: skip


def translator(name: str, folder: Path) -> Translator:
    """One of `FAMILIES`; `folder` is for the tokenizer's files."""
    torch.manual_seed(3)
    found = FAMILIES[name](folder)
    found.model.double().eval()
    found.model.generation_config.update(num_beams=3, max_new_tokens=9, max_length=None)
    return found
