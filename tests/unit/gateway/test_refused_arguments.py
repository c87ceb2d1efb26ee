"""What a gateway does not take: directories, arguments, limits and records, each refused by its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import SettingsError
from effectively_once.gateway import BufferDiskError, BufferLockedError, Limits, RecordError, json_record
from tests.unit.gateway.conftest import OpenGateway
from tests.unit.gateway.fake_client import FakeBroker


def test_a_directory_that_cannot_be_made_is_a_named_error(open_gateway: OpenGateway, tmp_path: Path) -> None:
    (tmp_path / "buffer").write_text("a file")
    with pytest.raises(BufferDiskError, match="buffer"):
        open_gateway()


def test_a_second_gateway_on_the_directory_is_refused(open_gateway: OpenGateway) -> None:
    first = open_gateway()
    with pytest.raises(BufferLockedError, match=str(os.getpid())):
        open_gateway()
    first.close()
    open_gateway().put(b"x")


def test_a_refused_configuration_leaves_the_directory_free(open_gateway: OpenGateway) -> None:
    with pytest.raises(SettingsError, match="refuses its configuration"):
        open_gateway(config={"no.such.setting": 1})
    open_gateway()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"producer": ""}, "producer"),
        ({"producer": "a b"}, "producer"),
        ({"producer": "x" * 65}, "producer"),
        ({"when_full": "drop"}, "when_full"),
        ({"config": {"acks": 0}}, "acks"),
        ({"config": {"enable.idempotence": True, "retries": 1}}, "enable.idempotence, retries"),
    ],
)
def test_arguments_the_promise_rests_on_are_checked(
    open_gateway: OpenGateway, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        open_gateway(**arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        {"capacity_bytes": 1000},
        {"segment_bytes": 1},
        {"record_bytes_max": 0},
        {"sync_delay_ms": -1},
        {"answer_timeout_s": 0},
        {"answer_timeout_s": float("nan")},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_impossible_limits_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        Limits(**wrong)


@pytest.mark.parametrize("time_ms", [-1, 10**15, 1.5, True, "7", None.__class__])
def test_an_unusable_event_time_is_refused(open_gateway: OpenGateway, time_ms: Any) -> None:
    with pytest.raises(RecordError, match="event_time_ms"):
        open_gateway().put(b"x", event_time_ms=time_ms)


def test_what_cannot_be_sent_is_refused_at_its_put(broker: FakeBroker, open_gateway: OpenGateway) -> None:
    gateway = open_gateway(limits=Limits(record_bytes_max=10))
    wrong: list[tuple[Any, Any]] = [("text", None), (None, None), (b"x", 3), (b"x" * 11, None), (b"x" * 5, b"k" * 6)]
    for value, key in wrong:
        with pytest.raises(RecordError):
            gateway.put(value, key=key)
    gateway.put(b"x" * 5, key=b"k" * 5)
    gateway.flush(10)
    assert broker.values == ["xxxxx"]


@pytest.mark.parametrize("fields", [{"id": "mine"}, {"event_time_ms": 1}, {"user": object()}, {"user": "\ud800"}])
def test_fields_that_make_no_record_are_refused_at_their_put(open_gateway: OpenGateway, fields: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        open_gateway(build=json_record).put(fields)
