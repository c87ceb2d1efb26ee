"""The fields of a pipeline's definition, and the columns that its rows have on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from effectively_once.pipeline.columns import ATTACHED, COORDINATES, FILTERED, POSITION, TIME
from effectively_once.pipeline.explode import Explode
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.pipeline.sinks import AnySink
from effectively_once.pipeline.stateful import Stateful
from effectively_once.pipeline.windows import Windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Transform = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True)
class Definition:
    """What an author writes down, before anything is checked; `Pipeline` explains the fields."""

    transform: Transform | Mapping[str, Transform]
    columns: pa.Schema
    ids: Literal["attached", "coordinates"] = "attached"
    recorded: RecordedStep | None = None
    rows: tuple[AnySink, ...] = ()
    windows: tuple[Windowed, ...] = ()
    stateful: Stateful | None = None
    window_ms: int = 60_000
    lateness_ms: int = 120_000
    semantics: Literal["exactly_once", "at_least_once"] = "exactly_once"
    ahead_ms: int | None = None
    deterministic_udfs: tuple[str, ...] = ()
    filtered: tuple[str, ...] = ()
    explode: Explode | None = None

    @property
    def transforms(self) -> Mapping[str | None, Transform]:
        """The transform of each topic, in one order; under None the one of all."""
        return dict(sorted(self.transform.items())) if isinstance(self.transform, Mapping) else {None: self.transform}

    @property
    def timed(self) -> bool:
        """Whether rows need an event time: state is forgotten by it."""
        return self.ids == "attached" or bool(self.windows) or self.stateful is not None

    @cached_property
    def coordinates(self) -> pa.Schema:
        """Columns that tell where a row comes from: no two rows have the same."""
        return pa.schema([*COORDINATES, *(POSITION if self.explode is not None else ())])

    @property
    def digested(self) -> tuple[str, ...]:
        """Those that make a row of the input: a closing row has their digest (R13)."""
        return tuple(self.coordinates.names[1:])

    @cached_property
    def input(self) -> pa.Schema:
        """Columns of an accepted row, as the transform gives them."""
        ids = ATTACHED if self.ids == "attached" else ()
        times = TIME if self.timed else ()
        return pa.schema([*self.coordinates, *ids, *times, *self.columns])

    @cached_property
    def judged(self) -> pa.Schema:
        """Columns of a row on its way to its shard, beside what a refused one has."""
        return pa.schema([*self.input, *(FILTERED if self.filtered else ())])

    @cached_property
    def row_schema(self) -> pa.Schema:
        """Columns of an accepted row, as sinks see it: those of the recorded step too."""
        return pa.schema([*self.input, *(self.recorded.adds if self.recorded else ())])

    @property
    def sinks(self) -> dict[str, tuple[AnySink, pa.Schema]]:
        """Every sink by name, with the columns there are; dead letters are no sink of the author's."""
        found = [(to, self.row_schema) for to in self.rows]
        for each in self.windows:
            found.append((each.to, each.schema(self.row_schema)))
            if each.totals is not None:
                found.append((each.totals, each.totals_schema(self.row_schema)))
        if self.stateful is not None:
            found.append((self.stateful.to, self.stateful.schema))
        return {to.name: (to, schema) for to, schema in found}
