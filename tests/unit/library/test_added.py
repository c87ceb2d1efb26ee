"""Sinks that are added to a pipeline begin where it stands, and only while no driver publishes without them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToFiles, ToKafka
from effectively_once.errors import SinkError
from effectively_once.ledger import chain
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import run
from effectively_once.operate.abandon import added
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.sinks.manifest import ManifestSink
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, taken

COLUMNS = pa.schema([("user", pa.string())])
JOB = Job(
    Pipeline(lambda frame: frame, COLUMNS, rows=(ToKafka("accepted"), ToKafka("copies"), ToFiles("raw"))),
    pipeline_settings(pipeline=LAYOUT.pipeline),
)


class Shard:
    """Notes after which epochs it begins."""

    def __init__(self, name: str) -> None:
        self.name, self.begun = name, list[int]()

    def begin(self, epoch: int, _: int) -> None:
        self.begun.append(epoch)


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> list[Shard]:
    made: list[Shard] = []

    def of(_: Job, sinks: list[str]) -> list[Shard]:
        made.extend(Shard(name) for name in sinks if name != "raw")
        return made

    monkeypatch.setattr(added, "shards", of)
    return made


def published(store: MemoryStore) -> Held:
    """Let three epochs be published to the first sink and to that of dead letters."""
    held = advanced(store, taken(store), 3)
    last = held.head.tail[-1]
    sinks = {**last.sinks, DEAD_LETTER: last.sinks["accepted"]}
    known = EpochRecord(**{**last.model_dump(), "sinks": sinks})
    head = held.head.model_copy(update={"tail": (*held.head.tail[:-1], known)})
    store.objects[LAYOUT.head] = head.encode()
    return held


def test_marks_and_manifests_of_a_new_sink_are_where_the_chain_is(shards: list[Shard]) -> None:
    store = MemoryStore()
    published(store)
    added.begin(JOB, store, lambda _: None)
    assert [(shard.name, shard.begun) for shard in shards] == [("copies", [2])]
    raw = ManifestSink(store, LAYOUT, "raw")
    assert [raw.has(epoch) for epoch in range(4)] == [True, True, True, False]


def test_while_an_epoch_is_declared_nothing_is_added(shards: list[Shard]) -> None:
    """Its driver publishes it without them, and they would lack it."""
    store = MemoryStore()
    published(store)
    held = run(chain.take_over(LAYOUT, "other", {}), store)
    run(chain.declare(LAYOUT, held, declaration(3), None, 0), store)
    with pytest.raises(SinkError, match="sinks copies, raw are new, and a driver publishes epochs without them"):
        added.begin(JOB, store, lambda _: None)
    assert not ManifestSink(store, LAYOUT, "raw").has(0)
    assert shards == []
