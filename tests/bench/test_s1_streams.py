"""Kafka Streams runs as the table says, and is through only when both halves of the program are."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.bench import s1_streams
from tests.bench.rates import Seen

JOB = s1_streams.Job("app", "events", "counts", 60_000, 1_200_000)
BETWEEN = "app-by-user-repartition"
TOTAL = 40


@dataclass(frozen=True)
class _Admin:
    """A broker that holds a group's positions and the ends of the topic in between."""

    read: int
    counted: int
    ends: int

    def list_consumer_group_offsets(self, _: list[Any]) -> dict[str, Any]:
        at = [("events", 0, self.read), (BETWEEN, 0, self.counted), (BETWEEN, 1, -1001)]
        return {"app": _answering(SimpleNamespace(topic_partitions=[TopicPartition(*each) for each in at]))}

    def list_offsets(self, asked: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        return {one: _answering(SimpleNamespace(offset=self.ends if one.partition == 0 else 0)) for one in asked}


def _answering(answer: Any) -> Any:
    return SimpleNamespace(result=lambda _: answer)


@pytest.mark.parametrize(
    ("read", "counted", "ends", "rows"),
    [
        (0, 0, 0, 0),
        (40, 25, 43, 25),
        (40, 42, 43, 39),  # marks of transactions are counted as rows, and never make up for the last ones
        (30, 33, 33, 33),  # at the end of what was sent in between, but not all was read
        (30, 45, 45, 39),
        (40, 43, 43, 40),
    ],
)
def test_all_rows_are_seen_when_both_halves_are_at_the_end(read: int, counted: int, ends: int, rows: int) -> None:
    admin = cast(AdminClient, _Admin(read, counted, ends))

    assert JOB.progress(admin, TOTAL, lambda: 7.0) == Seen(7.0, rows)


def test_the_program_runs_exactly_once_with_the_stated_commit_interval(tmp_path: Any) -> None:
    written = dict(line.split("=", 1) for line in JOB.properties("broker:1", tmp_path).splitlines())

    assert written["processing.guarantee"] == "exactly_once_v2"
    assert written["commit.interval.ms"] == "1000"
    assert written["bench.output"] == "counts"
