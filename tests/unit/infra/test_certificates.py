"""A server is believed for its hosts by who believes its authority, and by nobody else: asked of Python's own TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest

from infra.certificates import Certificate, CertificateError, make_authority, sign

HOSTS = ["kafka.platform.svc", "*.kafka-nodes.platform.svc.cluster.local"]


@pytest.fixture(scope="module")
def authority() -> Certificate:
    return make_authority("effectively-once")


@pytest.fixture(scope="module")
def server(authority: Certificate) -> Certificate:
    return sign(authority, "kafka", HOSTS)


def handshake(folder: Path, shown: Certificate, believed: str, host: str, client: Certificate | None = None) -> str:
    """Connect once; return what the server learns of the client's name, empty where it asks for none."""
    paths = {}
    for name, text in {"crt": shown.certificate, "key": shown.key, "ca": believed}.items():
        paths[name] = folder / name
        paths[name].write_text(text)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(paths["crt"], paths["key"])
    ours = ssl.create_default_context(cadata=believed)
    if client is not None:
        theirs.load_verify_locations(cadata=believed)
        theirs.verify_mode = ssl.CERT_REQUIRED
        (folder / "client").write_text(client.certificate + client.key)
        ours.load_cert_chain(folder / "client")
    one, other = socket.socketpair()
    learned: list[str] = []

    def serve() -> None:
        try:
            with theirs.wrap_socket(one, server_side=True) as wrapped:
                found = wrapped.getpeercert() or {}
                learned.append(str(found.get("subject", "")))
                wrapped.sendall(b"x")
        except (ssl.SSLError, OSError):
            one.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours.wrap_socket(other, server_hostname=host) as wrapped:
            if not wrapped.recv(1):
                raise ssl.SSLError("the server ended it")
    finally:
        other.close()
        thread.join()
    return learned[0]


@pytest.mark.parametrize("host", ["kafka.platform.svc", "kafka-2.kafka-nodes.platform.svc.cluster.local"])
def test_a_server_is_believed_for_its_hosts(
    authority: Certificate, server: Certificate, host: str, tmp_path: Path
) -> None:
    handshake(tmp_path, server, authority.certificate, host)


@pytest.mark.parametrize("host", ["minio.platform.svc", "a.kafka-0.kafka-nodes.platform.svc.cluster.local"])
def test_it_is_not_believed_for_others(authority: Certificate, server: Certificate, host: str, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"ostname mismatch|certificate is not valid for"):
        handshake(tmp_path, server, authority.certificate, host)


def test_another_authority_of_the_same_name_is_not_believed(server: Certificate, tmp_path: Path) -> None:
    other = make_authority("effectively-once")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, server, other.certificate, HOSTS[0])


def test_both_authorities_of_a_change_may_be_believed_at_once(
    authority: Certificate, server: Certificate, tmp_path: Path
) -> None:
    other = make_authority("effectively-once")
    handshake(tmp_path, server, other.certificate + authority.certificate, HOSTS[0])


def test_a_client_is_known_by_its_name(authority: Certificate, server: Certificate, tmp_path: Path) -> None:
    told = handshake(tmp_path, server, authority.certificate, HOSTS[0], sign(authority, "platform-admin"))
    assert "platform-admin" in told
    with pytest.raises(ssl.SSLError):
        handshake(tmp_path, server, authority.certificate, HOSTS[0], sign(make_authority("x"), "platform-admin"))


def test_what_is_signed_signs_nothing(authority: Certificate, server: Certificate, tmp_path: Path) -> None:
    """Else whoever has a server's key is an authority."""
    forged = sign(server, "forged", HOSTS)
    shown = Certificate(forged.certificate + server.certificate, forged.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, shown, authority.certificate, HOSTS[0])


def test_kafka_reads_the_key(server: Certificate) -> None:
    """PKCS#8, and not encrypted."""
    assert server.key.startswith("-----BEGIN PRIVATE KEY-----")


def test_without_openssl_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CertificateError, match=r"openssl is not on PATH.*install it"):
        make_authority("x")


def test_an_error_shows_no_key(authority: Certificate) -> None:
    with pytest.raises(CertificateError, match="openssl x509 ended with") as refused:
        sign(Certificate("none", authority.key), "x", HOSTS)
    assert authority.key.splitlines()[1] not in str(refused.value)


def test_nothing_is_left_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sign(make_authority("x"), "y", HOSTS)
    assert list(tmp_path.iterdir()) == []
