"""Schemas of sinks as their declaration says: columns, types, key, and what partition and order depend on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, RecordedStep, Sum, ToFiles, ToIceberg, ToKafka, ToTable, Windowed
from effectively_once_jobs import user_counts
from tests.harness import with_table
from tests.harness.definition.declared import describe
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


def of(**changes: Any) -> dict[str, SinkSchema]:
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
    found = of()[sink].fields
    assert found == fields
    assert [*found] == [*fields]


def test_key_partition_and_order_follow_from_the_declaration() -> None:
    found = of()
    assert (found["accepted"].key, found["accepted"].key_type) == ("raw", "hex")
    assert (found["accepted"].shard_by, found["accepted"].order) == (("id",), ("source",))
    assert (found["few"].key, found["few"].key_type) == (None, "text")
    assert (found["per_minute"].shard_by, found["per_minute"].order) == (("key",), ("window_start_ms", "key"))
    assert of(ids="coordinates")["accepted"].shard_by == ("source",)


def test_without_ids_and_windows_rows_have_neither_id_nor_time() -> None:
    found = of(ids="coordinates", windows=())["accepted"].fields
    assert found["key"] == "text or null"
    assert not {"id", "event_time_ms"} & found.keys()


def test_what_a_recorded_step_adds_comes_last() -> None:
    adds = pa.schema([pa.field("seen_ms", pa.int64(), nullable=False), ("place", pa.string())])
    step = RecordedStep("clock", lambda table: table, adds)
    found = of(recorded=step)["archive"].fields
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
