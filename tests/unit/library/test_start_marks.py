"""The start check (R10): every mark lies between the last recorded and the declared epoch, of every sort of sink."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToFiles, ToIceberg, ToKafka, ToTable
from effectively_once.driver import preflight
from effectively_once.driver.preflight import Preflight
from effectively_once.errors import SinkError, SourceError
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.job import Job
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import Mark
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.lake import Lake

PIPELINE = Pipeline(
    lambda frame: frame,
    pa.schema([("user", pa.string())]),
    rows=(ToKafka("accepted"), ToTable("orders"), ToFiles("raw"), ToIceberg("lake")),
)
LAYOUT = Layout("clicks")
# Shorter than an operator may have it.
SETTINGS = pipeline_settings(database="postgresql://h:1/d").model_copy(update={"start_patience_s": 0.05})
RECORDED, DECLARED = 4, 5


def head(*, declared: bool) -> Head:
    return Head(
        pipeline="clicks",
        generation=1,
        owner="o",
        settings={},
        last_recorded=RECORDED,
        declared=declaration(DECLARED) if declared else None,
        tail=(record_of(declaration(RECORDED)),),
    )


def refused(monkeypatch: pytest.MonkeyPatch, *, declared: bool, shards: int = 2, **marks: int) -> bool:
    """Check a start where sinks have these marks, all others that of the last recorded epoch, which has two shards."""
    of = {"accepted": RECORDED, "dead_letter": RECORDED, "orders": RECORDED, "raw": RECORDED, "lake": RECORDED, **marks}

    def mark(address: Any, *_: Any) -> Mark | None:
        if address.shard > 1:
            raise SinkError("the shard has no progress mark", "here", "Do.")
        # The other shard is where it should be: one that is not is enough.
        number = of[address.sink] if address.shard == 1 else RECORDED
        return None if number < 0 else Mark(number, 1, 0, "")

    monkeypatch.setattr(preflight, "read_seen_mark", mark)
    monkeypatch.setattr(preflight, "read_mark", mark)
    monkeypatch.setattr(preflight, "table_mark", mark)
    monkeypatch.setattr(preflight, "end_hanging", lambda *_: False)
    monkeypatch.setattr(preflight, "MARK_WAIT_S", 0.01)
    lake = Lake()
    if of["lake"] >= 0:
        lake.sink().publish_staged(of["lake"], 1, [], begins=True)
    monkeypatch.setattr(preflight, "open_lake_table", lambda *_: lake.sink())
    store = MemoryStore()
    for epoch in range(of["raw"] + 1):
        ManifestSink(store, LAYOUT, "raw").publish_staged(epoch, 1, [])
    job = Job(PIPELINE, SETTINGS).of_shards(shards)
    check = Preflight(job, LAYOUT, cast(S3ObjectStore, store), cast(KafkaSource, None))
    try:
        check.marks(head(declared=declared))
    except SinkError as error:
        assert "lies outside the chain's" in str(error)
        return True
    return False


def test_marks_at_the_last_recorded_and_at_the_declared_epoch_are_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not refused(monkeypatch, declared=False)
    for sink in ("accepted", "dead_letter", "orders", "raw", "lake"):
        assert not refused(monkeypatch, declared=True, **{sink: DECLARED})


@pytest.mark.parametrize("sink", ["accepted", "dead_letter", "orders", "raw", "lake"])
@pytest.mark.parametrize("declared", [False, True])
def test_a_mark_beyond_the_chain_is_refused(sink: str, declared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain was restored to an older time than the sink."""
    assert refused(monkeypatch, declared=declared, **{sink: (DECLARED if declared else RECORDED) + 1})


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("declared", [False, True])
def test_marks_are_those_of_the_shards_that_the_last_epoch_has(
    shards: int, declared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings have another number by now: new shards are not asked, and those that go are."""
    assert not refused(monkeypatch, declared=declared, shards=shards)
    for sink in ("accepted", "orders"):
        assert refused(monkeypatch, declared=declared, shards=shards, **{sink: RECORDED - 1})


@pytest.mark.parametrize(("sink", "mark"), [("accepted", 3), ("dead_letter", -1), ("orders", 3), ("raw", 3)])
def test_a_mark_behind_the_chain_is_refused(sink: str, mark: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sink was recreated, or restored to an older time than the chain."""
    assert refused(monkeypatch, declared=True, **{sink: mark})


@pytest.mark.parametrize(("now", "fits"), [("id-of-events", True), ("another", False), (None, False)])
@pytest.mark.parametrize("declared", [False, True])
def test_the_input_topic_is_the_one_that_was_pinned(now: str | None, fits: bool, declared: bool) -> None:
    source = KafkaSource(pipeline_settings())
    with nullcontext() if fits else pytest.raises(SourceError, match="was deleted and created again"):
        source.same_topic(head(declared=declared), {"events": now} if now else {})


def test_a_mark_that_seems_to_lag_may_be_behind_a_transaction_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended before the mark is read up to the high watermark, which would never come."""
    ended: list[str] = []

    def end(address: Any, timeout_s: float) -> bool:
        assert timeout_s == SETTINGS.start_patience_s
        ended.append(str(address))
        return True

    recorded = Mark(RECORDED, 1, 0, "")
    hidden = "sink accepted shard 1"
    monkeypatch.setattr(preflight, "read_seen_mark", lambda address: None if str(address) == hidden else recorded)
    monkeypatch.setattr(preflight, "read_mark", lambda address, _: recorded if str(address) in ended else None)
    monkeypatch.setattr(preflight, "end_hanging", end)
    monkeypatch.setattr(preflight, "MARK_WAIT_S", 0.01)
    job = Job(PIPELINE, SETTINGS)
    check = Preflight(job, LAYOUT, cast(S3ObjectStore, MemoryStore()), cast(KafkaSource, None))
    assert all(mark == recorded for _, mark in check._find_marks(RECORDED, 2))
    assert ended == [hidden]
