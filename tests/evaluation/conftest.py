"""A translator that knows nothing, built in memory: evaluation must work with any model of transformers, so this is not one of ours."""

import pytest
import torch
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerBase

from vaswani_transformer.data.bpe import train_tokenizer

SENTENCES = [
    "A man reads.",
    "Two small dogs run along the beach while the children watch them from the boat.",
    "",
    "The house is old.",
    "  \t ",
    "A woman in a red coat reads a book.",
    "Yes.",
    "The dogs that the man sees are running.",
]


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    return list(SENTENCES)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return train_tokenizer(SENTENCES * 4, vocab_size=300)


@pytest.fixture
def model(tokenizer: PreTrainedTokenizerBase) -> MarianMTModel:
    """In float64, so that the sums of a padded batch cannot turn an argmax."""
    torch.manual_seed(2)
    config = MarianConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, dropout=0.3, max_position_embeddings=128, init_std=0.5,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    model = MarianMTModel(config).double().eval()
    model.generation_config.update(num_beams=2, max_new_tokens=12, max_length=None)
    return model
