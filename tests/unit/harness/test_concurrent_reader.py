"""The concurrent reader writes down what it sees, survives servers that do not answer, and says when it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError

from tests.harness.adapters import concurrent_reader
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.concurrent_reader import ConcurrentReader
from tests.harness.adapters.topics import Partition, Topics
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory
from tests.harness.sends import crc_of_row
from tests.unit.harness.fake_message import FakeMessage
from tests.unit.harness.sleepers import soon

ROW = {"id": "a", "epoch": 0}


def message(
    offset: int, value: dict[str, Any] | None, code: int | None = None, key: bytes | None = None
) -> FakeMessage:
    """A message of the sink, or the word that its partition has ended."""
    return FakeMessage(orjson.dumps(value), key, place=("uc.accepted", 0, offset), code=code)


END = KafkaError._PARTITION_EOF


class FakeTopics:
    """One partition whose messages come in the batches given."""

    def __init__(self, *batches: list[FakeMessage], end: int) -> None:
        self.batches, self.end = list(batches), end
        self.failures = 1
        self.partitions_there = {("uc.accepted", 0)}

    def consumer(self, isolation: str, *, eof: bool, wait_ms: int) -> FakeTopics:
        assert (isolation, eof) == ("read_committed", True)
        return self

    def assign(self, where: list[Any]) -> None:
        self.assigned = where

    def incremental_assign(self, where: list[Any]) -> None:
        self.assigned = [*self.assigned, *where]

    def list_partitions(self, names: Any, timeout_s: float) -> list[tuple[str, int]]:
        assert set(names) == {"uc.accepted"}
        return sorted(self.partitions_there)

    def consume(self, number: int, timeout: float) -> list[FakeMessage]:
        return self.batches.pop(0) if self.batches else []

    def close(self) -> None: ...

    def partitions(self, names: list[str]) -> list[Partition]:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("broker is away")
        return [Partition("uc.accepted", 0, self.end, self.end)]


class FakeChain:
    """One manifest, and a store that fails the first times it is asked."""

    def __init__(self, failures: int = 1) -> None:
        self.failures = failures

    def read_published(self, sink: str, epoch: int) -> tuple[str, list[dict[str, Any]]] | None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("store is away")
        return ("m0", [{"count": 3}]) if epoch == 0 else None


def reader_of(folder: Path, topics: FakeTopics, failures: int = 1) -> ConcurrentReader:
    run, chain = RunDirectory(folder), cast("ChainReader", FakeChain(failures))
    sinks = {"accepted": "uc.accepted"}
    return ConcurrentReader(run, cast("Topics", topics), chain, sinks, partitions=1, object_sink="global_counts")


def test_what_it_sees_is_written_down_in_order(tmp_path: Path) -> None:
    away = message(0, None, KafkaError._TRANSPORT)
    batches = [away], [message(0, ROW, key=b"k"), message(2, {**ROW, "id": "b"})], [message(4, None, END)]
    reader = reader_of(tmp_path, FakeTopics(*batches, end=4))
    reader.start()
    reader.finish()
    assert reader.complete, reader.trouble
    first, seen, last = RunDirectory(tmp_path).concurrent_rows("accepted")
    assert (first["reader"], last["reader"]) == ("started", "stopped")
    crcs = [crc_of_row({**ROW, "message": {"key": "k"}}), crc_of_row({**ROW, "id": "b", "message": {"key": None}})]
    assert {name: seen[name] for name in ("partition", "offsets", "crcs")} == {
        "partition": 0,
        "offsets": [0, 2],
        "crcs": crcs,
    }
    _, manifest, _ = RunDirectory(tmp_path).concurrent_rows("global_counts")
    assert (manifest["epoch"], manifest["object"]) == (0, "m0")
    assert manifest["crcs"] == [crc_of_row({"count": 3, "epoch": 0})]


def test_a_store_that_is_away_at_the_end_has_not_shown_its_last_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not answer is not that there is nothing more."""
    monkeypatch.setattr(concurrent_reader, "FINISH_S", 0.3)
    topics = FakeTopics([message(1, None, END)], end=1)
    topics.failures = 0
    reader = reader_of(tmp_path, topics, failures=10**9)
    reader.start()
    reader.finish()
    assert not reader.complete
    assert "stopped before it had read everything (manifest of epoch 0: store is away)" in reader.trouble


def test_one_that_is_stopped_before_the_end_leaves_files_that_say_so(tmp_path: Path) -> None:
    topics = FakeTopics([message(0, ROW)], [message(1, None, END)], end=7)
    reader = reader_of(tmp_path, topics)
    reader.start()
    soon("all to be read", lambda: not topics.batches)
    reader.stop()
    assert not reader.complete
    with pytest.raises(EvidenceError, match="truncated"):
        list(RunDirectory(tmp_path).concurrent_rows("accepted"))


def test_a_partition_that_a_topic_is_given_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    topics = FakeTopics([message(0, None, END)], end=0)
    topics.failures = 0
    topics.partitions_there = {("uc.accepted", 0), ("uc.accepted", 1)}
    reader = reader_of(tmp_path, topics)
    reader.start()
    reader.finish()
    assert reader.complete, reader.trouble
    assert [(one.partition, one.offset) for one in topics.assigned] == [(0, OFFSET_BEGINNING), (1, OFFSET_BEGINNING)]
