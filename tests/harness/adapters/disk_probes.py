"""How long a server takes to write something down, as its clients see it: the witness of a slow disk.

Each probe has a place of its own, of which the pipeline knows nothing.
"""

from __future__ import annotations

import io
import time
from contextlib import suppress
from typing import Any, Protocol

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from minio import Minio, S3Error

from effectively_once.kafka_client import client_config
from effectively_once.store.s3_client import connections
from infra.embedded.object_store import REGION
from infra.embedded.stack import Endpoints

PLACE = "slow-disk-probe"
"""A topic, or a bucket."""
PATIENCE_S = 20.0
"""A probe that takes longer is given up, and tells nothing."""
COPIES = 3
"""Of a partition at most, as the pipeline's topics have."""
OBJECT, BODY = "probe", b"x" * 1024


class Probe(Protocol):
    """One write at a time."""

    def __call__(self) -> float:
        """Write, and return after how many seconds that was acknowledged. Raises whatever the client does."""

    def forget(self) -> None:
        """Delete its place, where there is one. Safe to repeat. Raises whatever the client does."""


class Connectable(Protocol):
    """A database."""

    def connect(self) -> psycopg.Connection:
        """Open a connection; every statement commits by itself."""


class StoreProbe:
    """Puts an object.

    Args:
        endpoints: of the store.
        place: a bucket of its own.
        patience_s: a write that takes longer is given up.
    """

    def __init__(self, endpoints: Endpoints, place: str = PLACE, patience_s: float = PATIENCE_S) -> None:
        self._place = place
        scheme, _, host = endpoints.s3_endpoint.partition("://")
        http = connections(patience_s)
        self._client = Minio(
            host,
            access_key=endpoints.s3_access_key,
            secret_key=endpoints.s3_secret_key,
            secure=scheme == "https",
            region=REGION,
            http_client=http,
        )
        self._ready = False

    def __call__(self) -> float:
        """See Probe."""
        if not self._ready:
            if not self._client.bucket_exists(self._place):
                self._client.make_bucket(self._place)
            self._ready = True
        began = time.monotonic()
        self._client.put_object(self._place, OBJECT, io.BytesIO(BODY), len(BODY))
        return time.monotonic() - began

    def forget(self) -> None:
        """See Probe."""
        if self._client.bucket_exists(self._place):
            self._client.remove_object(self._place, OBJECT)
            # A run beside this one writes there too.
            with suppress(S3Error):
                self._client.remove_bucket(self._place)
        self._ready = False


class BrokerProbe:
    """Produces a record to each broker, and waits until all are acknowledged: any of them may be the slow one.

    Args:
        bootstrap: `host:port,...` of the brokers.
        place: a topic of its own.
        copies: whether its partitions have as many copies as there are brokers, up to three; else one broker each.
        patience_s: a write that takes longer is given up.
    """

    def __init__(
        self, bootstrap: str, place: str = PLACE, *, copies: bool = False, patience_s: float = PATIENCE_S
    ) -> None:
        self._place, self._copies, self._patience_s = place, copies, patience_s
        self._client: dict[str, Any] = {
            **client_config(bootstrap),
            "reconnect.backoff.max.ms": 200,
        }
        self._producer: Producer | None = None
        self._partitions = 0

    def __call__(self) -> float:
        """See Probe."""
        producer = self._producer = self._producer or self._make_producer()
        errors: list[Any] = []
        began = time.monotonic()
        for partition in range(self._partitions):
            producer.produce(self._place, BODY, partition=partition, on_delivery=lambda error, _: errors.append(error))
        producer.flush(2 * self._patience_s)
        took = time.monotonic() - began
        if errors != [None] * self._partitions:
            raise TimeoutError(f"the broker did not acknowledge a record within {took:.1f} s: {errors}")
        return took

    def forget(self) -> None:
        """See Probe."""
        self._producer = None
        admin, there = self._connect()
        if there:
            admin.delete_topics([self._place])[self._place].result(self._patience_s)

    def _connect(self) -> tuple[AdminClient, int]:
        """Somebody to ask, and how many partitions the topic has."""
        admin = AdminClient(self._client)
        found = admin.list_topics(timeout=self._patience_s).topics.get(self._place)
        return admin, len(found.partitions) if found else 0

    def _make_producer(self) -> Producer:
        admin, there = self._connect()
        if not there:
            # New partitions are spread over the brokers, one each.
            there = len(admin.list_topics(timeout=self._patience_s).brokers)
            copies = min(there, COPIES) if self._copies else 1
            topic = NewTopic(self._place, there, copies, config={"min.insync.replicas": str(max(1, copies - 1))})
            admin.create_topics([topic])[self._place].result(self._patience_s)
        self._partitions = there
        timeout_ms = int(1000 * self._patience_s)
        return Producer({**self._client, "acks": "all", "linger.ms": 0, "message.timeout.ms": timeout_ms})


class DatabaseProbe:
    """Commits a transaction that writes to the log alone."""

    def __init__(self, server: Connectable) -> None:
        self._server = server
        self._connection: psycopg.Connection | None = None

    def __call__(self) -> float:
        """See Probe."""
        if self._connection is None or self._connection.closed:
            # A server that was restarted has closed the one before.
            self._connection = self._server.connect()
            self._connection.execute(f"SET statement_timeout = {int(1000 * PATIENCE_S)}")
        began = time.monotonic()
        self._connection.execute("SELECT pg_logical_emit_message(true, 'probe', '')")
        return time.monotonic() - began

    def forget(self) -> None:
        """Close the connection: what was written is in the log alone."""
        if self._connection is not None:
            self._connection.close()
