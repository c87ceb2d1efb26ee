"""Head as a driver holds it: only who knows its ETag changes it (R1)."""

from __future__ import annotations

from dataclasses import dataclass

from effectively_once.errors import StaleDriverError
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, Put, Step, Written
from effectively_once.ledger.segments import flush


@dataclass(frozen=True, slots=True)
class Held:
    """Head as this driver last wrote it, and the ETag that proves it."""

    head: Head
    etag: str


def commit(layout: Layout, held: Held, new: Head) -> Step[Held]:
    """Put head in the place of the one that is held; a long tail moves to a segment before.

    Raises:
        StaleDriverError: another driver changed head.

    """
    new = yield from flush(layout, new)
    done = yield from replace(layout, new, held.etag)
    if done is None:
        found = yield Get(layout.head)
        other = decode(found.body, layout.head) if isinstance(found, Found) else None
        raise StaleDriverError(
            f"driver {held.head.owner} of generation {held.head.generation} was replaced"
            + (f" by {other.owner} of generation {other.generation}" if other else ": head is gone"),
            layout.head,
            "Nothing to do when a newer driver runs; otherwise start the pipeline again.",
        )
    return done


def replace(layout: Layout, new: Head, etag: str | None) -> Step[Held | None]:
    """Put head on the condition `etag`; a lost answer is settled by reading whether head is what was sent.

    Returns None when another driver's head was there.
    """
    body = new.encode()
    while True:
        answer = yield Put(layout.head, body, etag)
        if isinstance(answer, Written):
            return Held(new, answer.etag)
        found = yield Get(layout.head)
        if not isinstance(found, Found):
            if etag is not None:
                return None
            continue
        if found.body == body:
            return Held(new, found.etag)
        if found.etag != etag:
            return None
