"""The driver of the negative controls: `user_counts`' own transform, each time with one guard of the protocol left out.

`python -m tests.harness.controls.job SETTINGS.json [FOLDER CONTROL...]` runs the queries of some controls (of all),
each control on topics of its own: `<pipeline>.<control>.events` in, `<pipeline>.<control>.accepted` out. Queries start
when the file `FOLDER/<control>.go` (in the folder for temporary files) is there: Spark's first batch takes what it
finds, and it is to find a whole round. The file also runs alone, in a pod: it imports nothing of this repository but
the wheel.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once.driver.main import SPARK_CONF
from effectively_once.driver.session import session
from effectively_once.kafka_client import Access
from effectively_once.ledger.hashes import of_ids
from effectively_once.pipeline.settings import PipelineSettings, load
from effectively_once.progress import announce
from effectively_once.sinks.kafka import COMMIT_TIMEOUT_S, MARK_KEY, Failure, ShardSink, flush, produce
from effectively_once.sinks.kafka_shard import Record, Row, ShardAddress
from effectively_once.sinks.publish import Committed, Mark
from effectively_once.state.catalog import keys
from effectively_once.state.catalog.bloom import BITS_PER_ID, Filter, Probe
from effectively_once_jobs.user_counts.transform import events

GROUP = 10
"""Rows that a dribbling producer waits for at a time."""
BITS = 6
"""Bits for each id in a filter that decides alone; the catalog's filters have five times as many."""
ASKED_AT_ONCE = 500
"""Ids that a filter is asked for, then takes in."""


@dataclass(frozen=True)
class Output:
    """Where a query publishes.

    Attributes:
        bootstrap: of the broker.
        control: `<pipeline>.<control>`.
        driver: its name, where several publish; else empty.
    """

    bootstrap: str
    control: str
    driver: str = ""

    @property
    def options(self) -> dict[str, str]:
        """For Spark's own sink."""
        login = Access.of(os.environ).spark()
        return {"kafka.bootstrap.servers": self.bootstrap, "topic": f"{self.control}.accepted", **login}

    def shard(self, number: int) -> ShardAddress:
        """For the sink of the library."""
        return DriversShard(self.bootstrap, self.control, f"accepted{'.' * bool(self.driver)}{self.driver}", number)


class DriversShard(ShardAddress):
    """A shard of `accepted`, with transactional id and marks of one driver, as its sink's name says."""

    @property
    def topic(self) -> str:
        """The one topic of all drivers."""
        return f"{self.pipeline}.accepted"

    @property
    def progress(self) -> str:
        """Marks that the other drivers do not look at."""
        return f"{self.pipeline}.{self.sink}.progress"


class Dribbling(ShardSink):
    """A producer that waits for the broker after a few rows: its transaction is open for as long as a kill needs."""

    def _commit(self, mark: Mark, rows: Any) -> Committed:
        self._transact([*self.address.records(rows), self._record(mark)])
        return Committed.YES

    def _record(self, mark: Mark) -> Record:
        return self.address.progress, MARK_KEY, json.dumps(asdict(mark)).encode()

    def _transact(self, records: Iterable[Record]) -> None:
        producer, left = self._producer, iter(records)
        assert producer is not None
        failures: list[Failure] = []
        producer.begin_transaction()
        while group := list(islice(left, GROUP)):
            if not produce(producer, self.address.shard, group, failures) or not flush(producer) or failures:
                raise OSError(f"{self.address}: the broker does not take rows {failures[:1]}")
        producer.commit_transaction(COMMIT_TIMEOUT_S)


class MarkFirst(Dribbling):
    """The mark in one transaction, its rows in the next: what is left of an epoch when a kill comes between is lost."""

    def _commit(self, mark: Mark, rows: Any) -> Committed:
        self._transact([self._record(mark)])
        self._transact(self.address.records(rows))
        return Committed.YES


