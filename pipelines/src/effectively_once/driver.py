"""The driver of one pipeline: takes the chain over, finishes what was declared, turns batches of Spark into epochs."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from effectively_once import epoch, points
from effectively_once.checkpoints import Checkpoint, Offsets
from effectively_once.errors import PipelineError, StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.ledger.records import Counts, Declaration, Delta, EpochRecord, Head, Ranges, Rows
from effectively_once.live import LiveDeltas
from effectively_once.metrics import Metrics
from effectively_once.object_store import S3ObjectStore
from effectively_once.preflight import Preflight
from effectively_once.progress import announce
from effectively_once.query_listener import QueryListener
from effectively_once.settings import PipelineSettings
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.names import GLOBAL_COUNTS, KAFKA_SINKS
from effectively_once.sinks.publish import Published
from effectively_once.sources.kafka import KafkaSource
from effectively_once.windows import Windows
from effectively_once.worker_errors import named_error

Split = Callable[[DataFrame, "Declaration", PipelineSettings], DataFrame]
"""A job's pure part: Kafka rows -> id, user, event_time_ms, payload, crc, reason, value and the source coordinate."""

EPOCH_ATTEMPTS = 3
"""Spark has retried every task by then; a third failure of the whole epoch is not an executor that died."""

GLOBAL_SCHEMA = pa.schema([("window_start_ms", pa.int64()), ("count", pa.int64())])
log = structlog.get_logger()


