"""Windows of several lengths, and such as overlap: a trial and a driver that is killed, held against the reference."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from effectively_once import Trial
from effectively_once.ledger.epoch_record import EpochRecord as Recorded
from effectively_once.sinks.manifest import ManifestSink
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.harness.checkers.declared import Declaration, Given, replay
from tests.harness.definition.declared import describe, transform_all
from tests.harness.evidence import EpochRecord
from tests.spark.lengths_job import pipeline
from tests.spark.pipeline import PROCESSED_S, Commanded
from tests.spark.trials import LATENESS_MS, LENGTH_MS, record

pytestmark = pytest.mark.spark

EPOCHS: list[list[dict[str, Any]]] = [
    [record("a", 5, "ann", 1), record("b", 130, "bob", 2), record("a", 5, "ann", 1)],
    [record("c", 95, "ann", 4), record("d", 260, "ann", 8)],
    # The second is late, though its windows of 400 and 500 ms are open.
    [record("e", 310, "bob", 16), record("f", 40, "ann", 32), record("d", 260, "ann", 8)],
    [record("g", 320, "ann", 64), record("h", 330, "bob", 128)],
    [record("i", 2_000, "bob", 1)],
    [record("j", 9_000, "bob", 1), record("k", 1_990, "bob", 1)],
    [record("l", 9_000, "ann", 1)],
]
LATE = [0, 0, 1, 0, 0, 0, 0]


def _has_published(lengths: Commanded, rows: int) -> bool:
    return lengths.published_rows() >= rows


KAFKA, FILES = ("short", "long", "sliding"), ("totals", "over_all", "half")
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The one of this process: another one would change its settings."""
    monkeypatch.setattr("effectively_once.trial_session", lambda: spark)
    return spark


def assert_as_the_reference(topic: str, chain: Sequence[Recorded], shown: Mapping[str, list[tuple[int, Row]]]) -> None:
    """Each result is there once, in its epoch; the reference has ranges and watermarks of the chain, and no more."""
    values = [json.dumps(one).encode() for epoch in EPOCHS for one in epoch]
    place = {"key": None, "topic": topic, "partition": 0, "timestamp": 0}
    sent = [{**place, "value": base64.b64encode(value).decode(), "offset": n} for n, value in enumerate(values)]
    given = [Given.of(line) for line in transform_all(pipeline, sent)]
    told = {**describe(pipeline)["declaration"], "pipeline": "t", "window_ms": LENGTH_MS, "lateness_ms": LATENESS_MS}
    epochs = [EpochRecord.model_validate_json(one.model_dump_json(by_alias=True)) for one in chain]
    found = replay(Declaration.of(told), given, epochs)
    assert [one.late for one in found.numbers] == [one.counts.late for one in chain] == LATE
    for sink in (*KAFKA, *FILES):
        due = [(one.epoch, dict(one.row)) for one in found.due[sink].values()]
        assert len({epoch for epoch, _ in due}) > 1, "it closes in several epochs"
        rows = [(epoch, {name: row[name] for name in due[0][1]}) for epoch, row in shown[sink]]
        assert sorted(rows, key=repr) == sorted(due, key=repr), sink


@pytest.mark.parametrize("shards", [1, 3])
def test_each_epoch_of_a_trial_publishes_what_the_reference_says(session: SparkSession, shards: int) -> None:
    trial, outputs, chain = Trial(pipeline, session, shards), [], []
    for values in EPOCHS:
        outputs.append(trial.epoch(values))
        assert trial.repeat() == outputs[-1]
        chain.append(trial.last)
    shown = {sink: [(n, row) for n, rows in enumerate(outputs) for row in rows[sink]] for sink in (*KAFKA, *FILES)}
    assert_as_the_reference("trial", chain, shown)


class Lengths(Commanded):
    """A pipeline of `lengths_job`, whose input is one partition."""

    source_partitions = 1

    def results(self, sink: str) -> list[tuple[int, Row]]:
        """Every row that readers see of a sink, with its epoch."""
        if sink in KAFKA:
            rows = (json.loads(value or b"") for _, _, value in self.raw(f"{self.name}.{sink}"))
            return [(row["epoch"], row) for row in rows]
        last = self.epochs()[-1].epoch
        return [(epoch, row) for epoch, _, row in ManifestSink(self.store, self.layout, sink).rows(last)]


def test_a_driver_that_is_killed_closes_every_length_with_what_was_counted_before(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path
) -> None:
    """Killed when the windows of ids have closed and longer ones are open: the next one folds what the floor left."""
    job = {"job": "tests.spark.lengths_job", "shards": 2}
    lengths, sent = Lengths(toolchain, stack.endpoints, tmp_path, "lengths", job), 0
    lengths.create_topics()
    # The records of a batch are there at once, in one epoch.
    producer = Producer({**lengths.client, "linger.ms": 200})
    driver = lengths.start()
    try:
        for number, values in enumerate(EPOCHS):
            for one in values:
                producer.produce(lengths.topic, json.dumps(one))
            assert producer.flush(60) == 0
            sent += len(values)
            wait_for(f"epoch {number}", PROCESSED_S, partial(_has_published, lengths, sent), driver)
            if number == 3:
                driver.kill()
                driver = lengths.start()
        driver.stop(30)
        assert driver.status() == 0, driver.post_mortem()
    finally:
        lengths.end()
    chain = lengths.epochs()
    assert len(chain) == len(EPOCHS), "records of one batch came to one epoch"
    assert_as_the_reference(lengths.topic, chain, {sink: lengths.results(sink) for sink in (*KAFKA, *FILES)})
