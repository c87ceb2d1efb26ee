"""What a job's author sees of the library without any server: `Trial`, against a model in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import (
    Count,
    Max,
    Min,
    Outputs,
    Pipeline,
    PipelineError,
    RecordedStep,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Trial,
    Windowed,
)
from effectively_once.errors import SettingsError, SinkError
from effectively_once.sinks.tables import COLUMN_TYPES

pytestmark = pytest.mark.spark

LENGTH_MS, LATENESS_MS = 100, 50
FIELDS = "id string, t long, user string, n long"
COLUMNS = pa.schema([("user", pa.string()), ("n", pa.int64())])
VALUES: dict[str, Any] = {"count": Count(), "sum": Sum("n"), "least": Min("n"), "most": Max("n")}


def parsed(frame: DataFrame) -> DataFrame:
    """A record is JSON; what is no object of it has neither id nor time."""
    record = f.from_json(f.col("value").cast("string"), FIELDS)
    return frame.select(
        "topic", "partition", "offset", "value", record["id"].alias("id"), record["t"].alias("event_time_ms"),
        record["user"].alias("user"), record["n"].alias("n"),
        f.when(record["user"] == "forbidden", "forbidden").alias("reason"),
    )  # fmt: skip


PIPELINE = Pipeline(
    parsed, COLUMNS, rows=(ToKafka("accepted", key="user"),), window_ms=LENGTH_MS, lateness_ms=LATENESS_MS,
    windows=(
        Windowed("user", VALUES, ToTable("per_user", key=("user", "window_start_ms")), totals=ToFiles("totals")),
    ),
)  # fmt: skip


def record(id_: str | None = "i", t: int | None = 0, user: str | None = "ann", n: int | None = 1) -> dict[str, Any]:
    return {"id": id_, "t": t, "user": user, "n": n}


def with_rows(*rows: Any, transform: Any = parsed, columns: pa.Schema = COLUMNS, **more: Any) -> Pipeline:
    return Pipeline(transform, columns, rows=rows or (ToKafka("accepted"),), **more)


@dataclass
class Model:
    """The rules in plain Python: no Spark, no Arrow, nothing of the library."""

    ids: dict[str, int] = field(default_factory=dict)
    open: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    watermark: int | None = None
    previous: int | None = None
    offset: int = 0

    def closed(self, t: int, watermark: int | None) -> bool:
        return watermark is not None and t - t % LENGTH_MS + LENGTH_MS + LATENESS_MS <= watermark

    def epoch(self, records: Sequence[dict[str, Any]]) -> dict[str, Counter[Any]]:
        """Counts of rows by sink."""
        watermark, found = self.watermark, {name: Counter[Any]() for name in ("accepted", "dead", "per_user", "totals")}
        totals: dict[int, list[int]] = {}
        for (start, user), some in sorted(self.open.items()):
            if self.closed(start, watermark) and not self.closed(start, self.previous):
                found["per_user"][(user, start, len(some), sum(some), min(some), max(some))] += 1
                totals.setdefault(start, []).extend(some)
        for start, some in totals.items():
            found["totals"][(start, len(some), sum(some), min(some), max(some))] += 1
        live = {id_: t for id_, t in self.ids.items() if not self.closed(t, watermark)}
        times = [] if watermark is None else [watermark]
        for row in records:
            offset, self.offset = self.offset, self.offset + 1
            reason = self.reason(row, watermark)
            if reason is not None:
                found["dead"][(offset, reason, row["id"])] += 1
            elif row["id"] not in live:
                live[row["id"]] = row["t"]
                times.append(row["t"])
                found["accepted"][(offset, *row.values())] += 1
                self.open.setdefault((row["t"] - row["t"] % LENGTH_MS, row["user"]), []).append(row["n"])
        self.ids, self.previous, self.watermark = live, watermark, max(times, default=None)
        return found

    def reason(self, row: dict[str, Any], watermark: int | None) -> str | None:
        if row["user"] == "forbidden":
            return "forbidden"
        for name, reason in (("id", "missing_id"), ("t", "bad_time"), ("user", "missing_user"), ("n", "missing_n")):
            if row[name] is None:
                return reason
        return "late" if self.closed(row["t"], watermark) else None


def counted(outputs: Outputs) -> dict[str, Counter[Any]]:
    """What a trial published, in the model's terms."""
    return {
        "accepted": Counter(
            (row["source"][2], row["id"], row["event_time_ms"], row["user"], row["n"]) for row in outputs["accepted"]
        ),
        "dead": Counter((row["source"][2], row["reason"], row["id"]) for row in outputs["dead_letter"]),
        "per_user": Counter(tuple(row.values()) for row in outputs["per_user"]),
        "totals": Counter(tuple(row.values()) for row in outputs["totals"]),
    }


