"""A Kafka timestamp that Spark's source cannot read: topics take none, and one that is there is named."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException

from effectively_once.driver import driver
from effectively_once.driver.driver import Driver
from effectively_once.driver.unreadable_time import unreadable_time
from effectively_once.errors import SourceError
from effectively_once.ledger import chain
from effectively_once.ledger.objects import run
from effectively_once.sources import unreadable
from effectively_once.sources.times import AFTER, AHEAD_MAX_MS, BEFORE, BOUNDS, takes_any_time
from effectively_once.sources.unreadable import FITS_MS, Unreadable
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, taken
from tests.unit.library.test_outage import CapturedError, failed

FAILED = "java.lang.ArithmeticException: long overflow"
TRACE = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times\n"
    f"Caused by: {FAILED}\n"
    "\tat java.base/java.lang.Math.multiplyExact(Math.java:1032)\n"
    "\tat org.apache.spark.sql.catalyst.util.SparkDateTimeUtils.millisToMicros(SparkDateTimeUtils.scala:60)\n"
    "\tat org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.$anonfun$toInternalRowWithoutHeaders$1\n"
)
POISON_MS = -9_300_000_000_000_000
FOUND = Unreadable("events", "1", 67, POISON_MS, 60)
TOPIC = "events"
LONGEST = str(2**63 - 1)


class Records:
    """A consumer of one topic: what it holds of each partition is an offset's time, from 0 on."""

    def __init__(self, times: dict[int, list[int | None]], fails: KafkaError | None = None) -> None:
        self._times, self._fails, self.closed = times, fails, False
        self.read: list[tuple[int, int]] = []

    def assign(self, places: list[Any]) -> None:
        (place,) = places
        self._partition, self._next = place.partition, place.offset

    def consume(self, most: int, _: float) -> list[Any]:
        if self._fails is not None:
            return [SimpleNamespace(error=lambda: self._fails)]
        times, offset = self._times[self._partition], self._next
        if offset >= len(times):
            return [SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF))]
        self._next = min(offset + min(most, 4), len(times))
        self.read += [(self._partition, at) for at in range(offset, self._next)]
        return [self._message(at, times[at]) for at in range(offset, self._next)]

    @staticmethod
    def _message(offset: int, time_ms: int | None) -> Any:
        told = (TIMESTAMP_NOT_AVAILABLE, POISON_MS) if time_ms is None else (TIMESTAMP_CREATE_TIME, time_ms)
        return SimpleNamespace(error=lambda: None, offset=lambda: offset, timestamp=lambda: told)

    def close(self) -> None:
        self.closed = True


def find(records: Records, patience_s: float = 60.0, **ranges: tuple[int, int]) -> Unreadable | None:
    spans = {TOPIC: {partition[1:]: span for partition, span in ranges.items()}}
    return unreadable.find(lambda: records, spans, patience_s)


