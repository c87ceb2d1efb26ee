"""The two steps of an epoch whose tables have constraints that somebody added, with sinks in memory."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from effectively_once import Pipeline
from effectively_once.epoch import between, epoch
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.errors import RefusedRowsError
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.rows import Rows
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.sinks.publish import Published
from effectively_once.state.deltas import Named
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.library import one_epoch

NUMBERS = itertools.count()
Constraint = Callable[[list[dict[str, Any]]], dict[int, str]]
"""Numbers of the rows of a table that it refuses, and what by."""


@dataclass
class Place:
    """A store and the sinks of one shard; `real` ones are asked in the place of those in memory."""

    store: MemoryStore = field(default_factory=MemoryStore)
    constraints: dict[str, Constraint] = field(default_factory=dict)
    published: dict[str, Any] = field(default_factory=dict)
    happened: list[str] = field(default_factory=list)
    name: str = field(default_factory=lambda: f"refusing_{next(NUMBERS)}")
    real: dict[str, Any] = field(default_factory=dict)

    def step(self, pipeline: Pipeline, name: str, number: int, named: Any, **pinned: Any) -> ShardStep:
        task = one_epoch.Place(name=self.name).task(pipeline, number, named, **pinned)

        def opened(sink: str, shard: int, _: Any) -> Any:
            return self.real.get(sink) or _Sink(self, sink)

        return ShardStep(task, name, 0, 0, store=self.store, opened=opened)

    def dedup(
        self, pipeline: Pipeline, rows: pa.Table, *, number: int = 0, named: Any = None, **pinned: Any
    ) -> tuple[pa.Table, dict[str, Any]]:
        """Run the first step; return what it hands on, and what it told."""
        step = self.step(pipeline, "dedup", number, named, **pinned)
        found = pa.Table.from_batches(epoch.deduplicate(step, rows.to_batches()), between.columns(pipeline))
        return found, self.notes(found)[0]

    def aggregate(
        self, pipeline: Pipeline, carried: pa.Table, *, number: int = 0, named: Any = None, **pinned: Any
    ) -> pa.Table:
        step = self.step(pipeline, "windows", number, named, **pinned)
        return pa.Table.from_batches(epoch.merge_partials(step, carried.to_batches()), between.columns(pipeline))

    @staticmethod
    def notes(found: pa.Table) -> list[dict[str, Any]]:
        return [json.loads(row["note"]) for row in found.to_pylist() if row["kind"] == "shard"]

    def decided(self, found: pa.Table, number: int = 0) -> dict[str, dict[int, list[Named]]]:
        """Return what the next epochs are told of the deltas of an epoch that was recorded."""
        told = {kind: delta for note in self.notes(found) for kind, delta in note["deltas"].items()}
        return {kind: {0: [Named(number, Delta(**delta))]} for kind, delta in told.items()}


@dataclass
class _Sink:
    place: Place
    name: str

    def find_refused(self, generation: int, rows: pa.Table) -> dict[int, str]:
        self.place.happened.append(f"try {self.name}")
        return self._refuses(rows)

    def _refuses(self, rows: pa.Table) -> dict[int, str]:
        constraint = self.place.constraints.get(self.name)
        return {} if constraint is None else constraint(rows.to_pylist())

    def publish(self, epoch: int, generation: int, rows: Any) -> tuple[Rows, Published]:
        if isinstance(rows, pa.Table) and self._refuses(rows):
            raise RefusedRowsError("PostgreSQL refuses", self.name, "Correct it.")
        self.place.happened.append(f"show {self.name}")
        self.place.published[self.name] = rows
        return Rows(rows=rows.num_rows if isinstance(rows, pa.Table) else len(rows)), Published.NOW


def table(pipeline: Pipeline, *rows: dict[str, Any]) -> pa.Table:
    """Make rows of shard 0 as they come where tables are tried: each has its value."""
    return one_epoch.table([{"value": f"v{number}".encode(), **row} for number, row in enumerate(rows)], pipeline)


def letters(place: Place) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in place.published[DEAD_LETTER]]
