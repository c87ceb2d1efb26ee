"""Declarations: every type of column, every sink, windows of every aggregate, settings at their ends."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from effectively_once import (
    Average,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    OwnAggregate,
    Pipeline,
    RecordedStep,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.pipeline.sinks import MESSAGE_BYTES, AnySink
from effectively_once.state import keys as keys_
from effectively_once.state.accumulators import is_number
from effectively_once.state.lateness import LONGEST_MS
from tests.fuzz.rows import COLUMNS

ROW_SINKS, WINDOW_SINKS = ("told", "kept", "archive"), ("told_sums", "kept_sums", "archive_sums")
"""A topic, a table and files, which get the same."""
_ANY = (Min, Max, First, Last, lambda name: CountDistinct(name, 2), lambda name: Collect(name, 3))
"""What is of a column of any type."""


def _farthest(kept: int, number: int) -> int:
    return max(kept, number % 1_000)


def _unlucky(kept: int) -> int | None:
    """Have no result now and then."""
    return None if kept % 10 == 7 else kept


_OWN = OwnAggregate(("offset",), int, _farthest, max, _unlucky, pa.int64())
_PRICES = (0, 1, -1, 2**63 - 1, -(2**63))


def price_of(offset: int) -> int:
    """What the recorded step answers."""
    return _PRICES[zlib.crc32(str(offset).encode()) % len(_PRICES)]


def _priced(rows: pa.Table) -> pa.Table:
    return pa.table({"price": pa.array(map(price_of, rows["offset"].to_pylist()), pa.int64())})


_RECORDED = RecordedStep("priced", _priced, pa.schema([pa.field("price", pa.int64(), nullable=False)]))


def _untouched(frame: Any) -> Any:
    return frame


@st.composite
def declarations(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Pipeline:
    """Declarations that hold: `ROW_SINKS` have the same columns, `WINDOW_SINKS`, where there are windows, too."""
    ids = draw(st.sampled_from(["attached", "attached", "coordinates"]))
    chosen = draw(st.sets(st.sampled_from(COLUMNS.names), min_size=1))
    columns = pa.schema([column for column in COLUMNS if column.name in chosen])
    recorded = draw(st.sampled_from([None, None, _RECORDED]))
    bare = Pipeline(_untouched, columns, ids=ids, recorded=recorded)
    windows = draw(st.sampled_from([True, True, False])) and draw(_windows(bare))
    window_ms = draw(st.sampled_from([1, 100, 60_000, LONGEST_MS]))
    several = [(None, None), (1, None), (3, None), (3, 1), (4, 2)]
    lengths = [tuple(n and n * window_ms for n in one) for one in several if (one[0] or 1) * window_ms <= LONGEST_MS]
    chosen_lengths = [draw(st.sampled_from(lengths)) for _ in windows or ()]
    own = tuple(
        replace(each, length_ms=length, slide_ms=slide)
        for each, (length, slide) in zip(windows or (), chosen_lengths, strict=True)
    )
    timed = replace(bare, windows=own, window_ms=window_ms)
    texts = [column.name for column in timed.row_schema if column.type in (pa.string(), pa.binary())]
    keys: list[tuple[str, ...]] = [()]
    if ids == "attached":
        keys += [("id",), *(("id", name) for name in timed.row_schema.names if name != "id")]
    most = draw(st.sampled_from([65_536, MESSAGE_BYTES]))
    rows: list[Any] = [
        ToKafka(ROW_SINKS[0], key=draw(st.sampled_from([None, *texts])), message_bytes_max=most),
        ToTable(ROW_SINKS[1], key=draw(st.sampled_from(keys))),
        ToFiles(ROW_SINKS[2]),
        ToKafka("raw", value=draw(st.sampled_from(texts)), key=draw(st.sampled_from([None, *texts]))),
    ]
    return replace(
        timed,
        rows=tuple(draw(st.permutations(rows))),
        lateness_ms=draw(st.sampled_from([0, 50, 120_000, LONGEST_MS])),
        ahead_ms=draw(st.sampled_from([None, None, 0, LONGEST_MS])) if timed.timed else None,
        semantics=draw(st.sampled_from(["exactly_once", "at_least_once"])),
    )


@st.composite
def _windows(draw: Callable[[st.SearchStrategy[Any]], Any], pipeline: Pipeline) -> tuple[Windowed, ...]:
    """The same aggregates three times, for a topic, a table and files."""
    kinds = {**{column.name: column.type for column in pipeline.row_schema}, "event_time_ms": pa.int64()}
    known = [name for name, kind in kinds.items() if kind in keys_.TYPES]
    several = st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True).map(tuple)
    by = draw(st.sampled_from([name for name in ("id", "user", "text", "topic") if name in kinds]) | several)
    keys = (by,) if isinstance(by, str) else by
    values: dict[str, Any] = {"count": Count(), "own": _OWN, "offsets": CountDistinct("offset", 3)}
    if "n" in kinds:
        values["sum"] = Sum("n")
    for name in draw(st.sets(st.sampled_from([*kinds]), max_size=4)):
        made = draw(st.sampled_from([*_ANY, *([Sum, Sum, Average] if is_number(kinds[name]) else [])]))(name)
        values[f"{made.how}_{name}"] = made
    key = draw(st.sampled_from([(), (*keys, "window_start_ms"), (*keys, "count", "window_start_ms")]))
    totals = [draw(st.sampled_from([None, ToFiles(f"totals_{number}")])) for number in range(3)]
    most = draw(st.sampled_from([65_536, MESSAGE_BYTES]))
    sinks: tuple[AnySink, ...] = (
        ToKafka(WINDOW_SINKS[0], key=by if isinstance(by, str) else None, message_bytes_max=most),
        ToTable(WINDOW_SINKS[1], key=key),
        ToFiles(WINDOW_SINKS[2]),
    )
    return tuple(Windowed(by, values, to, totals=sum_) for to, sum_ in zip(sinks, totals, strict=True))


DECLARATIONS = declarations()
