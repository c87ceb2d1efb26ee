"""The driver at work shows that it lives, whether it has epochs or not, until it ends or head is another's."""

from __future__ import annotations

import threading
import time

import pytest

from effectively_once.driver.lease_keeper import LeaseKeeper, lease_store
from effectively_once.errors import UnreachableError
from effectively_once.ledger import chain, lease
from effectively_once.ledger.objects import Put, Request, run
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import LAYOUT
from tests.unit.library.listed_store import ListedStore

TTL_S, WAIT_S = 0.1, 10.0


@pytest.fixture
def store() -> ListedStore:
    made = ListedStore()
    run(chain.take_over(LAYOUT, "a", {}), made)
    return made


@pytest.fixture
def keeper(store: ListedStore) -> LeaseKeeper:
    return LeaseKeeper(LAYOUT, store, "a", 1, TTL_S)


def there(store: ListedStore) -> lease.Lease:
    found = lease.decode(store.objects[LAYOUT.lease])
    assert found is not None
    return found


def puts(store: ListedStore, number: int) -> threading.Event:
    """Return what is set when so many more puts of the lease were asked for."""
    seen, left = threading.Event(), iter(range(number - 1))

    def count(request: Request) -> None:
        if isinstance(request, Put) and request.key == LAYOUT.lease and next(left, None) is None:
            seen.set()

    store.before = count
    return seen


def test_it_is_renewed_though_no_epoch_comes(store: ListedStore, keeper: LeaseKeeper) -> None:
    head = store.objects[LAYOUT.head]
    seen = puts(store, 20)
    began = time.monotonic()
    keeper.start()
    assert seen.wait(WAIT_S)
    assert time.monotonic() - began >= 19 * TTL_S / lease.RENEWALS, "more often than it is needed"
    keeper.release()
    assert store.objects[LAYOUT.head] == head


def test_each_renewal_is_another_object(store: ListedStore, keeper: LeaseKeeper) -> None:
    """Its ETag is a digest of the content."""
    bodies = set()
    for _ in range(5):
        keeper.renew()
        bodies.add(store.objects[LAYOUT.lease])
    assert len(bodies) == 5
    keeper.release()
    assert there(store) == lease.Lease(owner="a", generation=1, renewal=6, ttl_s=TTL_S, released=True)


def test_it_stops_when_head_is_anothers(store: ListedStore, keeper: LeaseKeeper) -> None:
    keeper.renew()
    run(chain.take_over(LAYOUT, "b", {}), store)
    newer = LeaseKeeper(LAYOUT, store, "b", 2, TTL_S)
    newer.renew()
    keeper.start()
    keeper._thread.join(WAIT_S)
    assert not keeper._thread.is_alive()
    keeper.release()
    assert (there(store).owner, there(store).released) == ("b", False)


def test_it_goes_on_when_the_store_was_away(store: ListedStore, keeper: LeaseKeeper) -> None:
    tries = iter(range(3))

    def away(_: Request) -> None:
        if next(tries, None) is not None:
            raise UnreachableError("it does not answer", "the store", "Wait.")

    store.before = away
    keeper.start()
    deadline = time.monotonic() + WAIT_S
    while LAYOUT.lease not in store.objects:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    keeper.release()
    assert there(store).released


def test_a_release_that_cannot_be_said_ends_nothing(store: ListedStore, keeper: LeaseKeeper) -> None:
    keeper.renew()

    def away(_: Request) -> None:
        raise UnreachableError("it does not answer", "the store", "Wait.")

    store.before = away
    keeper.release()
    assert not there(store).released


def test_its_store_gives_up_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ACCESS_KEY, SECRET_KEY):
        monkeypatch.setenv(name, "x")
    for lease_s, answer_s in ((10.0, 2.0), (1.0, 1.0)):
        store = lease_store(pipeline_settings(lease_s=lease_s))
        assert store._patience_s == lease_s
        assert store._http.connection_pool_kw["timeout"].read_timeout == answer_s
