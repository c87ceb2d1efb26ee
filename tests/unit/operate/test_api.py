"""The reader of a cluster's API, against a web server that plays one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from infra.cluster.api import Api, ApiError, UnreachableError
from infra.embedded.ports import free_ports


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path == "/logs":
            return self._grow()
        if path == "/refused":
            return self._answer(403, json.dumps({"kind": "Status", "message": "pods is forbidden"}))
        if path == "/page":
            return self._answer(200, "<html>a portal</html>")
        seen = {"path": path, "query": query, "authorization": self.headers.get("Authorization")}
        return self._answer(200, json.dumps(seen))

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        allowed = given["spec"]["resourceAttributes"]["verb"] == "get" and self.headers["Content-Type"].endswith("json")
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        self._answer(201 if self.path == path else 404, json.dumps({**given, "status": {"allowed": allowed}}))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def _grow(self) -> None:
        """Two lines and a half, then silence until the server is told to end."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in (b"first\nsec", b"ond\nthi"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.flush()
        self.server.over.wait(20)  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.over = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield _kubeconfig(tmp_path, server.server_address[1])
    server.over.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


def _kubeconfig(directory: Path, port: int) -> Path:
    path = directory / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ours",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "of-the-user"}}],
        "contexts": [{"name": "ours", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_what_we_may_do_is_asked(kubeconfig: Path) -> None:
    api = Api(kubeconfig, "ours")
    assert api.may("get", "scheduling.k8s.io", "priorityclasses")
    assert not api.may("create", "scheduling.k8s.io", "priorityclasses")


def test_an_object_is_asked_for_with_query_and_login_of_the_context(kubeconfig: Path) -> None:
    found = Api(kubeconfig, "ours").get("/api/v1/pods", labelSelector="a=b,c=d")
    assert found["path"] == "/api/v1/pods"
    assert found["query"] == {"labelSelector": ["a=b,c=d"]}
    assert found["authorization"] == "Bearer of-the-user"


def test_the_current_context_is_taken_when_none_is_named(kubeconfig: Path) -> None:
    assert "of-the-user" in Api(kubeconfig, None).text("/anything")


def test_a_refusal_carries_its_status_and_the_clusters_own_words(kubeconfig: Path) -> None:
    with pytest.raises(ApiError, match="403 to /refused: pods is forbidden") as caught:
        Api(kubeconfig, None).get("/refused")
    assert (caught.value.status, caught.value.answer) == (403, "pods is forbidden")
    with pytest.raises(ApiError, match="no JSON"):
        Api(kubeconfig, None).get("/page")


def test_a_log_is_read_line_by_line_and_closing_ends_a_read_that_waits(kubeconfig: Path) -> None:
    lines = Api(kubeconfig, None).follow("/logs")
    seen: list[str] = []
    ended = threading.Event()

    def read() -> None:
        for line in lines:
            seen.append(line)
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    deadline = time.monotonic() + 10
    while len(seen) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen == ["first", "second"]
    assert not ended.is_set()
    lines.close()
    assert ended.wait(5), "the reading thread still waits"
    lines.close()


def test_a_cluster_that_is_not_there_is_said_once_and_soon(tmp_path: Path) -> None:
    api = Api(_kubeconfig(tmp_path, free_ports(1)[0]), None)
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1.*does not answer.*make up"):
        api.get("/version")
    assert time.monotonic() - began < 5


def test_a_missing_kubeconfig_and_an_unknown_context_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="make up"):
        Api(tmp_path / "none", None)
    with pytest.raises(UnreachableError, match="theirs"):
        Api(_kubeconfig(tmp_path, 1), "theirs")
