"""The demo over HTTP: programs that translate, many at once, and strangers who ask for more."""

import json
import re
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

from tests.demo.conftest import Server
from vaswani_transformer.demo.server import require_gradio, usable_port


def ask(address: str, body: bytes | None = None, kind: str = "application/json") -> tuple[int, str]:
    """Status and text of one request, its path as it is written."""
    request = urllib.request.Request(address, body, {"Content-Type": kind} if body else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def translated(server: Server, text: str, **settings: Any) -> Any:
    from gradio_client import Client

    client = Client(server.address, verbose=False, analytics_enabled=False)
    try:
        return client.predict(text, api_name="/translate", **settings)
    finally:
        client.close()


@pytest.fixture(scope="module")
def plain(server: Server) -> Any:
    task: Any = "translation"  # which transformers' own type hints no longer know
    return {name: pipeline(task, model=folder) for name, folder in server.folders._asdict().items()}


def test_twenty_visitors_at_once_get_their_own_translations(server: Server, plain: Any) -> None:
    asked = [
        (f"The {size} dog sees {number} cats.", model) for number in range(5) for size in ("small", "old") for model in ("ours", "marian")
    ]
    with ThreadPoolExecutor(len(asked)) as visitors:
        found = list(visitors.map(lambda one: translated(server, one[0], model=one[1])["translation"], asked))
    assert found == [plain[model](text)[0]["translation_text"] for text, model in asked]
    assert len(asked) == 20 and len(set(found)) > 5


@pytest.mark.parametrize("settings", [{"text": 5}, {"text": ["a"]}, {"model": ["ours"]}, {"split_language": 3}])
def test_what_is_no_string_is_said_in_a_sentence(server: Server, settings: dict[str, Any]) -> None:
    name, value = next(iter(settings.items()))
    with pytest.raises(Exception, match=rf"`{name}` is {re.escape(repr(value))} and not a string\."):
        translated(server, settings.pop("text", "A man reads."), **settings)


def test_a_text_comes_with_the_best_translations_of_each_sentence(server: Server, plain: Any) -> None:
    answer = translated(server, "Yes. A man reads.", num_return_sequences=2, split_language="en")
    assert answer["translation"] == plain["ours"]("Yes. A man reads.", split_sentences="en")[0]["translation_text"]
    (first, second) = answer["sentences"]
    assert (first["source"], second["source"]) == ("Yes.", "A man reads.")
    assert [one["text"] for one in second["translations"]] == [
        one["translation_text"] for one in plain["ours"]("A man reads.", num_return_sequences=2)
    ]


@pytest.mark.parametrize(
    ("text", "settings", "sentence"),
    [
        (" ", {}, "There is nothing to translate"),
        ("word " * 10_000, {}, "The text has 50,000 characters, and this page takes 5,000"),
        ("Yes.", {"model": "/etc"}, "There is no model of this name; choose one of ours, marian"),
        ("Yes.", {"num_beams": 100}, "this page takes at most 10"),
        ("Yes.", {"target_language": "de"}, "no choice of target languages"),
    ],
)
def test_a_mistake_is_one_sentence(server: Server, text: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence) as error:
        translated(server, text, **settings)
    assert "Traceback" not in str(error.value) and ".py" not in str(error.value)


NOTHING = [
    "/docs", "/openapi.json", "/monitoring", "/monitoring/summary", "/gradio_api/openapi.json", "/gradio_api/runs",
    "/gradio_api/deep_link", "/gradio_api/proxy=http://127.0.0.1/", "/gradio_api/file=http://127.0.0.1/", "/gradio_api/file=https://a.b/",
    "/gradio_api/file=//127.0.0.1/", "/gradio_api/vibe-code", "/gradio_api/process_recording", "/gradio_api/mcp/",
    "/gradio_api/file/etc/passwd", "/gradio_api/stream/a/b/1/playlist.m3u8", "/gradio_api/custom_component/1/client/component/x.js",
]  # fmt: skip


@pytest.mark.parametrize("path", NOTHING)
def test_nothing_but_the_page_is_served(server: Server, path: str) -> None:
    assert ask(server.address.rstrip("/") + path)[0] == 404


def test_no_file_of_the_server_is_reachable(server: Server) -> None:
    model = Path(server.folders.ours) / "config.json"
    here = Path(__file__)
    assert model.is_file()
    for path in ("/etc/passwd", "%2Fetc%2Fpasswd", "/etc//passwd", model, here, "pyproject.toml", "../../../etc/passwd", "./README.md"):
        status, text = ask(f"{server.address}gradio_api/file={path}")
        assert status in (403, 404), path
        assert "root:" not in text and "d_model" not in text
    for path in ("static/../../../../etc/passwd", "assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "svelte/..%2f..%2f..%2fetc/passwd"):
        assert ask(server.address + path)[0] in (403, 404), path
    page, config = ask(server.address)[1], ask(f"{server.address}config")[1]
    for folder in (server.folders.ours, str(here.parent), str(Path.home())):
        assert folder not in page and folder not in config


def upload(server: Server, name: str, content: bytes) -> tuple[int, str]:
    body = (
        b'--limit\r\nContent-Disposition: form-data; name="files"; filename="'
        + name.encode()
        + b'"\r\n\r\n'
        + content
        + b"\r\n--limit--\r\n"
    )
    return ask(f"{server.address}gradio_api/upload", body, "multipart/form-data; boundary=limit")


def test_an_upload_stays_where_uploads_belong(server: Server) -> None:
    status, text = upload(server, "../../../<b>x\\\\..\\\\y.txt", b"A man reads.\n")
    (path,) = json.loads(text)
    assert status == 200 and "/.." not in path and "<" not in path and "/vaswani-demo-" in path
    assert upload(server, "large.txt", b"x" * 1_100_000)[0] == 413


def test_no_file_is_fetched_for_a_visitor_and_no_request_is_endless(server: Server) -> None:
    join = f"{server.address}gradio_api/queue/join"
    file = {"path": "https://example.org/x.txt", "meta": {"_type": "gradio.FileData"}}
    body = {"data": [file], "fn_index": 0, "session_hash": "abc"}
    assert ask(join, json.dumps(body).encode()) == (400, '{"detail": "Files are uploaded here; none is fetched from elsewhere."}')
    assert ask(join, json.dumps({"data": ["x" * 1_100_000]}).encode())[0] == 413
    past_the_queue = {"data": ["Yes."], "fn_index": 0, "session_hash": "abc"}
    assert ask(join.replace("queue/join", "run/translate"), json.dumps(past_the_queue).encode())[0] == 404
    assert ask(join, b"[" * 100_000)[0] in (400, 422, 500)


def test_no_other_machine_was_asked(server: Server) -> None:
    translated(server, "Yes.")
    assert server.outside == []


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"Port {port} of 127.0.0.1 cannot be had .*--port 0 takes a free one"):
            usable_port("127.0.0.1", port)
    assert usable_port("127.0.0.1", 0) > 0


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gradio", None)
    with pytest.raises(ImportError, match=r'install it: pip install "vaswani_transformer\[demo\]"'):
        require_gradio()
