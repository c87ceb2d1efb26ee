"""Jobs that are drawn from their names, `drawn_<seed>_<number>`: for fuzzing on the stack."""

from __future__ import annotations

from functools import cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Pipeline
from tests.fuzz.drawn import drawn
from tests.spark.fuzzed_job import read

HOUR_MS = 3_600_000


def counted(rows: DataFrame) -> DataFrame:
    """What `tests.fuzz.closed.count_by_window` says in plain Python."""
    named = rows.where("user is not null")
    groups = named.groupBy(f.window("event_time", f"{HOUR_MS} milliseconds"), "user")
    found = groups.agg(f.count("*").alias("count"), f.max("m").alias("most"))
    return found.select("user", f.unix_millis("window.start").alias("window_start_ms"), "count", "most")


@cache
def _drawn(name: str) -> Pipeline:
    return drawn(name, read, counted)


def __getattr__(name: str) -> Pipeline:
    """Draw the declaration of a name."""
    if not name.startswith("drawn_"):
        raise AttributeError(name)
    return _drawn(name)
