"""What holds for every test: offline, one thread, the same examples every time. And a translator, built in memory."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before torch is imported, so that workers side by side do not fight for the cores; subprocesses inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "Agg")
# No test finds what another one prepared; those of the cache name a folder of their own.
os.environ["VASWANI_CACHE"] = "off"

import hypothesis
import pytest
import torch
import transformers
from packaging.version import Version
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerBase

from tests.browser import browser, page
from vaswani_transformer.data.bpe import train_tokenizer

__all__ = ["browser", "page"]  # here and nowhere below: each place that imports them would start a browser of its own

hypothesis.settings.register_profile("house", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("house")


def _is_local(host: object) -> bool:
    return host in (None, "", "localhost", "::1", "0.0.0.0") or str(host).startswith("127.") or host == b""


@pytest.fixture(autouse=True, scope="session")
def only_this_machine() -> Iterator[None]:
    """Refuse every address but this machine's own: a test that needs the network fails at once and says so."""
    connect, getaddrinfo = socket.socket.connect, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address[0]):
            raise OSError(f"Tests work offline; this one asked for {address[0]}.")
        return connect(self, address)

    def guarded_getaddrinfo(host: Any, *arguments: Any, **keywords: Any) -> Any:
        if not _is_local(host) and host != socket.gethostname():
            raise socket.gaierror(socket.EAI_NONAME, f"Tests work offline; this one asked for {host}.")
        return getaddrinfo(host, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


BEAM_SEARCH_KNOWS_TARGETS = Version(transformers.__version__) >= Version("5.23")
"""Whether transformers' own beam search counts the target's vocabulary where it is not the source's; that of 5.17 fails there."""

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
    """A translator that knows nothing, and not one of ours: what translates and evaluates must work with any model of transformers.

    In float64, so that the sums of a padded batch cannot turn an argmax.
    """
    torch.manual_seed(2)
    config = MarianConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, dropout=0.3, max_position_embeddings=128, init_std=0.5,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    model = MarianMTModel(config).double().eval()
    model.generation_config.update(num_beams=2, max_new_tokens=12, max_length=None)
    return model


@pytest.fixture
def run_python() -> Callable[..., None]:
    """Run Python with arguments in a folder, as a user does, and demand that it ends well.

    In a process of its own: Accelerate remembers precision and devices for the whole of one.
    """

    def run(folder: Path, *arguments: str) -> None:
        finished = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]

    return run
