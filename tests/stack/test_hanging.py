"""A transaction that the broker finished and left open: it is ended as what is in it says, and nothing is doubled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from kafka.errors import ClusterAuthorizationFailedError

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.sinks import hanging, markers
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import Row, ShardAddress, read_mark, read_seen_mark
from effectively_once.sinks.publish import Published
from effectively_once.sinks.shard_admin import ShardAdmin
from infra.embedded.stack import EmbeddedStack
from tests.harness.adapters.coordinator_log import ABORTED, COMMITTED, note_state
from tests.stack.conftest import Topic
from tests.stack.kafka_rows import assert_visible, names_of, rows_of, visible

pytestmark = pytest.mark.stack

SHARD = 1
TIMEOUT_S = 600
"""Longer than all of them take to be left open: after it Kafka aborts them, and none hangs."""


class KilledError(Exception):
    """Ends a publisher where a SIGKILL would."""


def _kill_in_its_transaction(shard: ShardAddress, epoch: int, rows: list[Row]) -> None:
    def kill(step: str) -> None:
        raise KilledError(step)

    with pytest.raises(KilledError, match="transaction_open"):
        ShardSink(shard, kill).publish(epoch, 1, rows)


def _kill_before_its_mark(shard: ShardAddress) -> None:
    timeout_ms = TIMEOUT_S * 1000
    producer = Producer(
        {
            "bootstrap.servers": shard.bootstrap,
            "transactional.id": shard.transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic, key, value in shard.records(rows_of(1)):
        producer.produce(topic, value, key, partition=SHARD)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def left_open(stack: EmbeddedStack, topic: Topic) -> Callable[[str], ShardAddress]:
    """Shards that show epoch 0 and whose next transaction hangs, by name: one start of the broker for all of them."""
    made: dict[str, ShardAddress] = {}
    for name in (
        "whole",
        "without-mark",
        "rows-committed",
        "rows-aborted",
        "mark-committed",
        "mark-aborted",
        "alike",
        "own-whole",
        "own-without-mark",
        "own-half",
    ):
        shard = ShardAddress(
            stack.endpoints.kafka_bootstrap,
            f"hanging-{name}",
            "accepted",
            SHARD,
            transaction_timeout_s=TIMEOUT_S,
        )
        topic(shard.topic, 2)
        topic(shard.progress, 2, cleanup_policy="compact")
        ShardSink(shard).publish(0, 1, rows_of(0))
        if name.endswith("without-mark"):
            _kill_before_its_mark(shard)
        else:
            _kill_in_its_transaction(shard, 1, rows_of(0 if name == "alike" else 1))
        made[name] = shard
    bootstrap = stack.endpoints.kafka_bootstrap
    note_state(bootstrap, [shard.transactional_id for shard in made.values()], COMMITTED)
    note_state(bootstrap, [made[f"{by}without-mark"].transactional_id for by in ("", "own-")], ABORTED)
    stack.kafka.restart()
    return made.__getitem__


def _end_half(shard: ShardAddress, topic: str, *, commit: bool) -> None:
    (half,) = (each for each in markers.find(shard) if each.topic == topic)
    markers.write(shard, [half], commit=commit)


def test_nothing_of_kafka_ends_it(left_open: Callable[[str], ShardAddress]) -> None:
    """What this is for: without it the shard never goes on."""
    shard = left_open("whole")
    Producer({"bootstrap.servers": shard.bootstrap, "transactional.id": shard.transactional_id}).init_transactions(30)
    with pytest.raises(UnreachableError, match=r"progress partition 1 was not reached in 3 s: read up to offset 2"):
        read_mark(shard, 3.0)
    assert visible(shard) == names_of(0)


def test_one_that_is_whole_is_shown_as_a_driver_may_have_recorded_it(
    left_open: Callable[[str], ShardAddress],
) -> None:
    shard = left_open("whole")
    sink = ShardSink(shard)
    assert sink.publish(1, 2, rows_of(1))[1] is Published.BEFORE
    assert sink.publish(2, 2, rows_of(2))[1] is Published.NOW
    assert_visible(shard, names_of(0, 1, 2))
    assert markers.find(shard) == []


def test_one_that_lacks_its_mark_is_dropped(left_open: Callable[[str], ShardAddress]) -> None:
    """Nobody was told that it is committed. Its rows come again."""
    shard = left_open("without-mark")
    assert ShardSink(shard).publish(1, 2, rows_of(1))[1] is Published.NOW
    assert_visible(shard, names_of(0, 1))


@pytest.fixture
def without_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    _refuse_markers(monkeypatch)


def _refuse_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the broker refuse markers, as one with rights does to whoever has none on the cluster."""

    def refuse(*_: object) -> None:
        raise ClusterAuthorizationFailedError

    monkeypatch.setattr(ShardAdmin, "commit", refuse)
    monkeypatch.setattr(ShardAdmin, "abort_transaction", refuse)


