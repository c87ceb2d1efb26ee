"""What the topic lost of what the chain needs, named before anybody reads it; and how near that is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.driver.driver import Driver
from effectively_once.driver.input_watch import InputWatch
from effectively_once.driver.lineage import keep_lineage, lineage_of
from effectively_once.driver.metrics import Metrics
from effectively_once.errors import SourceError, UnreachableError
from effectively_once.ledger import chain, due_epoch, interventions
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.objects import run
from effectively_once.ledger.offsets import Offsets
from effectively_once.operate.abandon import accept_loss
from effectively_once.sources import retained
from effectively_once.sources.kafka import END, KafkaSource
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, due_of, ranges, record_of, taken


def first(**offsets: int) -> Offsets:
    return {"events": {partition[1:]: offset for partition, offset in offsets.items()}}


def recorded(epochs: int = 3) -> Head:
    """Return a head whose partitions end at 30 and 60, after three epochs."""
    store = MemoryStore()
    return advanced(store, taken(store), epochs).head


def declared(*, empty: bool = False) -> Head:
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 3), declaration(3), None, 0), store)
    return run(interventions.abandon(LAYOUT, held), store).head if empty else held.head


def test_what_no_epoch_covers_and_the_topic_does_not_hold_is_named_with_both_ways_out() -> None:
    retained.check(recorded(), first(p0=30, p1=60))
    with pytest.raises(SourceError) as refused:
        retained.check(recorded(), first(p0=37, p1=1_060))
    assert str(refused.value) == (
        "1,007 offsets are gone from the topic before they were read, of partition 0 30 to 36, of partition 1 60 to "
        f"1059 (topic events). {retained.ACCEPT}"
    )
    assert "effectively-once accept-loss" in retained.ACCEPT


def test_a_partition_that_the_chain_does_not_know_begins_at_0() -> None:
    assert retained.find_gone(recorded(), first(p0=0, p1=0, p2=4)) == {"events": {"2": (0, 4)}}


def test_before_the_first_epoch_nothing_is_lost_and_of_another_topic_nothing_is_told() -> None:
    assert retained.find_gone(recorded(0), first(p0=5)) == {}
    assert retained.find_gone(recorded(), {"others": {"0": 99}}) == {}


def test_a_declared_epoch_needs_what_it_reads_and_what_follows_it_is_looked_at_when_it_is_finished() -> None:
    head = declared()
    retained.check(head, first(p0=30, p1=60, p2=9))
    with pytest.raises(SourceError, match=r"epoch 3 is declared over them and cannot be finished.*accept-loss.*backup"):
        retained.check(head, first(p0=31, p1=60))
    idle = declaration(3, {"events": {"0": (30, 30), "1": (60, 80)}})
    store = MemoryStore()
    head = run(chain.declare(LAYOUT, advanced(store, taken(store), 3), idle, None, 0), store).head
    retained.check(head, first(p0=37, p1=60))


def test_of_an_abandoned_epoch_its_input_is_needed_by_the_next_one() -> None:
    with pytest.raises(
        SourceError, match=r"of partition 0 30 to 36 \(topic events\)\. If the topic cannot be put back"
    ):
        retained.check(declared(empty=True), first(p0=37, p1=60))


def test_to_repair_an_epoch_its_ranges_are_needed_once_more() -> None:
    head = recorded()
    shown = head.tail[-1].model_copy(update={"shown": {"0": AsShown()}})
    head = head.model_copy(update={"tail": (*head.tail[:-1], shown)})
    retained.check(head, first(p0=20, p1=40))
    with pytest.raises(SourceError, match=r"epoch 3 has to read them to repair epoch 2.*Put the topic back"):
        retained.check(head, first(p0=21, p1=40))
    due = due_epoch.repair(head)
    with pytest.raises(SourceError, match="to repair epoch 2"):
        retained.check(head.model_copy(update={"declared": due}), first(p0=21, p1=40))
    assert isinstance(shown, EpochRecord)


def test_the_rest_that_an_abandoned_epoch_was_to_take_is_needed_by_the_next_one_and_is_no_loss() -> None:
    """It was accepted otherwise, and refused when the loss was declared: the rest comes first."""
    store = MemoryStore()
    held = run(chain.declare(LAYOUT, advanced(store, taken(store), 2), declaration(2), None, 0), store)
    leaving = record_of(declaration(2)).model_copy(update={"left": {"1": ("events", 1, 41)}})
    held = run(chain.record(LAYOUT, held, leaving), store)
    due = due_of(held.head)
    held = run(chain.declare(LAYOUT, held, due, None, 0), store)
    head = run(interventions.abandon(LAYOUT, held), store).head
    start, end = ranges(2)["events"]["0"]
    retained.check(head, first(p0=start))
    for gone in (start + 1, end + 1):
        with pytest.raises(SourceError, match=r"epoch 4 has to read them for a divided one.*Put the topic back"):
            retained.check(head, first(p0=gone))
        with pytest.raises(SourceError, match="for a divided one"):
            accept_loss._find_lost(head, first(p0=gone))
    assert accept_loss._find_lost(head, first(p0=start)) == {}


@pytest.mark.parametrize(
    ("at", "share"), [(100, 1.0), (90, 1.0), (80, 1.0), (79, 0.75), (50, 0.75), (49, 0.5), (20, 0.5), (19, 0.25)]
)
def test_the_share_of_the_retention_that_is_left_is_that_of_the_partition_that_has_least(at: int, share: float) -> None:
    """Of a topic whose offsets 20, 50 and 80 are the first younger than three, two and one quarter of it."""
    younger = {0.75: {"0": 20, "1": 0}, 0.5: {"0": 50, "1": 0}, 0.25: {"0": 80, "1": 0}}
    assert retained.share_left({"0": at, "1": 5}, {"0": 100, "1": 7}, younger.__getitem__) == share


def test_who_has_read_everything_has_all_of_it_left_and_asks_nobody() -> None:
    assert retained.share_left({"0": 100}, {"0": 100}, lambda _: pytest.fail("asked")) == 1.0


class Source:
    """A topic as it answers."""

    topics = ("events",)

    def __init__(self, retention_ms: int = 400, earliest: int = 10) -> None:
        self.retention_ms, self.earliest, self.asked = retention_ms, earliest, 0
        self.away, self.end, self.degraded = False, 100, 0

    def topic_settings(self) -> dict[str, dict[str, str]]:
        return {"events": {"retention.ms": str(self.retention_ms)}}

    def first_offsets(self) -> Offsets:
        self.asked += 1
        if self.away:
            raise UnreachableError("the Kafka broker does not answer", "k:9092", "Look.")
        return {"events": {"0": self.earliest}}

    def last_offsets(self) -> Offsets:
        return {"events": {"0": self.end}}

    def count_degraded(self, topic: str) -> int:
        assert topic == "events"
        return self.degraded

    def committed_ends(self, partitions: Mapping[str, Iterable[str]]) -> Offsets:
        """Of the last ten a transaction is open."""
        return {topic: dict.fromkeys(parts, self.end - 10) for topic, parts in partitions.items()}

    def offsets_since(self, time_ms: int) -> Offsets:
        """One record a ms: that of offset n came at n; nothing is younger than offset 99."""
        return {"events": {"0": time_ms if time_ms < 100 else END}}


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"effectively_once_input_{name}", {"pipeline": "uc", **labels})


OF_PARTITION = {"topic": "events", "partition": "0"}


def looked(source: Source, at: dict[str, int], now: float = 110) -> Metrics:
    metrics, given = Metrics("uc"), cast(Any, source)
    InputWatch(given, metrics, lambda: {"events": at}, clock=lambda: now).look()
    return metrics


def left(source: Source, at: dict[str, int]) -> tuple[float | None, float | None]:
    metrics = looked(source, at)
    return sample(metrics, "retention_left_ratio"), sample(metrics, "retention_seconds")


@pytest.mark.parametrize(
    ("at", "share"),
    [
        ({"0": 100}, 1),
        ({"0": 90}, 1),
        ({"0": 75}, 0.75),
        ({"0": 60}, 0.5),
        ({"0": 40}, 0.25),
        ({"0": 9}, 0),
        ({"0": 10}, 0.25),
    ],
)
def test_the_metric_tells_how_near_the_end_of_its_retention_the_oldest_unread_record_is(
    at: dict[str, int], share: float
) -> None:
    """Retention is 80 ms and now is 110: older than 20, 40 and 60 ms are the offsets below 90, 70 and 50."""
    assert left(Source(80), at) == (share, 0.08)


def test_a_look_tells_what_is_unread_since_when_and_whether_a_copy_is_missing() -> None:
    source, metrics, now = Source(earliest=0), Metrics("uc"), 40_000.0
    at = {"0": 80}
    watch = InputWatch(cast(Any, source), metrics, lambda: {"events": at}, clock=lambda: now)

    def tell() -> list[float | None]:
        unread = [sample(metrics, name, **OF_PARTITION) for name in ("unread_offsets", "unread_seconds")]
        return [*unread, sample(metrics, "degraded_partitions")]

    assert sample(metrics, "seen_timestamp_seconds") == 0
    # Of the topic it is known by then that offset 80 came at 80 ms, and 90 has not come: asked 30 and 60 s back.
    watch.look()
    assert tell() == [10, pytest.approx(30, abs=3), 0]
    assert sample(metrics, "seen_timestamp_seconds") == pytest.approx(time.time(), abs=60)
    now, source.end, at, source.degraded = 70_000.0, 160, {"0": 120}, 2
    watch.look()
    assert tell() == [30, 15, 2]
    now, at, source.away = 100_000.0, {"0": 150}, True
    with pytest.raises(UnreachableError):
        watch.look()
    assert tell() == [30, 15, 2], "a broker that is away leaves what it said before"


def test_without_a_retention_only_what_is_lost_is_told() -> None:
    assert left(Source(-1), {"0": 15}) == (1, -1)
    assert left(Source(-1), {"0": 9}) == (0, -1)


@pytest.mark.parametrize(
    ("at", "unread"), [({"0": 40}, 50), ({"0": 90}, 0), ({"0": 95}, 0), ({"0": 3}, 80), ({"0": 10}, 80)]
)
def test_unread_is_what_can_be_read_and_no_epoch_covers(at: dict[str, int], unread: int) -> None:
    """Neither what expired, nor what an open transaction holds back."""
    assert sample(looked(Source(), at), "unread_offsets", **OF_PARTITION) == unread


def test_unread_is_listed_for_all_partitions_also_of_one_that_came_later() -> None:
    ends = {"0": 10, "1": 4, "2": 7}
    listed = retained.list_unread({"0": 10, "1": 1}, {"0": 0, "1": 2, "2": 5}, ends)
    assert listed == {"0": (10, 10), "1": (2, 4), "2": (5, 7)}
    assert retained.list_unread({"0": 12, "1": 4, "2": 7}, {}, ends) == {"0": (12, 12), "1": (4, 4), "2": (7, 7)}


def test_a_broker_that_is_away_does_not_end_the_watch_and_a_driver_that_stops_does() -> None:
    source, stopping = Source(), threading.Event()
    source.away = True
    watch = InputWatch(cast(Any, source), Metrics("uc"), lambda: {})
    stopping.set()
    watch._run(stopping)
    assert source.asked == 1


def test_a_range_that_begins_before_what_the_topic_held_last_is_not_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that would read on would find out by an error of Spark, when the epoch is declared."""
    settings = pipeline_settings()
    source = KafkaSource(settings)
    monkeypatch.setattr(source, "_offsets", lambda _: {settings.topic: {"0": 12}})
    monkeypatch.setattr(source, "committed_ends", lambda _: {settings.topic: {"0": 50}})
    ranges = {settings.topic: {"0": (10, 20)}}
    source.within(ranges)
    source.first_offsets()
    with pytest.raises(SourceError, match=r"2 offsets are gone .* 10 to 11 "):
        source.within(ranges)
    source.within({settings.topic: {"0": (12, 20)}})


