"""Broker and object store together, for one run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from infra.embedded.kafka import KafkaBroker
from infra.embedded.object_store import ObjectStore
from infra.embedded.server import Server
from infra.toolchain.prepare import Toolchain


@dataclass(frozen=True)
class Endpoints:
    """How clients reach the stack."""

    kafka_bootstrap: str
    s3_endpoint: str
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    s3_bucket: str

    @property
    def credentials(self) -> dict[str, str]:
        """Return the environment that opens the object store: a session of AWS in the caller's shell does not."""
        keys = {"AWS_ACCESS_KEY_ID": self.s3_access_key, "AWS_SECRET_ACCESS_KEY": self.s3_secret_key}
        return {**keys, "AWS_SESSION_TOKEN": ""}


@dataclass(frozen=True)
class Kept:
    """Data that outlive a run.

    Attributes:
        folder: where they are; what is there is gone on with.
        access_key: of the object store.
        secret_key: of the object store.

    """

    folder: Path
    access_key: str
    secret_key: str = field(repr=False)


class Stack(Protocol):
    """What a run needs around it: processes of this machine here, pods of a cluster elsewhere."""

    @property
    def endpoints(self) -> Endpoints:
        """Where everything listens."""
        ...

    def start(self) -> Endpoints:
        """Start everything and return when all of it answers."""
        ...

    def stop(self) -> None:
        """End everything. Safe to repeat."""
        ...


class EmbeddedStack:
    """The stack as processes: data in `<run>/work`, removed at the end unless `keep`, or `kept`; logs in `<run>/logs`.

    A context manager; on Ctrl-C or an exception in the block everything is stopped as well.
    """

    def __init__(
        self,
        run_dir: Path,
        toolchain: Toolchain,
        say: Callable[[str], None] = lambda _: None,
        *,
        keep: bool = False,
        long_lived: bool = False,
        kafka_link: int | None = None,
        class_archive: Path | None = None,
        dump_to: Path | None = None,
        kept: Kept | None = None,
    ) -> None:
        """`say` is given one line per server that is up; `long_lived` is for throughput. Nothing is started yet.

        `kafka_link` is the port of something in front of the broker, for clients of the broker's second listener.
        `class_archive` and `dump_to` are the broker's.
        """
        self._work = run_dir.absolute() / "work"
        self._keep = keep
        self._say = say
        logs = run_dir.absolute() / "logs"
        self.kafka = KafkaBroker(
            self._work / "kafka",
            logs / "kafka.log",
            toolchain.java,
            toolchain.kafka_classpath,
            link=kafka_link,
            long_lived=long_lived,
            class_archive=class_archive,
            dump_to=dump_to,
            kept=None if kept is None else kept.folder / "kafka",
        )
        self.object_store = ObjectStore(
            (kept.folder if kept else self._work) / "object_store",
            logs / "object_store.log",
            toolchain.minio,
            keys=None if kept is None else (kept.access_key, kept.secret_key),
        )

    @property
    def endpoints(self) -> Endpoints:
        """Where everything listens; valid once started, the same after a server's restart."""
        store = self.object_store
        return Endpoints(self.kafka.bootstrap, store.endpoint, store.access_key, store.secret_key, store.bucket)

    def start(self) -> Endpoints:
        """Start both side by side. Raises ServerError for the one that failed, after stopping the other."""
        try:
            with ThreadPoolExecutor(max_workers=2, thread_name_prefix="stack") as pool:
                started = [
                    pool.submit(self._start, "object store", self.object_store),
                    pool.submit(self._start, "Kafka broker", self.kafka),
                ]
                for one in started:
                    one.result()
        except BaseException:
            self.stop()
            raise
        return self.endpoints

    def _start(self, name: str, server: Server) -> None:
        began = time.monotonic()
        server.start()
        self._say(f"✓ {name} {time.monotonic() - began:.1f} s")

    def stop(self) -> None:
        """Stop both, then remove their data unless it is to be kept. Safe to repeat."""
        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="stack") as pool:
            for one in [pool.submit(self.kafka.stop), pool.submit(self.object_store.stop)]:
                one.result()
        if not self._keep:
            shutil.rmtree(self._work, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()
