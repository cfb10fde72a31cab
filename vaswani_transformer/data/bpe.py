"""The joint byte-pair encoding of source and target (paper section 5.1): trained here, saved as a stock `tokenizer.json`.

It works on bytes, so that no text is ever unknown and decoding restores every text exactly. Each text is encoded as if one space stood
before it, and decoding removes that space: a word then has the same ids at the beginning of a sentence as inside it.
"""

import itertools
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from ..languages import language_token

PAD_TOKEN, BOS_TOKEN, EOS_TOKEN = CONTROL_TOKENS = ("<pad>", "<s>", "</s>")
"""Ids 0, 1 and 2."""

SMALLEST_VOCABULARY = len(CONTROL_TOKENS) + 256
"""The control tokens and one entry for every byte: a smaller vocabulary could not encode every text."""

_TEXTS_PER_BATCH = 1000


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    *,
    min_frequency: int = 2,
    model_max_length: int = VERY_LARGE_INTEGER,
    target_languages: Sequence[str] = (),
    progress: bool = False,
) -> PreTrainedTokenizerFast:
    """Learn one vocabulary for both languages.

    The result is deterministic in `texts`, lossless (`decode(encode(text), skip_special_tokens=True) == text`) and ends every encoded text
    with `</s>`. Text that spells a control token, such as a user's "</s>", is encoded as plain characters. The setting for
    that, `split_special_tokens`, is saved with the tokenizer. (`tokenizer.json` cannot hold it: with the
    `tokenizers` library alone, set `encode_special_tokens = True`.)

    Args:
        texts: sentences of both languages, read once and never held as a whole.
        vocab_size: entries including the 3 control tokens and the 256 bytes.
        min_frequency: a pair of symbols seen less often is not merged.
        model_max_length: in tokens; longer text causes a warning, and is cut if a caller asks for truncation. No limit by default: this
            model's positions are computed for any length.
        target_languages: codes such as `fr`. Each gets a control token such as `<2fr>`, which asks a model of several target languages
            for that one.
        progress: show a progress bar.

    Raises:
        TypeError: `texts` is one string, or holds something that is not a string.
        ValueError: there is no text, or `vocab_size` is below 259.

    Warns:
        UserWarning: the texts are too few for `vocab_size` entries; the tokenizer then has fewer.
    """
    if isinstance(texts, str):
        raise TypeError("The texts to train a tokenizer on must be a list or a stream of sentences, not one string; put it into a list.")
    controls = [*CONTROL_TOKENS, *map(language_token, target_languages)]
    if vocab_size < SMALLEST_VOCABULARY + len(target_languages):
        raise ValueError(
            f"vocab_size={vocab_size} is too small: {len(controls)} control tokens and the 256 bytes need {len(controls) + 256} entries "
            "before the first merge; a few thousand is a usual size."
        )
    backend = _untrained_backend()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=controls,
        show_progress=progress,
    )
    backend.train_from_iterator(_batches(texts), trainer=trainer)
    _warn_if_smaller(backend.get_vocab_size(), vocab_size, min_frequency)
    return _as_transformers_tokenizer(backend, model_max_length)


def extend_tokenizer(
    tokenizer: PreTrainedTokenizerFast,
    texts: Iterable[str],
    vocab_size: int,
    *,
    min_frequency: int = 2,
    target_languages: Sequence[str] = (),
    progress: bool = False,
) -> PreTrainedTokenizerFast:
    """A vocabulary of `vocab_size` entries: those of `tokenizer` with their ids, then the most useful new ones for `texts`.

    Tokens of `target_languages` that have none yet are the first new ones. The merges learnt from `texts` come after all old ones, so that
    old words are split as before unless a new merge joins their pieces.

    Raises:
        ValueError: `tokenizer` was not made by `train_tokenizer`, or has `vocab_size` entries already; or see `train_tokenizer`.
    """
    if not is_byte_level(tokenizer):
        raise ValueError("Only a byte-level BPE can be extended; set `tokenizer.method` to `keep` or `train`.")
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary, merges = state["model"]["vocab"], state["model"]["merges"]
    for token in map(language_token, target_languages):
        if token not in vocabulary:
            vocabulary[token] = len(vocabulary)
            control = {**state["added_tokens"][0], "id": vocabulary[token], "content": token}
            state["added_tokens"].append(control)
    if len(vocabulary) >= vocab_size:
        raise ValueError(
            f"The tokenizer has {len(vocabulary)} entries already, and `tokenizer.vocab_size` is {vocab_size}; ask for more, or keep it as "
            "it is."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # only the size of both vocabularies together counts
        learnt = train_tokenizer(texts, vocab_size, min_frequency=min_frequency, progress=progress)
    for left, right in json.loads(learnt.backend_tokenizer.to_str())["model"]["merges"]:
        is_new = left + right not in vocabulary and left in vocabulary and right in vocabulary
        if is_new and len(vocabulary) < vocab_size:
            vocabulary[left + right] = len(vocabulary)
            merges.append([left, right])
    _warn_if_smaller(len(vocabulary), vocab_size, min_frequency)
    return _as_transformers_tokenizer(Tokenizer.from_str(json.dumps(state)), tokenizer.model_max_length)


def is_byte_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether it is a byte-level BPE, which can spell every entry of another one."""
    return (
        isinstance(tokenizer, PreTrainedTokenizerFast)
        and isinstance(tokenizer.backend_tokenizer.model, models.BPE)
        and set(pre_tokenizers.ByteLevel.alphabet()) <= tokenizer.get_vocab().keys()
    )


def _untrained_backend() -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizers.Prepend(" ")
    # The pre-tokenizer's own expression separates letters from punctuation, so no merge can ever spell a control token.
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", left=1, right=0)])
    return backend


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in lists, which the trainer takes in parallel; anything that is not text raises here, before the trainer sees it."""
    iterator = enumerate(texts)
    count = 0
    while batch := list(itertools.islice(iterator, _TEXTS_PER_BATCH)):
        for index, text in batch:
            if not isinstance(text, str):
                raise TypeError(f"Text number {index} to train the tokenizer on is of type {type(text).__name__}, not str.")
            count += bool(text)
        yield [text for _, text in batch]
    if not count:
        raise ValueError("There is no text to train a tokenizer on; check that the training corpus is not empty.")


def _warn_if_smaller(reached: int, wanted: int, min_frequency: int) -> None:
    if reached < wanted:
        warnings.warn(
            f"The texts support only {reached} of the {wanted} vocabulary entries asked for (no pair of symbols occurs {min_frequency} "
            f"times any more); the tokenizer has {reached}. Ask for at most that many, or give more text.",
            stacklevel=3,
        )


def _as_transformers_tokenizer(backend: Tokenizer, model_max_length: int) -> PreTrainedTokenizerFast:
    """The stock class and not a subclass: loading rebuilds a subclass from vocabulary and merges, and loses the rest."""
    eos_id = backend.token_to_id(EOS_TOKEN)
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS_TOKEN}", pair=f"$A {EOS_TOKEN} $B {EOS_TOKEN}", special_tokens=[(EOS_TOKEN, eos_id)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD_TOKEN,
        bos_token=BOS_TOKEN,
        eos_token=EOS_TOKEN,
        padding_side="right",
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_max_length=model_max_length,
    )
