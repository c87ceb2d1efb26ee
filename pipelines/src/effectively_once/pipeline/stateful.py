"""A query of Spark's own stateful operators, as a job author declares it (R7, second kind)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from effectively_once.declared import FUNCTION, TEXT, require
from effectively_once.pipeline.schemas import COLUMNS, become_schema
from effectively_once.pipeline.sinks import SINK, AnySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT_TIME = "event_time"
"""The column that the function is given beside those of an accepted row: its event time as a timestamp."""


@dataclass(frozen=True)
class Stateful:
    """What Spark's stateful operators make of accepted rows; their state is in Spark's checkpoint, not in the chain.

    Attributes:
        function: of a streaming data frame of accepted rows: source coordinates, `id`, `event_time_ms`, the declared
            columns, and `event_time` with Spark's watermark set on it. It returns the results in append mode: what it
            gives is published and never taken back. It uses the rows once, and answers the same whenever a batch is
            repeated: no clock but `current_timestamp`, no chance, no look-up outside.
        schema: names and types of the results, written as the columns of a `Pipeline`.
        by: the column (text) that results are brought to their shards by.
        to: where they go.

    Spark's watermark is the largest accepted event time less `lateness_ms` and `window_ms`. So no row that is accepted
    can be too late for an operator on `event_time`, whatever its windows are; `window_ms` is only the grain in which
    ids are forgotten and lateness is judged.

    """

    function: Callable[[DataFrame], DataFrame]
    schema: pa.Schema
    by: str
    to: AnySink

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        become_schema(self, "schema")
        require(self, function=FUNCTION, schema=COLUMNS, by=TEXT, to=SINK)

    @property
    def name(self) -> str:
        """Of its state: the sink's."""
        return self.to.name
