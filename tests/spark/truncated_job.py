"""`user_counts` of which a shard once takes a part of its input for all of it: what a stall made of it before R13.

Where the environment names a file, and while that is there, the next attempt at shard 0 takes it away, and of its input
only the first rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from effectively_once.epoch import whole_input
from effectively_once_jobs import user_counts

JOB, VARIABLE, KEPT = "tests.spark.truncated_job", "EFFECTIVELY_ONCE_TRUNCATE", 40
_proven = whole_input.proven


def take(
    batches: Iterable[pa.RecordBatch], digested: Sequence[str], where: str, **how: Any
) -> Iterator[pa.RecordBatch]:
    whole = list(_proven(batches, digested, where, **how))
    asked = Path(os.environ[VARIABLE])
    if "step 'dedup', shard 0" not in where or not asked.exists():
        yield from whole
        return
    asked.unlink()
    yield from pa.Table.from_batches(whole).slice(0, KEPT).to_batches()


def events(frame: DataFrame) -> DataFrame:
    """The transform of `user_counts`, by whose name workers import this module."""
    (transform,) = user_counts.pipeline.transforms.values()
    return transform(frame)


if VARIABLE in os.environ:
    # In drivers and their workers alone: the tests import this module too.
    whole_input.proven = take
pipeline = replace(user_counts.pipeline, transform=events)
