"""Aggregates by key and fixed window, as a job author declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import pyarrow as pa

from effectively_once.declared import TEXTS, by_name, none_or, one_of, require
from effectively_once.pipeline.sinks import SINK, AnySink, ToFiles, ToIceberg
from effectively_once.state import keys
from effectively_once.state.accumulator import Accumulator
from effectively_once.state.accumulators import accumulators
from effectively_once.state.aggregates import Aggregate

WINDOW_START = "window_start_ms"
AGGREGATE = one_of("Count()", *get_args(Aggregate))


@dataclass(frozen=True)
class Windowed:
    """Aggregates of accepted rows by key and window, published once, when the watermark closes the window.

    Attributes:
        by: the column that is the key, or several: texts, whole numbers, dates, truth values, times.
        values: name of the result -> what it is.
        to: where a row for each key and window goes: `by`, `window_start_ms` (ms since 1970) and the values.
        totals: where a row for each window goes, over all keys: `window_start_ms` and the values; None for nowhere.

    """

    by: str | tuple[str, ...]
    values: Mapping[str, Aggregate]
    to: AnySink
    totals: ToFiles | ToIceberg | None = None

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        require(self, by=TEXTS, values=by_name(AGGREGATE), to=SINK, totals=none_or(SINK))

    @property
    def name(self) -> str:
        """Of its state: the sink's."""
        return self.to.name

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the key."""
        return (self.by,) if isinstance(self.by, str) else self.by

    @property
    def aggregated(self) -> tuple[str, ...]:
        """Columns that it needs of a row, those of the key first."""
        return tuple(dict.fromkeys([*self.keys, *(name for value in self.values.values() for name in value.columns)]))

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of a result."""
        return (*self.keys, WINDOW_START, *self.values)

    def accumulators(self, columns: pa.Schema) -> dict[str, Accumulator]:
        """Return what is kept of each value; `columns` are those of an accepted row."""
        return accumulators(self.values, columns)

    def schema(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns of a result; for `columns` see `accumulators`."""
        return pa.schema([*((name, columns.field(name).type) for name in self.keys), *self.totals_schema(columns)])

    def rows(self, results: pa.Table, columns: pa.Schema) -> pa.Table:
        """Return finished results, key and window as in a delta, as a sink takes them; for `columns` see there."""
        schema = self.schema(columns)
        keyed = keys.decode(results.columns[0], [schema.field(name).type for name in self.keys])
        return pa.table([*keyed, *results.columns[1:]], schema=schema)

    def totals_schema(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns of a total; for `columns` see `accumulators`."""
        values = self.accumulators(columns)
        return pa.schema([(WINDOW_START, pa.int64()), *((name, value.result) for name, value in values.items())])
