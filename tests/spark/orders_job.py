"""A job with a step that answers otherwise whenever it is asked, and sinks of every kind: for tests alone."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pyarrow as pa

from effectively_once import Count, Max, Pipeline, RecordedStep, Sum, ToFiles, ToKafka, ToTable, Windowed
from effectively_once_jobs.user_counts.transform import events


def priced(rows: pa.Table) -> pa.Table:
    """Draw a price for each row: no two draws are equal."""
    return pa.table({"price": pa.array([secrets.randbits(62) for _ in range(rows.num_rows)], pa.int64())})


pipeline = Pipeline(
    transform=events,
    columns=pa.schema([("user", pa.string()), ("payload", pa.string()), ("crc", pa.int64())]),
    recorded=RecordedStep("priced", priced, pa.schema([pa.field("price", pa.int64(), nullable=False)])),
    rows=(ToKafka("accepted", key="user"), ToTable("orders"), ToFiles("archive")),
    windows=(
        Windowed(
            by="user",
            values={"count": Count(), "crc": Sum("crc"), "price": Max("price")},
            to=ToTable("per_user", key=("user", "window_start_ms")),
            totals=ToFiles("totals"),
        ),
    ),
)
wider = replace(pipeline, rows=(*pipeline.rows, ToTable("added")))
"""A later version, with one sink more."""
