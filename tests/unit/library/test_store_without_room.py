"""A store that answers reads and takes no writes: the protocol must not ask it for ever."""

from __future__ import annotations

import pytest

from effectively_once.errors import UnreachableError
from effectively_once.ledger.objects import create_once, run
from effectively_once.store import s3_client
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from tests.unit.library.http_store import NONE, Handler, serving

PUTS: list[str] = []


class NoRoom(Handler):
    """GET finds nothing, PUT has no room."""

    def respond(self) -> None:
        if self.command == "PUT":
            PUTS.append(self.path)
            self.answer(507)
        else:
            self.answer(404, NONE)


def test_a_put_that_is_never_taken_ends_as_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(s3_client.ACCESS_KEY, "a")
    monkeypatch.setenv(s3_client.SECRET_KEY, "b")
    PUTS.clear()
    with (
        serving(NoRoom) as endpoint,
        pytest.raises(UnreachableError, match=r"no room left.*507.*Make room on its disk"),
    ):
        store = S3ObjectStore(BucketAddress(endpoint, "bucket"), patience_s=0.7)
        run(create_once("key", b"body"), store)
    assert 2 <= len(PUTS) <= 6
