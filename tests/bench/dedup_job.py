"""Deduplicates batches of ids and does nothing else: with the catalog, or with `dropDuplicatesWithinWatermark`.

`python -m tests.bench.dedup_job SETTINGS.json` ends after the last batch. With the catalog a batch is one job, as an
epoch is: rows to their shards, the catalog's decision, and the delta written to the object store; new ids are counted
and not published. A worker that has not folded a delta yet reads it back, as in a pipeline.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once.driver.session import REQUIRED, keep_checkpoints_at
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.objects import create_once, run
from effectively_once.progress import announce
from effectively_once.state import deltas
from effectively_once.store import object_store
from effectively_once.store.object_store import BucketAddress
from tests.bench.dedup_data import COLUMNS, SPAN_MS
from tests.bench.dedup_step import NOTE, SHARDS, Task, decide
from tests.bench.spark_arm import ROCKSDB, plain_session, watch


def main(argv: list[str]) -> None:
    """Read the settings: arm, name, data (a folder), batches, checkpoint, s3_endpoint, s3_bucket."""
    asked = json.loads(Path(argv[0]).read_text())
    ours = asked["arm"] == "ours"
    spark = plain_session(asked["name"], REQUIRED if ours else ROCKSDB)
    if ours:
        keep_checkpoints_at(asked["s3_endpoint"], spark)
    rows = (
        spark.readStream.schema(COLUMNS)
        .option("maxFilesPerTrigger", "1")
        .option("latestFirst", "false")
        .parquet(asked["data"])
    )
    writer = _with_catalog(rows, asked) if ours else _with_spark(rows)
    watch(writer.option("checkpointLocation", asked["checkpoint"]).start(), asked["batches"])
    _end(spark)


def _with_spark(rows: DataFrame) -> Any:
    # An id goes when its time and the delay are behind the watermark, which is a delay behind the latest time.
    delay = f"{SPAN_MS // 2} milliseconds"
    new = rows.select("id", "event_time").withWatermark("event_time", delay).dropDuplicatesWithinWatermark(["id"])
    return new.writeStream.format("noop").outputMode("append")


def _with_catalog(rows: DataFrame, asked: dict[str, Any]) -> Any:
    address = BucketAddress(asked["s3_endpoint"], asked["s3_bucket"])
    named: dict[int, list[deltas.Named]] = {shard: [] for shard in range(SHARDS)}
    latest: list[int] = []

    def decide_batch(batch: DataFrame, number: int) -> None:
        task = Task(asked["name"], address, number, max(latest, default=None), named)
        # Stands for the declaration: one conditional put an epoch.
        run(create_once(f"{asked['name']}/declared/{number}", b"{}"), object_store.shared_store(address))
        shard = f.pmod(f.xxhash64("id"), f.lit(SHARDS)).cast("int")
        notes = (
            batch.select("id", "event_time_ms")
            .repartitionById(SHARDS, shard)
            .mapInArrow(lambda batches, task=task: decide(task, batches), NOTE)
            .collect()
        )
        for note in notes:
            rows = Delta.model_validate_json(note["delta"])
            named[note["shard"]].append(deltas.Named(number, rows))
        latest.append(max(note["latest"] for note in notes))
        announce("accepted", batch=number, accepted=sum(note["accepted"] for note in notes))

    return rows.writeStream.foreachBatch(decide_batch)


def _end(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
