"""A stand-in translator without a model, and a checkpoint of ours that knows nothing."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from accelerate.state import PartialState
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.translation.translate import Failure, Outcome, Translation


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """Accelerate remembers devices for the whole process."""
    yield
    PartialState._reset_state()


@pytest.fixture
def reverse() -> Callable[[Sequence[str]], Iterator[tuple[int, Outcome]]]:
    """Translates by reversing, longest first; what contains "poison" fails."""

    def translate(sentences: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        for index in sorted(range(len(sentences)), key=lambda index: -len(sentences[index])):
            sentence = sentences[index]
            yield index, Failure("poisoned") if "poison" in sentence else [Translation(sentence[::-1], None)]

    return translate


@pytest.fixture(scope="session")
def checkpoint(tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With learned positions, of which there are 60."""
    torch.manual_seed(0)
    config = VaswaniConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, position_embedding_type="learned",
        max_position_embeddings=60,
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.7)
    model.generation_config.update(**{**PAPER_SEARCH, "num_beams": 2, "extra_length": 4}, allow_custom_entries=True)
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