def test_ranges_of_several_topics_are_held_against_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of partitions with the same number."""
    source = KafkaSource(pipeline_settings(topic="orders,refunds", start_patience_s=1.0))
    monkeypatch.setattr(source, "_offsets", lambda _: {"orders": {"0": 12}, "refunds": {"0": 0}})
    ends = {"orders": 50, "refunds": 9}
    monkeypatch.setattr(source, "committed_ends", lambda asked: {topic: {"0": ends[topic]} for topic in asked})
    source.first_offsets()
    source.within({"orders": {"0": (12, 50)}, "refunds": {"0": (0, 9)}})
    with pytest.raises(SourceError, match=r"2 offsets are gone .*topic orders"):
        source.within({"orders": {"0": (10, 50)}, "refunds": {"0": (0, 9)}})
    with pytest.raises(SourceError, match=r"ends at offset 10, and records are committed up to 9 .*topic refunds"):
        source.within({"orders": {"0": (12, 50)}, "refunds": {"0": (0, 10)}})


NOON = "2026-03-01T12:00:00Z"
NOON_MS = 1_772_366_400_000
TOPIC = pipeline_settings().topic


@pytest.mark.parametrize(
    ("found", "begins"),
    [(40, 40), (10, 12), (END, 50)],
    ids=["within", "older-than-the-topic", "nothing-since"],
)
def test_a_pipeline_begins_with_the_first_record_of_its_time(
    monkeypatch: pytest.MonkeyPatch, found: int, begins: int
) -> None:
    source = KafkaSource(pipeline_settings(begins_at=NOON))
    asked = []

    def since(time_ms: int) -> Offsets:
        asked.append(time_ms)
        return {TOPIC: {"0": found}}

    monkeypatch.setattr(source, "first_offsets", lambda: {TOPIC: {"0": 12}})
    monkeypatch.setattr(source, "last_offsets", lambda: {TOPIC: {"0": 50}})
    monkeypatch.setattr(source, "offsets_since", since)
    assert source.starts() == {TOPIC: {"0": begins}}
    assert asked == [NOON_MS]


def test_what_is_sent_while_a_beginning_is_looked_for_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    source, end = KafkaSource(pipeline_settings(begins_at=NOON)), [50]

    def since(_: int) -> Offsets:
        end[0] += 1
        return {TOPIC: {"0": END}}

    monkeypatch.setattr(source, "first_offsets", lambda: {TOPIC: {"0": 12}})
    monkeypatch.setattr(source, "last_offsets", lambda: {TOPIC: {"0": end[0]}})
    monkeypatch.setattr(source, "offsets_since", since)
    assert source.starts() == {TOPIC: {"0": 50}}


def test_without_a_time_it_begins_with_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KafkaSource(pipeline_settings())
    monkeypatch.setattr(source, "_offsets", lambda _: {TOPIC: {"0": 12}})
    assert source.starts() == {TOPIC: {"0": 12}}


def test_only_a_pipeline_without_a_chain_begins_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own state or not; what the topic got since begins at its start."""
    monkeypatch.setattr(Checkpoint, "fits", lambda *_: False)
    source: Any = SimpleNamespace(
        starts=lambda: {"events": {"0": 40}}, first_offsets=lambda: {"events": {"0": 10, "1": 0, "2": 0}}
    )
    store = MemoryStore()
    held: Any = SimpleNamespace(store=store, layout=LAYOUT, owner="a" * 32, head=taken(store).head)
    assert lineage_of(held, source).starting == {"events": {"0": 40}}
    assert keep_lineage(held, source, pipeline_settings(topic="events")).starting == {"events": {"0": 40}}
    held.head = recorded()
    assert lineage_of(held, source).starting == {"events": {"0": 30, "1": 60, "2": 0}}


def test_what_is_unread_before_the_first_epoch_is_what_that_will_read() -> None:
    settings = pipeline_settings(topic="events")
    lineage = SimpleNamespace(starting={"events": {"0": 40}})
    driver: Any = SimpleNamespace(settings=settings, batches=SimpleNamespace(lineage=lineage))
    driver.chain, driver.head = SimpleNamespace(published=None), taken(MemoryStore()).head
    assert Driver._reached_offsets(driver) == {"events": {"0": 40}}
    driver.head = recorded()
    assert Driver._reached_offsets(driver) == {"events": {"0": 30, "1": 60}}