class Driver:
    """Runs the epochs of one pipeline. One instance per process; its owner name is random."""

    def __init__(self, settings: PipelineSettings, split: Split, wheel_digest: str) -> None:
        self.settings, self.split, self.wheel_digest = settings, split, wheel_digest
        self.owner = uuid.uuid4().hex
        self.layout = Layout(settings.pipeline)
        self.store = S3ObjectStore(settings.bucket)
        self.source = KafkaSource(settings)
        self.globals = ManifestSink(self.store, self.layout, GLOBAL_COUNTS)
        self.metrics = Metrics(settings.pipeline)
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.busy = threading.Lock()
        self._held: chain.Held
        self._published: EpochRecord | None = None
        self._live: LiveDeltas
        self._checkpoint: Checkpoint
        self._first: Offsets

    @property
    def head(self) -> Head:
        """Head as this driver last wrote it."""
        return self._held.head

    def check(self) -> None:
        """Fence other drivers and check everything that needs no Spark session.

        Raises:
            PipelineError: any of the named refusals.

        """
        points.reach("started")
        self.metrics.serve()
        preflight = Preflight(self.settings, self.layout, self.store, self.source)
        topic_ids = preflight.surroundings()

        def accept(head: Head) -> None:
            preflight.accept(head, topic_ids, self.wheel_digest)

        self._held = run(chain.take_over(self.layout, self.owner, self.settings.bound, accept), self.store)
        announce("driver", state="started", pid=os.getpid(), generation=self.head.generation)
        points.reach("taken_over")
        records = preflight.chain(self._held)
        windows = Windows(self.settings.window_ms, self.settings.lateness_ms)
        self._live = LiveDeltas(self.layout, windows, records, self.head.floor)

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Finish the declared epoch, then start the query; `check` comes first.

        Raises:
            PipelineError: any of the named refusals.

        """
        if self.head.declared is not None:
            self._recover(self.head.declared, spark)
        starting, folder = self._lineage()
        spark.streams.addListener(QueryListener(self.metrics))
        return (
            self.source.stream(spark, starting)
            .writeStream.foreachBatch(self.on_batch)
            .option("checkpointLocation", folder)
            .queryName(self.settings.pipeline)
            .start()
        )

    def named(self, error: BaseException) -> PipelineError | None:
        """Name what ended the query; None when it has no name.

        A driver that was replaced may learn it from Spark first, whose log refuses a second writer: head tells.
        """
        try:
            self._still_ours()
        except StaleDriverError as why:
            return why
        except PipelineError as why:
            return named_error(self.failure or error) or why
        return named_error(self.failure or error)

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """One batch of Spark (foreachBatch): skipped, repeated or declared and published as the next epoch."""
        try:
            with self.busy:
                if self.stopping.is_set():
                    raise InterruptedError("the pipeline is stopping")
                self._batch(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """Let the running epoch end, refuse the next, and record what is published."""
        self.stopping.set()
        with self.busy:
            if self._published is not None and not isinstance(self.failure, StaleDriverError):
                points.reach("stopping")
                self._held = run(chain.record(self.layout, self._held, self._published), self.store)
                self._published = None
        announce("driver", state="stopped", pid=os.getpid(), generation=self.head.generation)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        points.reach("batch_planned", batch=batch_id)
        ranges = self._checkpoint.ranges(batch_id, self._first)
        if self._published is not None and self._published.ranges == ranges:
            log.info("batch skipped", batch=batch_id, epoch=self._published.epoch)
            return
        # What is published is as good as recorded for the relation of a batch to the chain: declaring records it.
        seen = chain.recorded(self.head, self._published)
        where = f"batch {batch_id} of lineage {self._checkpoint.lineage}"
        match chain.classified(seen, ranges, where):
            case "recorded":
                log.info("batch skipped", batch=batch_id, ranges=ranges)
                return
            case "declared":
                declaration, repeat = self.head.declared, True
                assert declaration is not None  # noqa: S101 - classified said so
            case _:
                declaration, repeat = self._declare(seen, ranges, batch_id), False
        self._publish(declaration, frame, repeat)

    def _declare(self, seen: Head, ranges: Ranges, batch_id: int) -> Declaration:
        now = self.source.topic_ids()
        self.source.same_topic(seen, now)
        declaration = Declaration(
            epoch=seen.last_recorded + 1,
            lineage=self._checkpoint.lineage,
            batch_id=batch_id,
            ranges=ranges,
            topic_ids=now,
            watermark_ms=seen.watermark_ms,
            previous_watermark_ms=seen.tail[-1].watermark_ms if seen.tail else None,
            shards=self.settings.shards,
            wheel_digest=self.wheel_digest,
            settings_digest=self.settings.digest,
        )
        floor = self._live.floor(declaration)
        self._held = run(chain.declare(self.layout, self._held, declaration, self._published, floor), self.store)
        self._published = None
        points.reach("declared", epoch=declaration.epoch)
        self._live.collect(self.store, self.head.floor)
        return declaration

    def _publish(self, declaration: Declaration, frame: DataFrame, repeat: bool) -> None:
        started = time.monotonic()
        facts = {"epoch": declaration.epoch, "generation": self.head.generation, "driver": os.getpid()}
        announce("epoch", state="declared", **facts)
        for attempt in range(EPOCH_ATTEMPTS):
            try:
                record, ms, repeated = self._attempt(declaration, frame)
                break
            except Exception as error:
                # First of all: to a driver that was replaced, what the newer one deleted looks like damage.
                self._still_ours()
                named = named_error(error)
                if named is not None:
                    raise named from error
                if attempt == EPOCH_ATTEMPTS - 1:
                    raise
                log.warning(
                    "epoch failed, repeating it", epoch=declaration.epoch, error=str(error).split("\n")[0][:300]
                )
                repeat = True
        self._published = record
        self._live.add(record)
        repeat = repeat or repeated
        ms["total"] = round((time.monotonic() - started) * 1000)
        self.metrics.published(record, ms, repeat=repeat)
        line = {**facts, **record.counts.model_dump(by_alias=True), "ms": ms, "repeat": repeat}
        announce("epoch", state="published", **line)
        points.reach("epoch_published", epoch=declaration.epoch)
        log.info("epoch published", **line)

    def _attempt(self, declaration: Declaration, frame: DataFrame) -> tuple[EpochRecord, dict[str, int], bool]:
        """One run of an epoch's job, and the object-store sink after it; milliseconds by step, and whether repeated."""
        task = epoch.EpochTask(self.settings, declaration, self.head.generation, self.owner, self._live.named())
        shards = self.settings.shards
        rows = self.split(frame, declaration, self.settings)
        by_id = rows.withColumn(
            "shard", _shard_of(f.coalesce("id", f.concat_ws("-", "topic", "partition", "offset")), shards)
        )
        # Pinned in a default argument: the closure must not drag the driver object to the executors.
        counted = (
            by_id.repartitionById(shards, f.col("shard"))
            .mapInArrow(lambda batches, task=task: epoch.dedup(task, batches), epoch.BETWEEN)
            .repartitionById(shards, f.coalesce(_shard_of(f.col("user"), shards), f.lit(0)))
            .mapInArrow(lambda batches, task=task: epoch.count(task, batches), epoch.BETWEEN)
            .collect()
        )
        points.reach("job_done", epoch=declaration.epoch)
        sums: dict[int, int] = {}
        for row in counted:
            if row["kind"] == "global":
                sums[row["window_start_ms"]] = sums.get(row["window_start_ms"], 0) + row["count"]
        table = pa.table(
            {"window_start_ms": sorted(sums), "count": [sums[start] for start in sorted(sums)]},
            schema=GLOBAL_SCHEMA,
        )
        began = time.monotonic()
        content, published = self.globals.publish(declaration.epoch, self.head.generation, table)
        ms = {GLOBAL_COUNTS: round((time.monotonic() - began) * 1000)}
        notes = [(row["shard"], json.loads(row["note"])) for row in counted if row["kind"] == "shard"]
        record = self._record(declaration, notes, content)
        for _, note in notes:
            # The slowest shard is what the epoch waits for.
            ms.update({step: max(took, ms.get(step, 0)) for step, took in note["ms"].items()})
        repeated = published is Published.BEFORE or any(note["repeated"] for _, note in notes)
        return record, ms, repeated

    def _record(self, declaration: Declaration, notes: list[tuple[int, dict[str, Any]]], content: Rows) -> EpochRecord:
        sinks: dict[str, dict[str, Rows]] = {}
        changes: dict[str, dict[str, Delta]] = {}
        for shard, note in notes:
            for name, rows in note["sinks"].items():
                sinks.setdefault(name, {})[str(shard)] = Rows(**rows)
            for kind, rows in note["deltas"].items():
                changes.setdefault(kind, {})[str(shard)] = Delta(**rows)
        sinks[GLOBAL_COUNTS] = {"0": content}
        missing = [name for name in KAFKA_SINKS if len(sinks.get(name, {})) != self.settings.shards]
        if missing:
            raise RuntimeError(f"epoch {declaration.epoch}: some shards of {missing} did not report")
        decided = [note for _, note in notes if "accepted" in note]
        times = [note["max_event_time_ms"] for note in decided if note["max_event_time_ms"] is not None]
        return EpochRecord(
            **declaration.model_dump(),
            generation=self.head.generation,
            counts=Counts(**{name: sum(note[name] for note in decided) for name in Counts.model_fields}),
            max_event_time_ms=max(times, default=None),
            sinks=sinks,
            deltas=changes,
        )

    def _recover(self, declared: Declaration, spark: SparkSession) -> None:
        """Repeat the declared epoch from its pinned ranges: the one way of recovery, also without a checkpoint (R3)."""
        log.info("recovering", epoch=declared.epoch, declared_by=declared.lineage)
        self._publish(declared, self.source.between(spark, declared.ranges), repeat=True)
        assert self._published is not None  # noqa: S101 - _publish set it
        self._held = run(chain.record(self.layout, self._held, self._published), self.store)
        self._published = None

    def _lineage(self) -> tuple[Offsets, str]:
        """Go on with the last lineage's checkpoint where it fits the chain, else begin one where the chain ends."""
        head = self.head
        if head.tail:
            last = head.tail[-1]
            kept = Checkpoint(self.store, self.layout, last.lineage)
            starting = {topic: {p: span[1] for p, span in parts.items()} for topic, parts in last.ranges.items()}
            if kept.fits(head):
                self._checkpoint, self._first = kept, _start_of_lineage(head, last.lineage)
                return starting, kept.folder()
            # Partitions that the topic got since begin at their start; Spark wants every partition named.
            topic = self.settings.topic
            starting[topic] = {**self.source.first_offsets(), **starting.get(topic, {})}
        else:
            starting = {self.settings.topic: self.source.first_offsets()}
        lineage = f"{head.generation:06d}-{self.owner[:8]}"
        log.info("new lineage", lineage=lineage, starting=starting)
        self._checkpoint, self._first = Checkpoint(self.store, self.layout, lineage), starting
        return starting, self._checkpoint.folder()

    def _still_ours(self) -> None:
        """After a failed epoch: a driver that was replaced stops with its name for it instead of trying again."""
        now = run(chain.read(self.layout), self.store)
        if now.owner != self.owner:
            raise StaleDriverError(
                f"driver {self.owner} was replaced by {now.owner} of generation {now.generation}", self.layout.head,
                "Nothing to do when a newer driver runs; otherwise start the pipeline again.",
            )  # fmt: skip


def one_line(error: BaseException) -> str:
    """Say what an operator is told: the named error's own line, else the first line of whatever happened."""
    if isinstance(error, PipelineError):
        return f"{type(error).__name__}: {error}"
    return f"the query failed: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}"


def _shard_of(key: Any, shards: int) -> Any:
    return f.pmod(f.xxhash64(key), f.lit(shards)).cast("int")


def _start_of_lineage(head: Head, lineage: str) -> Offsets:
    """Where batch 0 of a lineage began, as far as the tail remembers; older batches are never repeated by Spark."""
    first = next(record for record in head.tail if record.lineage == lineage)
    return {topic: {p: span[0] for p, span in parts.items()} for topic, parts in first.ranges.items()}
