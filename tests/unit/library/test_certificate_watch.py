"""A driver tells when the certificates end that its servers show, as its clients see them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest

from effectively_once.driver.certificate_watch import CertificateWatch, Server, servers_of
from effectively_once.driver.metrics import Metrics
from infra.certificates import DAYS, Certificate, make_authority, sign
from tests.settings import pipeline_settings

DAY_S = 86_400.0


class TlsServer:
    """Shakes hands on a port of this machine; `asked_first`: once it was asked in plain text, as PostgreSQL is."""

    def __init__(self, shown: Certificate, folder: Path, *, asked_first: bool = False, refuses: bool = False) -> None:
        (folder / "crt").write_text(shown.certificate)
        (folder / "key").write_text(shown.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "crt", folder / "key")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._asked_first, self._refuses = asked_first, refuses
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                client.settimeout(5)
                if self._asked_first:
                    assert client.recv(8) == bytes.fromhex("0000000804d2162f")
                    client.sendall(b"N" if self._refuses else b"S")
                try:
                    self._context.wrap_socket(client, server_side=True).recv(1)
                except OSError:
                    continue

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture(scope="module")
def authority() -> Certificate:
    return make_authority("test")


@pytest.fixture
def folder(tmp_path: Path, authority: Certificate) -> Path:
    """Return one with the authority's certificate, `ca.crt`."""
    (tmp_path / "ca.crt").write_text(authority.certificate)
    return tmp_path


@pytest.fixture(params=[False, True], ids=["at-once", "asked-first"])
def server(request: pytest.FixtureRequest, folder: Path, authority: Certificate) -> Iterator[tuple[TlsServer, bool]]:
    made = TlsServer(sign(authority, "kafka", ["127.0.0.1"]), folder, asked_first=request.param)
    yield made, request.param
    made.close()


def read_expiry(metrics: Metrics, server: str) -> float | None:
    labels = {"pipeline": "uc", "server": server}
    return metrics.registry.get_sample_value("effectively_once_certificate_expiry_timestamp_seconds", labels)


def test_the_end_of_a_certificate_is_told_and_stays_while_its_server_is_away(
    server: tuple[TlsServer, bool], folder: Path
) -> None:
    made, asked_first = server
    metrics, where = Metrics("uc"), f"127.0.0.1:{made.port}"
    watch = CertificateWatch((Server("127.0.0.1", made.port, str(folder / "ca.crt"), asked_first),), metrics)
    watch.look()
    assert read_expiry(metrics, where) == pytest.approx(time.time() + DAYS * DAY_S, abs=60)
    end = read_expiry(metrics, where)
    made._socket.shutdown(socket.SHUT_RDWR)
    watch.look()
    assert read_expiry(metrics, where) == end


def test_who_is_not_believed_tells_nothing_and_keeps_nobody_from_telling(
    server: tuple[TlsServer, bool], folder: Path
) -> None:
    made, asked_first = server
    metrics, other = Metrics("uc"), folder / "other.crt"
    other.write_text(make_authority("test").certificate)
    stranger = Server("127.0.0.1", made.port, str(other), asked_first)
    CertificateWatch((stranger,), metrics).look()
    assert read_expiry(metrics, f"127.0.0.1:{made.port}") is None
    CertificateWatch((stranger, Server("127.0.0.1", made.port, str(folder / "ca.crt"), asked_first)), metrics).look()
    assert read_expiry(metrics, f"127.0.0.1:{made.port}") is not None


def test_a_database_without_tls_tells_nothing(folder: Path, authority: Certificate) -> None:
    made = TlsServer(sign(authority, "pg", ["127.0.0.1"]), folder, asked_first=True, refuses=True)
    with pytest.raises(ConnectionError, match="does not speak TLS"):
        Server("127.0.0.1", made.port, str(folder / "ca.crt"), asks_first=True).find_end()
    made.close()


def test_servers_are_those_whose_certificates_the_clients_look_at(folder: Path) -> None:
    for name in ("username", "password", "jaas.conf"):
        (folder / name).write_text("x")
    plain = pipeline_settings(kafka_bootstrap="k0:9092,k1:9093", s3_endpoint="http://s:9000")
    assert [*servers_of(plain, {})] == []
    secured = pipeline_settings(
        kafka_bootstrap="k0:9092,k1:9093", s3_endpoint="https://s", database="postgresql://db:5432/x"
    )
    kafka = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}
    environment = {**kafka, "KAFKA_CREDENTIALS": str(folder), "AWS_CA_BUNDLE": "/own.crt"}
    own = str(folder / "ca.crt")
    assert [*servers_of(secured, environment)] == [
        Server("k0", 9092, own),
        Server("k1", 9093, own),
        Server("s", 443, "/own.crt"),
    ]
    assert [*servers_of(secured, {})] == [Server("s", 443, certifi.where())]
    verified = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/db.crt"}
    assert [*servers_of(secured, verified)][-1] == Server("db", 5432, "/db.crt", asks_first=True)
    assert Server("db", 5432, "/db.crt", asks_first=True) not in [
        *servers_of(secured, {**verified, "PGSSLMODE": "require"})
    ]
