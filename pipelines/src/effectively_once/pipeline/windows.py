"""Aggregates by key and window, as a job author declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import pyarrow as pa

from effectively_once.declared import TEXTS, WHOLE, by_name, none_or, one_of, require
from effectively_once.pipeline.settings import LENGTHS
from effectively_once.pipeline.sinks import SINK, AnySink, ToFiles, ToIceberg
from effectively_once.state import keys
from effectively_once.state.accumulator import Accumulator
from effectively_once.state.accumulators import accumulators
from effectively_once.state.aggregates import Aggregate
from effectively_once.state.lateness import Windows

WINDOW_START = "window_start_ms"
AGGREGATE = one_of("Count()", *get_args(Aggregate))


@dataclass(frozen=True)
class Windowed:
    """Aggregates of accepted rows by key and window, published once, when the watermark closes the window.

    A record is late by the window of the pipeline (`window_ms`) that holds its time, and then in none of these. They
    are made of whole windows of the pipeline, so what is accepted falls into no window that is closed.

    Attributes:
        by: the column that is the key, or several: texts, whole numbers, dates, truth values, times.
        values: name of the result -> what it is.
        to: where a row for each key and window goes: `by`, `window_start_ms` (ms since 1970) and the values.
        totals: where a row for each window goes, over all keys: `window_start_ms` and the values; None for nowhere.
        length_ms: of its windows, a multiple of the pipeline's `window_ms`; None: as long as that.
        slide_ms: a window begins at each multiple of it since 1970, so that each record is in `length_ms / slide_ms` of
            them, at most 64. It divides the length, and is a multiple of `window_ms`; None: windows do not overlap.

    """

    by: str | tuple[str, ...]
    values: Mapping[str, Aggregate]
    to: AnySink
    totals: ToFiles | ToIceberg | None = None
    length_ms: int | None = None
    slide_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse other types. Raises SettingsError."""
        lengths = dict.fromkeys(LENGTHS, none_or(WHOLE))
        require(self, by=TEXTS, values=by_name(AGGREGATE), to=SINK, totals=none_or(SINK), **lengths)

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

    def windows(self, common: Windows) -> Windows:
        """Return its windows in a pipeline whose own are `common`."""
        length = common.length_ms if self.length_ms is None else self.length_ms
        return Windows(length, common.lateness_ms, None if self.slide_ms == length else self.slide_ms)

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