# Of a window [0, 100) that closes at 150, and of the ones after it: both sides of every edge.
EDGES = [edge + step for edge in (0, 100, 150, 200, 250, 300) for step in (-1, 0, 1)]
RECORDS = st.lists(
    st.builds(
        record, st.sampled_from([*"abcdef", None]), st.sampled_from([*EDGES, None]),
        st.sampled_from(["ann", "ann", "bob", "forbidden", None]), st.integers(-5, 5) | st.none(),
    ),
    max_size=10,
)  # fmt: skip


EPOCHS = st.lists(RECORDS, min_size=2, max_size=3)
FEW = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(epochs=EPOCHS, shards=st.integers(1, 3))
def test_a_trial_publishes_what_the_model_says(
    spark: SparkSession, epochs: list[list[dict[str, Any]]], shards: int
) -> None:
    """Dedup, lateness to the millisecond, windows once, several aggregates and their totals; a repeat is the same."""
    agrees_with_the_model(spark, epochs, shards)


@pytest.mark.slow
@settings(FEW, max_examples=40)
@given(epochs=EPOCHS, shards=st.integers(1, 3))
def test_many_trials_publish_what_the_model_says(
    spark: SparkSession, epochs: list[list[dict[str, Any]]], shards: int
) -> None:
    agrees_with_the_model(spark, epochs, shards)


def agrees_with_the_model(spark: SparkSession, epochs: list[list[dict[str, Any]]], shards: int) -> None:
    trial, model = Trial(PIPELINE, spark, shards), Model()
    # The first brings a watermark that closes every window but its own, which the second pins.
    closing = [[record("closer", 10**6)], []]
    amounts: dict[tuple[str, int], list[int]] = {}
    closed: Counter[Any] = Counter()
    for number, records in enumerate([*epochs, *closing]):
        outputs, expected = trial.epoch(records), model.epoch(records)
        assert counted(outputs) == expected
        counts = trial.last.counts
        assert counts.read == len(records)
        assert counts.accepted == expected["accepted"].total()
        assert counts.late + counts.malformed == expected["dead"].total()
        assert counts.read == counts.accepted + counts.duplicate + counts.late + counts.malformed
        assert trial.watermark_ms == model.watermark
        if number == len(epochs) - 1:
            assert trial.repeat() == outputs
        for row in outputs["accepted"]:
            start = row["event_time_ms"] // LENGTH_MS * LENGTH_MS
            amounts.setdefault((row["user"], start), []).append(row["n"])
        closed += counted(outputs)["per_user"]
    del amounts["ann", 10**6]
    assert closed == Counter((*key, len(some), sum(some), min(some), max(some)) for key, some in amounts.items())


@pytest.mark.parametrize(("distance_ms", "late"), [(-1, False), (0, True), (1, True)])
def test_a_window_takes_records_until_the_watermark_has_reached_its_end_and_the_lateness(
    spark: SparkSession, distance_ms: int, late: bool
) -> None:
    """And is published in the epoch that pins that watermark, without those that came too late."""
    trial = Trial(PIPELINE, spark)
    trial.epoch([record("first", LENGTH_MS - 1), record("now", LENGTH_MS + LATENESS_MS + distance_ms, "bob")])
    second = trial.epoch([record("copy", 0), record("first", LENGTH_MS - 1)])
    assert [row["reason"] for row in second["dead_letter"]] == (["late", "late"] if late else [])
    assert [row["id"] for row in second["accepted"]] == ([] if late else ["copy"])
    assert [(row["user"], row["count"]) for row in second["per_user"]] == ([("ann", 1)] if late else [])
    counts = trial.last.counts
    assert (counts.late, counts.duplicate) == ((2, 0) if late else (0, 1))


