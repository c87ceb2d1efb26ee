"""What tests of a gateway share: a broker behind a link with faults, topics on it, and senders that are killed."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic

from infra.embedded.kafka import KafkaBroker
from infra.embedded.ports import HOST
from infra.embedded.process import wait_for
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk
from tests.stack import put_records
from tests.stack.faulty_link import FaultyLink
from tests.stack.reader import messages

PARTITIONS = 2


@dataclass(frozen=True)
class Place:
    """A topic, the broker's own address, and the link by which gateways reach it."""

    topic: str
    bootstrap: str
    link: FaultyLink

    @classmethod
    def made(cls, broker: KafkaBroker, link: FaultyLink) -> Place:
        """Create a topic that no other test uses."""
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        name = f"events-{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
        wait_for(
            f"topic {name}", 30, lambda: len(admin.list_topics(name, timeout=5).topics[name].partitions) == PARTITIONS
        )
        return cls(name, broker.bootstrap, link)

    def copies(self) -> list[Message]:
        """Read all copies of all records, in the order of each partition."""
        return [one for number in range(PARTITIONS) for one in messages(self.bootstrap, self.topic, number)]


@contextmanager
def linked_broker(folder: Path, link: FaultyLink) -> Iterator[KafkaBroker]:
    """Start a broker that sends the clients of its second listener to the link."""
    jars = resolve_jars(Cache(cache_root()), "kafka")
    one = KafkaBroker(folder / "work", folder / "kafka.log", find_jdk().java, jars, link=link.port)
    try:
        one.start()
        link.target = (HOST, one.link_port)
        yield one
    finally:
        one.stop()


def child(place: Place, directory: Path, die_at: str = "", what: str = put_records.BYTES) -> subprocess.Popen[str]:
    """Start a process that puts records for ever; see `put_records`."""
    words = [str(directory), place.link.address, place.topic, die_at, what]
    return subprocess.Popen([sys.executable, "-m", put_records.__name__, *words], stdout=subprocess.PIPE, text=True)


def read_until_killed(child: subprocess.Popen[str], kill: Callable[[int], bool]) -> list[str]:
    """Read the ids a child prints, kill it once `kill` is true of their number, and read the rest."""
    assert child.stdout is not None
    ids: list[str] = []
    with child:
        for line in child.stdout:
            # Cut off by the kill: that put had returned, but its id is not known to anybody.
            ids += [line.strip()] if line.endswith("\n") else []
            if kill(len(ids)):
                child.kill()
    return ids
