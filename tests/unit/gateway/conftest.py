"""A gateway whose broker is in memory, and the directory of its buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from effectively_once.gateway import Gateway, sender
from effectively_once.gateway.buffer import Buffer
from tests.unit.gateway.buffers import opened
from tests.unit.gateway.fake_client import FakeBroker

OpenGateway = Callable[..., Gateway]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "buffer"


@pytest.fixture
def buffer(directory: Path) -> Iterator[Buffer]:
    one = opened(directory)
    yield one
    one.close()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    one = FakeBroker()
    monkeypatch.setattr(sender, "Producer", one.connect)
    monkeypatch.setattr(sender, "RETRY_S", 0.02)
    monkeypatch.setattr(sender, "SAVE_S", 0.0)
    return one


@pytest.fixture
def open_gateway(broker: FakeBroker, tmp_path: Path) -> Iterator[OpenGateway]:
    """Open gateways on one directory; what a test leaves open is closed."""
    left: list[Gateway] = []

    def opened(**arguments: Any) -> Gateway:
        gateway = Gateway(
            tmp_path / "buffer", **{"producer": "gate", "topic": "events", "bootstrap": "nowhere:1", **arguments}
        )
        left.append(gateway)
        return gateway

    yield opened
    broker.answers = True
    for gateway in left:
        gateway.close(timeout_s=0)
