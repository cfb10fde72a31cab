"""What every export begins and ends with: a translator read from its folder, and a new folder that appears whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..files.atomic_folder import atomic_folder
from ..files.json_files import read_json
from ..modeling_vaswani import VaswaniForConditionalGeneration

GNMT_AS_POWER = 20 / (5 + 20)
"""Of GNMT's exponent: where an engine has only `length^p`, this power grows at 20 tokens as `((5 + length) / 6)^p` does."""

VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab-src.json")
"""A tokenizer of ours has the first of these files, Marian's the second, that of a model from fairseq the third."""


@dataclass(frozen=True)
class Original:
    """A model in float32 and evaluation mode, and its tokenizer."""

    model: VaswaniForConditionalGeneration
    tokenizer: PreTrainedTokenizerBase

    @property
    def config(self) -> VaswaniConfig:
        return self.model.config

    @cached_property
    def source_names(self) -> list[str]:
        """The source's vocabulary in the order of its ids; ids that the model has and the tokenizer does not get names of their own."""
        return _in_order(self.tokenizer.get_vocab(), self.config.vocab_size)

    @cached_property
    def target_names(self) -> list[str]:
        """The same of the target's vocabulary, where it has one of its own."""
        if self.config.target_vocab_size is None:
            return self.source_names
        own = {name: number for number, name in self.tokenizer.decoder.items()}
        return _in_order(own, self.config.target_vocab_size)

    def save_search_settings(self, folder: Path) -> None:
        """Write generation_config.json."""
        settings = self.model.generation_config
        # Under this mark, reading the file would drop the settings that are not Hugging Face's.
        settings._from_model_config = False
        settings.save_pretrained(folder)


def _in_order(vocabulary: dict[str, int], entries: int) -> list[str]:
    names = {number: name for name, number in vocabulary.items()}
    return [names.get(number, f"<unused {number}>") for number in range(entries)]


def read_original(folder: str | Path) -> Original:
    """Load what `save_pretrained` of our model and of its tokenizer left in `folder`.

    Raises:
        FileNotFoundError: there is no such folder, or a file is missing in it.
        ValueError: it holds another kind of model, damaged weights, or a tokenizer that does not fit.
    """
    folder = Path(folder)
    for names in (("config.json",), VOCABULARIES):
        if not any((folder / name).is_file() for name in names):
            missing = "is not a folder" if not folder.is_dir() else f"has no {names[0]}"
            raise FileNotFoundError(f"{folder} {missing}; give the folder of a trained model, such as runs/NAME/averaged.")
    kind = read_json(folder / "config.json").get("model_type")
    if kind != VaswaniConfig.model_type:
        raise ValueError(
            f'{folder} holds a model of the type {kind!r}; only a "{VaswaniConfig.model_type}" model can be exported from here.'
        )
    # The classes of this package, whatever code lies in the folder: they are what an export reads.
    try:
        model, loading = VaswaniForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    except SafetensorError as error:
        raise ValueError(f"The weights in {folder} are damaged or incomplete ({error}); copy them again.") from error
    if loading["missing_keys"]:
        raise ValueError(
            f"The weights in {folder} lack {', '.join(sorted(loading['missing_keys']))}; they are not those of its config.json."
        )
    tokenizer = AutoTokenizer.from_pretrained(folder, config=model.config, trust_remote_code=False)
    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(
            f"The tokenizer in {folder} has {len(tokenizer)} tokens but the model embeds only {model.config.vocab_size}; "
            "they do not belong together: take both from the same run."
        )
    for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id"):
        if getattr(model.config, name) is None:
            raise ValueError(f"{folder / 'config.json'} has no {name}, without which nothing can be translated; set it.")
    return Original(model.eval(), tokenizer)


@contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """Yield a folder to write into, which becomes `out` when the block ends well.

    Raises:
        FileExistsError: something is at `out` already.
    """
    out = Path(out)
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise FileExistsError(f"{out} exists and is not empty; give a new folder, or remove that one first.")
    with atomic_folder(out.absolute()) as unfinished:
        yield unfinished
