import asyncio
from pathlib import Path
from typing import Any

from vaswani_transformer.demo.gate import Gate


def status(path: str, uploads: Path, body: bytes = b"{}", most_bytes: int = 10, method: str = "POST") -> int:
    """The status of one request; 200 if the application behind the gate got it, with its whole body."""
    seen: list[Any] = []
    parts = [{"type": "http.request", "body": body[:5], "more_body": True}, {"type": "http.request", "body": body[5:]}]

    async def application(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        assert path == "/gradio_api/upload" or message["body"] == body
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        seen.append(message)

    gate = Gate(application, uploads, most_bytes)
    asyncio.run(gate({"type": "http", "path": path, "method": method}, receive, send))
    return int(seen[0]["status"])


def test_only_what_the_page_asks_for_goes_through(tmp_path: Path) -> None:
    assert status("/gradio_api/queue/join", tmp_path, b'{"data": ["text http://a.b/"]}') == 200
    assert status("/gradio_api/queue/join/more", tmp_path) == 404
    assert status("/gradio_api/queue/join", tmp_path, b'{"data": [{"path": "https://a.b/x.txt"}]}') == 400
    assert status("/gradio_api/queue/join", tmp_path, b'[[{"a": [{"path": " FTP://a.b/x.txt"}]}]]') == 400
    assert status("/gradio_api/queue/join", tmp_path, b'{"path": "//a.b/x.txt"}') == 400
    assert status("/gradio_api/queue/join", tmp_path, b'{"path": "/uploads/na:me.txt"}') == 200
    assert status("/gradio_api/queue/join", tmp_path, b"x" * 1_000_001) == 413


def test_the_disk_is_not_filled(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file.txt").write_bytes(b"x" * 10)
    assert status("/gradio_api/upload", tmp_path) == 200
    (tmp_path / "file.txt").write_bytes(b"x")
    assert status("/gradio_api/upload", tmp_path) == 507
