"""What holds for every test: offline, one thread, the same examples every time."""

import os
import socket
from collections.abc import Iterator
from typing import Any

# Before torch is imported, so that workers side by side do not fight for the cores; subprocesses inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "Agg")

import hypothesis
import pytest

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
