"""Asks the servers of a pipeline for their certificates, as its clients do, and tells when each of these ends."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import certifi
import structlog

from effectively_once.driver.metrics import Metrics
from effectively_once.kafka_client import Access
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sinks.database import AUTHORITIES, SSL_MODE, DatabaseAddress
from effectively_once.store.s3_client import CERTIFICATES

EVERY_S = 3600.0
TIMEOUT_S = 10.0
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
"""With these a client of PostgreSQL asks for TLS; the server answers S."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Server:
    """A server that speaks TLS.

    Attributes:
        host: its name, which its certificate has to have.
        port: where it listens.
        certificates: file of those that are believed.
        asks_first: it is PostgreSQL, which is asked for TLS in plain text.

    """

    host: str
    port: int
    certificates: str
    asks_first: bool = False

    def find_end(self) -> float:
        """Return when its certificate ends, in seconds since 1970. Raises OSError: it is away, or not believed."""
        context = ssl.create_default_context(cafile=self.certificates)
        with socket.create_connection((self.host, self.port), TIMEOUT_S) as plain:
            if self.asks_first:
                plain.sendall(_SSL_REQUEST)
                if plain.recv(1) != b"S":
                    raise ConnectionError("it does not speak TLS")
            with context.wrap_socket(plain, server_hostname=self.host) as secured:
                return float(ssl.cert_time_to_seconds(str((secured.getpeercert() or {})["notAfter"])))


def servers_of(settings: PipelineSettings, environment: Mapping[str, str]) -> Iterator[Server]:
    """Yield the servers of a pipeline whose certificates its clients look at. Raises SettingsError, as `Access.of`."""
    access = Access.of(environment)
    if access.has_tls:
        for address in settings.kafka_bootstrap.split(","):
            yield _server(address, 9092, str(access.certificates or certifi.where()))
    if settings.bucket.secure:
        yield _server(settings.bucket.host, 443, environment.get(CERTIFICATES) or certifi.where())
    root = environment.get(AUTHORITIES)
    if settings.database is not None and root and environment.get(SSL_MODE, "").startswith("verify-"):
        parts = DatabaseAddress(settings.database).parts
        yield Server(parts["host"], int(parts["port"]), root, asks_first=True)


class CertificateWatch:
    """One per driver.

    Args:
        servers: are asked.
        metrics: are told.

    """

    def __init__(self, servers: tuple[Server, ...], metrics: Metrics) -> None:
        self._servers, self._metrics = servers, metrics

    @classmethod
    def of(cls, settings: PipelineSettings, metrics: Metrics) -> CertificateWatch:
        """Return that of a pipeline, as the environment says how its servers are spoken to."""
        return cls(tuple(servers_of(settings, os.environ)), metrics)

    def look(self) -> None:
        """Ask each server once. One that refuses, or is away, keeps the end that it showed before."""
        for server in self._servers:
            where = f"{server.host}:{server.port}"
            try:
                self._metrics.show_certificate(where, server.find_end())
            except OSError as error:
                # Whether the pipeline can go on without it shows at the next epoch.
                log.warning("when the certificate of a server ends cannot be told", server=where, error=str(error))

    def start(self, stopping: threading.Event) -> None:
        """Look in a thread of its own until `stopping` is set, where any server has a certificate."""
        if self._servers:
            threading.Thread(target=self._run, args=(stopping,), name="certificate-watch", daemon=True).start()

    def _run(self, stopping: threading.Event) -> None:
        self.look()
        while not stopping.wait(EVERY_S):
            self.look()


def _server(address: str, port: int, certificates: str) -> Server:
    host, colon, named = address.rpartition(":")
    return Server(host.strip("[]"), int(named), certificates) if colon else Server(address, port, certificates)
