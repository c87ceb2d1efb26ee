"""One collector reads the sinks of any pipeline: what it writes of each, and what only another's records need."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import orjson
import pyarrow as pa
import pytest

from effectively_once.epoch import as_shown
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.columns import COORDINATES
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.tables import Tables
from tests.harness.adapters.topics import Partition, ReadStalledError
from tests.harness.checkers.declared import Declaration, Sink
from tests.harness.checkers.declared_run import GIVEN
from tests.harness.collector import SOURCE, USER_COUNTS, Collector, Outputs, with_rows
from tests.harness.evidence import EvidenceError, Pin
from tests.harness.run_directory import RunDirectory, read_lines
from tests.harness.sinks import ACCEPTED_ROWS
from tests.unit.harness.fake_message import FakeMessage
from tests.unit.ledger.memory_store import MemoryStore

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


def collected(tmp_path: Path, outputs: Outputs, topics: Any = None, chain: Any = CHAIN) -> tuple[RunDirectory, Any]:
    """What is read of outputs, and their ends."""
    run = RunDirectory(tmp_path)
    topics = topics or FakeTopics()
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
    assert not run.observed_path("shown").exists(), "no epoch was repaired"


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


def test_times_are_read_as_of_utc_wherever_the_server_is() -> None:
    """Of another zone their text would be another one than the judge's."""
    server = MagicMock()
    assert list(Tables(server, "p").rows("t")) == []
    cursor = server.connect.return_value.__enter__.return_value.cursor.return_value.__enter__.return_value
    before, _ = (call.args[0] for call in cursor.execute.call_args_list)
    assert before == "SET TIME ZONE 'UTC'"


class Shown(ChainReader):
    """Reads a chain that a test says, and what its epochs show from a store."""

    def __init__(self, store: MemoryStore, told: dict[str, Any]) -> None:
        self._objects, self._told = self, told  # type: ignore[assignment]
        self.body = store.objects.get
        self.head, self.rows = CHAIN.head, CHAIN.rows  # type: ignore[method-assign]

    def evidence(self) -> dict[str, Any]:
        return self._told


def shown_by(tmp_path: Path, **other: Any) -> RunDirectory:
    """What is read of a chain with an epoch that was finished as shown, and the one that repairs it."""
    store = MemoryStore()
    rows = pa.table({"topic": ["t", "t"], "partition": [0, 1], "offset": [5, 7]}).cast(COORDINATES)
    shown = {"0": as_shown.write(store, Layout("p").shown_rows(3, 0, 2), rows, None).model_dump() | other}
    epochs = [{"epoch": 3, "shown": shown}, {"epoch": 4, "shown": shown, "repairs": 3}]
    told = {"head": {"last_recorded": 4}, "epochs": epochs}
    return collected(tmp_path, USER_COUNTS, chain=Shown(store, told))[0]


def test_places_of_rows_that_an_epoch_was_finished_with_are_written_down_once(tmp_path: Path) -> None:
    assert shown_by(tmp_path).shown() == [Pin(3, "0", ("t", 0, 5)), Pin(3, "0", ("t", 1, 7))]


@pytest.mark.parametrize(
    ("other", "there"), [({"rows": 3}, "3 rows are pinned, 2"), ({"key": "gone"}, "2 rows are pinned, 0")]
)
def test_an_object_of_shown_rows_that_is_gone_or_short_is_no_evidence(
    tmp_path: Path, other: dict[str, Any], there: str
) -> None:
    with pytest.raises(EvidenceError, match=f"{there} are there"):
        shown_by(tmp_path, **other)
