"""A driver keeps its staged sinks open: of a lake table it does not read again what it committed itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToIceberg
from effectively_once.driver import epoch_job
from effectively_once.driver.epoch_job import EpochJob
from effectively_once.sinks import lake_tables
from effectively_once.sinks.publish import Published
from tests.settings import pipeline_settings
from tests.unit.library.lake import Lake, rows

PIPELINE = Pipeline(lambda frame: frame, pa.schema([("n", pa.int64())]), rows=(ToIceberg("accepted"),))


class Kept:
    """The sink of one driver, and how often it has read its table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake, self.read = Lake(), 0
        job: Any = type("", (), {"settings": pipeline_settings(), "pipeline": PIPELINE})
        chain: Any = type("", (), {"store": self.lake.store})
        load = lake_tables.load

        def count(*arguments: Any) -> Any:
            self.read += 1
            return load(*arguments)

        monkeypatch.setattr(lake_tables, "load", count)
        monkeypatch.setattr(epoch_job, "open_staged", lambda *_: self.lake.sink())
        self.job = EpochJob(job, chain)

    def publish(self, epoch: int) -> Published:
        sink = self.job._files("accepted")
        return sink.publish_staged(epoch, 1, [sink.stage(epoch, rows(f"e{epoch}"))])[1]


def test_only_the_first_epoch_of_a_driver_reads_the_table_for_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    assert [kept.publish(epoch) for epoch in range(3)] == [Published.NOW] * 3
    assert kept.read == 1


def test_a_commit_of_another_driver_is_noticed_by_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is shown twice: the mark that is there is read, and tells."""
    kept = Kept(monkeypatch)
    kept.publish(0)
    assert kept.lake.publish(1, rows("e1"), generation=2) is Published.NOW
    assert kept.publish(1) is Published.BEFORE
    assert kept.publish(2) is Published.NOW
    assert sorted(kept.lake.table.scan().to_arrow()["id"].to_pylist()) == ["e0", "e1", "e2"]
