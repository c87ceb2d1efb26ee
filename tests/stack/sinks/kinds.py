"""The sinks that the suite is run on."""

from __future__ import annotations

from collections.abc import Mapping

from tests.stack.sinks.adapter import Adapter
from tests.stack.sinks.iceberg_sink import IcebergAdapter
from tests.stack.sinks.kafka_sink import KafkaAdapter
from tests.stack.sinks.manifest_sink import ManifestAdapter
from tests.stack.sinks.postgres_sink import PostgresAdapter

KINDS: Mapping[str, type[Adapter]] = {
    "iceberg": IcebergAdapter,
    "kafka": KafkaAdapter,
    "manifest": ManifestAdapter,
    "postgres": PostgresAdapter,
}
