"""The gateway: what its put promises, and the name of everything that can be in the way."""

from __future__ import annotations

import errno
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError

from effectively_once.gateway import GatewayClosedError, Limits, RecordId, UndeliveredError, client, json_record, sender
from effectively_once.gateway.buffer import Buffer
from tests.harness.workload.record import encode
from tests.unit.gateway.conftest import OpenGateway
from tests.unit.gateway.disks import HeldDisk
from tests.unit.gateway.fake_client import FakeBroker, Sent


def test_a_record_is_sent_with_id_and_event_time_and_is_gone_from_the_buffer_when_it_is_acknowledged(
    broker: FakeBroker, open_gateway: OpenGateway, tmp_path: Path
) -> None:
    with open_gateway() as gateway:
        identity = gateway.put(b"\x00raw", key="ann", event_time_ms=17)
        gateway.flush(10)
        assert broker.copies == [
            Sent("events", b"\x00raw", b"ann", {"id": str(identity).encode(), "event-time-ms": b"17"}, single=False)
        ]
        assert gateway.counters == client.Counters(put=1, sent=1, acknowledged=1, resent=0, in_buffer_bytes=0)
    assert not list((tmp_path / "buffer").glob("*.segment"))


def test_a_value_that_is_built_carries_the_id_itself(broker: FakeBroker, open_gateway: OpenGateway) -> None:
    with open_gateway(build=json_record) as gateway:
        identity = gateway.put({"user": "ann", "payload": "x"}, key=b"ann", event_time_ms=17)
        gateway.flush(10)
    (copy,) = broker.copies
    assert copy.headers == {}
    assert json.loads(copy.value) == {"id": str(identity), "user": "ann", "event_time_ms": 17, "payload": "x"}


def test_the_json_is_what_the_job_reads() -> None:
    identity = RecordId("gate", "0" * 16, 1)
    ours = json_record(identity, 5, {"user": "a", "payload": "p", "crc": 3})
    assert orjson.loads(ours) == orjson.loads(encode(str(identity), "a", 5, "p", 3))


def test_the_event_time_is_now_unless_it_is_given(broker: FakeBroker, open_gateway: OpenGateway) -> None:
    before = time.time_ns() // 1_000_000
    with open_gateway() as gateway:
        gateway.put(b"x")
        gateway.flush(10)
    assert before <= int(broker.copies[0].headers["event-time-ms"]) <= time.time_ns() // 1_000_000


def test_ids_are_unique_over_threads_openings_and_a_lost_buffer(open_gateway: OpenGateway, tmp_path: Path) -> None:
    ids: list[RecordId] = []
    for lost in (False, False, True):
        gateway = open_gateway()
        with ThreadPoolExecutor(4) as pool:
            ids += pool.map(gateway.put, [b"x"] * 50)
        gateway.close()
        if lost:
            for path in (tmp_path / "buffer").iterdir():
                path.unlink()
    assert len({str(one) for one in ids}) == len({bytes(one) for one in ids}) == len(ids)
    assert {len(bytes(one)) for one in ids} == {16}
    assert all(str(one).isascii() for one in ids)


def test_what_is_not_acknowledged_is_sent_again_with_the_same_id_by_the_next_opening(
    broker: FakeBroker, open_gateway: OpenGateway
) -> None:
    broker.answers = False
    first = open_gateway()
    ids = [first.put(f"{number}".encode(), event_time_ms=number) for number in range(5)]
    first.close(timeout_s=0.2)
    broker.answers = True
    with open_gateway() as second:
        new = second.put(b"new")
        second.flush(10)
        assert second.counters.resent == second.counters.acknowledged - 1 == 5
    assert broker.values == ["0", "1", "2", "3", "4", "0", "1", "2", "3", "4", "new"]
    assert [copy.headers["id"].decode() for copy in broker.copies] == [*map(str, ids), *map(str, ids), str(new)]
    assert broker.copies[:5] == broker.copies[5:10]


def test_a_put_without_waiting_is_a_future_of_its_id(broker: FakeBroker, open_gateway: OpenGateway) -> None:
    with open_gateway(limits=Limits(sync_delay_ms=20)) as gateway:
        pending = [gateway.put(b"x", wait=False) for _ in range(100)]
        assert not any(one.cancel() for one in pending)
        assert len({one.result(10) for one in pending}) == 100
        gateway.flush(10)
        assert gateway.counters.acknowledged == 100


