"""The pure part of the counting, and both components with the acknowledger, without Spark and without a database."""

from __future__ import annotations

import io
import json
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.serializers import BatchedSerializer, CPickleSerializer
from pyspark.sql.pandas.serializers import ArrowCollectSerializer

from effectively_once.errors import SettingsError
from effectively_once.ledger.objects import Delete, Put
from effectively_once_jobs.system_usage import components, declare, in_batches, usage
from effectively_once_jobs.system_usage.acknowledger import Acknowledger, Report
from effectively_once_jobs.system_usage.look_up import look_up_rows
from effectively_once_jobs.system_usage.settings import EXACTLY_ONCE, UsageSettings, load
from effectively_once_jobs.system_usage.store import LookUpError
from tests.unit.ledger.memory_store import Fate, MemoryStore

WINDOW_MS = 60_000


def events(number: int, *, broken: int = 0) -> pa.Table:
    """Make transformed rows of so many events, the last `broken` of which are no transactions."""
    reasons = [None] * (number - broken) + ["not_json"] * broken
    return pa.table(
        {
            "root": pa.array(range(1, number + 1), pa.int64()),
            "tuple": pa.array(range(1, number + 1), pa.int64()),
            "topic": ["t"] * number,
            "value": [b""] * number,
            "id": [f"i{n}" for n in range(number)],
            "user": ["u"] * number,
            "system": ["payments"] * number,
            "event_time_ms": pa.array([n * 1_000 for n in range(number)], pa.int64()),
            "partition": pa.array([0] * number, pa.int32()),
            "offset": pa.array(range(number), pa.int64()),
            "reason": pa.array(reasons, pa.string()),
        }
    )


class Store:
    """A result store in memory that gives no answer to some calls."""

    def __init__(self, no_answer: set[int] = frozenset(), not_counted: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self._failing, self._calls = {"ask": no_answer, "count": not_counted}, {"ask": count(), "count": count()}
        self.counted: list[str] = []

    def _call(self, what: str) -> None:
        if next(self._calls[what]) in self._failing[what]:
            raise LookUpError("no answer")

    def frauds(self, ids: list[str]) -> dict[str, bool]:
        self._call("ask")
        return {one: one.endswith("7") for one in ids if one != "i3"}

    def count(self, rows: pa.Table, window_ms: int) -> None:
        self._call("count")
        self.counted += rows["id"].to_pylist()


def through(rows: pa.Table, store: Any) -> tuple[dict[int, bool], int]:
    """Send rows through both components; how each event ended, and how many are still under way."""
    acknowledger = Acknowledger[int](5.0)
    for root in rows["root"].to_pylist():
        acknowledger.track(root, root, 0.0)
    ended = {}
    for between in components.analyze(rows, store, components.numbers):
        for end in components.count_rows(between, store, WINDOW_MS):
            for row in end.to_pylist():
                if (told := acknowledger.take_report(Report(row["root"], row["tuple"], row["report"]))) is not None:
                    ended[told[0]] = told[1]
    return ended, len(acknowledger)


@given(st.integers(0, 70), st.integers(1, 30))
def test_portions_are_the_rows_in_their_order(number: int, size: int) -> None:
    rows = events(number)
    cut = list(usage.portions(rows, size))
    assert [one for portion in cut for one in portion["id"].to_pylist()] == rows["id"].to_pylist()
    assert all(portion.num_rows == size for portion in cut[:-1])


def test_what_a_portion_adds_is_counted_by_window() -> None:
    rows = usage.with_answers(events(130), {f"i{n}": n in (0, 59, 60, 129) for n in range(100)})
    # i129 is not known, so it is no fraud.
    assert usage.add_up(rows, WINDOW_MS) == [
        ("payments", 0, 60, 2),
        ("payments", 60_000, 60, 1),
        ("payments", 120_000, 10, 0),
    ]
    assert usage.as_rows(rows.slice(59, 2)) == ["i59", "u", 0, 59, 1, "i60", "u", 0, 60, 1]


def test_every_event_is_acknowledged_once_it_is_counted() -> None:
    store = Store()
    ended, under_way = through(events(65), store)
    assert (under_way, set(ended.values()), len(ended)) == (0, {True}, 65)
    assert store.counted == [f"i{n}" for n in range(65)]


def test_what_is_no_transaction_is_acknowledged_early_and_never_counted() -> None:
    store = Store()
    ended, under_way = through(events(5, broken=2), store)
    assert (under_way, ended) == (0, dict.fromkeys(range(1, 6), True))
    assert store.counted == ["i0", "i1", "i2"]


@pytest.mark.parametrize("failing", ["no_answer", "not_counted"])
def test_a_portion_that_fails_at_either_component_fails_its_events_and_no_others(failing: str) -> None:
    store = Store(**{failing: {1}})
    ended, under_way = through(events(60), store)
    assert under_way == 0
    assert [root for root, successful in ended.items() if not successful] == list(range(21, 41))
    assert set(store.counted).isdisjoint(f"i{n}" for n in range(20, 40))


def test_tuples_that_get_lost_between_the_components_leave_their_events_under_way() -> None:
    acknowledger, rows = Acknowledger[int](5.0), events(3)
    for root in (1, 2, 3):
        acknowledger.track(root, root, 0.0)
    for between in components.analyze(rows, Store(), components.numbers):  # type: ignore[arg-type]
        for row in between.to_pylist():
            if row["report"] is not None:
                assert acknowledger.take_report(Report(row["root"], row["tuple"], row["report"])) is None
    assert acknowledger.time_out(5.0) == [1, 2, 3]


def test_without_a_result_store_the_look_up_says_what_to_do() -> None:
    with pytest.raises(SettingsError, match=r"python -m effectively_once_jobs\.system_usage"):
        look_up_rows(None, "usage", events(1))


def test_the_declaration_has_both_counts_and_a_row_an_event() -> None:
    pipeline = declare("postgresql://h:1/d", "usage")
    assert pipeline.tables["counted"].schema.names == list(usage.COUNTED)
    assert pipeline.tables["usage"].schema.names == list(usage.USAGE)
    assert pipeline.kafka_sinks == ("dead_letter",)


SETTINGS = {
    "pipeline": "usage",
    "topic": "transactions",
    "kafka_bootstrap": "h:1",
    "s3_endpoint": "http://h:1",
    "s3_bucket": "bucket",
    "job": "effectively_once_jobs.system_usage",
    "database": "postgresql://h:1/d",
}


def test_exactly_once_unless_said_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(SETTINGS))
    assert load(path).semantics == EXACTLY_ONCE


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"semantics": "at_least_once"}, "semantics: .*got 'at_least_once'"),
        ({"database": None}, "database: "),
        ({"time_out_s": 0}, "time_out_s: .*got 0"),
        ({"sematics": "at_most_once"}, "sematics: .*Fields are"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({**SETTINGS, **changes}))
    with pytest.raises(SettingsError, match=says):
        load(path)