def test_an_id_is_forgotten_with_its_window_and_no_sooner(spark: SparkSession) -> None:
    """A copy whose time was changed on the way is known as long as the original's window is open."""
    trial = Trial(PIPELINE, spark)
    trial.epoch([record("a", 0), record("now", 149)])
    assert [row["id"] for row in trial.epoch([record("a", 120), record("now2", 150)])["accepted"]] == ["now2"]
    assert [row["id"] for row in trial.epoch([record("a", 120)])["accepted"]] == ["a"]


def test_by_coordinates_every_record_is_its_own(spark: SparkSession) -> None:
    """Nothing is stored for it, windows and the rule of lateness stay."""
    trial = Trial(replace(PIPELINE, ids="coordinates"), spark)
    first = trial.epoch([record("a", 5), record("a", 5), record(None, 6), record("b", 150, "bob")])
    assert [row["source"][2] for row in sorted(first["accepted"], key=lambda row: int(row["source"][2]))] == [
        0,
        1,
        2,
        3,
    ]
    assert all("id" not in row for row in first["accepted"])
    assert trial.last.deltas.keys() == {"per_user"}
    second = trial.epoch([record("a", 5)])
    assert [row["reason"] for row in second["dead_letter"]] == ["late"]
    assert second["per_user"] == [{"user": "ann", "window_start_ms": 0, "count": 3, "sum": 3, "least": 1, "most": 1}]
    assert trial.repeat() == second


