"""A gateway that is away with records unsent: windows wait for it, as long as they are told to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from effectively_once.gateway import Gateway, States, json_record
from effectively_once.operate.inspect.certificate import Certificate, certify
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sources.statement import Statement, decode, topic_of
from infra.embedded.ports import HOST, free_ports
from infra.embedded.process import Child, wait_for
from tests.spark.pipeline import ADMIN_S, PARTITIONS, PROCESSED_S, Pipeline
from tests.spark.records import good
from tests.stack.reader import messages

pytestmark = pytest.mark.spark

NAME, WINDOW_MS, AHEAD_MS = "north-gate", 1_000, 60_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Gate:
    """The gateway's disk, opened where a broker is, or where none is."""

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self._pipeline, self._folder = pipeline, folder
        self.put = 0

    def open(self, bootstrap: str | None = None) -> Gateway:
        return Gateway(
            self._folder,
            producer=NAME,
            topic=self._pipeline.topic,
            build=json_record,
            states=States(every_s=0.1),
            bootstrap=bootstrap or self._pipeline.endpoints.kafka_bootstrap,
        )

    def record(self, gateway: Gateway) -> int:
        """Put a record of now; return its event time."""
        at = now_ms()
        gateway.put({"user": "ann", "payload": "door"}, event_time_ms=at)
        self.put += 1
        return at

    def said(self) -> list[Statement]:
        found = messages(self._pipeline.endpoints.kafka_bootstrap, topic_of(self._pipeline.topic), 0)
        return [one for one in (decode(it.value()) for it in found) if one is not None]

    def wait_stated(self, time_ms: int) -> None:
        wait_for("a statement", 30, lambda: any(one.time_ms >= time_ms for one in self.said()))


def await_published(pipeline: Pipeline, driver: Child, gate: Gate) -> None:
    due = len(pipeline.sends) + gate.put
    wait_for("all records", PROCESSED_S, lambda: pipeline.published_rows() >= due, driver)


def ahead(pipeline: Pipeline, driver: Child, gate: Gate, number: int) -> None:
    """Send records of others who are a minute ahead, an epoch each."""
    for _ in range(number):
        at = now_ms() + AHEAD_MS
        pipeline.send([good(f"p{one}-{at}", f"u{one}", at, one) for one in range(PARTITIONS)])
        await_published(pipeline, driver, gate)


@pytest.mark.parametrize(("hold_max_ms", "late"), [(600_000, 0), pytest.param(1, 1, marks=pytest.mark.slow)])
def test_what_a_gateway_holds_that_is_away_is_late_only_once_it_was_let_go(
    new_pipeline: Callable[..., Pipeline], tmp_path: Path, hold_max_ms: int, late: int
) -> None:
    pipeline = new_pipeline(
        f"source_away_{hold_max_ms}",
        idle_ms=1,
        sources=[NAME],
        hold_max_ms=hold_max_ms,
        window_ms=WINDOW_MS,
        lateness_ms=0,
    )
    made = NewTopic(topic_of(pipeline.topic), 1, 1, config={"cleanup.policy": "compact"})
    pipeline.admin.create_topics([made])[made.topic].result(ADMIN_S)
    gate = Gate(pipeline, tmp_path / "gate")
    driver = pipeline.start()
    with gate.open() as gateway:
        gate.wait_stated(gate.record(gateway))
    await_published(pipeline, driver, gate)
    away = gate.open(f"{HOST}:{free_ports(1)[0]}")
    held_ms = gate.record(away)
    away.close(timeout_s=0)
    gate.put -= 1
    ahead(pipeline, driver, gate, 4)
    with gate.open() as gateway:
        gate.put += 1
        await_published(pipeline, driver, gate)
        assert sum(one.counts.late for one in pipeline.epochs()) + last_late(pipeline) == late
        start_ms = held_ms - held_ms % WINDOW_MS
        wait_for("a later statement", 30, lambda: any(one.time_ms >= start_ms + WINDOW_MS for one in gate.said()))
        gateway.flush(10)
        ahead(pipeline, driver, gate, 3)
    found = certificate_of(pipeline, start_ms)
    assert found.verdict == ("released" if late else "complete")
    assert found.released == ((NAME,) if late else ())


def last_late(pipeline: Pipeline) -> int:
    """Late records of the epoch that is published and not recorded yet."""
    recorded = pipeline.head().last_recorded
    told = {one["epoch"]: one["late"] for one in pipeline.events("epoch", state="published")}
    return sum(late for epoch, late in told.items() if epoch > recorded)


def certificate_of(pipeline: Pipeline, start_ms: int) -> Certificate:
    return certify(PipelineSettings.model_validate(pipeline.settings), pipeline.store, start_ms)
