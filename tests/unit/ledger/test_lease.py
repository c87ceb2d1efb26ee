"""The lease: who owns head writes it, whatever is there; who was replaced gets nowhere."""

from __future__ import annotations

import pytest

from effectively_once.ledger import chain, lease
from effectively_once.ledger.lease import Lease
from effectively_once.ledger.objects import Found, Get, Put, run
from tests.unit.ledger.memory_store import Fate, MemoryStore
from tests.unit.ledger.samples import LAYOUT

TTL_S = 5.0


def lease_of(owner: str, renewal: int = 1, generation: int = 1, *, released: bool = False) -> Lease:
    return Lease(owner=owner, generation=generation, renewal=renewal, ttl_s=TTL_S, released=released)


def there(store: MemoryStore) -> Lease | None:
    found = store.answer(Get(LAYOUT.lease))
    return lease.decode(found.body) if isinstance(found, Found) else None


@pytest.fixture
def store() -> MemoryStore:
    """Of a pipeline whose driver is `a`."""
    made = MemoryStore()
    run(chain.take_over(LAYOUT, "a", {}), made)
    return made


def test_a_renewal_is_one_put(store: MemoryStore) -> None:
    etag = run(lease.write(LAYOUT, lease_of("a"), None), store)
    store.requests.clear()
    assert run(lease.write(LAYOUT, lease_of("a", 2), etag), store) is not None
    (put,) = store.requests
    assert isinstance(put, Put)
    assert put.key == "counts/lease.json"
    assert there(store) == lease_of("a", 2)


def test_whoever_owns_head_replaces_a_lease_of_any_generation(store: MemoryStore) -> None:
    """A chain that was restored has a lower generation than the lease that was left."""
    for left in (lease_of("before", 7), lease_of("of_a_chain_that_is_gone", 3, generation=99)):
        store.objects[LAYOUT.lease] = lease.encode(left)
        assert run(lease.write(LAYOUT, lease_of("a"), None), store) is not None
        assert there(store) == lease_of("a")


def test_a_driver_that_was_replaced_does_not_write_over_the_newer_ones(store: MemoryStore) -> None:
    etag = run(lease.write(LAYOUT, lease_of("a"), None), store)
    run(chain.take_over(LAYOUT, "b", {}), store)
    # Until the newer one writes, the older one may: nobody believes it, as head is another's.
    etag = run(lease.write(LAYOUT, lease_of("a", 2), etag), store)
    assert etag is not None
    assert run(lease.write(LAYOUT, lease_of("b", generation=2), None), store) is not None
    for late in (lease_of("a", 3), lease_of("a", 3, released=True)):
        assert run(lease.write(LAYOUT, late, etag), store) is None
    assert there(store) == lease_of("b", generation=2)


@pytest.mark.parametrize("fate", [fate for fate in Fate if fate is not Fate.ANSWERED])
def test_a_lost_answer_is_settled_by_reading(store: MemoryStore, fate: Fate) -> None:
    etag = run(lease.write(LAYOUT, lease_of("a"), None), store)
    store.fated(fate)
    etag = run(lease.write(LAYOUT, lease_of("a", 2), etag), store)
    assert there(store) == lease_of("a", 2)
    assert run(lease.write(LAYOUT, lease_of("a", 3), etag), store) is not None


def test_what_is_no_lease_is_nobodys_sign_of_life() -> None:
    body = lease.encode(lease_of("a", released=True))
    assert lease.decode(body) == lease_of("a", released=True)
    newer = lease_of("a").model_copy(update={"format": lease.FORMAT + 1})
    unsealed = lease_of("a").model_dump_json().encode()
    for damaged in (b"", b"[]", body.replace(b"true", b"false"), unsealed, lease.encode(newer)):
        assert lease.decode(damaged) is None


def test_the_last_standby_says_that_it_waits(store: MemoryStore) -> None:
    etag = run(lease.note(LAYOUT, lease_of("b"), None), store)
    run(lease.note(LAYOUT, lease_of("c"), None), store)
    run(lease.note(LAYOUT, lease_of("b", 2), etag), store)
    assert lease.decode(store.objects["counts/standby.json"]) == lease_of("b", 2)
