"""What the chain rests on is tried at every start of a driver: a store that only takes the conditions is refused.

S3's conditions are headers, and a store, or a proxy before it, that does not know them answers 200 all the same: two
drivers would then own one head. So twelve requests on an object of a name that nobody else has show that a put is
refused where it must be, that two contents have two ETags, and that what is read is what was written or deleted last.

They are a sample: that the conditions are atomic under many writers at once is shown by the conformance of stores
(docs/reference/stores.md), not by a start.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from effectively_once.errors import StoreError, UnreachableError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Absent, Delete, Found, Get, ObjectStore, Put, Refused, Step, Written, run

TRIES = 5
"""A put whose answer is lost proves nothing; the next try has another name."""
FIRST, SECOND, THIRD = b"first-", b"second", b"third-"
"""Of one length: an ETag made of size and time in seconds would be the same."""
NO_ETAG = "0" * 32
TODO = "Use a store that keeps what docs/reference/stores.md asks, or reach it past the proxy; nothing was changed."


class _LostError(Exception):
    """The answer to a put got lost."""


@dataclass(frozen=True, slots=True)
class StoreProbe:
    """One probe of a store.

    Attributes:
        store: it.
        name: the store, for messages.
        layout: of the pipeline; the object lies below its prefix, which is all that a key may have access to.

    """

    store: ObjectStore
    name: str
    layout: Layout

    def run(self) -> None:
        """Try what the chain rests on, and leave nothing behind.

        Raises:
            StoreError: naming what the store does not keep.
            UnreachableError: answers got lost in each of five tries.

        """
        for _ in range(TRIES):
            key = self.layout.probe(uuid.uuid4().hex)
            try:
                run(_try(key, f"{self.name}/{key}"), self.store)
            except _LostError:
                self.store.answer(Delete(key))
            except StoreError:
                self.store.answer(Delete(key))
                raise
            else:
                return
        raise UnreachableError(
            f"the object store lost the answer to a put in each of {TRIES} tries",
            self.name,
            "Check that it takes writes; nothing was lost, start the pipeline again.",
        )


def _try(key: str, where: str) -> Step[None]:
    early = yield from _put(key, FIRST, NO_ETAG)
    _need(early is None, "ignores If-Match: it created an object where none with that ETag was", where)
    _need((yield Get(key)) == Absent(), "refuses a put and writes it all the same", where)
    first = yield from _put(key, FIRST, None)
    _need(first is not None, "refuses If-None-Match where there is no object", where)
    yield from _check_kept(key, FIRST, first, where)
    again = yield from _put(key, SECOND, None)
    _need(again is None, "ignores If-None-Match: it wrote over an object that is there", where)
    yield from _check_kept(key, FIRST, first, where)
    second = yield from _put(key, SECOND, first)
    _need(second is not None, "refuses If-Match with the ETag that it gave", where)
    _need(second != first, "gives two contents one ETag", where)
    yield from _check_kept(key, SECOND, second, where)
    old = yield from _put(key, THIRD, first)
    _need(old is None, "ignores If-Match: it wrote over an object whose ETag is another", where)
    yield from _check_kept(key, SECOND, second, where)
    yield Delete(key)
    _need((yield Get(key)) == Absent(), "still reads an object that was deleted", where)


def _put(key: str, body: bytes, etag: str | None) -> Step[str | None]:
    """Put on a condition; return the new ETag, None when it was refused."""
    answer = yield Put(key, body, etag)
    if isinstance(answer, Written):
        return answer.etag
    if answer != Refused():
        raise _LostError
    return None


def _check_kept(key: str, body: bytes, etag: str | None, where: str) -> Step[None]:
    """Read what was written last."""
    found = yield Get(key)
    _need(found != Absent(), "says yes and forgets: an object that it acknowledged is not there", where)
    assert isinstance(found, Found)  # noqa: S101 - a get has no other answer
    _need(found.body == body, "reads something else than what it acknowledged last", where)
    _need(found.etag == etag, "reads another ETag than it gave when it wrote", where)


def _need(holds: bool, what: str, where: str) -> None:
    if not holds:
        raise StoreError(f"the object store {what}", where, TODO)
