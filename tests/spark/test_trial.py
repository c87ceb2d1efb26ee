"""What a job's author sees of the library without any server: `Trial`, against a model in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once import Max, Outputs, RecordedStep, ToIceberg, ToKafka, ToTable, Trial, Windowed
from tests.spark.trials import LATENESS_MS, LENGTH_MS, PIPELINE, record, with_rows

pytestmark = pytest.mark.spark


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
        record,
        st.sampled_from([*"abcdef", None]),
        st.sampled_from([*EDGES, None]),
        st.sampled_from(["ann", "ann", "bob", "forbidden", None]),
        st.integers(-5, 5) | st.none(),
    ),
    max_size=10,
)


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
        return frame.select(
            "topic", "partition", "offset", "value", text.alias("user"), f.when(text == "bad", "bad").alias("reason")
        )

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
            "topic",
            "partition",
            "offset",
            "value",
            f.when(f.length("value") > 0, f.col("value")).alias("id"),
            f.lit(7).cast("long").alias("event_time_ms"),
            f.lit(None).cast("string").alias("reason"),
        )

    trial = Trial(with_rows(transform=by_value, columns=pa.schema([])), spark)
    first = trial.epoch([b"\xff\x00", b"\xff\x00", b"\xff", b"", None, "ff00"])
    assert sorted((row["source"][2], row["id"]) for row in first["accepted"]) == [
        (0, "ff00"),
        (2, "ff"),
        (5, b"ff00".hex()),
    ]
    assert [(row["reason"], row["id"]) for row in first["dead_letter"]] == [("missing_id", None)] * 2
    assert trial.epoch([b"\xff\x00"])["accepted"] == []
    assert trial.last.counts.duplicate == 1


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


def test_a_lake_table_shows_its_rows_once(spark: SparkSession) -> None:
    """Without a catalog: what shards stage is read as it is."""
    trial = Trial(replace(PIPELINE, rows=(ToIceberg("lake", columns=("id", "n")),)), spark)
    first = trial.epoch([record(id_, n=7) for id_ in "abcab"])
    assert sorted(row["id"] for row in first["lake"]) == ["a", "b", "c"]
    assert first["lake"][0].keys() == {"id", "n"}
    assert trial.repeat() == first
    assert trial.epoch([record("a")])["lake"] == []
