"""Serves the page on one port, to this machine unless told otherwise, without a request to any other machine."""

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .gate import Gate
from .limits import Limits

_QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1"}
_WIDENING = ("GRADIO_ALLOWED_PATHS", "GRADIO_SHARE", "GRADIO_ROOT_PATH", "GRADIO_MCP_SERVER", "GRADIO_SSR_MODE", "GRADIO_NUM_WORKERS")
"""Settings by which an environment could open more than the page."""
_UPLOADS = 100
"""Files of the largest size that the disk may hold at a time."""
_ICON = (
    '<link rel="icon" href="data:image/svg+xml,<svg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 32 32%22>'
    "<rect width=%2232%22 height=%2232%22 rx=%227%22 fill=%22%232f5fd0%22/><path d=%22M7 11h11l-4-4M25 21H14l4 4%22 fill=%22none%22 "
    'stroke=%22white%22 stroke-width=%223%22 stroke-linecap=%22round%22 stroke-linejoin=%22round%22/></svg>">'
)


def serve(
    folders: Sequence[str],
    *,
    host: str = "127.0.0.1",
    port: int = 7860,
    limits: Limits | None = None,
    title: str = "Translator",
    open_browser: bool = False,
) -> None:
    """Serve a page that translates with the models in `folders`, until Ctrl-C or SIGTERM.

    Args:
        folders: of models, or repositories of the Hub; see `load_engine`.
        host: the address to listen on; "0.0.0.0" serves the whole network.
        port: 0 takes a free one.
        limits: what a visitor may ask for.
        title: what the page is called.
        open_browser: show the page on this machine.

    Raises:
        ImportError: Gradio is not installed.
        OSError: the port is taken, or `host` is no address of this machine.
        ValueError, FileNotFoundError: see `load_translators`.
        KeyboardInterrupt: it was stopped.
    """
    with running(folders, host=host, port=port, limits=limits, title=title) as address:
        print(f"{title}: {address}  (Ctrl-C ends it)", flush=True)
        if host not in ("127.0.0.1", "localhost", "::1"):
            print("Everybody who reaches this machine over the network can use it.", flush=True)
        if open_browser:
            import webbrowser

            webbrowser.open(address)
        _wait_for_the_end()


@contextmanager
def running(
    folders: Sequence[str], *, host: str = "127.0.0.1", port: int = 0, limits: Limits | None = None, title: str = "Translator"
) -> Iterator[str]:
    """The page while the block runs; yields its address. See `serve`."""
    require_gradio()
    port = usable_port(host, port)
    from .page import Page  # torch and all: after what can go wrong at once
    from .translator import load_translators

    limits = limits or Limits()
    translators = load_translators(folders, limits)
    with tempfile.TemporaryDirectory(prefix="vaswani-demo-") as uploads, _environment({**_QUIET, "GRADIO_TEMP_DIR": uploads}):
        blocks = Page(translators, limits, title).build()
        try:
            _, address, _ = _launch(blocks, host, port, limits, Path(uploads))
            yield address
        finally:
            blocks.close(verbose=False)


def require_gradio() -> None:
    """Import Gradio, or say how to install it.

    Raises:
        ImportError: it is not installed.
    """
    os.environ.update(_QUIET)  # before the libraries read it
    try:
        import gradio  # noqa: F401
    except ImportError as error:
        raise ImportError('The demo needs Gradio; install it: pip install "vaswani_transformer[demo]"') from error


def usable_port(host: str, port: int) -> int:
    """`port`, or for 0 a free one.

    Raises:
        OSError: it cannot be had; the sentence says why.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(f"Port {port} of {host} cannot be had ({reason}); choose another: --port 0 takes a free one.") from error
        return int(trial.getsockname()[1])


def _launch(blocks: Any, host: str, port: int, limits: Limits, uploads: Path) -> tuple[Any, str, Any]:
    from starlette.middleware import Middleware

    gate: Any = Middleware(Gate, uploads=uploads, most_bytes=_UPLOADS * limits.megabytes * 1_000_000)
    result: tuple[Any, str, Any] = blocks.launch(
        server_name=host, server_port=port, prevent_thread_lock=True, quiet=True, share=False, inbrowser=False, inline=False,
        show_error=False, allowed_paths=[], max_file_size=f"{limits.megabytes}mb", enable_monitoring=False, run_history=False,
        ssr_mode=False, pwa=False, mcp_server=False, footer_links=[], state_session_capacity=1000, theme=_theme(), head=_ICON,
        css=(Path(__file__).parent / "page.css").read_text(encoding="utf-8"), app_kwargs={"middleware": [gate]},
    )  # fmt: skip
    return result


def _theme() -> Any:
    import gradio as gr

    system = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    mono = ["ui-monospace", "Consolas", "monospace"]
    return gr.themes.Default(
        primary_hue="blue", neutral_hue="slate", radius_size="md",
        font=[gr.themes.Font(name) for name in system], font_mono=[gr.themes.Font(name) for name in mono],
    )  # fmt: skip


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """These settings, and none that opens more, while the block runs."""
    before = {name: os.environ.get(name) for name in (*settings, *_WIDENING)}
    for name in _WIDENING:
        os.environ.pop(name, None)
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _wait_for_the_end() -> None:
    """Return never; Ctrl-C and SIGTERM raise KeyboardInterrupt."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Event().wait()