@pytest.mark.parametrize(
    ("fates", "noted", "processed"), [([], False, True), ([], True, False), ([Fate.LOST_APPLIED], False, False)]
)
def test_a_batch_is_processed_only_by_who_noted_it_first(fates: list[Fate], noted: bool, processed: bool) -> None:
    store = MemoryStore(fates)
    store.objects = {"usage/begun/000000003": b""} if noted else {}
    assert in_batches.note_begun(store, "usage", 3) is processed  # type: ignore[arg-type]
    assert store.requests == [Put("usage/begun/000000003", b"", None)]


def test_old_notes_are_deleted() -> None:
    store = MemoryStore()
    in_batches.note_begun(store, "usage", 103)  # type: ignore[arg-type]
    assert store.requests[1] == Delete("usage/begun/000000003")


class Processed:
    """A batch of Spark whose tasks tell some rows; it hands them out by Arrow alone."""

    def __init__(self, *told: tuple[int, int]) -> None:
        transactions, frauds = zip(*told, strict=True) if told else ((), ())
        self._table = pa.table(
            {"transactions": pa.array(transactions, pa.int64()), "frauds": pa.array(frauds, pa.int64())}
        )

    def mapInArrow(self, _function: object, _schema: str) -> Processed:  # noqa: N802 - Spark's name
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return self._table


@pytest.mark.parametrize(("told", "sums"), [((), (0, 0)), (((3, 1), (4, 0)), (7, 1))])
def test_what_tasks_counted_is_taken_by_arrow(told: tuple[tuple[int, int], ...], sums: tuple[int, int]) -> None:
    settings = UsageSettings.model_validate(SETTINGS)
    assert in_batches.process(settings, Processed(*told)) == sums


def test_rows_that_spark_collects_end_with_their_socket_and_arrow_does_not() -> None:
    """Why a snapshot is made of the latter: a JVM that dies while it hands rows over would leave some tasks out."""
    rows, written = BatchedSerializer(CPickleSerializer(), 1), io.BytesIO()
    rows.dump_stream(iter(range(3)), written)
    cut = written.getvalue()[: len(written.getvalue()) * 2 // 3]
    assert list(rows.load_stream(io.BytesIO(cut))) == [0, 1]
    arrow, written = ArrowCollectSerializer(), io.BytesIO()
    arrow.dump_stream(iter(Processed((1, 1)).toArrow().to_batches()), written)
    with pytest.raises(EOFError):
        list(arrow.load_stream(io.BytesIO(written.getvalue())))
