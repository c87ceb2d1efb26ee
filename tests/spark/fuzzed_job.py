"""A job that reads records as an author would, strictly, with a column of every type and every sink: for fuzzing."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Count, Max, Pipeline, Sum, ToFiles, ToKafka, ToTable, Windowed, json_records
from effectively_once.pipeline.sinks import AnySink
from effectively_once.state.aggregates import Aggregate
from tests.fuzz.rows import COLUMNS, FIELDS

MESSAGE_BYTES = 65_536
VALUES: Mapping[str, Aggregate] = {"count": Count(), "sum": Sum("n"), "most": Max("m")}


def read(frame: DataFrame) -> DataFrame:
    """What `tests.fuzz.rows.row_of` says in plain Python."""
    given = json_records(frame, ", ".join(f"{name} {kind}" for name, kind in FIELDS.items()))
    return (
        given.withColumn("raw", f.unhex(f.md5("text")))
        .withColumn("day", f.date_from_unix_date("days"))
        .withColumn("at", f.timestamp_micros("at_us"))
        .withColumn("cents", f.expr("cast(cast(n as decimal(20, 0)) * 0.01BD as decimal(38, 2))"))
    )


def _windowed(to: AnySink, totals: str | None = None) -> Windowed:
    return Windowed("user", VALUES, to, totals=ToFiles(totals) if totals else None)


pipeline = Pipeline(
    transform=read,
    columns=COLUMNS,
    rows=(
        ToKafka("told", key="user", message_bytes_max=MESSAGE_BYTES),
        ToTable("kept", key=("id", "user")),
        ToFiles("archive"),
        ToKafka("raw", key="id", value="raw"),
    ),
    windows=(
        _windowed(ToKafka("told_sums", key="user")),
        _windowed(ToTable("kept_sums", key=("user", "window_start_ms"))),
        _windowed(ToFiles("archive_sums"), totals="totals"),
    ),
    # Ordinary records stay in time until one of a far future comes.
    lateness_ms=1_000_000_000,
)
"""`told`, `kept` and `archive` get the same rows, and the three sinks of windows the same results."""