@pytest.mark.parametrize("time_ms", [POISON_MS, -POISON_MS, 2**63 - 1, -(2**63), 2**63 // 1000 + 1])
def test_the_record_is_found_in_what_the_epoch_reads(time_ms: int) -> None:
    records = Records({0: [5] * 20, 1: [*[7] * 13, time_ms, *[7] * 4]})
    assert find(records, p0=(2, 20), p1=(3, 17)) == Unreadable(TOPIC, "1", 13, time_ms, 3)
    assert records.closed


def test_what_the_epoch_does_not_read_is_not_it() -> None:
    records = Records({0: [POISON_MS, 5, 5, POISON_MS], 1: [POISON_MS], 2: [None, 5, -1, FITS_MS, -FITS_MS]})
    assert find(records, p0=(1, 3), p1=(0, 0), p2=(0, 5)) is None
    assert not any(partition == 1 for partition, _ in records.read)


def test_a_transaction_that_ends_a_range_has_no_record_to_be_waited_for() -> None:
    assert find(Records({0: [5] * 6}), p0=(0, 8)) is None


def test_what_fits_microseconds_is_no_such_time() -> None:
    assert FITS_MS * 1000 < 2**63
    assert (2**63 - FITS_MS * 1000) < 50 * 366 * 86_400 * 10**6


def test_a_broker_that_does_not_answer_takes_no_name_from_the_failure() -> None:
    records = Records({0: [5]}, KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert find(records, p0=(0, 1)) is None
    assert records.closed
    assert find(Records({0: [5]}), patience_s=-1.0, p0=(0, 1)) is None

    def refused() -> Any:
        raise KafkaException(KafkaError(KafkaError._AUTHENTICATION))

    assert unreadable.find(refused, {TOPIC: {"0": (0, 1)}}) is None


def explain(error: BaseException, found: Unreadable | None, *, stateful: bool = False) -> SourceError | None:
    return unreadable_time(error, TOPIC, "broker:9092", lambda: found, stateful=stateful)


@pytest.mark.parametrize(
    "error", [CapturedError(failed("Job aborted"), TRACE), CapturedError(failed(TRACE)), RuntimeError(TRACE)]
)
def test_it_is_named_with_its_record_and_the_two_commands(error: BaseException) -> None:
    said = str(explain(error, FOUND))
    assert f"of {POISON_MS} ms does not fit microseconds" in said
    assert "topic events partition 1 offset 67" in said
    assert "Copy the records from offset 60 on" in said
    assert said.index("kafka-delete-records.sh --bootstrap-server broker:9092") < said.index("accept-loss --yes")
    wanted = re.search(r"with (\{.*\}) in FILE", said)
    assert wanted is not None
    assert json.loads(wanted[1])["partitions"] == [{"topic": "events", "partition": 1, "offset": 68}]
    assert "Copy" not in str(explain(error, FOUND._replace(start=67)))


def test_no_loss_is_accepted_of_a_pipeline_whose_state_is_sparks_own() -> None:
    said = str(explain(RuntimeError(TRACE), FOUND, stateful=True))
    assert "accept-loss" not in said
    assert "another name" in said
    assert "another name" not in str(explain(RuntimeError(TRACE), FOUND))


def test_it_is_named_without_its_record_where_that_is_not_found() -> None:
    said = str(explain(RuntimeError(TRACE), None))
    assert "does not fit microseconds" in said
    assert "print.timestamp=true" in said


def test_an_overflow_of_a_transform_is_none() -> None:
    def sought() -> Any:
        raise AssertionError("it is not looked for")

    ansi = RuntimeError("org.apache.spark.SparkArithmeticException: [ARITHMETIC_OVERFLOW] long overflow")
    assert unreadable_time(ansi, TOPIC, "broker:9092", sought, stateful=False) is None
    assert explain(RuntimeError(f"{FAILED}\n\tat org.apache.spark.sql.catalyst.expressions.Foo"), None) is None


class Named(Driver):
    """A driver without servers whose epoch 3 is declared."""

    def __init__(self) -> None:
        self.settings, self.failure = pipeline_settings(kafka_bootstrap="broker:9092"), None
        store = MemoryStore()
        held = run(chain.declare(LAYOUT, advanced(store, taken(store), 3), declaration(3), None, 0), store)
        self.chain: Any = SimpleNamespace(head=held.head, still_ours=lambda: None)
        self.epoch_job: Any = SimpleNamespace(plan=None)


def test_a_driver_looks_in_the_epoch_that_it_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def look(bootstrap: str, ranges: Any) -> Unreadable:
        asked.append((bootstrap, ranges))
        return FOUND

    monkeypatch.setattr(driver, "find_unreadable", look)
    assert isinstance(Named().name_error(CapturedError(failed("boom"), TRACE)), SourceError)
    assert asked == [("broker:9092", declaration(3).ranges)]
    assert Named().name_error(CapturedError(failed("boom"))) is None


@pytest.mark.parametrize(
    ("settings", "any_time"),
    [
        (BOUNDS, False),
        ({BEFORE: LONGEST, AFTER: "3600000"}, True),
        ({**BOUNDS, AFTER: LONGEST}, True),
        ({}, True),
        ({BEFORE: LONGEST, AFTER: LONGEST, "message.timestamp.type": "LogAppendTime"}, False),
    ],
    ids=["as create makes it", "a broker's default", "of an older broker", "a broker that knows no bounds", "its own"],
)
def test_a_topic_that_takes_any_time_is_told(settings: dict[str, str], any_time: bool) -> None:
    assert takes_any_time(settings) == any_time


def test_what_is_within_the_bounds_is_a_date_and_fits_microseconds() -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    for time_ms in (now_ms - int(BOUNDS[BEFORE]), now_ms + AHEAD_MAX_MS):
        assert abs(time_ms) * 1000 < 2**63
        assert 1 <= 1970 + time_ms / 31_556_952_000 < 9999
