"""What the jobs of plain Spark share: a session with Spark's own defaults, and batches that are announced."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from effectively_once.driver.main import SPARK_CONF
from effectively_once.progress import announce

POLL_S = 0.25
BASIS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # The announcer asks now and then, and must not miss a batch.
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",  # noqa: E501
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # As Spark's guide advises for speed: a look-up less for each row.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


def plain_session(name: str, conf: Mapping[str, str]) -> SparkSession:
    """Build a session with nothing of ours in it but where it runs."""
    builder = SparkSession.builder.appName(name)
    place: dict[str, str] = json.loads(os.environ[SPARK_CONF])
    for key, value in {**place, **BASIS, **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def watch(query: StreamingQuery, batches: int | None = None, beside: Sequence[StreamingQuery] = ()) -> None:
    """Announce each batch that has ended, until `batches` of them were, or it or a query beside it has failed."""
    announced = -1
    while batches is None or announced + 1 < batches:
        ended = query.awaitTermination(POLL_S)
        last = query.lastProgress
        if last is not None and last.batchId > announced:
            for one in query.recentProgress:
                # The query tells of a wait for data as of a batch: with the number of the next one, and no rows.
                if one.batchId > announced and "addBatch" in one.durationMs:
                    announce("batch", **_facts(one))
                    announced = one.batchId
        if ended or not all(other.isActive for other in beside):
            return


def _facts(one: Any) -> dict[str, Any]:
    began = datetime.fromisoformat(one.timestamp.replace("Z", "+00:00")).astimezone(UTC).timestamp() * 1000
    states = [
        {
            "rows": state.numRowsTotal,
            "new": state.numRowsUpdated,
            "late": state.numRowsDroppedByWatermark,
            **{key: value for key, value in state.customMetrics.items() if "Duplicate" in key},
        }
        for state in one.stateOperators
    ]
    return {
        "batch": one.batchId,
        "rows": one.numInputRows,
        "ended_ms": began + one.durationMs["triggerExecution"],
        "ms": dict(one.durationMs),
        "states": states,
    }
