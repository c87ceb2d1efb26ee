"""S1: events per user and minute, and their sum per minute."""

from __future__ import annotations

import pyarrow as pa

from effectively_once import Count, Pipeline, ToFiles, ToKafka, Windowed
from effectively_once_jobs.user_counts.transform import events

pipeline = Pipeline(
    transform=events,
    columns=pa.schema([("user", pa.string()), ("payload", pa.string()), ("crc", pa.int64())]),
    rows=(ToKafka("accepted", key="user"),),
    windows=(
        Windowed(
            by="user", values={"count": Count()}, to=ToKafka("user_counts", key="user"), totals=ToFiles("global_counts")
        ),
    ),
)
