"""What exactly-once needs of Spark is set, and nothing that a place adds takes it back (R4, R11)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from effectively_once.driver import session
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from tests.settings import pipeline_settings

NEEDED = {
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.plugins": f"{session.TOKENS},{session.REFUSED_ROWS}",
    "spark.sql.streaming.checkpointFileManagerClass": session.MANAGER,
    "spark.python.worker.reuse": "true",
}
RANGES = {"events": {"0": (3, 7), "1": (0, 4)}}


class Options:
    """A builder or a reader: remembers what is set."""

    def __init__(self) -> None:
        self.set: dict[str, str] = {}
        self.later: dict[str, str] = {}

    def config(self, key: str, value: str) -> Options:
        self.set[key] = value
        return self

    option = config

    def appName(self, _: str) -> Options:  # noqa: N802 - Spark's name
        return self

    def format(self, _: str) -> Options:
        return self

    def options(self, **more: str) -> Options:
        self.set |= more
        return self

    def load(self) -> Options:
        return self

    def getOrCreate(self) -> SimpleNamespace:  # noqa: N802 - Spark's name
        return SimpleNamespace(set=self.set, conf=SimpleNamespace(set=self.later.__setitem__))


def test_no_place_takes_back_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ACCESS_KEY, "a")
    monkeypatch.setenv(SECRET_KEY, "s3cret")
    builder = Options()
    monkeypatch.setattr(SparkSession, "builder", builder)
    others = {**dict.fromkeys(NEEDED, "something else"), "spark.executor.memory": "1g"}
    made: Any = session.session(pipeline_settings(), others)
    assert {key: made.set[key] for key in NEEDED} == NEEDED
    assert made.set["spark.executor.memory"] == "1g"
    assert "s3cret" not in str(made.set), "what a builder is given stands in the arguments of the JVM"
    assert builder.later["effectivelyonce.s3.secret.key"] == "s3cret"


def test_batches_are_bounded_by_bytes_where_an_epoch_is_repeated() -> None:
    spark: Any = type("Spark", (), {"conf": type("Conf", (), {"set": lambda _, *given: told.append(given)})()})()
    told: list[tuple[str, str]] = []
    session.measure_batches(spark, measured=True)
    session.measure_batches(spark, measured=False)
    assert [name for name, _ in told] == [session.BATCH_BYTES] * 2
    bounded, free = (int(value) for _, value in told)
    assert bounded < 2**30 < free == 2**31 - 1, "Arrow doubles what it has allocated"


def test_input_is_read_committed_and_a_loss_is_no_skip() -> None:
    source = KafkaSource(pipeline_settings())
    spark: Any = type(
        "Spark", (), {"read": property(lambda _: Options()), "readStream": property(lambda _: Options())}
    )()
    for reader in (
        source.stream(spark, {"events": {"0": 3}}),
        source.between(spark, RANGES),
        source.read_retained(spark, "events"),
    ):
        told = cast(Any, reader).set
        assert (told["failOnDataLoss"], told["kafka.isolation.level"]) == ("true", "read_committed")


def test_a_repeat_reads_the_pinned_ranges_and_no_other_partition() -> None:
    spark: Any = type("Spark", (), {"read": property(lambda _: Options())})()
    told = cast(Any, KafkaSource(pipeline_settings()).between(spark, RANGES)).set
    assert told["assign"] == '{"events": [0, 1]}'
    assert told["startingOffsets"] == '{"events": {"0": 3, "1": 0}}'
    assert told["endingOffsets"] == '{"events": {"0": 7, "1": 4}}'
