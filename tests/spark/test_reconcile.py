"""What the batch run of a reconciliation counts, against a model in plain Python; and what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from effectively_once import Count, Max, Sum, ToKafka, Windowed
from effectively_once.epoch.rows import KAFKA
from effectively_once.state.lateness import Windows
from effectively_once_jobs.reconcile import cells
from effectively_once_jobs.reconcile.difference import Cell, Line, lines, total
from tests.spark.trials import PIPELINE, record

pytestmark = pytest.mark.spark
WINDOWS = Windows(PIPELINE.window_ms, PIPELINE.lateness_ms)
EACH = Windowed("user", {"count": Count(), "sum": Sum("n"), "most": Max("n")}, ToKafka("per_user", key="user"))
SOURCE, WATERMARK_MS = "events", 10**6
Row = dict[str, Any]


def kafka(spark: SparkSession, topic: str, values: list[Any]) -> DataFrame:
    rows = [(None, json.dumps(value).encode(), topic, 0, offset, None, 0) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, KAFKA)


def reconciled(
    spark: SparkSession,
    sent: list[Row],
    late: set[int],
    said: list[Row],
    *,
    beside: list[Row] | None = None,
    since_ms: int | None = None,
    watermark_ms: int = WATERMARK_MS,
    ids: Any = "attached",
) -> list[Cell]:
    """Count on Spark: `late` are the offsets that the stream has refused as late."""
    letters = [{"reason": "late", "source": [SOURCE, 0, offset]} for offset in sorted(late)]
    letters += [{"reason": "not_json", "source": [SOURCE, 0, 0]}, {"reason": "late", "source": ["other", 0, 0]}]
    pipeline = replace(PIPELINE, ids=ids, windows=(EACH,))
    refused = cells.find_late(kafka(spark, "dead", letters), SOURCE)
    batch = cells.count_records(pipeline, EACH, WINDOWS, kafka(spark, SOURCE, sent), refused)
    streams = [cells.add_up_published(EACH, kafka(spark, "s", rows), n) for n, rows in enumerate([said, beside or []])]
    frame = cells.keep_closed(cells.cells(EACH, batch, streams), WINDOWS, watermark_ms, since_ms)
    found = []
    for row in frame.collect():
        fields = row.asDict()
        streams_ = {"own": fields.pop("s0"), "beside": fields.pop("s1")}
        found.append(Cell(**fields, streams=streams_))
    return found


def row_of(user: str, start: int, count: int, total_: int = 0) -> Row:
    return {"user": user, "window_start_ms": start, "count": count, "sum": total_, "most": 0, "epoch": 1}


RECORDS = st.builds(
    record,
    st.sampled_from("abcde"),
    st.integers(0, 350),
    st.sampled_from(["ann", "bob", "forbidden", None]),
    st.integers(-3, 3),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(RECORDS, max_size=12), data=st.data())
def test_the_batch_run_counts_each_id_once_and_knows_what_was_refused_as_late(
    spark: SparkSession, sent: list[Row], data: st.DataObject
) -> None:
    # Copies of an id are the same record.
    by_id = {row["id"]: row for row in reversed(sent)}
    sent = [by_id[row["id"]] for row in sent]
    late = data.draw(st.sets(st.integers(0, max(len(sent) - 1, 0))))
    good = [(at, row) for at, row in enumerate(sent) if row["user"] not in ("forbidden", None)]
    due: dict[str, Counter[tuple[str, int]]] = {kind: Counter() for kind in cells.KINDS}
    seen: set[str] = set()
    for at, row in sorted(good, key=lambda one: (one[0] in late, one[0])):
        kind = "copies" if row["id"] in seen else "late" if at in late else "timely"
        due[kind][row["user"], row["t"] // 100 * 100] += 1
        seen.add(row["id"])
    found = reconciled(spark, sent, late, [])
    for kind in cells.KINDS:
        counts = {(one.key, one.window_start_ms): getattr(one, kind) for one in found if one.value == "count"}
        assert +Counter(counts) == due[kind]
    assert {one.value for one in found} <= {"count", "sum"}


def test_a_stream_that_is_exact_differs_by_what_it_refused_as_late(spark: SparkSession) -> None:
    sent = [record("a", 5, n=2), record("b", 7, n=3), record("a", 5, n=2), record("c", 8, n=4), record("d", 120, n=5)]
    said = [row_of("ann", 0, 2, 5), row_of("ann", 100, 1, 5)]
    found = reconciled(spark, sent, {3}, said)
    assert lines(found, "own", refuses_late=True) == [
        Line(0, "count", stream=2, batch=3, late=1, over=0, under=0, copies=1, wrong=0),
        Line(0, "sum", stream=5, batch=9, late=4, over=0, under=0, copies=2, wrong=0),
        Line(100, "count", stream=1, batch=1, late=0, over=0, under=0, copies=0, wrong=0),
        Line(100, "sum", stream=5, batch=5, late=0, over=0, under=0, copies=0, wrong=0),
    ]
    assert [line.difference for line in lines(found, "own", refuses_late=True)] == [-1, -4, 0, 0]


def test_rows_that_are_there_twice_and_windows_that_are_not_there_are_inaccurate(spark: SparkSession) -> None:
    sent = [record("a", 5), record("b", 7, "bob"), record("c", 120, "cid")]
    said = [row_of("ann", 0, 1), row_of("ann", 0, 1), row_of("nobody", 200, 4)]
    found = reconciled(spark, sent, set(), said)
    counts = [line for line in lines(found, "own", refuses_late=True) if line.value == "count"]
    assert [(line.over, line.under, line.wrong) for line in counts] == [(1, 1, 2), (0, 1, 1), (4, 0, 1)]
    # One too many and one too few come to no difference, and are told all the same.
    assert counts[0].difference == 0
    assert total(counts).wrong == 4


def test_a_stream_without_a_rule_of_lateness_has_to_have_counted_late_ones_too(spark: SparkSession) -> None:
    sent = [record("a", 5), record("a", 5), record("b", 6)]
    found = reconciled(spark, sent, {2}, [row_of("ann", 0, 1)], beside=[row_of("ann", 0, 2), row_of("ann", 0, 1)])
    (beside,) = [line for line in lines(found, "beside", refuses_late=False) if line.value == "count"]
    assert (beside.stream, beside.batch, beside.late, beside.over, beside.copies) == (3, 2, 0, 1, 1)
    (own,) = [line for line in lines(found, "own", refuses_late=True) if line.value == "count"]
    assert own.wrong == 0


@pytest.mark.parametrize(("watermark_ms", "starts"), [(149, []), (150, [0]), (249, [0]), (250, [0, 100])])
def test_only_windows_that_are_closed_are_held_against_each_other(
    spark: SparkSession, watermark_ms: int, starts: list[int]
) -> None:
    found = reconciled(spark, [record("a", 5), record("b", 105)], set(), [], watermark_ms=watermark_ms)
    assert [line.window_start_ms for line in lines(found, "own", refuses_late=True) if line.value == "count"] == starts
    later = reconciled(spark, [record("a", 5), record("b", 105)], set(), [], since_ms=100)
    assert {one.window_start_ms for one in later} == {100}


def test_without_ids_every_record_counts(spark: SparkSession) -> None:
    found = reconciled(spark, [record("a", 5), record("a", 5)], set(), [], ids="coordinates")
    assert [(one.timely, one.copies) for one in found if one.value == "count"] == [(2, 0)]
