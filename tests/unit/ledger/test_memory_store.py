"""The store in memory keeps the contract that the real one is held to, and loses answers as it is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from effectively_once.ledger.objects import Absent, Found, Get, Lost, ObjectStore, Put
from tests.unit.ledger.memory_store import Fate, MemoryStore, etag
from tests.unit.ledger.store_contract import CONTRACT


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
def test_the_store_in_memory_keeps_the_contract(clause: Callable[[ObjectStore, str], None]) -> None:
    clause(MemoryStore(), "some/name")


def test_a_lost_put_took_place_or_not_or_takes_place_later() -> None:
    there = Found(b"body", etag(b"body"))
    for fate, seen in (
        (Fate.LOST_APPLIED, [there, there]),
        (Fate.LOST_DROPPED, [Absent(), Absent()]),
        (Fate.LOST_DELAYED, [Absent(), there]),
    ):
        store = MemoryStore([fate])
        assert store.answer(Put("name", b"body", None)) == Lost()
        assert [store.answer(Get("name")) for _ in range(2)] == seen, fate
