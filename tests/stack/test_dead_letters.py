"""Dead letters on the real broker: all that is committed is read, and what is replayed arrives as it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer

from effectively_once.epoch.messages import dead_letters
from effectively_once.errors import SettingsError, SinkError, SourceError, UnreachableError
from effectively_once.operate.dead_letters.dead_letter_topic import DeadLetterTopic
from effectively_once.operate.dead_letters.replay import HEADER
from effectively_once.sinks.dead_letters import DeadLetter, Unreadable
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.kafka_shard import ShardAddress
from infra.embedded.ports import free_ports
from infra.embedded.stack import EmbeddedStack
from tests.stack.clicks import Clicks
from tests.stack.life_cycle import Command, command_on, documented
from tests.stack.reader import messages
from tests.unit.library.names import DEAD_LETTER

pytestmark = pytest.mark.stack

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("value", pa.binary()),
        ("id", pa.string()),
    ]
)
REASONS = ("not_json", "bad_time", "missing_user", "late")
COUNT = "effectively-once dead-letters count settings.json"
SHOW = "effectively-once dead-letters show settings.json --reason not_json --limit 3"
REPLAY = "effectively-once dead-letters replay settings.json"


def value_of(offset: int) -> bytes:
    """Return a record's value; each third is no text."""
    return b"\xff\x00" + bytes([offset]) if offset % 3 == 0 else f'{{"id": "i{offset}", "é": '.encode()


class Refusing(Clicks):
    """A pipeline whose records are all refused: record n by reason n mod 4, in epoch n div 8, shard n mod 2."""

    def publish(self, *epochs: int) -> None:
        for shard in range(2):
            sink = ShardSink(self.address(shard))
            for epoch in epochs:
                rows = [
                    {
                        "topic": self.settings.topic,
                        "partition": 0,
                        "offset": n,
                        "reason": REASONS[n % 4],
                        "value": value_of(n),
                        "id": f"i{n}" if n % 4 == 1 else None,
                    }
                    for n in range(8 * epoch, 8 * epoch + 8)
                    if n // 4 % 2 == shard
                ]
                sink.publish(epoch, 1, dead_letters(pa.Table.from_pylist(rows, SCHEMA), epoch))

    def address(self, shard: int) -> ShardAddress:
        return ShardAddress(self.settings.kafka_bootstrap, self.settings.pipeline, DEAD_LETTER, shard)

    def opened(self) -> Producer:
        """Begin a transaction of somebody else, with one message in the topic of dead letters."""
        bootstrap = self.settings.kafka_bootstrap
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"other.{self.settings.topic}"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(self.address(1).topic, b"{}", partition=1)
        assert producer.flush(20) == 0
        return producer

    def arrived(self, topic: str | None = None) -> list[Message]:
        return messages(self.settings.kafka_bootstrap, topic or self.settings.topic, 0)


@pytest.fixture
def clicks(stack: EmbeddedStack, pipeline: str, tmp_path: Path) -> Refusing:
    """Make a pipeline of three epochs of dead letters."""
    made = Refusing(stack, pipeline, tmp_path)
    made.publish(0, 1, 2)
    return made


