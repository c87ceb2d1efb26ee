"""A store whose clock is another one than ours: signatures go by the store's, another refusal stays a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from effectively_once.errors import AccessError
from effectively_once.ledger.objects import Absent, Get, Put, Written
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from tests.unit.library import http_store
from tests.unit.library.http_store import NONE, serving

AHEAD, OLD = timedelta(minutes=15), timedelta(minutes=10)


class Handler(http_store.Handler):
    """Takes what is dated by its own clock, as MinIO does."""

    off: ClassVar[timedelta] = timedelta()
    dated: ClassVar[bool] = True
    found: ClassVar[int] = 404
    asked: ClassVar[list[str]] = []
    """What came, and what was carried out."""

    def respond(self) -> None:
        now = datetime.now(UTC) + self.off
        (signed,) = parse_qs(urlsplit(self.path).query)["X-Amz-Date"]
        date = datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        refused = date > now + AHEAD or now - date > OLD
        body = NONE if self.command == "GET" else b""
        if refused:
            body = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
        self.asked.append(f"{self.command} {'refused' if refused else 'done'}")
        status = 403 if refused else 200 if self.command == "PUT" else self.found
        dated = {"Date": format_datetime(now, usegmt=True)} if self.dated else {}
        self.answer(status, body, ETag='"1"', **dated)


@pytest.fixture
def handler() -> Iterator[type[Handler]]:
    class Own(Handler):
        asked: ClassVar[list[str]] = []

    yield Own


@pytest.fixture
def store(handler: type[Handler], monkeypatch: pytest.MonkeyPatch) -> Iterator[S3ObjectStore]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b" * 8)
    with serving(handler) as endpoint:
        yield S3ObjectStore(BucketAddress(endpoint, "bucket"), 1.0)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_an_hour_off_costs_one_refusal(
    handler: type[Handler], store: S3ObjectStore, hours: int
) -> None:
    """Then signatures are dated as the store reckons; when the clocks agree again, that costs one refusal too."""
    handler.off = timedelta(hours=hours)
    assert isinstance(store.answer(Put("k", b"x", "1")), Written)
    assert isinstance(store.answer(Get("k")), Absent)
    assert handler.asked == ["PUT refused", "PUT done", "GET done"]
    handler.off = timedelta()
    assert isinstance(store.answer(Get("k")), Absent)
    assert handler.asked[3:] == ["GET refused", "GET done"]


@pytest.mark.parametrize("minutes", [2, -2])
def test_a_clock_that_is_minutes_off_costs_nothing(handler: type[Handler], store: S3ObjectStore, minutes: int) -> None:
    handler.off = timedelta(minutes=minutes)
    assert isinstance(store.answer(Put("k", b"x", "1")), Written)
    assert handler.asked == ["PUT done"]


def test_a_refusal_by_a_store_of_the_same_time_is_not_asked_again(handler: type[Handler], store: S3ObjectStore) -> None:
    handler.found = 403
    with pytest.raises(AccessError, match="HTTP 403"):
        store.answer(Get("k"))
    assert handler.asked == ["GET done"]


def test_a_store_that_does_not_date_its_refusal_is_told_of_as_a_matter_of_clocks(
    handler: type[Handler], store: S3ObjectStore
) -> None:
    handler.off, handler.dated = timedelta(hours=1), False
    with pytest.raises(AccessError, match="the clock here and that of the object store differ"):
        store.answer(Put("k", b"x", None))
    assert handler.asked == ["PUT refused"]


def test_a_listing_that_is_refused_for_its_date_names_the_clock() -> None:
    """The client that lists signs by our clock; there it ends with the same words."""
    store = S3ObjectStore.__new__(S3ObjectStore)
    store.address = BucketAddress("http://127.0.0.1:1", "bucket")
    assert "clock" in str(store._refusal_error(403, "prefix", b"RequestTimeTooSkewed"))
    assert "clock" not in str(store._refusal_error(403, "prefix", b"AccessDenied"))
