"""What a stranger may ask of the server: the page, its queue and its files, and nothing else that a web framework brings along.

ASGI middleware in plain Python. Gradio refuses files outside its own folder by itself; but it would also fetch files of other
machines for a visitor, report its traffic, record the screen and more, which a translator does not need.
"""

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_PAGE = r"/|/config/?|/theme\.css|/favicon\.ico|/robots\.txt|/manifest\.json|/(assets|static|svelte)/.+"
_API = (
    r"/gradio_api/(info/?|app_id/?|theme\.css|startup-events|queue/(join|data)|run/\w+/?|cancel|reset/?|heartbeat/\w+|upload|upload_progress"
    r"|call/(v2/)?\w+(/\w+)?|file=/.+)"
)
_KNOWN = re.compile(f"{_PAGE}|{_API}")
_UPLOAD = "/gradio_api/upload"
_LARGEST_BODY = 1_000_000
"""Bytes of a request that is no upload: far more than the longest text that a page takes."""


class Gate:
    """Lets through what the page itself asks for."""

    def __init__(self, app: Application, uploads: Path, most_bytes: int) -> None:
        """`uploads` is the folder where Gradio keeps files; with more than `most_bytes` in it, it takes no further one."""
        self._app, self._uploads, self._most_bytes = app, uploads, most_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        path = scope["path"]
        if not _KNOWN.fullmatch(path) or "/gradio_api/file=//" in path:
            await _refuse(send, 404, "There is nothing here.")
        elif path == _UPLOAD and _size(self._uploads) > self._most_bytes:
            await _refuse(send, 507, "Too many files were uploaded here within an hour; try again later.")
        elif scope["method"] != "POST" or path == _UPLOAD:
            await self._app(scope, receive, send)
        else:
            await self._with_checked_body(scope, receive, send)

    async def _with_checked_body(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = bytearray()
        message: Message = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if len(body) > _LARGEST_BODY:
                await _refuse(send, 413, f"A request has at most {_LARGEST_BODY:,} bytes; put longer texts into a file.")
                return
        if _asks_for_another_machine(bytes(body)):
            await _refuse(send, 400, "Files are uploaded here; none is fetched from elsewhere.")
            return
        handed_on = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

        async def again() -> Message:
            return next(handed_on, None) or await receive()

        await self._app(scope, again, send)


def _asks_for_another_machine(body: bytes) -> bool:
    """Whether the request names a file by an address of the web."""
    try:
        waiting = [json.loads(body)]
    except (ValueError, RecursionError):  # no JSON: the framework says so
        return False
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
            if isinstance(path := value.get("path"), str) and re.match(r"\s*(\w[\w+.-]*:)?//|\s*\w{2,}:", path):
                return True
        elif isinstance(value, list):
            waiting += value
    return False


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"detail": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
