"""Who reads lake tables believes a store of ours where the environment names its authority, and no other one."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyiceberg.io import PY_IO_IMPL, S3_ENDPOINT, S3_REGION, load_file_io

from effectively_once.store.s3_client import ACCESS_KEY, CERTIFICATES, SECRET_KEY
from infra.certificates import make_authority, sign
from tests.harness.adapters.lake import BelievingFileIO

BODY = b"what a table is made of"


class Store(BaseHTTPRequestHandler):
    """Has one object; signatures are not looked at."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()
        self.wfile.write(BODY)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the module's name
        """Say nothing."""

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Sat, 28 Nov 2026 00:00:00 GMT")
        self.end_headers()


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """Yield the file of the authority of a store, and the store's address."""
    made = make_authority("a platform")
    shown = sign(made, "minio", ["127.0.0.1"])
    (tmp_path / "ca.crt").write_text(made.certificate)
    (tmp_path / "server").write_text(shown.certificate + shown.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server")
    monkeypatch.setenv(ACCESS_KEY, "owner")
    monkeypatch.setenv(SECRET_KEY, "word")
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield tmp_path / "ca.crt", f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def read(endpoint: str) -> bytes:
    own = f"{BelievingFileIO.__module__}.{BelievingFileIO.__qualname__}"
    files = load_file_io({S3_ENDPOINT: endpoint, S3_REGION: "us-east-1", PY_IO_IMPL: own})
    assert isinstance(files, BelievingFileIO)
    with files.new_input("s3://bucket/object").open() as file:
        return bytes(file.read())


def test_it_is_believed_by_the_authority_that_the_environment_names(
    authority: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, endpoint = authority
    monkeypatch.setenv(CERTIFICATES, str(file))
    assert read(endpoint) == BODY


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.thinned(2)
def test_it_is_not_believed_by_another_one_and_not_without(
    authority: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    other = tmp_path / "other.crt"
    other.write_text(make_authority("a platform").certificate)
    monkeypatch.setenv(CERTIFICATES, str(other) if named else "")
    with pytest.raises(OSError, match=r"(?i)certificate|SSL"):
        read(authority[1])
