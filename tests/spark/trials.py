"""A declaration to be tried, and its records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Count, Max, Min, Pipeline, Sum, ToFiles, ToKafka, ToTable, Windowed

LENGTH_MS, LATENESS_MS = 100, 50
FIELDS = "id string, t long, user string, n long"
COLUMNS = pa.schema([("user", pa.string()), ("n", pa.int64())])
VALUES: dict[str, Any] = {"count": Count(), "sum": Sum("n"), "least": Min("n"), "most": Max("n")}


def parsed(frame: DataFrame) -> DataFrame:
    """A record is JSON; what is no object of it has neither id nor time."""
    record = f.from_json(f.col("value").cast("string"), FIELDS)
    return frame.select(
        "topic",
        "partition",
        "offset",
        "value",
        record["id"].alias("id"),
        record["t"].alias("event_time_ms"),
        record["user"].alias("user"),
        record["n"].alias("n"),
        f.when(record["user"] == "forbidden", "forbidden").alias("reason"),
    )


PIPELINE = Pipeline(
    parsed,
    COLUMNS,
    rows=(ToKafka("accepted", key="user"),),
    window_ms=LENGTH_MS,
    lateness_ms=LATENESS_MS,
    windows=(Windowed("user", VALUES, ToTable("per_user", key=("user", "window_start_ms")), totals=ToFiles("totals")),),
)


def record(id_: str | None = "i", t: int | None = 0, user: str | None = "ann", n: int | None = 1) -> dict[str, Any]:
    return {"id": id_, "t": t, "user": user, "n": n}


def with_rows(*rows: Any, transform: Any = parsed, columns: pa.Schema = COLUMNS, **more: Any) -> Pipeline:
    return Pipeline(transform, columns, rows=rows or (ToKafka("accepted"),), **more)
