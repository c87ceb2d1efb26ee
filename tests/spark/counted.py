"""The job of `counted_job` under test: its drivers, and all it published, compared with a plain recomputation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from effectively_once.sinks.manifest import ManifestSink
from infra.embedded.process import Child, wait_for
from tests.harness.checkers.reference import Reference, replay
from tests.harness.evidence import EpochRecord
from tests.spark.attacked import Attacked
from tests.spark.outputs import assert_letters, published_epochs, rows
from tests.spark.pipeline import Commanded

JOB = "tests.spark.counted_job"
WINDOW_MS, LATENESS_MS = 60_000, 120_000
PROCESSED_S = 180.0
"""Another step and a state store are to be started beside what other pipelines need."""


class Counted(Commanded):
    """A pipeline of its own with Spark's state."""

    def wait_processed(self, driver: Child) -> None:
        """Wait until every record sent lies in a published epoch."""
        wait_for(f"{self.name}: all records", PROCESSED_S, lambda: self.published_rows() >= len(self.sends), driver)

    @property
    def checkpoint(self) -> str:
        """The folder that holds the state."""
        head = self.head()
        return self.layout.checkpoint((head.declared or head.tail[-1]).lineage)

    def batches(self, log: str) -> list[int]:
        """Batches in one of Spark's logs."""
        names = (name.rsplit("/", 1)[1] for name in self.store.names(f"{self.checkpoint}/{log}/"))
        return sorted(int(name) for name in names if name.isdigit())


@dataclass
class AttackedCounted(Attacked):
    """One such pipeline for all points."""

    pipeline: Counted

    def exact(self) -> None:
        """Everything sent is published, exactly once."""
        self.pipeline.wait_processed(self.driver)
        assert_counted(self.pipeline)


def assert_counted(counted: Counted) -> Reference:
    """Assert that the chain is dense and contiguous, and every output exactly what it must be."""
    epochs = published_epochs(counted, running=True)
    expected = replay(counted.sends, epochs, WINDOW_MS, LATENESS_MS)
    wanted = Counter(
        (id_, counted.sends[at].coordinate, expected.epochs_of[at]) for id_, at in expected.accepted.items()
    )
    assert Counter((row["id"], tuple(row["source"]), row["epoch"]) for row in rows(counted, "accepted")) == wanted
    archive = ManifestSink(counted.store, counted.layout, "archive").rows(len(epochs) - 1)
    found = Counter((row["id"], (row["topic"], row["partition"], row["offset"]), epoch) for epoch, _, row in archive)
    assert found == wanted
    assert_letters(counted, expected)
    assert Counter(
        (row["user"], row["window_start_ms"], row["count"], row["crc"], row["epoch"])
        for row in rows(counted, "user_counts")
    ) == Counter(_closed(counted, epochs, expected))
    return expected


def _closed(counted: Counted, epochs: list[EpochRecord], expected: Reference) -> list[tuple[Any, ...]]:
    """Results of every window that Spark's watermark has passed, and the first epoch in which it had."""
    groups: dict[tuple[str, int], list[int]] = {}
    for at in expected.accepted.values():
        send = counted.sends[at]
        assert send.user is not None and send.event_time_ms is not None and send.crc is not None
        groups.setdefault((send.user, send.event_time_ms - send.event_time_ms % WINDOW_MS), []).append(send.crc)
    found = []
    for (user, start), crcs in groups.items():
        ends = start + WINDOW_MS + LATENESS_MS + WINDOW_MS
        passed = (each.epoch for each in epochs if each.watermark_ms is not None and ends <= each.watermark_ms)
        if (epoch := next(passed, None)) is not None:
            found.append((user, start, len(crcs), sum(crcs), epoch))
    return found
