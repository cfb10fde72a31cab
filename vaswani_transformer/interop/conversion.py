"""Other people's checkpoints as folders of ours: read, converted, written beside their place, compared with the original, and only
then given their name.

```python
convert_marian("Helsinki-NLP/opus-mt-en-de", "converted")
convert_fairseq("model.pt", ["dict.en.txt", "dict.de.txt"], "bpecodes", "converted")
```
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoTokenizer, MarianMTModel, PreTrainedTokenizerBase

from ..files.atomic_folder import new_folder
from ..files.checksums import file_sha256
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..report.converted_card import Conversion, write_converted_card
from ..report.markdown import Markdown
from ..translation.loading import local_folder
from .fairseq_reference import FairseqReference
from .fairseq_tokenizer import check_codes, fairseq_tokenizer, read_codes, read_dictionary
from .from_fairseq import check_dictionaries, from_fairseq, read_fairseq
from .from_marian import from_marian, marian_weights, read_marian

SENTENCES = (
    "Good morning.",
    "The house is old.",
    "Two small dogs run along the beach.",
    "A woman in a red coat is reading a book.",
    "Where is the station?",
    "On 3 May 2017 it cost 12.50 euros.",
    "Does he know that the children are playing in the garden?",
    "I think, therefore I am.",
)
"""What a conversion is checked on unless there are sentences in the model's own language."""

TOLERANCE = 1e-3
"""Between logits; rounding in float32 is a hundredth of it."""

LONGEST = 64
"""Tokens of a translation in the self-check."""

Logits = Callable[..., Tensor]


class SelfCheck(NamedTuple):
    """What a comparison has found: the largest difference of two logits, and the translations."""

    difference: float
    translations: list[tuple[str, str]]


def convert_marian(
    name: str | Path,
    out: str | Path,
    *,
    origin: str | None = None,
    licence: str | None = None,
    sentences: Sequence[str] = SENTENCES,
) -> Path:
    """Convert a `MarianMTModel`, such as those of OPUS-MT, with its tokenizer and search settings.

    Args:
        name: its folder, or its repository on the Hub.
        out: a new folder.
        origin: what the card names as such; by default `name`, of a folder its own name only.
        licence: that of the weights; by default what the model's README.md says.
        sentences: what to compare on, in the source language.

    Returns:
        `out`.

    Raises:
        FileNotFoundError: there is no such model, or a file is missing.
        FileExistsError: there is something at `out`.
        ValueError: a file is damaged or hostile, the parts do not belong together, or the comparison failed; the sentence says which.
    """
    folder = local_folder(name)
    with new_folder(out) as unfinished:
        marian, tokenizer = read_marian(folder)
        model, tokenizer = _written(from_marian(marian), tokenizer, unfinished, sentences)
        check = _compare_with_marian(model, marian, tokenizer, sentences)
        languages = (tokenizer.source_lang, tokenizer.target_lang)
        conversion = Conversion(
            toolkit="Marian",
            origin=origin or (folder.resolve().name if Path(name).is_dir() else str(name)),
            licence=licence or _stated_licence(folder / "README.md"),
            weights_sha256=file_sha256(marian_weights(folder)),
            languages=tuple(language for language in languages if language),
            compared_with=Markdown("`MarianMTModel` itself"),
            agreement="the tokens of greedy search and of the model's own search are the same",
            difference=check.difference,
            translations=check.translations,
        )
        write_converted_card(unfinished, Path(out).name, conversion)
    return Path(out)


def convert_fairseq(
    checkpoint: str | Path,
    dictionaries: Sequence[str | Path],
    bpe_codes: str | Path,
    out: str | Path,
    *,
    languages: tuple[str, str] | None = None,
    lowercase: bool = False,
    origin: str | None = None,
    licence: str | None = None,
    sentences: Sequence[str] = SENTENCES,
) -> Path:
    """Convert a post-LayerNorm `transformer` of fairseq, with a tokenizer made of its dictionaries and BPE codes.

    Args:
        checkpoint: the file of the weights, `model.pt`.
        dictionaries: one `dict.*.txt` where the languages share it, or the source's and the target's.
        bpe_codes: those of subword-nmt or fastBPE.
        out: a new folder.
        languages: codes of source and target; by default what the checkpoint says.
        lowercase: whether the model has learned from lower-cased text.
        origin: what the card names as such; by default the checkpoint's file name.
        licence: that of the weights; "unknown" by default.
        sentences: what to compare on, in the source language.

    Returns:
        `out`.

    Raises:
        FileNotFoundError: a file is missing.
        FileExistsError: there is something at `out`.
        ValueError: a file is damaged or hostile, the parts do not belong together, or the comparison failed; the sentence says which.
    """
    checkpoint = Path(checkpoint)
    with new_folder(out) as unfinished:
        original = read_fairseq(checkpoint)
        model = from_fairseq(original)
        named = languages or _stated_languages(original.settings, checkpoint)
        tokenizer = _fairseq_tokenizer(model, dictionaries, bpe_codes, named, lowercase)
        tensors = model.state_dict()
        written, tokenizer = _written(model, tokenizer, unfinished, sentences)
        check = _compare_with_reference(written, FairseqReference(model.config, tensors), tokenizer, sentences)
        conversion = Conversion(
            toolkit="fairseq",
            origin=origin or checkpoint.name,
            licence=licence or "unknown",
            weights_sha256=file_sha256(checkpoint),
            languages=named,
            compared_with=Markdown("PyTorch's own `nn.Transformer` with fairseq's positions"),
            agreement="the tokens of greedy search are the same",
            difference=check.difference,
            translations=check.translations,
        )
        write_converted_card(unfinished, Path(out).name, conversion)
    return Path(out)


