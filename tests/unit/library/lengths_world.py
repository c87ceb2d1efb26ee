"""Windows of several lengths over drawn records, and what they have to come to by plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from effectively_once import Count, Pipeline, Sum, ToFiles, ToKafka, ToTable, Windowed
from effectively_once.epoch import shard_state
from tests.unit.library.orders_world import World

GRAIN, LATENESS = 100, 50
VALUES: dict[str, Any] = {"n": Count(), "sum": Sum("amount")}
LENGTHS = {"short": (1, 1), "long": (3, 3), "sliding": (4, 1), "half": (4, 2)}
"""Sink -> length and slide of its windows, in grains."""
CLOSER = 10**6
TIMES = st.integers(-8, 24).map(lambda steps: 25 * steps)
Row = dict[str, Any]


def pipeline(lateness_ms: int = LATENESS) -> Pipeline:
    """Windows of the grain and of three times as long, and such as overlap."""
    return Pipeline(
        lambda frame: frame,
        pa.schema([("user", pa.string()), ("amount", pa.int64())]),
        window_ms=GRAIN,
        lateness_ms=lateness_ms,
        rows=(ToFiles("accepted"),),
        windows=(
            Windowed("user", VALUES, ToTable("short")),
            Windowed("user", VALUES, ToKafka("long"), totals=ToFiles("long_totals"), length_ms=3 * GRAIN),
            Windowed(
                "user", VALUES, ToTable("sliding"), ToFiles("sliding_totals"), length_ms=4 * GRAIN, slide_ms=GRAIN
            ),
            Windowed("user", VALUES, ToFiles("half"), length_ms=4 * GRAIN, slide_ms=2 * GRAIN),
        ),
    )


def records(times: Sequence[int]) -> list[Row]:
    """Records of these times, the third of each four a copy of the one before; and two that close all windows."""
    ids = [n - (n % 4 == 2) for n in range(len(times))]
    drawn = [{"id": f"r{n}", "event_time_ms": times[n]} for n in ids]
    closers = [{"id": f"closer-{n}", "user": "closer", "event_time_ms": CLOSER} for n in range(2)]
    return [*drawn, *closers]


def run(world: World, *, anew: bool = False) -> World:
    """Publish all records, and one epoch more; `anew` has each epoch run by another driver that knows nothing."""
    epochs = -(-len(world.records) // world.size) + 1
    driver = world.driver()
    for _ in range(epochs):
        if anew:
            shard_state._fold_cache.cache_clear()
            driver = world.driver()
        driver.run(1)
    return world


def due(world: World, sink: str) -> list[Row]:
    """What windows have to show of the rows that were accepted: each row is in all that hold its time."""
    assert world.head.watermark_ms == CLOSER, "else some windows are open"
    length, slide = (grains * GRAIN for grains in LENGTHS[sink])
    groups: dict[tuple[str, int], list[int]] = {}
    for row in world.rows()["accepted"]:
        start = row["event_time_ms"] // slide * slide
        while row["user"] != "closer" and start + length > row["event_time_ms"]:
            groups.setdefault((row["user"], start), []).append(row["amount"])
            start -= slide
    return [
        {"user": user, "window_start_ms": start, "n": len(amounts), "sum": sum(amounts)}
        for (user, start), amounts in groups.items()
    ]


def totals(rows: Sequence[Row]) -> list[Row]:
    """The same over all keys."""
    found: dict[int, Counter[str]] = {}
    for row in rows:
        found.setdefault(row["window_start_ms"], Counter()).update({"n": row["n"], "sum": row["sum"]})
    return [{"window_start_ms": start, **values} for start, values in found.items()]


def shown(world: World, sink: str) -> list[Row]:
    """What a sink shows, without what only tells of its epoch."""
    rows = [row for row in world.rows()[sink] if row.get("user") != "closer" and row["window_start_ms"] < CLOSER // 2]
    return [{name: value for name, value in row.items() if name not in ("epoch", "source")} for row in rows]


def once(rows: Sequence[Row]) -> Counter[str]:
    """Rows with how often each is there."""
    return Counter(str(sorted(row.items())) for row in rows)
