"""A gateway without room, in its bounds or on its disk: what is refused, what waits, and for how long."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from effectively_once.gateway import BufferDiskError, BufferFullError, Gateway, GatewayClosedError, Limits, client
from effectively_once.gateway.buffer import Buffer
from tests.unit.gateway.conftest import OpenGateway
from tests.unit.gateway.disks import FullDisk
from tests.unit.gateway.fake_client import FakeBroker

pytestmark = pytest.mark.timeout(20)  # a put that waits for ever fails, where it could not be told from a slow test
SMALL = Limits(capacity_bytes=1000, record_bytes_max=500, segment_bytes=1024)


@pytest.fixture
def full(broker: FakeBroker, open_gateway: OpenGateway) -> OpenGateway:
    """Open a gateway whose bound is reached by two records, which its broker does not answer."""

    def opened(**how: Any) -> Gateway:
        broker.answers = False
        gateway = open_gateway(limits=SMALL, **how)
        gateway.put(b"a" * 400)
        gateway.put(b"b" * 400)
        return gateway

    return opened


def test_beyond_the_bound_a_put_is_refused_and_accepted_when_there_is_room(
    broker: FakeBroker, full: OpenGateway
) -> None:
    gateway = full()
    with pytest.raises(BufferFullError, match="1000 may be"):
        gateway.put(b"c" * 400)
    assert gateway.counters.put == 2
    broker.answers = True
    gateway.flush(10)
    gateway.put(b"c" * 400)
    gateway.flush(10)
    assert [value[0] for value in broker.values] == ["a", "b", "c"]


def test_a_full_buffer_is_still_full_after_a_new_opening(full: OpenGateway, open_gateway: OpenGateway) -> None:
    with full() as gateway:
        held = gateway.counters.in_buffer_bytes
        gateway.close(timeout_s=0)
    again = open_gateway(limits=SMALL)
    assert again.counters.in_buffer_bytes == held
    with pytest.raises(BufferFullError):
        again.put(b"c" * 400)


def test_by_choice_a_put_waits_for_room(broker: FakeBroker, full: OpenGateway) -> None:
    gateway = full(when_full="wait")
    with pytest.raises(BufferFullError):
        gateway.put(b"c" * 400, timeout_s=0.05)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gateway.put, b"d" * 400)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        broker.answers = True
        waiting.result(10)
    gateway.flush(10)
    assert [value[0] for value in broker.values] == ["a", "b", "d"]


def test_a_put_that_waits_for_room_ends_with_the_gateway(full: OpenGateway) -> None:
    gateway = full(when_full="wait")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gateway.put, b"c" * 400)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        gateway.close(timeout_s=0)
        with pytest.raises(GatewayClosedError):
            waiting.result(10)


def test_a_full_disk_is_a_named_error_and_the_record_is_not_sent(
    broker: FakeBroker, open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    FullDisk.room = 400
    monkeypatch.setattr(client, "Buffer", partial(Buffer, open_file=FullDisk))
    gateway = open_gateway()
    gateway.put(b"accepted")
    with pytest.raises(BufferDiskError, match="No space left"):
        gateway.put(b"x" * 500)
    with pytest.raises(BufferDiskError, match="No space left"):
        gateway.put(b"y" * 500, wait=False).result(10)
    assert gateway.counters.put == 1
    FullDisk.room = 10_000
    gateway.put(b"later")
    gateway.flush(10)
    assert broker.values == ["accepted", "later"]
    assert gateway.counters.in_buffer_bytes == 0


def test_a_disk_too_full_to_record_acknowledgements_only_says_so(
    broker: FakeBroker, open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Buffer) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Buffer, "save", full)
    with open_gateway() as gateway:
        gateway.put(b"x")
        gateway.flush(10)
    assert broker.values == ["x"]