@pytest.fixture
def command(clicks: Refusing, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command on this test's pipeline; return the exit code and what was said."""
    return command_on(clicks.file, capsys)


def test_dead_letters_are_counted_and_shown(command: Command) -> None:
    code, told = command(documented(COUNT))
    assert (code, told) == (
        0,
        [
            *(f"           6  {reason}  epochs 0-2" for reason in sorted(REASONS)),
            "          24  in all",
        ],
    )
    code, told = command(documented(SHOW))
    assert (code, len(told)) == (0, 3)
    assert [json.loads(line)["source"][2] for line in told] == [0, 8, 16], "shard 0 holds offsets 0 to 3 of each epoch"
    assert {json.loads(line)["reason"] for line in told} == {"not_json"}


def test_what_is_replayed_arrives_byte_for_byte_with_where_it_came_from(clicks: Refusing, command: Command) -> None:
    code, told = command(documented(REPLAY + " --reason missing_user --epochs 0-900"))
    offsets = [2, 10, 18, 6, 14, 22]
    assert (code, told) == (
        0,
        [
            f"6 of 6 records that were sent to topic {clicks.settings.topic} are acknowledged",
            "their last epoch is 2: what is refused again comes after it",
        ],
    )
    found = clicks.arrived()
    assert [one.value() for one in found] == [value_of(n) for n in offsets]
    assert [one.headers() for one in found] == [
        [(HEADER, f"{n // 8}/{clicks.settings.topic}/0/{n}".encode())] for n in offsets
    ]
    assert [one.key() for one in found] == [None] * 6


def test_late_records_stay_unless_it_is_asked_for(clicks: Refusing, command: Command) -> None:
    code, told = command(REPLAY + " --epochs 1")
    assert (code, told[:2]) == (
        0,
        [
            f"6 of 6 records that were sent to topic {clicks.settings.topic} are acknowledged",
            "not sent: 2 late",
        ],
    )
    code, told = command(REPLAY + " --reason late")
    assert code == SettingsError.exit_code
    assert "SettingsError: records that came too late are late again" in told[0]
    assert len(clicks.arrived()) == 6
    code, told = command(REPLAY + " --reason late --anyway --id none")
    assert (code, told[0].startswith("0 of 0")) == (0, True)
    assert command(REPLAY + " --reason late --anyway --epochs 1")[0] == 0
    assert len(clicks.arrived()) == 8


def test_an_edit_mends_records_on_their_way(
    clicks: Refusing, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mend.py").write_text("def record(value):\n    return None if value[0] == 255 else value + b'1}'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    line = documented(f"PYTHONPATH=. {REPLAY} --reason bad_time --edit mend:record")
    code, told = command(line)
    assert (code, told[1]) == (0, "not sent: 2 left out by the edit")
    assert [json.loads(one.value() or b"")["id"] for one in clicks.arrived()] == ["i1", "i17", "i5", "i13"]


def test_what_is_still_in_a_transaction_is_waited_for(clicks: Refusing) -> None:
    """Read up to the high watermark, whichever way the transaction ends; then its mark is the last offset."""
    ways: list[tuple[Callable[[Producer], object], int]] = [
        (lambda producer: producer.abort_transaction(20), 0),
        (lambda producer: producer.commit_transaction(20), 1),
    ]
    for end, others in ways:
        producer = clicks.opened()
        found: list[object] = []
        reader = threading.Thread(target=lambda found=found: found.extend(DeadLetterTopic(clicks.settings)))
        reader.start()
        reader.join(1.5)
        assert reader.is_alive(), "the end cannot be reached yet"
        end(producer)
        reader.join(20)
        assert not reader.is_alive()
        assert (sum(isinstance(one, Unreadable) for one in found), len(found)) == (others, 24 + others)


def test_a_transaction_that_stays_open_is_named(clicks: Refusing) -> None:
    producer = clicks.opened()
    with pytest.raises(UnreachableError, match=r"nothing came for 0.5 s, read up to offset \d+ of \d+ .*partition 1"):
        list(DeadLetterTopic(clicks.settings, silence_s=0.5))
    producer.abort_transaction(20)


def test_what_comes_while_it_is_read_is_left_for_the_next_time(clicks: Refusing) -> None:
    reading = iter(DeadLetterTopic(clicks.settings))
    first = next(reading)
    clicks.publish(3)
    assert 1 + sum(1 for _ in reading) == 24
    assert isinstance(first, DeadLetter)
    assert sum(1 for _ in DeadLetterTopic(clicks.settings)) == 32


def test_topics_that_are_missing_and_brokers_that_are_silent_are_named(clicks: Refusing, command: Command) -> None:
    code, told = command(REPLAY + " --to no-such-topic")
    assert code == SourceError.exit_code
    assert told == ["SourceError: the topic does not exist (topic no-such-topic). Create it, or name another."]
    code, told = command(REPLAY + f" --to {clicks.settings.pipeline}.accepted")
    assert (code, "belongs to a sink" in told[0]) == (SettingsError.exit_code, True)
    missing = clicks.settings.model_copy(update={"pipeline": "nobody"})
    with pytest.raises(SinkError, match=r"topic nobody\.dead_letter does not exist"):
        list(DeadLetterTopic(missing))
    (port,) = free_ports(1)
    silent = {"kafka_bootstrap": f"127.0.0.1:{port}", "start_patience_s": 1.0}
    clicks.file.write_text(clicks.settings.model_copy(update=silent).model_dump_json())
    for line in (COUNT, REPLAY):
        code, told = command(line)
        assert (code, "UnreachableError: the Kafka broker does not answer" in told[0]) == (69, True)
