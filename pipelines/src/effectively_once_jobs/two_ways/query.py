"""Snapshots: all operators as stateful steps of one query of Spark, which keeps offsets and states of all in one place.

A batch is committed when every operator's state of it is on the object store. After a restart all of them go back to
the last batch that is, and the source with them; within a batch Spark repeats what an executor took along. The output
is written by id, so a batch that is repeated writes the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery
from pyspark.sql.streaming.stateful_processor import TimerValues

from effectively_once import points
from effectively_once.driver.spark_state import settings as stateful_settings
from effectively_once.epoch import whole_input
from effectively_once.epoch.rows import by_key
from effectively_once.progress import announce
from effectively_once.sources.kafka import KafkaSource
from effectively_once_jobs.two_ways.running import NOTHING, Kept, Record, advance
from effectively_once_jobs.two_ways.settings import WaySettings
from effectively_once_jobs.two_ways.stage import TAKEN
from effectively_once_jobs.two_ways.table import shared_table

ROWS = "id string, user string, event_time_ms long, amount long, place long"
STATE = "count long, total long"
WRITTEN = "rows long"


def start(settings: WaySettings, spark: SparkSession) -> StreamingQuery:
    """Start the query; its checkpoint is on the object store."""
    for name, value in stateful_settings(settings.shards).items():
        spark.conf.set(name, value)
    source = KafkaSource(settings)
    stream = source.stream(spark, source.first_offsets())
    table = partial(_write, settings.database, settings.pipeline)

    def publish(batch: DataFrame, number: int) -> None:
        announce("epoch", epoch=number, state="declared")
        # Never in the stage of the last operator: what it gave on a part of a group would be written (R13).
        whole = by_key(batch, "user", settings.shards)
        number_written = sum(row.rows for row in whole.mapInArrow(table, WRITTEN).collect())
        announce("epoch", epoch=number, state="published", rows=number_written)

    writer = chain(records(stream), settings.operators).writeStream.foreachBatch(publish)
    folder = f"s3://{settings.s3_bucket}/{settings.pipeline}/checkpoint"
    return writer.option("checkpointLocation", folder).queryName(settings.pipeline).start()


def records(stream: DataFrame) -> DataFrame:
    """Rows of `ROWS` from what Kafka has; the place is the offset: a user's records are all in one partition."""
    sent = f.from_json(f.col("value").cast("string"), "id string, user string, event_time_ms long, payload string")
    row = f.col("row")
    return stream.select(sent.alias("row"), f.col("offset").alias("place")).select(
        row["id"].alias("id"),
        row["user"].alias("user"),
        row["event_time_ms"].alias("event_time_ms"),
        row["payload"].cast("long").alias("amount"),
        "place",
    )


def chain(rows: DataFrame, operators: int) -> DataFrame:
    """Put operators one behind the other, each with a state and a shuffle of its own.

    `applyInPandasWithState` cannot be behind another one (Spark 4.2 refuses the plan); this one can.
    """
    for operator in range(operators):
        rows = rows.groupBy("user").transformWithStateInPandas(
            statefulProcessor=Operator(operator), outputStructType=ROWS, outputMode="append", timeMode="none"
        )
    return rows


class Operator(StatefulProcessor):  # type: ignore[misc]  # pyspark tells no types here
    """One of them, as Spark's tasks call it."""

    def __init__(self, operator: int) -> None:
        self._operator = operator
        self._state: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._state = handle.getValueState("kept", STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        _: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        """All records of a user in a batch, in their order. A shuffle has none, so they are sorted by their place."""
        frame = pd.concat(list(rows)).sort_values("place", ignore_index=True)
        announce(TAKEN, operator=self._operator, pid=os.getpid(), rows=len(frame), copies=0)
        points.reach(TAKEN, operator=self._operator)
        kept: Kept = tuple(self._state.get()) if self._state.exists() else NOTHING
        amounts = []
        for amount in frame["amount"]:
            kept, passed_on = advance(kept, int(amount))
            amounts.append(passed_on)
        self._state.update(kept)
        yield frame.assign(amount=amounts)

    def close(self) -> None:
        """Nothing to close."""


def _write(database: str, pipeline: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one partition's part of a batch."""
    whole = whole_input.require(batches, (), f"pipeline {pipeline}, table of results")
    records_ = [Record(*(row[name] for name in Record.__slots__)) for batch in whole for row in batch.to_pylist()]
    if records_:
        shared_table(database, pipeline).write(records_)
    yield pa.RecordBatch.from_pydict({"rows": [len(records_)]})
