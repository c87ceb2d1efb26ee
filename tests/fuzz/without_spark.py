"""A trial without Spark: in the place of its plan stands plain Python; everything after it is the library's own."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import SparkSession

from effectively_once import Pipeline, Trial
from effectively_once.epoch import rows
from effectively_once.epoch.filtered import MARK, UNDECLARED
from effectively_once.state.lateness import Windows
from effectively_once.testing import trial
from tests.fuzz.rows import Row, row_of, table_of


class _NoSpark(SparkSession):  # type: ignore[misc]
    """What a trial takes for a session."""

    def __init__(self) -> None:
        """Start nothing."""

    def createDataFrame(self, sent: list[Any], _: str) -> list[Any]:  # noqa: N802 - Spark's name
        """Hand on what is sent."""
        return sent


class _Table:
    """What a trial takes for a data frame with shards."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        """Its rows."""
        return self._table


class _PlainRows:
    """The functions of `rows` that a trial uses."""

    KAFKA = rows.KAFKA
    empty = staticmethod(rows.empty)
    where = staticmethod(rows.where)

    @staticmethod
    def check(pipeline: Pipeline, spark: SparkSession) -> None:
        """Its transform is never called."""

    @staticmethod
    def judge(pipeline: Pipeline, sent: list[Any]) -> list[Row]:
        return [
            {
                **row_of(pipeline, value, _ms(at)),
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "value": value,
            }
            for _, value, topic, partition, offset, at, _ in sent
        ]

    @staticmethod
    def timely(pipeline: Pipeline, judged: list[Row], windows: Windows, watermark_ms: int | None) -> list[Row]:
        for row in judged:
            if row["reason"] is None and pipeline.timed:
                late = windows.closed(windows.start(row["event_time_ms"]), watermark_ms)
                row["reason"] = "late" if late else None
            if row["reason"] is None:
                row["value"] = None
        return judged

    @staticmethod
    def with_shard(pipeline: Pipeline, judged: list[Row], shards: int) -> _Table:
        for row in judged:
            row["shard"] = zlib.crc32((row.get("id") or str(row["offset"])).encode()) % shards
        return _Table(table_of(rows.empty(pipeline).schema, judged))


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


@contextmanager
def plain_trial(pipeline: Pipeline, shards: int, mark: Callable[[Row], str | None] = lambda _: None) -> Iterator[Trial]:
    """Yield a trial of a pipeline whose records are those of `row_of`; `mark` says of each why it is left out."""

    class Marked(_PlainRows):
        @staticmethod
        def judge(pipeline: Pipeline, sent: list[Any]) -> list[Row]:
            judged = _PlainRows.judge(pipeline, sent)
            for row in judged:
                why = mark(row)
                if why in pipeline.filtered:
                    row |= {MARK: why, "reason": MARK}
                elif why is not None:
                    row["reason"] = f"{UNDECLARED} '{why}'"
            return judged

    with mock.patch.object(trial, "rows", Marked):
        yield Trial(pipeline, _NoSpark(), shards)
