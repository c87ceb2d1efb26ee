"""What the chain needs of any object store; run on the one in memory and on the real one alike."""

from __future__ import annotations

from effectively_once.ledger.objects import Absent, Delete, Found, Get, Gone, ObjectStore, Put, Refused, Written


def creates_once(store: ObjectStore, key: str) -> None:
    """Put on the condition that there is nothing: it takes place once, and what it refuses stays as it was."""
    assert store.answer(Get(key)) == Absent()
    first = store.answer(Put(key, b"first", None))
    assert isinstance(first, Written)
    assert store.answer(Put(key, b"second", None)) == Refused()
    assert store.answer(Get(key)) == Found(b"first", first.etag)


def replaces_what_was_read(store: ObjectStore, key: str) -> None:
    """Put on the condition of an ETag: it takes place on exactly that content, never on another or on none."""
    assert store.answer(Put(key, b"early", "0" * 32)) == Refused()
    assert store.answer(Get(key)) == Absent()
    first = store.answer(Put(key, b"first", None))
    assert isinstance(first, Written)
    second = store.answer(Put(key, b"second", first.etag))
    assert isinstance(second, Written)
    assert second.etag != first.etag
    assert store.answer(Put(key, b"third", first.etag)) == Refused()
    assert store.answer(Get(key)) == Found(b"second", second.etag)


def forgets_what_is_deleted(store: ObjectStore, key: str) -> None:
    """After a delete nothing is there, and deleting nothing is no error."""
    assert store.answer(Delete(key)) == Gone()
    assert isinstance(store.answer(Put(key, b"first", None)), Written)
    assert store.answer(Delete(key)) == Gone()
    assert store.answer(Get(key)) == Absent()


def keeps_every_byte(store: ObjectStore, key: str) -> None:
    """Content comes back as it was, the empty one too."""
    for name, body in (("empty", b""), ("every", bytes(range(256)) * 1000)):
        written = store.answer(Put(f"{key}/{name}", body, None))
        assert isinstance(written, Written)
        assert store.answer(Get(f"{key}/{name}")) == Found(body, written.etag)


CONTRACT = (creates_once, replaces_what_was_read, forgets_what_is_deleted, keeps_every_byte)
