"""A trial: a declaration that runs on records in memory."""

from __future__ import annotations

import tempfile
import uuid
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from effectively_once.declared import WHOLE, Kind, one_of, refuse_other
from effectively_once.epoch import between, epoch, exploded, rows
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.epoch.summary import Summary
from effectively_once.errors import SettingsError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.rows import Rows
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.pipeline.sinks import ToKafka
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import Published
from effectively_once.state import own, windows
from effectively_once.state.live import LiveDeltas
from effectively_once.store.folder_store import FolderStore
from effectively_once.testing import left_out
from effectively_once.testing.kafka_record import KafkaRecord, Value, encode

Outputs = dict[str, list[dict[str, Any]]]
"""Sink -> its rows of one epoch; the message of a Kafka sink that is no JSON is under `value`."""

_UNDIVIDED = 1 << 62
"""An epoch of a trial is one, however large its records are."""
_SHARDS = Kind("a whole number from 1 to 256", "2", lambda it: WHOLE.holds(it) and 1 <= it <= 256)


class Trial:
    """One pipeline in memory.

    Args:
        pipeline: the declaration.
        spark: a session; `effectively_once.trial_session` makes one.
        shards: P of R4.

    """

    def __init__(self, pipeline: Pipeline, spark: SparkSession, shards: int = 2) -> None:
        refuse_other("Trial", "pipeline", pipeline, one_of("Pipeline(...)", Pipeline))
        refuse_other("Trial", "spark", spark, one_of("trial_session()", SparkSession))
        refuse_other("Trial", "shards", shards, _SHARDS)
        self._pipeline, self._spark, self._shards = pipeline, spark, shards
        if pipeline.stateful is not None:
            raise SettingsError("a trial has no state of Spark's own", "Trial", "Run the job here: `make run`.")
        rows.check(pipeline, spark)
        self._topics = sorted(topic or "trial" for topic in pipeline.transforms)
        self._settings = PipelineSettings(
            # A name of its own: folded state is kept by it.
            pipeline=f"trial_{uuid.uuid4().hex[:12]}",
            topic=",".join(self._topics),
            job="trial",
            kafka_bootstrap="trial:9092",
            s3_endpoint="http://trial",
            s3_bucket="trial",
            shards=shards,
            **pipeline.defaults,
        )
        self._windows = self._settings.windows
        self._folder = tempfile.TemporaryDirectory(prefix="effectively-once-trial-")
        self._store, self._layout = FolderStore(Path(self._folder.name)), Layout(self._settings.pipeline)
        self._live = LiveDeltas(self._layout, pipeline.all_windows(self._windows), [], 0)
        self._last: EpochRecord | None = None
        self._sent: list[tuple[Any, ...]] = []
        self._offset = 0
        self._left_out: list[dict[str, Any]] = []
        self._memory: dict[tuple[str, int, int], tuple[Rows, Any]] = {}

    @property
    def watermark_ms(self) -> int | None:
        """Largest event time that was accepted so far: what the next epoch pins."""
        if self._last is None:
            return None
        known = [t for t in (self._last.watermark_ms, self._last.max_event_time_ms) if t is not None]
        return max(known, default=None)

    @property
    def last(self) -> EpochRecord:
        """Record of the last epoch: its counts, its watermark."""
        assert self._last is not None, "no epoch was run yet"  # noqa: S101 - a test's mistake
        return self._last

    @property
    def filtered(self) -> list[dict[str, Any]]:
        """Records that the last epoch left out, in order of offset: reason, value, encoding and source of each."""
        return self._left_out

    def epoch(self, values: Sequence[Value | KafkaRecord]) -> Outputs:
        """Run the next epoch on values of Kafka records (dictionaries are sent as JSON); return what it publishes.

        A `KafkaRecord` in the place of a value has a key and a timestamp too; others have neither.

        Raises:
            PipelineError: what would stop the pipeline; an `OwnAggregate` that depends on how its rows are divided.

        """
        records = [value if isinstance(value, KafkaRecord) else KafkaRecord(value) for value in values]
        sent = [
            (encode(one.key), encode(one.value), self._topic_of(one), 0, offset, one.timestamp, 0)
            for offset, one in enumerate(records, self._offset)
        ]
        first, self._offset, self._sent = self._offset, self._offset + len(sent), sent
        before = self._last
        declaration = Declaration(
            epoch=before.epoch + 1 if before else 0,
            lineage="trial",
            batch_id=0,
            ranges={topic: {"0": (first, self._offset)} for topic in self._topics},
            topic_ids={},
            watermark_ms=self.watermark_ms,
            previous_watermark_ms=before.watermark_ms if before else None,
            shards=self._shards,
            wheel_digest="",
            settings_digest="",
            bytes_max=_UNDIVIDED,
        )
        with own.try_merges():
            self._last, outputs = self._run(declaration)
        self._live.add(self._last)
        return outputs

    def _topic_of(self, record: KafkaRecord) -> str:
        topic = record.topic or self._topics[0]
        if topic not in self._topics or (record.topic is None and len(self._topics) > 1):
            raise SettingsError(
                f"a record of topic {record.topic} has no transform",
                "Trial.epoch",
                f"Write KafkaRecord(value, topic=...), one of {', '.join(self._topics)}.",
            )
        return topic

    def repeat(self) -> Outputs:
        """Run the last epoch again, as whoever recovers it does; return what it publishes, which is the same.

        Raises:
            SinkError: it is not the same.

        """
        pinned = {name: getattr(self.last, name) for name in Declaration.model_fields}
        record, outputs = self._run(Declaration(**pinned))
        for name in ("counts", "filtered", "records", "max_event_time_ms", "deltas"):
            if getattr(record, name) != getattr(self.last, name):
                raise _otherwise(record.epoch, f"comes to other {name}", "record of the epoch")
        return outputs

    def _run(self, declaration: Declaration) -> tuple[EpochRecord, Outputs]:
        pipeline, number = self._pipeline, declaration.epoch
        task = EpochTask(pipeline, self._settings, declaration, 1, "trial", self._before(number))
        frame = self._spark.createDataFrame(self._sent, rows.KAFKA)
        timely = rows.timely(pipeline, rows.judge(pipeline, frame), self._windows, declaration.watermark_ms)
        whole = self._one_a_record(_cast(rows.with_shard(pipeline, timely, self._shards).toArrow(), pipeline))
        names = ", ".join(map(rows.where, pipeline.transforms.values()))
        left_out.refuse_undeclared(whole, names)
        values = {record[4]: record[1] for record in self._sent}
        self._left_out = [*left_out.show(whole, values, exploded=pipeline.explode is not None)]
        told = [
            pa.Table.from_batches(
                epoch.deduplicate(self._step(task, "dedup", shard), _shard(whole, shard)), between.columns(pipeline)
            )
            for shard in range(self._shards)
        ]
        if pipeline.windows:
            partials = pa.concat_tables(told)
            keys = partials[windows.KEY].to_pylist()
            owner = pa.array([zlib.crc32((key or "").encode()) % self._shards for key in keys])
            told = [
                pa.Table.from_batches(
                    epoch.merge_partials(
                        self._step(task, "windows", shard), partials.filter(pc.equal(owner, shard)).to_batches()
                    ),
                    between.columns(pipeline),
                )
                for shard in range(self._shards)
            ]
        found = pa.concat_tables(told)
        summary = Summary.of(found)
        summary.publish_files(pipeline, found, declaration, 1, self._files)
        outputs = {name: self._rows(name, number) for name in (DEAD_LETTER, *pipeline.sinks)}
        return summary.record(declaration, 1, pipeline, self._shards), outputs

    def _one_a_record(self, whole: pa.Table) -> pa.Table:
        """Refuse a transform that loses or doubles records: nothing would tell of them."""
        sent = range(self._offset - len(self._sent), self._offset)
        # The library makes several rows of one, and of each record one first row.
        firsts = whole if self._pipeline.explode is None else whole.filter(pc.equal(whole[exploded.POS], 0))
        if sorted(firsts["offset"].to_pylist()) != list(sent):
            raise SettingsError(
                f"the transform gives {firsts.num_rows} rows for {len(sent)} records",
                "transform",
                "Let it give one row for each. One that is to be left out gets a declared reason in the column "
                "filtered (Pipeline(filtered=...)), one that is wrong a reason. Several rows of a record "
                "are an array (Pipeline(explode=...)).",
            )
        return whole

    def _files(self, name: str) -> ManifestSink:
        # Of a lake table, too: its rows are in files alike, and no catalog is here.
        return ManifestSink(self._store, self._layout, name)

    def _before(self, number: int) -> dict[str, dict[int, list[Any]]]:
        """Return the live deltas of epochs before one."""
        return {
            kind: {shard: [delta for delta in named if delta.epoch < number] for shard, named in by_shard.items()}
            for kind, by_shard in self._live.list_named().items()
        }

    def _step(self, task: EpochTask, step: str, shard: int) -> ShardStep:
        def open_sink(name: str, shard: int, _: Callable[[str], None]) -> _Sink:
            return _Sink(lambda number, content: self._publish(name, shard, number, content))

        return ShardStep(task, step, shard, 0, store=self._store, opened=open_sink)

    def _publish(self, name: str, shard: int, number: int, content: Any) -> tuple[Rows, Published]:
        if isinstance(content, pa.Table):
            ours = Rows(rows=content.num_rows, digest=digest.of_rows_in(content))
        else:
            ours = Rows(rows=len(content), digest=digest.of_rows([value for _, value in content]))
        before = self._memory.setdefault((name, shard, number), (ours, content))
        if before[0] != ours:
            raise _otherwise(number, "publishes other rows", f"sink {name} shard {shard}")
        return ours, Published.NOW if before[1] is content else Published.BEFORE

    def _rows(self, name: str, number: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        raw = False
        if name in self._pipeline.staged_sinks:
            rows_of = self._files(name).rows(number, number)
            return [row for _, _, row in rows_of]
        if name != DEAD_LETTER:
            to, _ = self._pipeline.sinks[name]
            raw = isinstance(to, ToKafka) and to.value is not None
        for shard in range(self._shards):
            _, content = self._memory.get((name, shard, number), (None, []))
            if isinstance(content, pa.Table):
                found += content.to_pylist()
            else:
                found += [{"value": value} if raw else orjson.loads(value) for _, value in content]
        return found


class _Sink:
    """A shard of a sink in memory."""

    def __init__(self, take: Callable[[int, Any], tuple[Rows, Published]]) -> None:
        self._take = take

    def publish(self, epoch: int, generation: int, rows: Any, /) -> tuple[Rows, Published]:  # noqa: ARG002
        """See Sink."""
        return self._take(epoch, rows)


def _cast(whole: pa.Table, pipeline: Pipeline) -> pa.Table:
    """Return the rows as a driver's session gives them: times in UTC, whatever this session's zone is."""
    shape = rows.empty(pipeline).schema
    return pa.table({column.name: whole[column.name].cast(column.type) for column in shape})


def _otherwise(number: int, how: str, where: str) -> SinkError:
    return SinkError(
        f"a repeat of epoch {number} {how}",
        where,
        "A step of the pipeline is not deterministic: declare it as a recorded step.",
    )


def _shard(whole: pa.Table, shard: int) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = whole.filter(pc.equal(whole["shard"], shard)).to_batches()
    return batches
