"""What a declaration says of itself: sinks that are judged and by what, their columns, types, key, partition, order."""

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
from effectively_once_jobs import user_counts
from tests.harness import with_table
from tests.harness.checkers.declared import Declaration
from tests.harness.definition.declared import NotJudgedError, describe
from tests.harness.definition.schemas import schemas_of
from tests.harness.evidence import Manifest
from tests.harness.schemas import DEAD_LETTERS, USER_COUNTS, WITH_TABLE, SinkSchema

PIPELINE = Pipeline(
    transform=lambda frame: frame,
    columns=pa.schema(
        [
            ("key", pa.string()),
            ("amount", pa.int64()),
            ("raw", pa.binary()),
            ("share", pa.float64()),
            ("paid", pa.bool_()),
            ("day", pa.date32()),
        ]
    ),
    rows=(
        ToKafka("accepted", key="raw"),
        ToKafka("few", columns=("amount", "key")),
        ToFiles("archive"),
        ToTable("events"),
        ToIceberg("visits"),
    ),
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
        "few": ("kafka", "rows", False),
        "archive": ("files", "rows", False),
        "events": ("table", "rows", False),
        "visits": ("lake", "rows", False),
        "per_minute": ("kafka", "per_minute", False),
        "totals": ("files", "per_minute", True),
        "dead_letter": ("kafka", "dead_letter", False),
    }
    assert found.aggregates["per_minute"].values == {"count": ("sum", None), "amount": ("sum", "amount")}
    assert set(found.topics) == {"accepted", "few", "per_minute", "dead_letter"}
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
    (ToTable("least", columns=("count",)), "leave key and window out"),
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
        assert {sink.name for sink in found.sinks} == {one.name for one in PIPELINE.rows} | {"totals", "dead_letter"}


def test_what_a_recorded_step_adds_is_not_compared() -> None:
    step = RecordedStep("clock", lambda table: table, pa.schema([("seen_ms", pa.int64())]))
    found = of(replace(PIPELINE, recorded=step))
    (accepted,) = (sink for sink in found.sinks if sink.name == "accepted")
    assert accepted.columns == tuple(COLUMNS)


def test_state_of_sparks_own_cannot_be_judged() -> None:
    schema = pa.schema([("key", pa.string()), ("amount", pa.int64())])
    own = Stateful(lambda rows: rows, by="key", to=ToKafka("sessions"), schema=schema)
    with pytest.raises(NotJudgedError, match="no reference here recomputes"):
        describe(replace(PIPELINE, windows=(), stateful=own))


COLUMNS = {
    "id": "text",
    "event_time_ms": "integer",
    "key": "text",
    "amount": "integer",
    "raw": "hex or null",
    "share": "number or null",
    "paid": "boolean or null",
    "day": "text or null",
}
SOURCE = {"topic": "text", "partition": "integer", "offset": "integer"}
SHOWN = {"epoch": "integer", "source": "source"}


def schemas(**changes: Any) -> dict[str, SinkSchema]:
    return schemas_of(replace(PIPELINE, **changes))


WINDOW = {"window_start_ms": "integer", "count": "integer"}


@pytest.mark.parametrize(
    ("sink", "fields"),
    [
        ("accepted", {**COLUMNS, **SHOWN}),
        ("few", {"amount": "integer", "key": "text", **SHOWN}),
        ("archive", {**SOURCE, **COLUMNS, "epoch": "integer"}),
        ("events", {**SOURCE, **COLUMNS}),
        ("visits", {**SOURCE, **COLUMNS}),
        ("per_minute", {"key": "text", **WINDOW, "amount": "integer", "epoch": "integer"}),
        ("totals", {**WINDOW, "amount": "integer or null", "epoch": "integer"}),
    ],
)
def test_fields_are_those_declared_in_their_order(sink: str, fields: dict[str, str]) -> None:
    found = schemas()[sink].fields
    assert found == fields
    assert [*found] == [*fields]


def test_key_partition_and_order_follow_from_the_declaration() -> None:
    found = schemas()
    assert (found["accepted"].key, found["accepted"].key_type) == ("raw", "hex")
    assert (found["accepted"].shard_by, found["accepted"].order) == (("id",), ("source",))
    assert (found["few"].key, found["few"].key_type) == (None, "text")
    assert (found["per_minute"].shard_by, found["per_minute"].order) == (("key",), ("window_start_ms", "key"))
    assert schemas(ids="coordinates")["accepted"].shard_by == ("source",)


def test_without_ids_and_windows_rows_have_neither_id_nor_time() -> None:
    found = schemas(ids="coordinates", windows=())["accepted"].fields
    assert found["key"] == "text or null"
    assert not {"id", "event_time_ms"} & found.keys()


def test_what_a_recorded_step_adds_comes_last() -> None:
    adds = pa.schema([pa.field("seen_ms", pa.int64(), nullable=False), ("place", pa.string())])
    step = RecordedStep("clock", lambda table: table, adds)
    found = schemas(recorded=step)["archive"].fields
    assert [*found.items()][-3:] == [("seen_ms", "integer"), ("place", "text or null"), ("epoch", "integer")]


def test_those_of_user_counts_are_what_its_declaration_comes_to() -> None:
    """Two readings of one definition, the first by hand."""
    assert {**schemas_of(user_counts.pipeline), "dead_letter": DEAD_LETTERS} == USER_COUNTS
    assert schemas_of(with_table.pipeline)["accepted_rows"].kind == WITH_TABLE["accepted_rows"].kind


def test_every_sink_that_is_judged_has_one() -> None:
    said = describe(replace(PIPELINE, rows=(*PIPELINE.rows, ToKafka("whole", value="raw"))))
    assert said["schemas"].keys() == {sink["name"] for sink in said["declaration"]["sinks"]}
    assert Manifest.model_fields["schemas"].annotation == dict[str, SinkSchema]


@pytest.mark.parametrize("type_", ["texts", "text or integer", "null", ""])
def test_a_type_that_nobody_judges_is_refused(type_: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        SinkSchema(kind="kafka", fields={"id": type_})
