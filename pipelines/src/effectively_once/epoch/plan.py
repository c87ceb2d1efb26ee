"""The plan that Spark's analysis makes of a frame, before its optimiser replaces anything.

PySpark has no public way to it but as a text for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def plan_of(frame: DataFrame) -> Any:
    """Return the plan of a frame."""
    return frame._jdf.queryExecution().analyzed()


def each(some: Any) -> Iterator[Any]:
    """Elements of a sequence of Scala's."""
    return (some.apply(number) for number in range(some.size()))
