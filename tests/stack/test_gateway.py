"""Between gateway and broker every ambiguous failure becomes a duplicate, none a loss; the catalog removes it (S2)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from effectively_once.gateway import Gateway, Limits, UndeliveredError
from effectively_once.state.catalog import Catalog
from effectively_once.state.lateness import Windows
from infra.embedded.kafka import KafkaBroker
from infra.embedded.process import wait_for
from tests.stack.faulty_link import Fault, FaultyLink
from tests.stack.gateways import PARTITIONS, Place, child, linked_broker, read_until_killed

pytestmark = pytest.mark.stack

ANSWER_TIMEOUT_S = 1.0
LIMITS = Limits(answer_timeout_s=ANSWER_TIMEOUT_S)
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "send-from-a-gateway.md"


@pytest.fixture(scope="module")
def link() -> Iterator[FaultyLink]:
    with FaultyLink() as one:
        yield one


@pytest.fixture(scope="module")
def broker(link: FaultyLink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with linked_broker(tmp_path_factory.mktemp("kafka"), link) as one:
        yield one


@pytest.fixture
def place(broker: KafkaBroker, link: FaultyLink) -> Place:
    return Place.made(broker, link)


@pytest.fixture
def open_gateway(place: Place, tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Open gateways on one directory, behind the link."""
    left: list[Gateway] = []

    def opened(**arguments: Any) -> Gateway:
        left.append(
            Gateway(
                tmp_path / "buffer",
                producer="gate",
                topic=place.topic,
                bootstrap=place.link.address,
                **{"limits": LIMITS, **arguments},
            )
        )
        return left[-1]

    yield opened
    place.link.heal()
    for one in left:
        one.close(timeout_s=0)


def _put(gateway: Gateway, numbers: Iterable[int]) -> list[str]:
    pending = [
        gateway.put(f"{number}".encode(), key=f"key-{number % 7}", event_time_ms=number, wait=False)
        for number in numbers
    ]
    return [str(one.result(30)) for one in pending]


def _ids(copies: list[Message]) -> list[str]:
    return [dict(copy.headers())["id"].decode() for copy in copies]


def _judge(place: Place, ids: list[str], *, more: int = 0) -> int:
    """Assert that nothing is missing and that the catalog leaves every id once; return the number of duplicates.

    `more` is the number of records that a killed sender may have accepted without having told of them.
    """
    copies = place.copies()
    found = _ids(copies)
    assert set(ids) <= set(found)
    assert len(set(found) - set(ids)) <= more
    assert len(set(ids)) == len(ids)
    # The copies of a record are the same in every byte that a pipeline looks at.
    assert len({(copy.key(), copy.value(), tuple(copy.headers())) for copy in copies}) == len(set(found))
    left = Catalog(Windows(1000, 0)).decide(pa.array(found, pa.string()))
    accepted = [identity for identity, new in zip(found, left, strict=True) if new]
    assert sorted(accepted) == sorted(set(found))
    # And each partition's first copies are in the order of the puts.
    for number in range(PARTITIONS):
        first = dict.fromkeys(_ids([copy for copy in copies if copy.partition() == number]))
        assert [one for one in ids if one in first] == [one for one in first if one in set(ids)]
    return sum(Counter(found).values()) - len(set(found))


def test_without_a_fault_every_record_is_there_once(place: Place, open_gateway: Callable[..., Gateway]) -> None:
    with open_gateway() as gateway:
        ids = _put(gateway, range(2000))
        gateway.flush(30)
        assert (gateway.counters.put, gateway.counters.acknowledged, gateway.counters.in_buffer_bytes) == (
            2000,
            2000,
            0,
        )
    assert _judge(place, ids) == 0


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.HOLD, Fault.CUT], ids=["lost", "late", "connection reset"])
def test_an_acknowledgement_that_does_not_arrive_becomes_a_duplicate_and_no_loss(
    place: Place, open_gateway: Callable[..., Gateway], fault: Fault
) -> None:
    """The broker has the records and says so; the gateway hears nothing, or too late, or a reset, and sends again."""
    link = place.link
    with open_gateway() as gateway:
        ids = _put(gateway, range(50))
        gateway.flush(30)
        hits, connections = link.hits, link.accepted
        with link.fault(fault):
            ids += _put(gateway, range(50, 450))
            # The answer was withheld, and the gateway has given that connection up.
            wait_for("a withheld answer", 20, lambda: link.hits > hits and link.accepted > connections)
            with pytest.raises(UndeliveredError):
                gateway.flush(0)
            ids += _put(gateway, range(450, 600))
        gateway.flush(30)
        wait_for("the count of copies", 20, lambda: gateway.counters.resent > 0)
        assert gateway.counters.acknowledged == 600
    assert _judge(place, ids) > 0


def test_while_the_broker_is_away_records_wait_and_none_is_sent_twice(
    place: Place, open_gateway: Callable[..., Gateway]
) -> None:
    with place.link.fault(Fault.REFUSE):
        gateway = open_gateway()
        ids = _put(gateway, range(300))
        with pytest.raises(UndeliveredError, match="last obstacle"):
            gateway.flush(0.5)
        gateway.close(timeout_s=0)
    with open_gateway() as again:
        again.flush(30)
        assert again.counters.acknowledged == 300
    assert _judge(place, ids) == 0


def test_a_sender_killed_while_it_sends_loses_nothing_that_it_had_accepted(
    place: Place, open_gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    """Answers are lost, so that records are at the broker, in flight and only on the disk when it dies."""
    hits = place.link.hits
    with place.link.fault(Fault.LOSE, after=b"child-"):
        ids = read_until_killed(
            child(place, tmp_path / "buffer"), lambda number: number > 100 and place.link.hits > hits
        )
    with open_gateway() as gateway:
        gateway.flush(30)
        assert gateway.counters.resent >= len(ids)
    assert _judge(place, ids, more=1) > 0


def test_a_sender_killed_between_buffer_and_send_has_sent_it_all_after_its_restart(
    place: Place, open_gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    with place.link.fault(Fault.REFUSE):
        ids = read_until_killed(child(place, tmp_path / "buffer"), lambda number: number > 100)
        assert place.copies() == []
    with open_gateway() as gateway:
        gateway.flush(30)
    assert _judge(place, ids, more=1) == 0


@pytest.mark.parametrize("step", ["buffered", "acknowledged"])
def test_a_sender_that_dies_at_a_step_again_and_again_leaves_no_gap(
    place: Place, open_gateway: Callable[..., Gateway], tmp_path: Path, step: str
) -> None:
    ids: list[str] = []
    deaths = 3
    for _ in range(deaths):
        ids += read_until_killed(child(place, tmp_path / "buffer", step), lambda _: False)
    with open_gateway() as gateway:
        gateway.flush(30)
    duplicates = _judge(place, ids, more=deaths)
    if step == "acknowledged":
        assert duplicates > 0
    else:
        # It dies before its first put returns: what is there was in the buffer, and nothing else.
        assert ids == []
        assert len(set(_ids(place.copies()))) == deaths


def test_the_example_of_the_page_runs(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only address, topic and directory are put in."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for ours, theirs in (
        ("127.0.0.1:12092", place.bootstrap),
        ("/var/lib/gateway", str(tmp_path)),
        ("events", place.topic),
    ):
        assert f'"{ours}"' in example
        example = example.replace(f'"{ours}"', f'"{theirs}"')
    exec(compile(example, str(PAGE), "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
    records = [json.loads(copy.value()) for copy in place.copies()]
    assert Counter(record["user"] for record in records) == {"ann": 1, "bob": 100, "cy": 1}
    assert len({record["id"] for record in records}) == 102
