"""One collector reads the sinks of any pipeline: what it writes of each, and what only another's records need."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.harness.adapters.topics import Partition, ReadStalledError
from tests.harness.checkers.declared import Declaration, Sink
from tests.harness.checkers.declared_run import GIVEN
from tests.harness.collector import SOURCE, USER_COUNTS, Collector, Outputs, with_rows
from tests.harness.run_directory import RunDirectory, read_lines
from tests.harness.sinks import ACCEPTED_ROWS
from tests.unit.harness.fake_message import FakeMessage

TABLE_ROW = {"topic": "e", "partition": 1, "offset": 7, "id": "a"}
CLICKS = Declaration(
    "p",
    attached=False,
    timed=False,
    window_ms=1,
    lateness_ms=0,
    sinks=(Sink("clicks", "kafka", "rows"), Sink("archive", "files", "rows"), Sink("events", "table", "rows")),
)


class FakeTopics:
    """Topics of a record each."""

    def read(self, topic: str, _: threading.Event, reached: dict[int, int]) -> Iterator[dict[str, Any]]:
        reached[0] = 3
        yield {"value": topic, "partition": 0, "offset": 2}

    def partitions(self, names: list[str]) -> list[Partition]:
        return [Partition(name, 0, 3, 3) for name in names]

    def ends(self, _: str) -> dict[int, int]:
        return {0: 1, 1: 0}

    def consumer(self, *_: Any, **__: Any) -> Any:
        message = FakeMessage(key_=b"k", at_ms=9)
        return SimpleNamespace(assign=lambda _: None, poll=lambda _: message, close=lambda: None)


CHAIN = SimpleNamespace(
    head=lambda: SimpleNamespace(last_pinned=4),
    evidence=lambda: {"head": {"last_recorded": 4}, "epochs": []},
    rows=lambda _, last: iter([(last, "object", {"count": 1})]),
)
TABLES: Any = SimpleNamespace(count=lambda _: 1, rows=lambda _: iter([dict(TABLE_ROW)]))


def collected(tmp_path: Path, outputs: Outputs, topics: Any = None) -> tuple[RunDirectory, Any]:
    """What is read of outputs, and their ends."""
    run = RunDirectory(tmp_path)
    topics = topics or FakeTopics()
    chain: Any = CHAIN
    collector = Collector(run, topics, chain, outputs, pipeline="p", source="e")
    ends = collector.boundary()
    collector.collect(lambda: ["open"], threading.Event())
    return run, ends


def rows(run: RunDirectory, sink: str) -> list[dict[str, Any]]:
    return list(read_lines(run.observed_path(sink)))


def quiet(run: RunDirectory) -> set[str]:
    return {one["topic"] for one in orjson.loads(run.quiet_path.read_bytes())["partitions"]}


def test_user_counts_is_read_in_its_four_sinks_and_its_table_names_sources_as_messages_do(tmp_path: Path) -> None:
    made: list[Path] = []
    run, ends = collected(tmp_path, with_rows(TABLES, made.append))
    topics = {sink: {"0": 3} for sink in ("accepted", "dead_letter", "user_counts")}
    assert ends == {**topics, "global_counts": 4, ACCEPTED_ROWS: 1}
    assert rows(run, "accepted") == [{"sink": "accepted", "value": "p.accepted", "partition": 0, "offset": 2}]
    assert rows(run, "global_counts") == [{"sink": "global_counts", "count": 1, "epoch": 4, "object": "object"}]
    assert rows(run, ACCEPTED_ROWS) == [{"sink": ACCEPTED_ROWS, "id": "a", "source": ["e", 1, 7]}]
    assert quiet(run) == {f"p.{sink}{end}" for sink in USER_COUNTS.kafka for end in ("", ".progress")}
    assert not run.observed_path(SOURCE).exists()


def test_of_any_other_pipeline_its_source_is_read_too_and_its_transform_says_what_that_is(tmp_path: Path) -> None:
    def transform(source: Path, given: Path) -> None:
        given.write_bytes(source.read_bytes())

    outputs = Outputs(CLICKS, ("clicks", "raw"), TABLES, transform)
    run, ends = collected(tmp_path, outputs)
    assert ends == {"clicks": {"0": 3}, "archive": 4, "events": 1}
    assert rows(run, "events") == [{"sink": "events", **TABLE_ROW}]
    assert quiet(run) == {"p.clicks", "p.clicks.progress", "p.raw", "p.raw.progress"}
    (record,) = rows(run, GIVEN)
    assert record == {"topic": "e", "partition": 0, "offset": 0, "key": "aw==", "value": None, "timestamp": 9}


def test_a_source_that_is_not_read_to_its_end_is_no_evidence(tmp_path: Path) -> None:
    class Stalled(FakeTopics):
        def consumer(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(assign=lambda _: None, poll=lambda _: None, close=lambda: None)

    transformed: list[Path] = []
    outputs = Outputs(CLICKS, ("clicks",), TABLES, lambda source, _: transformed.append(source))
    with pytest.raises(ReadStalledError, match=r"topic e: partitions \[0\] were not read to their end"):
        collected(tmp_path, outputs, Stalled())
    assert not transformed