def _stated_languages(settings: dict[str, Any], checkpoint: Path) -> tuple[str, str]:
    source, target = settings.get("source_lang"), settings.get("target_lang")
    if not (isinstance(source, str) and isinstance(target, str)):
        raise ValueError(f"{checkpoint} does not say which languages it translates; name them, such as en and de.")
    return source, target


def _fairseq_tokenizer(
    model: VaswaniForConditionalGeneration,
    dictionaries: Sequence[str | Path],
    bpe_codes: str | Path,
    languages: tuple[str, str],
    lowercase: bool,
) -> PreTrainedTokenizerBase:
    if len(dictionaries) not in (1, 2):
        raise ValueError(f"There are {len(dictionaries)} dictionaries; give one for both languages, or the source's and the target's.")
    paths = [Path(dictionaries[0]), Path(dictionaries[-1])]
    source, target = map(read_dictionary, paths)
    check_dictionaries(model, [(paths[0], source), (paths[1], target)])
    merges = read_codes(Path(bpe_codes))
    check_codes(Path(bpe_codes), merges, {*source, *target})
    return fairseq_tokenizer(source, target, merges, languages, lowercase)


def _written(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    sentences: Sequence[str],
) -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase]:
    """Save both into `folder` and load what lies there, as a user will."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    loaded = AutoTokenizer.from_pretrained(folder, config=model.config, trust_remote_code=False)
    if loaded(list(sentences))["input_ids"] != tokenizer(list(sentences))["input_ids"]:
        raise ValueError("The tokenizer gives other ids once it was saved and loaded; nothing was converted.")
    return VaswaniForConditionalGeneration.from_pretrained(folder).eval(), loaded


def _compare_with_marian(
    model: VaswaniForConditionalGeneration,
    marian: MarianMTModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
) -> SelfCheck:
    batch = tokenizer(list(sentences), padding=True, return_tensors="pt")
    limits = {"max_new_tokens": LONGEST, "max_length": None}
    translated: list[Tensor] = []
    for search in ({"num_beams": 1}, {}):
        ours, theirs = (each.generate(**batch, **limits, **search) for each in (model, marian))
        if not ours.equal(theirs):
            raise ValueError(
                f"With {search or 'its own search'} the converted model translates differently from MarianMTModel; nothing was converted."
            )
        translated.append(ours)
    with torch.no_grad():
        logits = marian(**batch, decoder_input_ids=translated[-1]).logits
    return _self_check(model, batch, translated[-1], logits, tokenizer, sentences)


def _compare_with_reference(
    model: VaswaniForConditionalGeneration,
    reference: Logits,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
) -> SelfCheck:
    batch: Any = tokenizer(list(sentences), padding=True, return_tensors="pt")
    tokens = model.generate(**batch, num_beams=1, max_new_tokens=LONGEST)
    logits = reference(batch["input_ids"], batch["attention_mask"], tokens)
    best = logits.index_fill(-1, torch.tensor([model.config.pad_token_id]), -torch.inf)[:, :-1].argmax(-1)
    following = tokens[:, 1:]
    is_end = (following == model.config.eos_token_id).long()
    is_said = is_end.cumsum(-1) - is_end == 0  # up to the first end, and with it
    if not best[is_said].equal(following[is_said]):
        raise ValueError(
            "The converted model translates differently from the checkpoint's weights in PyTorch's own layers; nothing was converted."
        )
    chosen = model.generate(**batch, max_new_tokens=LONGEST)
    check = _self_check(model, batch, tokens, logits, tokenizer, sentences)
    return check._replace(translations=_translations(tokenizer, sentences, chosen))


def _self_check(
    model: VaswaniForConditionalGeneration,
    batch: Any,
    tokens: Tensor,
    theirs: Tensor,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
) -> SelfCheck:
    """Compare logits `[B, T, V]` behind `tokens` `[B, T]`."""
    with torch.no_grad():
        ours = model(**batch, decoder_input_ids=tokens).logits
    difference = (ours - theirs).abs().max().item()
    if not difference <= TOLERANCE:
        raise ValueError(
            f"The converted model's logits are off by {difference:.2e}, and rounding explains {TOLERANCE:.0e} at most; "
            "nothing was converted."
        )
    return SelfCheck(difference, _translations(tokenizer, sentences, tokens))


def _translations(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], tokens: Tensor) -> list[tuple[str, str]]:
    return list(zip(sentences, tokenizer.batch_decode(tokens, skip_special_tokens=True), strict=True))


def _stated_licence(readme: Path) -> str:
    """What the head of a model's README.md says."""
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    head = re.match(r"---\n(.*?)\n---", text, flags=re.DOTALL)
    found = re.search(r"^license:[ \t]*([\w.-]+)", head[1], flags=re.MULTILINE) if head else None
    return found[1] if found else "unknown"
