"""Backups of made-up pipelines, taken and restored in memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from effectively_once.ledger import chain
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import run
from effectively_once.operate.backup.backup import Backup
from effectively_once.operate.backup.place import Place
from effectively_once.operate.backup.restore import restore
from effectively_once.state.merge import FAN
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.library.ledger_driver import LedgerDriver, global_counts
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import GLOBAL_COUNTS
from tests.unit.library.test_reader import counts_of, rows_of

LAYOUT = Layout("clicks")


def stored(epochs: int, fan: int = FAN) -> ListedStore:
    store = ListedStore()
    store.objects.update(objects(epochs, fan))
    return store


@cache
def objects(epochs: int, fan: int) -> Mapping[str, bytes]:
    """What so many epochs leave on a store: run once, looked at by many."""
    store = ListedStore()
    LedgerDriver.started(store, LAYOUT, fan=fan).run(epochs)
    return dict(store.objects)


def taken(source: ListedStore, kept: ListedStore | None = None, **how: bool) -> Place:
    place = Place(ListedStore() if kept is None else kept, "memory")
    Backup(source, LAYOUT, place, [GLOBAL_COUNTS]).take(**how)
    return place


def restored(place: Place) -> ListedStore:
    store = ListedStore()
    restore(place, store, LAYOUT)
    return store


def goes_on(store: ListedStore, until: int) -> None:
    """A driver goes on with what is there, and every row is published as if nothing had happened."""
    driver = LedgerDriver.started(store, LAYOUT, "after")
    for step in driver.steps():
        if step == "published" and chain.record_epoch(driver.held.head, driver._published).last_recorded >= until - 1:
            break
    driver.stop()
    assert counts_of(rows_of(store)) == global_counts(until)


def head_of(store: MemoryStore) -> Head:
    return run(chain.read(LAYOUT), store)
