"""Upload to a Hub small enough to read: it answers the requests with which `huggingface_hub` creates a repository and
commits files, over real HTTP, and the bytes that arrive are compared with those that were sent."""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from vaswani_transformer.hub.publish import PublishError, assemble, upload
from vaswani_transformer.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
TOKEN = "hf_of_the_test"


class HubServer(ThreadingHTTPServer):
    """What it knows of repositories is in `branches`: (repository, branch) -> {path: content}."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.branches: dict[tuple[str, str], dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.sdks: dict[str, str | None] = {}  # of Spaces; None for models
        self.large_files: dict[str, bytes] = {}
        self.failing: dict[str, int] = {}  # kind of request -> status
        self.requests: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_GET(self) -> None:
        self._serve("GET")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Keep quiet."""

    def _serve(self, method: str) -> None:
        body, path = self._body(), self.path.partition("?")[0]
        for verb, pattern, kind in ROUTES:
            match = re.fullmatch(pattern, path) if verb == method else None
            if match:
                self.server.requests.append(kind)
                if kind in self.server.failing:
                    return self._answer(self.server.failing[kind], {"error": f"{kind} fails today"})
                if kind != "storage" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    return self._answer(401, {"error": "Invalid username or password."})
                return self._answer(*getattr(self, f"_{kind}")(body, *match.groups()))
        return self._answer(404, {"error": f"{method} {path} is not a request this Hub knows"})

    def _create(self, body: bytes) -> tuple[int, Any]:
        wanted = json.loads(body)
        repo = f"{wanted['organization']}/{wanted['name']}"
        url = {"url": f"{self.server.endpoint}/{repo}"}
        if (repo, "main") in self.server.branches:
            return 409, url
        self.server.branches[repo, "main"] = {}
        self.server.sdks[repo] = wanted["sdk"] if wanted.get("type") == "space" else None
        self.server.private[repo] = wanted.get("visibility") == "private"
        return 200, url

    def _branch(self, body: bytes, repo: str, branch: str) -> tuple[int, Any]:
        self.server.branches.setdefault((repo, branch), {})
        return 200, {}

    def _info(self, body: bytes, repo: str) -> tuple[int, Any]:
        return (200, {"id": repo}) if (repo, "main") in self.server.branches else (404, {"error": "no such repository"})

    def _validate(self, body: bytes) -> tuple[int, Any]:
        front_matter = json.loads(body)["content"].startswith("---\n")
        return (200, {"errors": [], "warnings": []}) if front_matter else (400, {"errors": [{"message": "no metadata"}]})

    def _preupload(self, body: bytes, repo: str, branch: str) -> tuple[int, Any]:
        files = json.loads(body)["files"]
        modes = [(file["path"], "lfs" if file["path"].endswith((".safetensors", ".png")) else "regular") for file in files]
        return 200, {"files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes]}

    def _batch(self, body: bytes, repo: str) -> tuple[int, Any]:
        objects = [
            {**wanted, "actions": {"upload": {"href": f"{self.server.endpoint}/storage/{wanted['oid']}"}}}
            for wanted in json.loads(body)["objects"]
        ]
        return 200, {"transfer": "basic", "objects": objects}

    def _storage(self, body: bytes, oid: str) -> tuple[int, Any]:
        if hashlib.sha256(body).hexdigest() != oid:
            return 400, {"error": "these bytes have another hash"}
        self.server.large_files[oid] = body
        return 200, {}

    def _commit(self, body: bytes, repo: str, branch: str) -> tuple[int, Any]:
        if (repo, branch) not in self.server.branches:
            return 404, {"error": "no such branch"}
        for line in body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                self.server.branches[repo, branch][value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                self.server.branches[repo, branch][value["path"]] = self.server.large_files[value["oid"]]
        oid = hashlib.sha1(body).hexdigest()
        return 200, {
            "commitUrl": f"{self.server.endpoint}/{repo}/commit/{oid}",
            "commitOid": oid,
            "success": True,
        }

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


REPO = r"([^/]+/[^/]+)"
KIND = "/api/(?:models|spaces)"
ROUTES = [
    ("POST", "/api/repos/create", "create"),
    ("POST", f"{KIND}/{REPO}/branch/([^/]+)", "branch"),
    ("GET", f"{KIND}/{REPO}", "info"),
    ("POST", "/api/validate-yaml", "validate"),
    ("POST", f"{KIND}/{REPO}/preupload/([^/]+)", "preupload"),
    ("POST", rf"/(?:spaces/)?{REPO}\.git/info/lfs/objects/batch", "batch"),
    ("PUT", "/storage/([0-9a-f]{64})", "storage"),
    ("POST", f"{KIND}/{REPO}/commit/([^/]+)", "commit"),
]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """The client speaks its own protocol Xet to the real Hub's storage; switched off, it uses Git LFS as any server knows it."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def folder(finished_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = shutil.copytree(finished_run.path, tmp_path_factory.mktemp("upload") / "run")
    return assemble(RunFolder(copy), "somebody/toy")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_every_byte_arrives(hub: HubServer, folder: Path) -> None:
    address = upload(folder, "somebody/toy", token=TOKEN, endpoint=hub.endpoint)
    assert hub.branches == {("somebody/toy", "main"): bytes_of(folder)}
    assert hub.private == {"somebody/toy": False}
    assert address.startswith(f"{hub.endpoint}/somebody/toy/commit/")
    assert (folder / "model.safetensors").read_bytes() in hub.large_files.values()
    assert hub.requests.count("commit") == 1


def test_an_existing_repository_and_another_branch(hub: HubServer, folder: Path) -> None:
    hub.branches["somebody/toy", "main"] = {"README.md": b"what was there"}
    upload(folder, "somebody/toy", private=True, revision="v2", token=TOKEN, endpoint=hub.endpoint)
    assert hub.branches["somebody/toy", "main"] == {"README.md": b"what was there"}
    assert hub.branches["somebody/toy", "v2"] == bytes_of(folder)


def test_a_private_repository_is_created_as_one(hub: HubServer, folder: Path) -> None:
    upload(folder, "somebody/toy", private=True, token=TOKEN, endpoint=hub.endpoint)
    assert hub.private == {"somebody/toy": True}


def test_a_wrong_token_is_one_sentence(hub: HubServer, folder: Path) -> None:
    with pytest.raises(PublishError, match="hf auth login") as error:
        upload(folder, "somebody/toy", token="hf_wrong", endpoint=hub.endpoint)
    assert "401" in str(error.value) and "somebody/toy" in str(error.value)
    assert "\n" not in str(error.value)
    assert hub.branches == {}


def test_a_commit_that_fails_is_one_sentence(hub: HubServer, folder: Path) -> None:
    hub.failing["commit"] = 500
    with pytest.raises(PublishError, match="Nothing was committed; that is the Hub's trouble") as error:
        upload(folder, "somebody/toy", token=TOKEN, endpoint=hub.endpoint)
    assert "500" in str(error.value)
    assert hub.branches == {("somebody/toy", "main"): {}}


def test_a_file_that_the_storage_refuses_stops_the_upload(hub: HubServer, folder: Path) -> None:
    hub.failing["storage"] = 403
    with pytest.raises(PublishError, match="Nothing was committed"):
        upload(folder, "somebody/toy", token=TOKEN, endpoint=hub.endpoint)
    assert hub.branches == {("somebody/toy", "main"): {}}


def test_a_hub_that_is_not_there_and_an_impossible_name(hub: HubServer, folder: Path) -> None:
    with pytest.raises(PublishError, match="Nothing was committed"):
        upload(folder, "some body/toy", token=TOKEN, endpoint=hub.endpoint)
    hub.shutdown()
    hub.server_close()
    with pytest.raises(PublishError, match=r"was not published on http://127\.0\.0\.1"):
        upload(folder, "somebody/toy", token=TOKEN, endpoint=hub.endpoint)


def test_the_script_assembles_checks_and_uploads(hub: HubServer, run: RunFolder) -> None:
    process = publish(hub, TOKEN, str(run.path), "--repo-id", "somebody/toy", "--allow-useless")
    assert process.returncode == 0, process.stderr
    assert f"Uploaded: {hub.endpoint}/somebody/toy/commit/" in process.stdout
    assert hub.branches == {("somebody/toy", "main"): bytes_of(run.published)}
    assert b'model="somebody/toy"' in hub.branches["somebody/toy", "main"]["README.md"]


def test_the_command_fails_with_a_sentence(hub: HubServer, folder: Path) -> None:
    hub.failing["commit"] = 500
    process = publish(hub, TOKEN, str(folder), "--repo-id", "somebody/toy", "--allow-useless")
    assert process.returncode == 1
    (last,) = process.stderr.strip().splitlines()[-1:]
    assert last.startswith("error: somebody/toy was not published on ")
    assert "Traceback" not in process.stderr


def publish(hub: HubServer, token: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
    }
    command = [sys.executable, "-m", "vaswani_transformer", "publish", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
