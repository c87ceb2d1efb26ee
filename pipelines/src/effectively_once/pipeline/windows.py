"""Aggregates by key and fixed window, as a job author declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from effectively_once.declared import TEXT, by_name, none_or, one_of, require
from effectively_once.pipeline.sinks import DESTINATION, Destination, ToFiles
from effectively_once.state.aggregates import Aggregate, Count, Max, Min, Sum

WINDOW_START = "window_start_ms"
AGGREGATE = one_of("Count()", Count, Sum, Min, Max)


@dataclass(frozen=True)
class Windowed:
    """Aggregates of accepted rows by key and window, published once, when the watermark closes the window.

    Attributes:
        by: the column (text) that is the key.
        values: name of the result -> what it is.
        to: where a row for each key and window goes: `by`, `window_start_ms` (ms since 1970) and the values.
        totals: where a row for each window goes, over all keys: `window_start_ms` and the values; None for nowhere.

    """

    by: str
    values: Mapping[str, Aggregate]
    to: Destination
    totals: ToFiles | None = None

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        require(self, by=TEXT, values=by_name(AGGREGATE), to=DESTINATION, totals=none_or(DESTINATION))

    @property
    def name(self) -> str:
        """Of its state: the sink's."""
        return self.to.name

    @property
    def schema(self) -> pa.Schema:
        """Columns of a result."""
        return pa.schema([(self.by, pa.string()), *self.totals_schema])

    @property
    def totals_schema(self) -> pa.Schema:
        """Columns of a total."""
        return pa.schema([(WINDOW_START, pa.int64()), *((name, pa.int64()) for name in self.values)])
