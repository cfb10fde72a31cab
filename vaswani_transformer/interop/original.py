"""What every export reads: a translator of ours with its vocabulary in the order of its ids."""

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..search_settings import OF_DRAFTS
from ..shortlist import SHORTLIST_FILE, Shortlist
from ..translation.loading import load_checkpoint


@dataclass(frozen=True)
class Original:
    """A model in float32 and evaluation mode, and its tokenizer."""

    model: VaswaniForConditionalGeneration
    tokenizer: PreTrainedTokenizerBase
    shortlist: Shortlist | None = None

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
        settings = copy.deepcopy(self.model.generation_config)
        for name in OF_DRAFTS:  # which are for our own search
            vars(settings).pop(name, None)
        # Under this mark, reading the file would drop the settings that are not Hugging Face's.
        settings._from_model_config = False
        settings.save_pretrained(folder)


def check_attention(config: VaswaniConfig, engine: str) -> None:
    """Raise a `ValueError` if the model attends in a way for which `engine` has no code, or lacks residual connections."""
    lacking = {
        "additive attention": config.attention_score == "additive",
        f"self-attention within a window of {config.attention_window} positions": config.attention_window is not None,
        "layers without residual connections": not config.residual_connections,
    }
    if names := [name for name, is_asked in lacking.items() if is_asked]:
        raise ValueError(
            f"{engine} has no {' and no '.join(names)}, which this model has; use it with this package or the code in its folder."
        )


def _in_order(vocabulary: dict[str, int], entries: int) -> list[str]:
    names = {number: name for name, number in vocabulary.items()}
    return [names.get(number, f"<unused {number}>") for number in range(entries)]


def read_original(folder: str | Path) -> Original:
    """Load what `save_pretrained` of our model and of its tokenizer left in `folder`.

    Raises:
        FileNotFoundError: there is no such folder, or a file is missing in it.
        ValueError: it holds another kind of model, a damaged file, or a tokenizer that does not fit.
    """
    folder = Path(folder)
    model, tokenizer = load_checkpoint(folder, torch.float32, only_ours=True)
    for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id"):
        if getattr(model.config, name) is None:
            raise ValueError(f"{folder / 'config.json'} has no {name}, without which nothing can be translated; set it.")
    model.parallel_heads, model.config.parallel_heads = None, 1  # no other engine has them, and no translation is another without them
    path, shortlist = folder / SHORTLIST_FILE, None
    if path.is_file():
        shortlist = Shortlist.read(path)
        shortlist.check(model.config, tokenizer, str(folder))
    return Original(model.eval(), tokenizer, shortlist)
