"""A Hub small enough to read: the requests with which `huggingface_hub` creates a repository and commits files, over real HTTP."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_of_the_test"


class HubServer(ThreadingHTTPServer):
    """What it knows of repositories is in `branches`: (repository, branch) -> {path: content}."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.branches: dict[tuple[str, str], dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
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
        return 200, {"commitUrl": f"{self.server.endpoint}/{repo}/commit/{oid}", "commitOid": oid, "success": True}

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
ROUTES = [
    ("POST", "/api/repos/create", "create"),
    ("POST", f"/api/models/{REPO}/branch/([^/]+)", "branch"),
    ("GET", f"/api/models/{REPO}", "info"),
    ("POST", "/api/validate-yaml", "validate"),
    ("POST", f"/api/models/{REPO}/preupload/([^/]+)", "preupload"),
    ("POST", rf"/{REPO}\.git/info/lfs/objects/batch", "batch"),
    ("PUT", "/storage/([0-9a-f]{64})", "storage"),
    ("POST", f"/api/models/{REPO}/commit/([^/]+)", "commit"),
]


@contextmanager
def serve_hub() -> Iterator[HubServer]:
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
