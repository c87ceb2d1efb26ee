"""The Kafka sink: rows and progress mark in one transaction, so that a repeat of any kind doubles nothing (R8)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.sinks import kafka
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import Row, ShardAddress, read_mark
from effectively_once.sinks.publish import (
    Commit,
    Committed,
    FencedError,
    Mark,
    Open,
    Published,
    SinkAnswer,
    SinkRequest,
)
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from tests.stack import publish_and_hang
from tests.stack.conftest import Topic
from tests.stack.kafka_rows import assert_visible, mark_epoch, names_of, rows_of, visible
from tests.stack.paused import pause_broker
from tests.stack.reader import messages, values

pytestmark = pytest.mark.stack


class Watched(ShardSink):
    """A sink that remembers what it asked of the broker."""

    def __init__(self, address: ShardAddress) -> None:
        super().__init__(address)
        self.asked: list[str] = []

    def _answer(self, request: SinkRequest, rows: Sequence[Row]) -> SinkAnswer:
        self.asked.append(type(request).__name__)
        return super()._answer(request, rows)


def test_rows_and_mark_of_an_epoch_become_visible_together(shard: ShardAddress) -> None:
    sink = ShardSink(shard)
    steps: list[tuple[str, int | None]] = []

    def look(step: str) -> None:
        if step == "committed":
            # A broker answers a commit before readers of committed data see it.
            wait_for("two rows", 30, lambda: len(visible(shard)) == 2)
        steps.append((step, len(visible(shard))))

    sink.announce = look
    content, published = sink.publish(0, 7, [(b"ann", b"one"), (None, b"two")])
    assert (content.rows, published) == (2, Published.NOW)
    assert steps == [("transaction_open", 0), ("committed", 2)]
    assert [(m.key(), m.value()) for m in messages(shard.bootstrap, shard.topic, 1)] == [
        (b"ann", b"one"),
        (None, b"two"),
    ]
    assert read_mark(shard) == Mark(0, 7, 2, content.digest)
    # The other shard has rows and marks of its own.
    assert values(shard.bootstrap, shard.topic, 0) == []
    assert mark_epoch(ShardAddress(shard.bootstrap, shard.pipeline, shard.sink, 0)) is None


def test_a_kept_producer_publishes_one_epoch_after_another_without_asking(shard: ShardAddress) -> None:
    sink = Watched(shard)
    for epoch in range(3):
        assert sink.publish(epoch, 1, rows_of(epoch))[1] is Published.NOW
    assert sink.asked == ["Open", "EndHanging", "ReadMark", *["Commit", "EndHanging"] * 2, "Commit"]
    assert_visible(shard, names_of(0, 1, 2))


def test_an_epoch_without_rows_writes_its_mark(shard: ShardAddress) -> None:
    sink = ShardSink(shard)
    for epoch in range(3):
        assert sink.publish(epoch, 1, [])[1] is Published.NOW
    assert (mark_epoch(shard), visible(shard)) == (2, [])
    assert ShardSink(shard).publish(2, 1, [])[1] is Published.BEFORE
    with pytest.raises(SinkError, match="epoch 2 is published with digest"):
        ShardSink(shard).publish(2, 1, rows_of(2))


def test_a_repeat_finds_the_epoch_published_whoever_repeats_it(shard: ShardAddress) -> None:
    sink = ShardSink(shard)
    content, _ = sink.publish(0, 1, rows_of(0))
    for repeater in (sink, ShardSink(shard), sink):
        assert repeater.publish(0, 2, rows_of(0)[::-1]) == (content, Published.BEFORE)
    assert_visible(shard, names_of(0))
    mark = read_mark(shard)
    assert mark is not None
    assert mark.generation == 1  # of the driver whose rows they are


def test_an_epoch_older_than_the_mark_is_not_published_again(shard: ShardAddress) -> None:
    sink = ShardSink(shard)
    for epoch in range(3):
        sink.publish(epoch, 1, rows_of(epoch))
    assert ShardSink(shard).publish(1, 1, rows_of(1))[1] is Published.BEFORE
    assert (visible(shard), mark_epoch(shard)) == (names_of(0, 1, 2), 2)


@pytest.mark.parametrize("repeat", [[], rows_of(0, 2), rows_of(0, 4), rows_of(1)])
def test_a_repeat_with_other_rows_is_an_error_and_publishes_nothing(shard: ShardAddress, repeat: list[Row]) -> None:
    ShardSink(shard).publish(0, 1, rows_of(0))
    with pytest.raises(SinkError, match=r"epoch 0 is published with digest .*sink accepted shard 1"):
        ShardSink(shard).publish(0, 2, repeat)
    assert_visible(shard, names_of(0))


def test_without_the_check_of_the_mark_a_repeat_doubles_rows(shard: ShardAddress) -> None:
    """The negative control of this suite: a reader that could not see doubles would prove nothing."""
    for _ in range(2):
        sink = ShardSink(shard)
        sink._answer(Open(), [])
        assert sink._answer(Commit(Mark(0, 1, 3, "any")), rows_of(0)) is Committed.YES
    assert_visible(shard, names_of(0, 0))


def test_a_sink_that_missed_epochs_opens_anew_and_reads_the_mark(shard: ShardAddress) -> None:
    watched, other = Watched(shard), ShardSink(shard)
    watched.publish(0, 1, rows_of(0))
    other.publish(1, 1, rows_of(1))  # the shard's task ran on another executor for a while
    other.publish(2, 1, rows_of(2))
    watched.asked.clear()
    assert watched.publish(2, 1, rows_of(2))[1] is Published.BEFORE
    assert watched.publish(3, 1, rows_of(3))[1] is Published.NOW
    assert watched.asked == [*["Open", "EndHanging", "ReadMark"] * 2, "Commit"]
    assert_visible(shard, names_of(0, 1, 2, 3))


@pytest.mark.parametrize("number", [0, 1, 5000])
def test_a_second_sink_of_a_shard_fences_the_first(shard: ShardAddress, number: int) -> None:
    first, second = ShardSink(shard), ShardSink(shard)
    first.publish(0, 1, rows_of(0))
    assert second.publish(0, 2, rows_of(0))[1] is Published.BEFORE
    lost = [(None, f"fenced-{n}".encode()) for n in range(number)]
    with pytest.raises(FencedError, match="sink accepted shard 1"):
        first.publish(1, 1, lost)
    assert (visible(shard), mark_epoch(shard)) == (names_of(0), 0)
    assert second.publish(1, 2, rows_of(1))[1] is Published.NOW
    # Asked again, the fenced one looks before it publishes: with other rows it is refused, not obeyed.
    with pytest.raises(SinkError, match="epoch 1 is published with digest"):
        first.publish(1, 1, [*lost, (None, b"other")])
    assert_visible(shard, names_of(0, 1))


def test_a_sink_that_is_fenced_while_its_transaction_is_open_publishes_nothing(shard: ShardAddress) -> None:
    first, second = ShardSink(shard), ShardSink(shard)
    results: list[Published] = []

    def overtaken(step: str) -> None:
        if step == "transaction_open" and not results:
            results.append(second.publish(0, 2, rows_of(0))[1])

    first.announce = overtaken
    with pytest.raises(FencedError):
        first.publish(0, 1, rows_of(0))
    assert results == [Published.NOW]
    assert_visible(shard, names_of(0))
    mark = read_mark(shard)
    assert mark is not None
    assert mark.generation == 2


@contextmanager
def _hanging(shard: ShardAddress, epoch: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that hangs with the epoch's transaction open."""
    command = [sys.executable, str(Path(publish_and_hang.__file__)), shard.bootstrap, shard.pipeline, shard.sink]
    environment = {**os.environ, "PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
    with subprocess.Popen([*command, str(shard.shard), str(epoch)], env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"transaction_open\n"
            yield process
        finally:
            process.kill()


def test_a_producer_killed_with_its_transaction_open_leaves_nothing_and_blocks_nobody(shard: ShardAddress) -> None:
    ShardSink(shard).publish(0, 1, rows_of(0))
    with _hanging(shard, 1) as process:
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    # Its rows are at the broker, and no reader of committed records sees them; nor is the mark hidden by its own.
    assert values(shard.bootstrap, shard.topic, 1, "read_uncommitted") == names_of(0, 1)
    assert (visible(shard), mark_epoch(shard)) == (names_of(0), 0)
    assert ShardSink(shard).publish(1, 2, rows_of(1))[1] is Published.NOW
    assert (visible(shard), mark_epoch(shard)) == (names_of(0, 1), 1)


def test_a_producer_stopped_with_its_transaction_open_is_fenced_when_it_wakes(shard: ShardAddress) -> None:
    with _hanging(shard, 0) as zombie:
        zombie.send_signal(signal.SIGSTOP)
        assert ShardSink(shard).publish(0, 2, rows_of(0))[1] is Published.NOW
        zombie.send_signal(signal.SIGCONT)
        assert (visible(shard), mark_epoch(shard)) == (names_of(0), 0)


class Impatient(ShardSink):
    """A sink whose first commit has an outcome it never hears of."""

    def __init__(self, address: ShardAddress, took_place: bool) -> None:
        super().__init__(address)
        self.commits = 0
        self._took_place = took_place

    def _commit(self, mark: Mark, rows: Sequence[Row]) -> Committed:
        self.commits += 1
        if self.commits > 1 or self._took_place:
            answer = super()._commit(mark, rows)
            return answer if self.commits > 1 else Committed.UNKNOWN
        assert self._producer is not None
        self._producer.begin_transaction()
        self._producer.produce(self.address.topic, b"of the lost commit", partition=self.address.shard)
        self._producer.flush(10)
        return Committed.UNKNOWN


@pytest.mark.parametrize("took_place", [True, False])
def test_a_commit_of_unknown_outcome_is_settled_by_the_mark(shard: ShardAddress, took_place: bool) -> None:
    sink = Impatient(shard, took_place)
    expected = Published.BEFORE if took_place else Published.NOW
    assert sink.publish(0, 1, rows_of(0))[1] is expected
    assert (visible(shard), mark_epoch(shard)) == (names_of(0), 0)
    assert sink.publish(1, 1, rows_of(1))[1] is Published.NOW
    assert_visible(shard, names_of(0, 1))


class Stalling(ShardSink):
    """A sink whose broker stops as it commits and goes on when the commit has timed out."""

    def __init__(self, address: ShardAddress, stack: EmbeddedStack) -> None:
        super().__init__(address, self._stall)
        self.commits: list[Committed] = []
        self._stack = stack

    def _stall(self, step: str) -> None:
        if step == "transaction_open" and not self.commits:
            pause_broker(self._stack)

    def _commit(self, mark: Mark, rows: Sequence[Row]) -> Committed:
        try:
            answer = super()._commit(mark, rows)
        finally:
            self._stack.kafka.signal(signal.SIGCONT)
        self.commits.append(answer)
        return answer


def test_a_broker_that_stalls_during_a_commit_doubles_and_loses_nothing(
    shard: ShardAddress, stack: EmbeddedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Stalling(shard, stack)
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "COMMIT_TIMEOUT_S", 1.0)
        # The time-out is a second for the flush before the stall, too; what follows it may take its time.
        original = kafka._open

        def opened(address: ShardAddress) -> Producer:
            if sink.commits:
                patch.setattr(kafka, "COMMIT_TIMEOUT_S", 20.0)
            return original(address)

        patch.setattr(kafka, "_open", opened)
        sink.publish(0, 1, rows_of(0))
    assert sink.commits[0] is Committed.UNKNOWN
    assert (visible(shard), mark_epoch(shard)) == (names_of(0), 0)


def test_a_broker_restarted_between_epochs_is_survived_by_a_kept_producer(
    shard: ShardAddress, stack: EmbeddedStack
) -> None:
    sink = ShardSink(shard)
    sink.publish(0, 1, rows_of(0))
    stack.kafka.restart()
    assert sink.publish(1, 1, rows_of(1))[1] in (Published.NOW, Published.BEFORE)
    assert (visible(shard), mark_epoch(shard)) == (names_of(0, 1), 1)


def test_a_broker_killed_in_an_open_transaction_doubles_and_loses_nothing(
    shard: ShardAddress, stack: EmbeddedStack
) -> None:
    sink = ShardSink(shard)
    sink.publish(0, 1, rows_of(0))
    killed: list[int] = []

    def kill(step: str) -> None:
        if step == "transaction_open" and not killed:
            killed.append(stack.kafka.pid)
            stack.kafka.kill()
            stack.kafka.restart()

    sink.announce = kill
    sink.publish(1, 1, rows_of(1))
    assert killed
    assert killed != [stack.kafka.pid]
    assert (visible(shard), mark_epoch(shard)) == (names_of(0, 1), 1)


def test_a_progress_topic_that_was_made_anew_while_a_driver_ran_is_refused(
    shard: ShardAddress, topic: Topic, admin: AdminClient
) -> None:
    """By whoever reads the mark next; without that, its epoch would be shown twice."""
    sink = ShardSink(shard)
    for epoch in range(3):
        sink.publish(epoch, 1, rows_of(epoch))
    admin.delete_topics([shard.progress])[shard.progress].result(30)
    wait_for("the topic gone", 30, lambda: shard.progress not in admin.list_topics(timeout=10).topics)
    topic(shard.progress, 2, cleanup_policy="compact")
    for epoch in (2, 3):
        with pytest.raises(SinkError, match="progress mark -1 lies outside the chain's"):
            ShardSink(shard).publish(epoch, 1, rows_of(epoch))
    assert_visible(shard, names_of(0, 1, 2))


def test_a_mark_behind_an_open_transaction_of_somebody_else_is_not_taken_for_the_one_before(
    shard: ShardAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever read up to there would publish the epoch behind it a second time."""
    kept = ShardSink(shard)
    kept.publish(0, 1, rows_of(0))
    foreign = Producer({"bootstrap.servers": shard.bootstrap, "transactional.id": f"{shard.pipeline}.somebody"})
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(shard.progress, b"{}", b"not ours", partition=1)
    foreign.flush(30)
    assert kept.publish(1, 1, rows_of(1))[1] is Published.NOW
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "COMMIT_TIMEOUT_S", 2.0)
        with pytest.raises(UnreachableError, match=r"the end of .*progress partition 1 was not reached in 2 s"):
            ShardSink(shard).publish(1, 1, rows_of(1))
    assert mark_epoch(shard) == 0  # as readers who disturb nobody see it
    foreign.abort_transaction(30)
    assert ShardSink(shard).publish(1, 1, rows_of(1))[1] is Published.BEFORE
    assert_visible(shard, names_of(0, 1))
