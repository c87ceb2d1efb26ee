"""Input that the real broker deleted before it was read: refused by name, accepted by command, gone on behind."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from effectively_once.driver.preflight import Preflight
from effectively_once.errors import ControlError, SinkError, SourceError
from effectively_once.operate.inspect.start_check import start_check
from effectively_once.sources.kafka import END, KafkaSource
from tests.stack.life_cycle import Command, documented
from tests.stack.lines import OLD, ROWS, Lines

pytestmark = pytest.mark.stack

LOOK = "effectively-once accept-loss settings.json"
ACCEPT = "effectively-once accept-loss settings.json --yes"
GONE = 7


def lose(lines: Lines, before: int) -> None:
    """Fill the input with a hundred records, and have the broker delete those before an offset."""
    settings = lines.settings
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    for n in range(100):
        producer.produce(settings.topic, value=str(n).encode(), partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    for future in admin.delete_records([TopicPartition(settings.topic, 0, before)]).values():
        future.result()


def refusal(lines: Lines) -> str:
    """What a start is refused with."""
    found = start_check(lines.job, lines.store, OLD)
    assert isinstance(found.refusal, SourceError), found
    return str(found.refusal)


def test_lost_input_is_refused_by_name_accepted_and_gone_on_behind(lines: Lines, command: Command) -> None:
    """Without --yes it is only told; when it is done there is nothing left to do."""
    lines.start("first").run(2)
    lose(lines, 2 * ROWS + GONE)
    assert f"{GONE} offsets are gone from the topic before they were read, of partition 0 20 to 26" in refusal(lines)
    before = lines.head()
    with pytest.raises(SourceError, match="effectively-once accept-loss"):
        Preflight(lines.job, lines.layout, lines.store, KafkaSource(lines.settings)).refuse_lost_input(before)
    code, told = command(documented(LOOK))
    assert (code, told[-1]) == (0, "nothing was changed; stop every driver, then run this again with --yes")
    assert told[0] == f"gone: topic {lines.settings.topic} partition 0 offsets 20 to 26, 7 at most"
    assert lines.head() == before
    code, told = command(documented(ACCEPT))
    assert (code, told[-1]) == (0, "epoch 2 records the loss; the next driver begins behind it"), told
    lost = lines.head().tail[-1].lost
    assert lost is not None
    assert lost.offsets == {lines.settings.topic: {"0": (20, 27)}}
    assert set(lines.marks().values()) == {2}
    assert start_check(lines.job, lines.store, OLD).refusal is None
    code, told = command(ACCEPT)
    assert (code, told) == (0, ["epoch 2 records the loss of 7 offsets; nothing is left to do"])
    lines.start("second").run(1)
    due = [*range(20), *range(27, 37)]
    assert all(lines.visible(sink) == due for sink in lines.job.pipeline.sinks)


def test_a_declared_epoch_over_lost_input_is_abandoned_in_one_go(lines: Lines, command: Command) -> None:
    driver = lines.start("first")
    driver.run(2)
    driver.declare()
    lose(lines, 2 * ROWS + GONE)
    assert "epoch 2 is declared over them and cannot be finished" in refusal(lines)
    code, told = command(ACCEPT)
    assert (code, told[-1]) == (0, "epoch 3 records the loss; the next driver begins behind it"), told
    assert [(one.abandoned, one.lost is not None) for one in lines.head().tail[-2:]] == [(True, False), (True, True)]
    assert start_check(lines.job, lines.store, OLD).refusal is None


def test_one_that_is_visible_is_refused_and_nothing_is_changed(lines: Lines, command: Command) -> None:
    driver = lines.start("first")
    driver.run(2)
    driver.publish("accepted", 0, driver.declare())
    lose(lines, 2 * ROWS + GONE)
    before, marks = lines.head(), lines.marks()
    code, told = command(ACCEPT)
    assert code == SinkError.exit_code
    assert "epoch 2 is visible in sink accepted shard 0, and its input is gone" in told[-1]
    assert "one backup" in told[-1]
    assert (lines.head(), lines.marks()) == (before, marks)


def test_interrupted_it_is_finished_when_it_is_run_again(
    lines: Lines, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines.start("first").run(2)
    lose(lines, 2 * ROWS + GONE)

    def interrupting(line: str) -> None:
        if "shows nothing of it" in line:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("effectively_once.operate.life_cycle._say", interrupting)
        with pytest.raises(KeyboardInterrupt):
            command(ACCEPT)
    pinned = lines.head().declared
    assert pinned is not None
    assert pinned.lost is not None
    code, told = command(ACCEPT)
    assert (code, told[-1]) == (0, "epoch 2 records the loss; the next driver begins behind it"), told
    assert lines.head().tail[-1].lost == pinned.lost


def test_where_nothing_is_lost_there_is_nothing_to_accept(lines: Lines, command: Command) -> None:
    code, told = command(ACCEPT)
    assert (code, "no epoch has read anything" in told[-1]) == (ControlError.exit_code, True)
    lines.start("first").run(2)
    before = lines.head()
    code, told = command(ACCEPT)
    assert (code, "the topic holds all that is to be read next" in told[-1]) == (ControlError.exit_code, True)
    assert lines.head() == before


def test_the_broker_tells_the_first_offset_of_a_time_and_that_there_is_none(lines: Lines) -> None:
    lose(lines, 0)
    source = KafkaSource(lines.settings)
    assert source.offsets_since(0) == {lines.settings.topic: {"0": 0}}
    assert source.offsets_since(2**42) == {lines.settings.topic: {"0": END}}
    assert source.last_offsets() == {lines.settings.topic: {"0": 100}}