def test_without_ids_and_windows_no_time_is_needed(spark: SparkSession) -> None:
    def plain(frame: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        return frame.select("topic", "partition", "offset", "value", text.alias("user"),
                            f.when(text == "bad", "bad").alias("reason"))  # fmt: skip

    trial = Trial(with_rows(transform=plain, columns=pa.schema([("user", pa.string())]), ids="coordinates"), spark)
    outputs = trial.epoch(["ann", "bad", "ann"])
    assert sorted(row["source"][2] for row in outputs["accepted"]) == [0, 2]
    assert [(row["reason"], row["value"], row["id"]) for row in outputs["dead_letter"]] == [("bad", "bad", None)]
    assert trial.watermark_ms is None
    assert trial.repeat() == outputs


def test_ids_may_be_bytes(spark: SparkSession) -> None:
    """They need be no text; they are told in hexadecimal digits. One that is null is a dead letter."""

    def by_value(frame: DataFrame) -> DataFrame:
        return frame.select(
            "topic", "partition", "offset", "value", f.when(f.length("value") > 0, f.col("value")).alias("id"),
            f.lit(7).cast("long").alias("event_time_ms"), f.lit(None).cast("string").alias("reason"),
        )  # fmt: skip

    trial = Trial(with_rows(transform=by_value, columns=pa.schema([])), spark)
    first = trial.epoch([b"\xff\x00", b"\xff\x00", b"\xff", b"", None, "ff00"])
    assert sorted((row["source"][2], row["id"]) for row in first["accepted"]) == [
        (0, "ff00"), (2, "ff"), (5, b"ff00".hex()),
    ]  # fmt: skip
    assert [(row["reason"], row["id"]) for row in first["dead_letter"]] == [("missing_id", None)] * 2
    assert trial.epoch([b"\xff\x00"])["accepted"] == []
    assert trial.last.counts.duplicate == 1


def test_a_record_may_be_given_as_bytes_text_or_fields(spark: SparkSession) -> None:
    trial = Trial(with_rows(), spark)
    outputs = trial.epoch([json.dumps(record("a")).encode(), json.dumps(record("b")), record("c"), None])
    assert sorted(row["id"] for row in outputs["accepted"]) == ["a", "b", "c"]
    assert [(row["reason"], row["value"]) for row in outputs["dead_letter"]] == [("missing_id", "")]


def quoted(rows: pa.Table) -> pa.Table:
    """Answer otherwise whenever it is asked."""
    return pa.table({"quote": pa.array([random.getrandbits(60) for _ in range(rows.num_rows)], pa.int64())})


def test_what_a_recorded_step_gave_is_given_again(spark: SparkSession) -> None:
    """To sinks and windows alike, and every epoch has its own."""
    step = RecordedStep("quoted", quoted, pa.schema([pa.field("quote", pa.int64(), nullable=False)]))
    most = Windowed("user", {"most": Max("quote")}, ToKafka("most"))
    trial = Trial(
        replace(PIPELINE, recorded=step, rows=(ToKafka("accepted"), ToTable("orders")), windows=(most,)), spark
    )
    first = trial.epoch([record(id_, 5) for id_ in "abcde"])
    quotes = {row["id"]: row["quote"] for row in first["accepted"]}
    assert {row["id"]: row["quote"] for row in first["orders"]} == quotes
    assert len(set(quotes.values())) == 5
    assert trial.repeat() == trial.repeat() == first
    trial.epoch([record("later", 10**4)])
    assert [row["most"] for row in trial.epoch([])["most"]] == [max(quotes.values())]


def test_the_same_code_in_the_transform_is_found_out_by_a_repeat(spark: SparkSession) -> None:
    """That is what a trial is for: once deployed, only a crash would show it."""

    def drawing(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("n", (f.rand() * 2**60).cast("long"))

    trial = Trial(with_rows(transform=drawing), spark)
    trial.epoch([record("a"), record("b")])
    with pytest.raises(SinkError, match=r"^a repeat of epoch 0 publishes other rows .*declare it as a recorded step"):
        trial.repeat()


def test_a_time_that_differs_in_a_repeat_is_found_out_where_no_sink_tells_it(spark: SparkSession) -> None:
    """The watermark would be another one after a crash."""
    draws = iter([0, 0, 50])  # the check of the columns, the epoch, its repeat

    def drawing(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("event_time_ms", f.lit(next(draws)).cast("long"))

    trial = Trial(with_rows(ToKafka("accepted", columns=("id",)), transform=drawing), spark)
    trial.epoch([record("a")])
    with pytest.raises(SinkError, match=r"^a repeat of epoch 0"):
        trial.repeat()


@pytest.mark.parametrize(
    "name", ["topic", "partition", "offset", "value", "id", "event_time_ms", "user", "n", "reason"]
)
def test_a_transform_that_loses_a_column_is_refused_by_its_name(spark: SparkSession, name: str) -> None:
    with pytest.raises(SettingsError, match=rf"gives other columns than declared: {name} is missing \(.*losing"):

        def losing(frame: DataFrame) -> DataFrame:
            return parsed(frame).drop(name)

        Trial(with_rows(transform=losing), spark)


@pytest.mark.parametrize("name", ["user", "User", "REASON"])
def test_a_transform_that_gives_a_column_twice_is_refused_by_its_name(spark: SparkSession, name: str) -> None:
    """To Spark names that differ in case are one."""

    def twice(frame: DataFrame) -> DataFrame:
        return parsed(frame).select("*", f.lit("other").alias(name))

    with pytest.raises(SettingsError, match=f"gives other columns than declared: {name.lower()} is there twice"):
        Trial(with_rows(transform=twice), spark)


OTHERS = [
    ("n", "int", "n is int and must be int64"),
    ("n", "decimal(9,2)", r"n is decimal\(9,2\) and must be int64"),
    ("n", "array<int>", "n is array<int> and must be int64"),
    ("user", "binary", "user is binary and must be string"),
    ("event_time_ms", "string", "event_time_ms is string and must be int64"),
    ("reason", "void", "reason is void and must be string"),
    ("id", "long", "id is bigint and must be string"),
    ("n", "timestamp", "n is timestamp and must be int64"),
    ("n", "interval", "n is interval and must be int64"),
]


@pytest.mark.parametrize(("name", "kind", "says"), OTHERS)
def test_a_column_of_another_type_is_refused_by_its_name(spark: SparkSession, name: str, kind: str, says: str) -> None:
    def other(frame: DataFrame) -> DataFrame:
        value = f.expr("make_interval(1)") if kind == "interval" else f.lit(None).cast(kind)
        return parsed(frame).withColumn(name, value)

    with pytest.raises(SettingsError, match=f"gives other columns than declared: {says}"):
        Trial(with_rows(transform=other), spark)


@pytest.mark.parametrize("error", [ValueError("two\nlines"), AssertionError()], ids=str)
def test_a_transform_that_fails_is_refused_before_anything_runs(spark: SparkSession, error: Exception) -> None:
    def failing(_: DataFrame) -> DataFrame:
        raise error

    with pytest.raises(SettingsError, match=r"^the transform fails on no rows: .*failing"):
        Trial(with_rows(transform=failing), spark)


def test_a_null_that_windows_need_makes_a_dead_letter_of_its_name(spark: SparkSession) -> None:
    """The transform's own reason goes first; a null that nobody needs is none."""
    trial = Trial(PIPELINE, spark, 1)
    outputs = trial.epoch([record("a", 1, None), record("b", 1, "ann", None), record("c", 1, "forbidden", None)])
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [
        ("a", "missing_user"), ("b", "missing_n"), ("c", "forbidden"),
    ]  # fmt: skip
    assert outputs["accepted"] == []
    free = Trial(with_rows(), spark, 1).epoch([record("a", 1, None, None)])
    assert [(row["user"], row["n"]) for row in free["accepted"]] == [(None, None)]


TYPED = pa.schema([(f"c{number}", kind) for number, kind in enumerate(COLUMN_TYPES)])
LITERALS = ["'é'", "9223372036854775807L", "-1", "0.1D", "true", "x'00ff'", "date'2026-01-31'",
            "timestamp'2026-01-31 01:02:03.000004Z'"]  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_of_column_comes_through(spark: SparkSession, zone: str) -> None:
    """With a value and as null, in messages and tables, whatever the session's time zone is."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        types_come_through(spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def types_come_through(spark: SparkSession) -> None:
    def typed(frame: DataFrame) -> DataFrame:
        given = parsed(frame)
        for name, text in zip(TYPED.names, LITERALS, strict=True):
            given = given.withColumn(name, f.expr(f"if(n = 1, {text}, null)"))
        return given

    trial = Trial(with_rows(ToKafka("told"), ToTable("kept"), transform=typed, columns=TYPED), spark, 1)
    outputs = trial.epoch([record("a", n=1), record("b", n=2)])
    told = [[row[name] for name in TYPED.names] for row in outputs["told"]]
    assert told == [
        ["é", 2**63 - 1, -1, 0.1, True, "00ff", "2026-01-31", "2026-01-31T01:02:03.000004+00:00"], [None] * 8,
    ]  # fmt: skip
    assert [[row[name] for name in TYPED.names] == [None] * 8 for row in outputs["kept"]] == [False, True]
    assert trial.repeat() == outputs


def filtered(frame: DataFrame) -> DataFrame:
    return parsed(frame).where("n > 0")


def doubled(frame: DataFrame) -> DataFrame:
    return parsed(frame).withColumn("twice", f.explode(f.array(f.lit(1), f.lit(2)))).drop("twice")


@pytest.mark.parametrize("transform", [filtered, doubled])
def test_a_transform_that_loses_or_doubles_records_is_found_out(
    spark: SparkSession, transform: Callable[[DataFrame], DataFrame]
) -> None:
    """One row out for each row in: what is filtered away would be lost, without a dead letter to tell it."""
    with pytest.raises(PipelineError, match="row"):
        Trial(with_rows(transform=transform), spark).epoch([record("a", n=1), record("b", n=0)])


LAST_MS = 10**15 - 1
TIMES = [(2**63 - 1, "bad_time"), (-(2**63), "bad_time"), (LAST_MS + 1, "bad_time"), (-LAST_MS - 1, "bad_time"),
         (LAST_MS, None), (-LAST_MS, "late")]  # fmt: skip


@pytest.mark.parametrize(("time_ms", "reason"), TIMES)
def test_no_time_that_a_record_can_have_stops_the_pipeline(
    spark: SparkSession, time_ms: int, reason: str | None
) -> None:
    """Every later attempt would come to it again."""
    trial = Trial(PIPELINE, spark)
    trial.epoch([record("a", 0)])
    outputs = trial.epoch([record("b", time_ms)])
    assert [row["reason"] for row in outputs["dead_letter"]] == ([reason] if reason else [])
    assert [row["id"] for row in outputs["accepted"]] == ([] if reason else ["b"])
    assert [row["count"] for row in trial.epoch([record("c", 10**6)])["per_user"]] == ([] if reason else [1])


def test_no_text_that_a_record_can_hold_stops_the_pipeline(spark: SparkSession) -> None:
    """Spark's cast from bytes takes any bytes; what is not UTF-8 is no text to anybody else."""

    def as_text(frame: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        return frame.select(
            "topic", "partition", "offset", "value", f.md5("value").alias("id"), text.alias("text"),
            f.lit(0).cast("long").alias("event_time_ms"), f.lit(None).cast("string").alias("reason"),
        )  # fmt: skip

    trial = Trial(with_rows(transform=as_text, columns=pa.schema([("text", pa.string())])), spark)
    outputs = trial.epoch([b"\xff\xfe", b"ok"])
    assert [row["text"] for row in outputs["accepted"]] == ["ok"]
    assert [(row["reason"], row["value"]) for row in outputs["dead_letter"]] == [("bad_text", "//4=")]


def test_a_table_takes_no_text_with_a_zero_byte_so_it_is_a_dead_letter(spark: SparkSession) -> None:
    """PostgreSQL would refuse the epoch, and every repeat of it. Messages hold any text."""
    values = [{**record("a"), "user": "a\x00b"}, record("b")]
    outputs = Trial(with_rows(ToTable("orders")), spark).epoch(values)
    assert [row["id"] for row in outputs["orders"]] == ["b"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("a", "bad_user")]
    free = Trial(with_rows(ToKafka("told")), spark, 1).epoch(values)
    assert [row["user"] for row in free["told"]] == ["a\x00b", "ann"]


@pytest.mark.parametrize("days", [1, -3_700_000])
def test_no_date_that_a_record_can_hold_stops_the_pipeline(spark: SparkSession, days: int) -> None:
    """Spark knows years that Python, and PostgreSQL's client, do not."""

    def dated(frame: DataFrame) -> DataFrame:
        last = f.lit("9999-12-31").cast("date")
        return parsed(frame).withColumn("day", f.date_add(last, f.lit(days) * f.col("n").cast("int")))

    trial = Trial(with_rows(transform=dated, columns=pa.schema([("day", pa.date32())])), spark)
    outputs = trial.epoch([record("a", n=1), record("b", n=0)])
    assert [row["day"] for row in outputs["accepted"]] == ["9999-12-31"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("a", "bad_day")]


def test_a_record_that_is_ahead_of_its_kafka_timestamp_is_a_dead_letter(spark: SparkSession) -> None:
    """One wrong clock does not close the windows of all."""

    def sent(frame: DataFrame) -> DataFrame:
        return parsed(frame).withColumn("timestamp", f.timestamp_millis(f.lit(1000)))

    trial = Trial(replace(PIPELINE, transform=sent, ahead_ms=10), spark)
    outputs = trial.epoch([record("a", 1010), record("b", 1011)])
    assert [row["id"] for row in outputs["accepted"]] == ["a"]
    assert [(row["id"], row["reason"]) for row in outputs["dead_letter"]] == [("b", "ahead")]


@pytest.mark.slow
def test_a_trial_of_many_epochs_merges_its_deltas_and_knows_every_id(spark: SparkSession) -> None:
    """More of them than are merged to one."""
    trial = Trial(PIPELINE, spark, 1)
    for number in range(67):
        assert len(trial.epoch([record(f"i{number}", number % 100, n=number)])["accepted"]) == 1
    assert trial.epoch([record(f"i{number}", number % 100) for number in range(67)])["accepted"] == []
    trial.epoch([record("closer", 10**6)])
    numbers = range(67)
    assert trial.epoch([])["per_user"] == [
        {"user": "ann", "window_start_ms": 0, "count": 67, "sum": sum(numbers), "least": 0, "most": 66}
    ]
