"""What a broker left open of a shard's last transaction is ended as its rows and its mark say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest, former_digest
from effectively_once.sinks import hanging, markers
from effectively_once.sinks.ending import Hanging
from effectively_once.sinks.hanging import end_hanging
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.sinks.publish import Mark

SHARD = ShardAddress("b:1", "p", "s", 3)
ROWS, OTHERS = [b"a", b"b"], [b"c", b"d"]
TIMEOUT_S = 7.5


def _mark(epoch: int, rows: list[bytes]) -> Mark:
    return Mark(epoch, 1, len(rows), digest.of_rows(rows))


@dataclass
class World:
    """Two partitions of a shard: what was written to them, from which offset on readers see nothing, who hangs.

    Attributes:
        before: rows of the last epoch that is visible.
        rows: of the transaction that was left open, where they were written.
        marks: last marks, written and visible.
        half: what was said of what was ended last.
        meanwhile: what somebody else does before anything is ended.

    """

    open: tuple[str, ...] = ()
    before: list[bytes] = field(default_factory=lambda: OTHERS)
    rows: list[bytes] = field(default_factory=lambda: ROWS)
    rows_shown: bool = False
    written: Mark | None = None
    shown: Mark | None = None
    hides: dict[str, int] = field(default_factory=dict)
    ended: list[tuple[str, bool]] = field(default_factory=list)
    asked: int = 0
    refuses: int | None = None
    half: bool | None = None
    meanwhile: Callable[[], None] | None = None

    def find(self, address: ShardAddress) -> list[Hanging]:
        assert address == SHARD
        # As the broker happens to tell them.
        return [Hanging(topic, 5, 6, 7, 40) for topic in reversed(self.open)]

    def write(self, address: ShardAddress, found: list[Hanging], *, commit: bool, half: bool) -> bool:
        assert address == SHARD
        self.half = half
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            meanwhile()
            return False
        self.ended += [(each.topic, commit) for each in found]
        return True

    def read_from(self, address: ShardAddress, start: int, timeout_s: float) -> list[bytes]:
        assert (address, start, timeout_s) == (SHARD, 40, TIMEOUT_S)
        return self.rows

    def read_rows(self, address: ShardAddress, mark: Mark, timeout_s: float) -> None:
        assert (address, timeout_s) == (SHARD, TIMEOUT_S)
        last = [*self.before, *(self.rows if self.rows_shown else [])]
        if mark.rows and digest.of_rows(last[-mark.rows :]) != mark.digest:
            raise SinkError("the topic does not end with them", "", "")


class Asking:
    """A consumer that reads all, or what is committed."""

    def __init__(self, world: World, isolation: str) -> None:
        self.world, self.isolation = world, isolation

    def get_watermark_offsets(self, where: TopicPartition, timeout: float) -> tuple[int, int]:
        assert (where.partition, timeout) == (SHARD.shard, TIMEOUT_S)
        if self.world.refuses is not None:
            raise KafkaException(KafkaError(self.world.refuses))
        left = self.world.hides.get(where.topic, 0)
        if self.isolation == "read_uncommitted" or not left:
            return 0, 50
        self.world.hides[where.topic] = left - 1
        return 0, 40


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A shard whose mark of epoch 4 is visible, and whose transaction of epoch 5 is whole."""
    made = World(written=_mark(5, ROWS), shown=_mark(4, OTHERS))
    monkeypatch.setattr(hanging, "PATIENCE_S", 0.02)
    monkeypatch.setattr(hanging, "PAUSE_S", 0.001)

    @lru_cache
    def asking(bootstrap: str, isolation: str) -> Asking:
        assert bootstrap == "b:1"
        return Asking(made, isolation)

    monkeypatch.setattr(hanging, "_connect", asking)
    monkeypatch.setattr(markers, "find", made.find)
    monkeypatch.setattr(markers, "write", made.write)
    for name in ("read_from", "read_rows"):
        monkeypatch.setattr(hanging, name, getattr(made, name))
    monkeypatch.setattr(
        hanging, "read_written_mark", lambda *asked: made.written if asked == (SHARD, TIMEOUT_S) else None
    )
    monkeypatch.setattr(hanging, "read_seen_mark", lambda *asked: made.shown if asked == (SHARD, TIMEOUT_S) else None)
    return made


def _ended(world: World, *topics: str) -> bool | None:
    """Whether what is open in these topics was shown, None if nothing was done."""
    world.open = topics
    world.hides = dict.fromkeys(topics, 10**9)
    if not end_hanging(SHARD, TIMEOUT_S):
        assert world.ended == []
        return None
    assert [topic for topic, _ in world.ended] == sorted(topics)
    (shown,) = {commit for _, commit in world.ended}
    return shown


def test_nobody_is_asked_where_readers_reach_the_end(world: World) -> None:
    """That is any other time: it costs four questions."""
    world.open = (SHARD.topic, SHARD.progress)
    assert not end_hanging(SHARD, TIMEOUT_S)
    assert world.ended == []


@pytest.mark.parametrize("topic", [SHARD.topic, SHARD.progress])
def test_markers_that_are_on_their_way_are_waited_for(world: World, topic: str) -> None:
    world.open = (SHARD.topic, SHARD.progress)
    world.hides = {topic: 5}
    assert not end_hanging(SHARD, TIMEOUT_S)
    assert (world.ended, world.hides) == ([], {topic: 0})


@pytest.mark.parametrize("topic", [SHARD.topic, SHARD.progress])
def test_what_is_hidden_and_does_not_hang_is_left_alone(world: World, topic: str) -> None:
    """A transaction that goes on, or one of somebody else."""
    world.hides = {topic: 10**9}
    assert not end_hanging(SHARD, TIMEOUT_S)


