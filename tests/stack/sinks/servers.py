"""Broker, object store and database for the conformance suite, each reached through a link that can fail."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from infra.cluster.engine import install_packages, why_not_here
from infra.embedded.kafka import KafkaBroker
from infra.embedded.object_store import ObjectStore
from infra.embedded.ports import HOST
from infra.embedded.postgres import PostgresServer
from infra.toolchain.postgres import ensure_postgres
from infra.toolchain.prepare import default_console, prepare
from tests.stack.faulty_link import FaultyLink


class LinkedBroker(KafkaBroker):
    """A broker that tells its clients the address of a link. What connects without it is told the link's as well."""

    link: FaultyLink

    def _configure(self, ports: list[int], attempt: int) -> None:
        super()._configure(ports, attempt)
        ours, links = f"PLAINTEXT://{HOST}:{self._port}", f"PLAINTEXT://{self.link.address}"
        text = self._config.read_text()
        self._config.write_text(text.replace(f"advertised.listeners={ours}", f"advertised.listeners={links}"))
        self.link.target = (HOST, self._port)


class Servers:
    """All three and their links by kind of sink. A context manager."""

    def __init__(self, work: Path) -> None:
        """Programs are found, built or installed; nothing is started yet. Raises ToolchainError."""
        tools, console = prepare(), default_console()
        programs = ensure_postgres(console, why_not_here("PostgreSQL"), install_packages)
        self.links = {kind: FaultyLink() for kind in ("kafka", "manifest", "postgres")}
        self.kafka = LinkedBroker(work / "kafka", work / "kafka.log", tools.java, tools.kafka_classpath)
        self.kafka.link = self.links["kafka"]
        self.object_store = ObjectStore(work / "object_store", work / "object_store.log", tools.minio)
        self.postgres = PostgresServer(work / "postgres", work / "postgres.log", programs)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Start them side by side."""
        with ExitStack() as opening:
            for link in self.links.values():
                opening.enter_context(link)
            opening.callback(self.postgres.remove)
            servers = (self.kafka, self.object_store, self.postgres)
            for server in servers:
                opening.callback(server.stop)
            with ThreadPoolExecutor(len(servers)) as pool:
                for started in [pool.submit(server.start) for server in servers]:
                    started.result()
            for kind, url in (("manifest", self.object_store.endpoint), ("postgres", self.postgres.url)):
                host, port = url.split("/")[2].split(":")
                self.links[kind].target = (host, int(port))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop them."""
        self._open.close()
