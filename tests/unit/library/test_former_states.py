"""State and declarations of before there were other types: the same bytes, digests and bounds, so that chains go on."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from effectively_once import Count, Max, Min, Pipeline, Sum, ToFiles, ToKafka, ToTable, Windowed, long_texts
from effectively_once.epoch import between
from effectively_once.ledger import digest
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.job import Job
from effectively_once.state import deltas, windows
from effectively_once.state.lateness import Windows
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore

COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64()), ("small", pa.int32())])


def transform(frame: Any) -> Any:
    return frame


PIPELINE = Pipeline(
    transform,
    COLUMNS,
    windows=(
        Windowed(
            "user",
            {"n": Count(), "sum": Sum("amount"), "least": Min("small"), "most": Max("amount")},
            ToKafka("per_user"),
            totals=ToFiles("totals"),
        ),
        Windowed("id", {"n": Count()}, ToTable("per_id", key=("id", "window_start_ms"))),
    ),
)
ROWS = pa.table(
    {
        "user": ["ann", "bob", "ann", "é"],
        "event_time_ms": pa.array([1, -1, 59_999, 60_000], pa.int64()),
        "amount": pa.array([2**63 - 1, 5, 7, -(2**63)], pa.int64()),
        "small": pa.array([1, 2, -3, 4], pa.int32()),
    }
)


def test_a_declaration_is_bound_as_before() -> None:
    assert PIPELINE.bound == {
        "ids": "attached",
        "windows": {
            "per_user": {
                "by": "user",
                "values": [
                    ["n", "sum", None],
                    ["sum", "sum", "amount"],
                    ["least", "min", "small"],
                    ["most", "max", "amount"],
                ],
            },
            "per_id": {"by": "id", "values": [["n", "sum", None]]},
        },
    }
    settings = pipeline_settings(database="postgresql://h:1/d")
    assert Job(PIPELINE, settings).digest == "d22c7e6410ffc8e7c9da39d081776019"


def test_rows_between_the_steps_are_as_before() -> None:
    assert between.ddl(PIPELINE) == (
        "kind string, shard int, of string, key string, window_start_ms long, "
        "v0 long, v1 long, v2 long, v3 long, note string"
    )


def test_a_delta_has_the_same_bytes_digest_and_size_as_before() -> None:
    values = PIPELINE.accumulators(PIPELINE.windows[0])
    delta = windows.partial(ROWS, ("user",), values, Windows(60_000, 0))
    assert windows.largest(delta, values) == 2**63
    delta = long_texts.sort(delta, windows.GROUP)
    assert digest.of_rows_in(delta) == "xxh3:97bbc40160a66c17461eaf20a00495c6"
    body = hashlib.sha256(deltas.encode(delta)).hexdigest()
    assert body == "2baed1c8c5fcbd755de4b0cd30ee72965ac190250dade60f30cfdb67ef76dc0b"


def test_a_small_delta_travels_inline_as_before_and_one_with_bytes_comes_back() -> None:
    log = deltas.ShardDeltas(MemoryStore(), Layout("p"), "kind", 0, windows.canonical, inline_bytes=10_000)
    plain = pa.table({"key": ["ann"], "window_start_ms": [0], "n": [5]})
    assert log.write(0, plain).inline == '{"key":["ann"],"window_start_ms":[0],"n":[5]}'
    held = plain.append_column("sum", pa.array([b"\x00\xff"], pa.binary()))
    delta = log.write(1, held)
    assert log.read(deltas.Named(1, delta)).equals(held)
    assert log.digest_rows(log.read(deltas.Named(1, delta))) == delta.digest