@pytest.mark.parametrize(("rows", "told"), [(ROWS, "shown"), (OTHERS, "dropped")])
def test_whoever_reads_the_log_is_told_what_was_ended(world: World, rows: list[bytes], told: str) -> None:
    world.rows = rows
    with capture_logs() as lines:
        _ended(world, SHARD.progress, SHARD.topic)
    said = {"event": "ended a transaction that the broker had left open", "log_level": "warning"}
    where = {"partition": 3, "offset": 40, "rows": told}
    assert lines == [{**said, **where, "topic": topic} for topic in (SHARD.topic, SHARD.progress)]


BOTH, MARK_ALONE, ROWS_ALONE = (SHARD.progress, SHARD.topic), (SHARD.progress,), (SHARD.topic,)
BEFORE = _mark(4, OTHERS)
DECISIONS: dict[str, tuple[tuple[str, ...], dict[str, Any], bool]] = {
    "whole, rows first": (BOTH, {}, True),
    "whole, by a mark of an older version": (BOTH, {"written": Mark(5, 1, 2, former_digest.of_rows(ROWS))}, True),
    "whole, of the rows of the epoch before": (BOTH, {"before": ROWS, "shown": _mark(4, ROWS)}, True),
    "a row less than its mark": (BOTH, {"rows": ROWS[:1]}, False),
    "a row more than its mark": (BOTH, {"rows": [*ROWS, b"c"]}, False),
    "other rows than its mark": (BOTH, {"rows": OTHERS}, False),
    "no rows, and a mark of some": (BOTH, {"rows": []}, False),
    "rows without any mark": (ROWS_ALONE, {"written": None, "shown": None}, False),
    "rows behind the last mark": (ROWS_ALONE, {"written": BEFORE, "shown": BEFORE}, False),
    "rows whose mark is shown": (ROWS_ALONE, {"shown": _mark(5, ROWS)}, True),
    "rows whose mark was dropped": (ROWS_ALONE, {}, False),
    "a mark of no rows": (MARK_ALONE, {"written": _mark(5, []), "rows": []}, True),
    "a mark whose rows are shown": (MARK_ALONE, {"rows_shown": True}, True),
    "a mark whose rows were dropped": (MARK_ALONE, {"rows_shown": False}, False),
}


@pytest.mark.parametrize("hangs", DECISIONS)
def test_what_hangs_is_shown_where_rows_and_mark_agree_and_else_dropped(world: World, hangs: str) -> None:
    topics, changes, shown = DECISIONS[hangs]
    for name, value in changes.items():
        setattr(world, name, value)
    assert _ended(world, *topics) is shown
    if shown:
        assert world.half == hangs.endswith("shown"), "where the other partition has its part"


def test_what_somebody_else_ended_meanwhile_is_decided_on_anew(world: World) -> None:
    """They may have dropped the rows. A mark that is shown without them has them lost."""

    def drop_rows() -> None:
        world.open, world.rows = (SHARD.progress,), []
        world.hides.pop(SHARD.topic)

    world.meanwhile = drop_rows
    world.open = (SHARD.progress, SHARD.topic)
    world.hides = dict.fromkeys(world.open, 10**9)
    assert end_hanging(SHARD, TIMEOUT_S)
    assert world.ended == [(SHARD.progress, False)]


@pytest.mark.parametrize(("half", "shown"), [(SHARD.topic, True), (SHARD.progress, True), (SHARD.progress, False)])
def test_half_of_one_whose_rows_are_those_of_the_epoch_before_is_decided_by_nobody(
    world: World, half: str, shown: bool
) -> None:
    world.before = ROWS
    world.shown = world.written = _mark(5, ROWS)
    if half == SHARD.progress:
        world.shown, world.rows_shown = _mark(4, ROWS), shown
    with pytest.raises(SinkError, match=r"rows of two epochs up to 5 are the same.*sink s shard 3"):
        _ended(world, half)
    assert world.ended == []


def test_patience_is_never_longer_than_its_caller_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging, "PATIENCE_S", 10**9)
    monkeypatch.setattr(hanging, "ends", lambda asking, where, _: asking.get_watermark_offsets(where, TIMEOUT_S))
    world.hides = {SHARD.topic: 10**9}
    assert not end_hanging(SHARD, 0.05)


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (KafkaError._UNKNOWN_TOPIC, SinkError, r"topic p\.s\.progress does not exist.*b:1"),
        (KafkaError._TRANSPORT, UnreachableError, "broker does not answer.*b:1"),
    ],
)
def test_a_broker_that_cannot_be_asked_has_a_name(world: World, code: int, kind: type[SinkError], says: str) -> None:
    world.refuses = code
    with pytest.raises(kind, match=says):
        end_hanging(SHARD, TIMEOUT_S)


def test_a_connection_of_before_the_brokers_restart_is_replaced_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take a topic for missing that it has not heard of again."""
    asked: list[str] = []

    def ask(_: str, isolation: str) -> Asking:
        asked.append(isolation)
        world.refuses = KafkaError._UNKNOWN_PARTITION if len(asked) <= 2 else None
        return Asking(world, isolation)

    ask.cache_clear = lambda: asked.append("anew")  # type: ignore[attr-defined]
    monkeypatch.setattr(hanging, "_connect", ask)
    assert not end_hanging(SHARD, TIMEOUT_S)
    assert asked == ["read_uncommitted", "read_committed", "anew", "read_uncommitted", "read_committed"]