def test_nothing_is_sent_before_it_is_durable(
    broker: FakeBroker, open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent and then lost with the disk's cache would be put again, with an id that no catalog knows."""
    monkeypatch.setattr(client, "Buffer", partial(Buffer, open_file=HeldDisk))
    HeldDisk.spinning.set()
    gateway = open_gateway()
    gateway.put(b"before")
    gateway.flush(10)
    HeldDisk.spinning.clear()
    held = gateway.put(b"x", wait=False)
    with pytest.raises(UndeliveredError):
        gateway.flush(2 * client.IDLE_S)
    assert not held.done()
    assert broker.values == ["before"]
    HeldDisk.spinning.set()
    held.result(10)
    gateway.flush(10)
    assert broker.values == ["before", "x"]


def test_a_flush_that_ends_too_early_says_what_is_in_the_way(broker: FakeBroker, open_gateway: OpenGateway) -> None:
    broker.answers = False
    gateway = open_gateway()
    gateway.put(b"x")
    with pytest.raises(UndeliveredError, match=r"bytes are not acknowledged after 0\.05 s"):
        gateway.flush(0.05)
    broker.answers = True
    gateway.flush(10)


def test_flush_of_nothing_returns(open_gateway: OpenGateway) -> None:
    with open_gateway() as gateway:
        gateway.flush(1)
    with open_gateway() as again:
        again.flush(1)


def test_nothing_is_accepted_after_close(open_gateway: OpenGateway) -> None:
    gateway = open_gateway()
    gateway.close()
    gateway.close()
    with pytest.raises(GatewayClosedError, match="closed"):
        gateway.put(b"x")


def test_a_refused_record_is_sent_again_on_its_own_and_holds_up_no_other(
    broker: FakeBroker, open_gateway: OpenGateway
) -> None:
    """A broker refuses a whole batch for its size."""
    broker.judge = lambda copy: None if copy.single else KafkaError.MSG_SIZE_TOO_LARGE
    with open_gateway() as gateway:
        for number in range(3):
            gateway.put(f"{number}".encode())
        gateway.flush(10)
        assert sorted(broker.values) == ["0", "1", "2"]
        assert gateway.counters.resent == 3
        broker.judge = lambda copy: KafkaError.MSG_SIZE_TOO_LARGE if copy.value == b"large" else None
        gateway.put(b"large")
        gateway.put(b"small")
        with pytest.raises(UndeliveredError, match="refused"):
            gateway.flush(0.3)
        assert broker.values[-1] == "small"
        broker.judge = lambda _: None
        gateway.flush(10)
        assert broker.values[-1] == "large"


def test_a_topic_that_does_not_exist_yet_is_waited_for(broker: FakeBroker, open_gateway: OpenGateway) -> None:
    broker.judge = lambda _: KafkaError._UNKNOWN_TOPIC
    with open_gateway() as gateway:
        gateway.put(b"x")
        with pytest.raises(UndeliveredError, match="refused"):
            gateway.flush(0.1)
        broker.judge = lambda _: None
        gateway.flush(10)
    assert broker.values == ["x"]


def test_a_client_without_room_holds_up_neither_put_nor_close(broker: FakeBroker, open_gateway: OpenGateway) -> None:
    broker.answers, broker.room = False, 2
    gateway = open_gateway()
    for number in range(6):
        gateway.put(f"{number}".encode())
    gateway.close(timeout_s=0.05)
    assert len(broker.values) <= 2
    broker.answers = True
    with open_gateway() as again:
        again.flush(10)
    assert list(dict.fromkeys(broker.values)) == ["0", "1", "2", "3", "4", "5"]


def test_copies_that_the_client_sent_by_itself_are_counted(
    broker: FakeBroker, open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[Any] = []

    def connect(config: dict[str, Any]) -> Any:
        clients.append(broker.connect(config))
        return clients[-1]

    monkeypatch.setattr(sender, "Producer", connect)
    with open_gateway() as gateway:
        gateway.put(b"x")
        gateway.flush(10)
        clients[0].tell(3)
        counters = gateway.counters
        assert (counters.put, counters.sent, counters.acknowledged, counters.resent) == (1, 3, 1, 2)


def test_a_buffer_that_is_taken_away_stops_the_gateway_by_name(
    broker: FakeBroker, open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Buffer) -> None:
        raise FileNotFoundError(errno.ENOENT, "gone")

    gateway = open_gateway()
    monkeypatch.setattr(Buffer, "read", gone)
    gateway.put(b"x")
    with pytest.raises(GatewayClosedError, match="FileNotFoundError"):
        gateway.flush(10)
    with pytest.raises(GatewayClosedError, match="FileNotFoundError"):
        gateway.put(b"x")
    gateway.close()


def test_a_writer_that_fails_lets_no_caller_wait(
    broker: FakeBroker, open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = open_gateway()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Buffer, "append", broken)
    with pytest.raises(ZeroDivisionError):
        gateway.put(b"x")
    with pytest.raises(GatewayClosedError, match="ZeroDivisionError"):
        gateway.put(b"x")
    gateway.close()


def test_what_an_opening_passed_over_is_told(
    broker: FakeBroker, open_gateway: OpenGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker.answers = False
    gateway = open_gateway()
    gateway.put(b"accepted")
    gateway.put(b"torn")
    gateway.close(timeout_s=0)
    assert gateway.repairs == ()
    (path,) = (tmp_path / "buffer").glob("*.segment")
    path.write_bytes(path.read_bytes()[:-1])
    broker.answers = True
    broker.copies.clear()
    with open_gateway() as again:
        assert [repair.torn_end for repair in again.repairs] == [True]
        again.flush(10)
    assert "torn by a crash" in caplog.text
    assert broker.values == ["accepted"]
