"""Two small translators of random weights, whose translations are long and differ, and a server that translates with them."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import MarianConfig, MarianMTModel, PreTrainedModel, PreTrainedTokenizerBase

from tests.conftest import SENTENCES
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.bpe import train_tokenizer
from vaswani_transformer.demo.limits import Limits


class Folders(NamedTuple):
    """Where the two models lie."""

    ours: str
    marian: str


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    root = tmp_path_factory.mktemp("models")
    tokenizer = train_tokenizer(SENTENCES * 4, vocab_size=300)
    return Folders(_save_ours(root / "ours", tokenizer), _save_marian(root / "marian", tokenizer))


class Server(NamedTuple):
    """A running demo of both models, and the addresses of other machines that its process asked for."""

    address: str
    folders: Folders
    limits: Limits
    outside: list[str]


@pytest.fixture(scope="session")
def server(folders: Folders) -> Iterator[Server]:
    pytest.importorskip("gradio", reason='the demo needs Gradio: pip install "vaswani_transformer[demo]"')
    from vaswani_transformer.demo.server import running

    outside: list[str] = []
    limits = Limits(characters=5000, tokens=60, megabytes=1)
    with pytest.MonkeyPatch.context() as patch:
        connect = socket.socket.connect

        def noted(self: socket.socket, address: Any) -> None:
            if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "localhost", "::1"):
                outside.append(str(address[0]))
            return connect(self, address)

        patch.setattr(socket.socket, "connect", noted)
        patch.setenv("NO_PROXY", "127.0.0.1")
        with running([folders.ours, folders.marian], limits=limits) as address:
            yield Server(address, folders, limits, outside)


def _save_ours(folder: Path, tokenizer: PreTrainedTokenizerBase) -> str:
    torch.manual_seed(3)
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(vocab_size=len(tokenizer), **sizes, encoder_attention_heads=2, decoder_attention_heads=2)
    )
    model.generation_config.update(num_beams=4, length_penalty=0.6)
    model.generation_config.length_penalty_type, model.generation_config.extra_length = "gnmt", 8
    return _save(model, tokenizer, folder)


def _save_marian(folder: Path, tokenizer: PreTrainedTokenizerBase) -> str:
    torch.manual_seed(2)
    config = MarianConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64, init_std=0.5,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    model = MarianMTModel(config)
    model.generation_config.update(num_beams=3, max_new_tokens=12, max_length=None)
    return _save(model, tokenizer, folder)


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> str:
    """Save a model that says something printable, and another thing for another sentence."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "encoder_attn.out_proj.weight" in name or "encoder_attn.v_proj.weight" in name or "shared.weight" in name:
                weights.mul_(3.0)
    texts = {token: tokenizer.decode(token).strip() for token in range(3, len(tokenizer))}
    unprintable = [token for token, text in texts.items() if not text.isprintable() or "\N{REPLACEMENT CHARACTER}" in text]
    model.generation_config.suppress_tokens = unprintable
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
