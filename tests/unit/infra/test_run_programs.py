"""The programs that `make run` writes: what they cannot send or show is one line, and the rest is sent and shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from infra import templating
from infra.embedded.run import TEMPLATES

TOPIC = "clicks_events"
PIPELINE = "clicks"
SINK = f"{PIPELINE}.accepted"


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A broker of the client's own kind, inside of this process."""
    broker = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    (there,) = broker.list_topics(timeout=10).brokers.values()
    yield f"{there.host}:{there.port}"
    broker.flush(1)


def program(folder: Path, name: str, bootstrap: str) -> Path:
    path = folder / name
    settings = {"kafka_bootstrap": bootstrap, "topic": TOPIC, "pipeline": PIPELINE}
    path.write_text(
        templating.render(
            TEMPLATES / f"{name}.py.j2",
            python=sys.executable,
            settings=settings,
            path=[],
            environment={},
            kafka=["accepted"],
            files=[],
            tables=[],
            lake=[],
        )
    )
    return path


def played(path: Path, *words: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, path, *words], input=text, capture_output=True, timeout=60, check=False)


def received(bootstrap: str, number: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "log_level": 0})
    partitions = consumer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    consumer.assign([TopicPartition(TOPIC, one, OFFSET_BEGINNING) for one in partitions])
    try:
        return [message.value() for message in consumer.consume(number, timeout=10)]
    finally:
        consumer.close()


def test_a_line_that_is_too_long_is_named_and_all_others_are_sent(tmp_path: Path, bootstrap: str) -> None:
    lines = [b"first", b"x" * 1_100_000, b"third", b"y" * 2_000_000, b"last"]
    done = played(program(tmp_path, "send", bootstrap), text=b"\n".join(lines) + b"\n")
    assert done.returncode == 1
    (told,) = done.stderr.decode().splitlines()
    assert told.startswith("2 records were not taken, all others are sent; the first is line 2 of 1,100,000 bytes: ")
    assert sorted(filter(None, received(bootstrap, 3))) == [b"first", b"last", b"third"]


def test_a_reader_that_has_seen_enough_ends_the_program_quietly(tmp_path: Path, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(20_000):
        producer.produce(SINK, b"row %d of some length" % number)
    producer.produce(SINK, None, key=b"tombstone")
    assert producer.flush(20) == 0
    path = program(tmp_path, "read", bootstrap)
    whole = played(path, "accepted")
    assert (whole.returncode, whole.stderr) == (0, b"")
    assert len(whole.stdout.splitlines()) == 20_001
    with subprocess.Popen([sys.executable, path, "accepted"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        # A row, or the empty line of the tombstone: partitions come in any order.
        assert child.stdout.readline().endswith(b"\n")
        child.stdout.close()
        assert child.wait(60) == 0
        assert child.stderr.read() == b""