@pytest.mark.parametrize(("name", "published"), [("own-whole", Published.BEFORE), ("own-without-mark", Published.NOW)])
@pytest.mark.usefixtures("without_rights")
def test_who_may_not_write_markers_ends_it_by_a_transaction_of_its_own(
    left_open: Callable[[str], ShardAddress], name: str, published: Published
) -> None:
    shard = left_open(name)
    sink = ShardSink(shard)
    assert sink.publish(1, 2, rows_of(1))[1] is published
    assert sink.publish(2, 2, rows_of(2))[1] is Published.NOW
    assert_visible(shard, names_of(0, 1, 2))
    assert markers.find(shard) == []


def test_a_half_is_shown_by_a_marker_alone(
    left_open: Callable[[str], ShardAddress], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is killed in a transaction of its own drops that half, and the other one is visible."""
    shard = left_open("own-half")
    _end_half(shard, shard.topic, commit=True)
    with monkeypatch.context() as refused:
        _refuse_markers(refused)
        with pytest.raises(SinkError, match="whose other half is visible"):
            ShardSink(shard).publish(1, 2, rows_of(1))
    assert ShardSink(shard).publish(1, 2, rows_of(1))[1] is Published.BEFORE
    assert_visible(shard, names_of(0, 1))


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("rows-committed", Published.BEFORE),
        ("rows-aborted", Published.NOW),
        ("mark-committed", Published.BEFORE),
        ("mark-aborted", Published.NOW),
    ],
)
def test_the_half_that_hangs_is_ended_as_the_other_was(
    name: str, published: Published, left_open: Callable[[str], ShardAddress]
) -> None:
    shard = left_open(name)
    half, _, end = name.partition("-")
    _end_half(shard, shard.topic if half == "rows" else shard.progress, commit=end == "committed")
    assert ShardSink(shard).publish(1, 2, rows_of(1))[1] is published
    assert_visible(shard, names_of(0, 1))


def test_a_half_whose_rows_are_those_of_the_epoch_before_is_decided_by_nobody(
    left_open: Callable[[str], ShardAddress],
) -> None:
    """They would look committed either way."""
    shard = left_open("alike")
    _end_half(shard, shard.topic, commit=False)
    with pytest.raises(SinkError, match="left half of a transaction open, and rows of two epochs up to 1 are the same"):
        ShardSink(shard).publish(1, 2, rows_of(0))
    assert_visible(shard, names_of(0))


def test_a_kept_producer_begins_nothing_upon_one_that_hangs(stack: EmbeddedStack, shard: ShardAddress) -> None:
    """It was told that its commit is done. Its next transaction, dropped, would take the rows of this one with it."""
    sink = ShardSink(shard)
    sink.publish(0, 1, rows_of(0))

    def lose_markers(step: str) -> None:
        if step == "transaction_open":
            note_state(shard.bootstrap, [shard.transactional_id], COMMITTED)
            stack.kafka.restart()

    sink.announce = lose_markers
    assert sink.publish(1, 1, rows_of(1))[1] is Published.NOW
    mark = read_seen_mark(shard)
    assert mark is not None
    assert mark.epoch == 0, "nothing hangs: this test shows nothing"

    def kill(step: str) -> None:
        raise KilledError(step)

    sink.announce = kill
    with pytest.raises(KilledError, match="transaction_open"):
        sink.publish(2, 1, rows_of(2))
    assert ShardSink(shard).publish(2, 1, rows_of(2))[1] is Published.NOW
    assert_visible(shard, names_of(0, 1, 2))


def test_a_transaction_of_somebody_else_is_left_alone(shard: ShardAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    ShardSink(shard).publish(0, 1, rows_of(0))
    foreign = Producer({"bootstrap.servers": shard.bootstrap, "transactional.id": f"{shard.pipeline}.somebody"})
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(shard.topic, b"foreign", partition=SHARD)
    assert foreign.flush(30) == 0
    monkeypatch.setattr(hanging, "PATIENCE_S", 0.2)
    assert not hanging.end_hanging(shard, 5.0)
    foreign.commit_transaction(30)
    assert_visible(shard, [*names_of(0), "foreign"])


def test_a_transaction_that_goes_on_is_left_alone(shard: ShardAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging, "PATIENCE_S", 0.2)
    sink = ShardSink(shard)
    ended: list[bool] = []
    sink.announce = lambda step: ended.append(hanging.end_hanging(shard, 5.0)) if step == "transaction_open" else None
    assert sink.publish(0, 1, rows_of(0))[1] is Published.NOW
    assert ended == [False]
    assert read_mark(shard) is not None