def filter_ids(ids: pa.Array) -> Iterator[int]:
    """Yield the places of the ids that a Bloom filter does not know, certainly; of those it may know, some are lost."""
    known = Filter(len(ids) * BITS // BITS_PER_ID)
    prefixes = of_ids(ids) >> np.uint64(64 - keys.PREFIX_BITS)
    for begin in range(0, len(prefixes), ASKED_AT_ONCE):
        asked, places = np.unique(prefixes[begin : begin + ASKED_AT_ONCE], return_index=True)
        new = np.delete(places, known.maybe(Probe.of(asked)))
        yield from (begin + np.sort(new)).tolist()
        known.add(asked)


def everything(ids: pa.Array) -> Iterator[int]:
    """Yield the places of all ids: there is no catalog."""
    yield from range(len(ids))


Start = Callable[[DataFrame, Output], Any]


def spark_kafka_sink(accepted: DataFrame, output: Output) -> Any:
    """Spark's own Kafka sink: at least once by construction (SPARK-28908); a task that is run again writes again."""
    return accepted.select("key", "value").writeStream.format("kafka").options(**output.options)


def append_without_mark(accepted: DataFrame, output: Output) -> Any:
    """Append each batch with foreachBatch, without a progress mark: what a failed batch wrote is written again."""

    def append(batch: DataFrame, _: int) -> None:
        batch.select("key", "value").write.format("kafka").options(**output.options).save()

    return accepted.writeStream.foreachBatch(append)


def in_epochs(
    accepted: DataFrame,
    output: Output,
    opened: Callable[[ShardAddress], ShardSink] = ShardSink,
    decided: Callable[[pa.Array], Iterator[int]] = everything,
) -> Any:
    """Publish each batch as an epoch, a task a shard, with transaction and mark: the protocol without its chain.

    A shard is a partition of the input: copies of a record have its key, and a killed task costs no shuffle.
    """

    def publish(batch: DataFrame, epoch: int) -> None:
        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            held = pa.Table.from_batches([one.cast(_PUBLISHED) for one in batches], _PUBLISHED)
            new = held.take(pa.array(decided(held["id"].combine_chunks().cast(pa.binary())), pa.int64()))
            rows: list[Row] = list(zip(new["key"].to_pylist(), new["value"].to_pylist(), strict=True))
            (shard,) = held["shard"].unique().to_pylist()
            opened(output.shard(shard)).publish(epoch, 0, rows)
            yield from ()

        columns = ("CAST(key AS BINARY) AS key", "CAST(value AS BINARY) AS value", "id", "partition AS shard")
        batch.selectExpr(*columns).mapInArrow(task, "shard int").collect()

    return accepted.writeStream.foreachBatch(publish)


_PUBLISHED = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("id", pa.string()), ("shard", pa.int32())])


@dataclass(frozen=True)
class Control:
    """How a control publishes; the rest is in `names.py`, which a pod does not have."""

    start: Start
    round_rows: int = 12_000
    drivers: tuple[str, ...] = ("",)


CONTROLS = {
    "spark_kafka_sink": Control(spark_kafka_sink, 60_000),
    "append_without_mark": Control(append_without_mark, 60_000),
    # Each numbers its epochs by itself, and none looks at what the other did.
    "two_drivers": Control(in_epochs, drivers=("first", "second")),
    "catalog_off": Control(in_epochs),
    "uncommitted_reader": Control(lambda accepted, output: in_epochs(accepted, output, Dribbling)),
    "mark_first": Control(lambda accepted, output: in_epochs(accepted, output, MarkFirst)),
    "bloom_alone": Control(lambda accepted, output: in_epochs(accepted, output, decided=filter_ids)),
}


def accepted_of(spark: SparkSession, settings: PipelineSettings, topic: str, round_rows: int) -> DataFrame:
    """The rows that the job would accept, copies included, as key and value, with id and input partition."""
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .options(**Access.of(os.environ).spark())
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # One batch a round: a kill that is gated on visible records then comes while most are still to be written.
        .option("minOffsetsPerTrigger", str(round_rows))
        .option("maxTriggerDelay", "10m")
        .load()
    )
    # `value` is kept for refused rows only; here the accepted ones go on as they came.
    fields = ("id", "user", "event_time_ms", "payload", "crc")
    kept = events(rows).where("reason is null")
    return kept.select(f.col("user").alias("key"), f.to_json(f.struct(*fields)).alias("value"), "id", "partition")


def main(argv: list[str]) -> int:
    """Run the named controls until the process is ended; announce their batches."""
    settings, folder = load(Path(argv[0])), Path(*(argv[1:2] or [tempfile.gettempdir()]))
    names = argv[2:] or [*CONTROLS]
    spark = session(settings, json.loads(os.environ.get(SPARK_CONF, "{}")))
    announce("controls", state="started", pid=os.getpid())
    queries: dict[tuple[str, str], Any] = {}
    told: dict[tuple[str, str], int] = {}
    while True:
        for name in names:
            if (folder / f"{name}.go").exists():
                for driver in CONTROLS[name].drivers:
                    if (name, driver) not in queries:
                        queries[name, driver] = _start(spark, settings, name, driver)
        for one, query in queries.items():
            for progress in query.recentProgress:
                if progress["batchId"] > told.get(one, -1) and progress["numInputRows"] > 0:
                    told[one] = progress["batchId"]
                    _tell(*one, progress)
            if query.exception() is not None:
                raise RuntimeError(f"control {one[0]} ended: {query.exception()}")
        time.sleep(0.05)


def _start(spark: SparkSession, settings: PipelineSettings, name: str, driver: str) -> Any:
    control, full = CONTROLS[name], f"{settings.pipeline}.{name}"
    own = "-".join(filter(None, (name, driver)))
    accepted = accepted_of(spark, settings, f"{full}.events", control.round_rows)
    writer = control.start(accepted, Output(settings.kafka_bootstrap, full, driver))
    checkpoint = f"s3://{settings.s3_bucket}/{settings.pipeline}/controls/{own}"
    return writer.option("checkpointLocation", checkpoint).queryName(own).start()


def _tell(name: str, driver: str, progress: Any) -> None:
    began = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
    announce(
        "batch",
        control=name,
        by=driver,
        epoch=progress["batchId"],
        declared=round(began),
        published=round(began + progress["batchDuration"]),
        rows=progress["numInputRows"],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
