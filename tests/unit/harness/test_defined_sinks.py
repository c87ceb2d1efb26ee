"""What a declaration says of itself: which sinks are judged, by what, and which are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from effectively_once import (
    Count,
    Pipeline,
    RecordedStep,
    Stateful,
    Sum,
    ToFiles,
    ToIceberg,
    ToKafka,
    ToTable,
    Windowed,
)
from tests.harness.checkers.declared import Declaration
from tests.harness.definition.declared import NotJudgedError, describe

PIPELINE = Pipeline(
    transform=lambda frame: frame,
    columns=pa.schema([("key", pa.string()), ("amount", pa.int64())]),
    rows=(ToKafka("accepted", key="key"), ToFiles("archive"), ToTable("events"), ToIceberg("visits")),
    windows=(
        Windowed(
            by="key",
            values={"count": Count(), "amount": Sum("amount")},
            to=ToKafka("per_minute"),
            totals=ToFiles("totals"),
        ),
    ),
)


def of(pipeline: Pipeline) -> Declaration:
    said = orjson.loads(orjson.dumps(describe(pipeline)["declaration"]))
    return Declaration.of({**said, "pipeline": "clicks", "window_ms": 1, "lateness_ms": 0})


def test_every_sink_is_judged_by_rows_or_by_what_it_aggregates() -> None:
    found = of(PIPELINE)
    assert {sink.name: (sink.kind, sink.of, sink.totals) for sink in found.sinks} == {
        "accepted": ("kafka", "rows", False),
        "archive": ("files", "rows", False),
        "events": ("table", "rows", False),
        "visits": ("lake", "rows", False),
        "per_minute": ("kafka", "per_minute", False),
        "totals": ("files", "per_minute", True),
        "dead_letter": ("kafka", "dead_letter", False),
    }
    assert found.aggregates["per_minute"].values == {"count": ("sum", None), "amount": ("sum", "amount")}
    assert set(found.topics) == {"accepted", "per_minute", "dead_letter"}
    assert found.manifests == ("totals",)
    assert found.left_out == {}


ROWS_LEFT_OUT: list[tuple[Any, str]] = [
    (ToKafka("raw", value="key"), "no JSON"),
    (ToTable("latest", key=("id",)), "replace each other"),
    (ToFiles("some", columns=("id", "key")), "leave topic, partition and offset out"),
    (ToIceberg("few", columns=("id", "key")), "leave topic, partition and offset out"),
]
AGGREGATES_LEFT_OUT: list[tuple[Any, str]] = [
    (ToKafka("raw", value="key"), "no JSON"),
    (ToKafka("some", columns=("key", "count")), "leave key and window out"),
    (ToTable("few", columns=("count",)), "leave key and window out"),
    (ToIceberg("less", columns=("count",)), "leave key and window out"),
]


def test_what_cannot_be_told_apart_is_left_out_with_the_reason() -> None:
    (windows,) = PIPELINE.windows
    for to, why in ROWS_LEFT_OUT:
        found = of(replace(PIPELINE, rows=(to,)))
        assert why in found.left_out[to.name]
        assert {sink.name for sink in found.sinks} == {"per_minute", "totals", "dead_letter"}
    for to, why in AGGREGATES_LEFT_OUT:
        found = of(replace(PIPELINE, windows=(replace(windows, to=to),)))
        assert why in found.left_out[to.name]
        assert {sink.name for sink in found.sinks} == {
            "accepted",
            "archive",
            "events",
            "visits",
            "totals",
            "dead_letter",
        }


def test_what_a_recorded_step_adds_is_not_compared() -> None:
    step = RecordedStep("clock", lambda table: table, pa.schema([("seen_ms", pa.int64())]))
    found = of(replace(PIPELINE, recorded=step))
    (accepted,) = (sink for sink in found.sinks if sink.name == "accepted")
    assert accepted.columns == ("id", "event_time_ms", "key", "amount")


def test_state_of_sparks_own_cannot_be_judged() -> None:
    schema = pa.schema([("key", pa.string()), ("amount", pa.int64())])
    own = Stateful(lambda rows: rows, by="key", to=ToKafka("sessions"), schema=schema)
    with pytest.raises(NotJudgedError, match="no reference here recomputes"):
        describe(replace(PIPELINE, windows=(), stateful=own))
