"""An object store in memory whose answers to puts can get lost, as a real one's do when it is killed or slow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum

from effectively_once.ledger.objects import (
    Absent,
    Answer,
    Delete,
    Found,
    Get,
    Gone,
    Lost,
    Put,
    Refused,
    Request,
    Written,
)


class Fate(StrEnum):
    """What becomes of one put."""

    ANSWERED = "answered"
    LOST_APPLIED = "lost, took place"
    LOST_DROPPED = "lost, did not take place"
    LOST_DELAYED = "lost, takes place after the next request"


class MemoryStore:
    """Objects by name; `fates` are those of the next puts, every later one is answered.

    Attributes:
        objects: what is stored.
        requests: every request so far, for tests that count them.

    """

    def __init__(self, fates: Iterable[Fate] = ()) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self._fates = list(fates)
        self._delayed: list[Put] = []

    def answer(self, request: Request) -> Answer:
        """Carry out one request, and after it the puts that were delayed before it."""
        due, self._delayed = self._delayed, []
        self.requests.append(request)
        try:
            match request:
                case Get(key):
                    body = self.objects.get(key)
                    return Absent() if body is None else Found(body, etag(body))
                case Delete(key):
                    self.objects.pop(key, None)
                    return Gone()
                case Put():
                    return self._fated(request)
        finally:
            for put in due:
                self._put(put)

    def fated(self, *fates: Fate) -> None:
        """Decide what becomes of the next puts."""
        self._fates += fates

    def _fated(self, put: Put) -> Answer:
        match self._fates.pop(0) if self._fates else Fate.ANSWERED:
            case Fate.ANSWERED:
                return self._put(put)
            case Fate.LOST_APPLIED:
                self._put(put)
            case Fate.LOST_DELAYED:
                self._delayed.append(put)
        return Lost()

    def _put(self, put: Put) -> Answer:
        now = self.objects.get(put.key)
        if put.etag != (None if now is None else etag(now)):
            return Refused()
        self.objects[put.key] = put.body
        return Written(etag(put.body))


def etag(body: bytes) -> str:
    """Digest of the content, as real stores have it: equal contents have one ETag."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
