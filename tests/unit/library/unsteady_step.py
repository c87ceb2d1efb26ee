"""A step that answers otherwise each time it runs, and a store that records it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from effectively_once.epoch.recorded import add_recorded
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.recorded_step import RecordedStep
from tests.unit.ledger.memory_store import MemoryStore

LAYOUT = Layout("orders")
KEY = LAYOUT.step_record("rate", 3, 1)
ADDS = pa.schema([("rate", pa.float64()), ("quote", pa.string())])


class Unsteady:
    """A function that answers otherwise at every call; `calls` counts them."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows: pa.Table) -> pa.Table:
        self.calls += 1
        rates = [self.calls + 0.5] * rows.num_rows
        return pa.table({"rate": rates, "quote": [f"{self.calls}-{n}" for n in range(rows.num_rows)]})


def rows_of(*ids: str, amount: int | None = 5) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "offset": pa.array(range(len(ids)), pa.int64()),
            "amount": pa.array([amount] * len(ids), pa.int64()),
        }
    )


def ask(
    store: MemoryStore, function: Callable[[pa.Table], Any], rows: pa.Table | None = None, adds: pa.Schema = ADDS
) -> tuple[pa.Table, bool]:
    step = RecordedStep("rate", function, adds)
    return add_recorded(step, store, LAYOUT, epoch=3, shard=1, rows=rows_of("a", "b") if rows is None else rows)


def unreachable(rows: pa.Table) -> pa.Table:
    json.loads("no\njson")
    return rows
