"""Snapshots of an operator's state: the newest one is restored, old ones are deleted, a damaged one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from effectively_once.errors import CheckpointError
from effectively_once_jobs.system_usage.snapshots import KEPT, Snapshots, Totals
from tests.unit.library.listed_store import ListedStore


def of(store: Any) -> Snapshots:
    return Snapshots(store, "usage")


def test_the_state_of_the_last_batch_is_restored_and_old_ones_are_gone() -> None:
    store, totals = ListedStore(), Totals()
    snapshots = of(store)
    assert snapshots.restore(Totals()) == -1
    for batch in range(12):
        totals.add(10, 1)
        snapshots.save(batch, totals)
    again = Totals()
    assert snapshots.restore(again) == 11
    assert again == Totals(120, 12)
    assert sorted(store.objects) == [f"usage/snapshots/{batch:09}" for batch in range(12 - KEPT, 12)]


def test_a_batch_that_is_saved_again_keeps_its_first_state() -> None:
    store = ListedStore()
    snapshots = of(store)
    snapshots.save(0, Totals(10, 1))
    snapshots.save(0, Totals(20, 2))
    again = Totals()
    assert (snapshots.restore(again), again) == (0, Totals(10, 1))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"transactions": 1}'])
def test_a_damaged_snapshot_is_refused(body: bytes) -> None:
    store = ListedStore()
    store.objects["usage/snapshots/000000007"] = body
    with pytest.raises(CheckpointError, match="usage/snapshots/000000007"):
        of(store).restore(Totals())


def test_a_snapshot_that_is_listed_and_gone_is_no_beginning() -> None:
    store = ListedStore()
    store.names = lambda _: iter(["usage/snapshots/000000007"])  # type: ignore[method-assign, assignment]
    with pytest.raises(CheckpointError, match="usage/snapshots/000000007"):
        of(store).restore(Totals())


@pytest.mark.parametrize("kept", [[], [3, 4, 5]])
def test_a_listing_without_the_last_batch_that_is_done_is_refused(kept: list[int]) -> None:
    """Its state was saved before Spark took note that it is done."""
    store = ListedStore()
    snapshots = of(store)
    for batch in kept:
        snapshots.save(batch, Totals(batch, 0))
    with pytest.raises(CheckpointError, match="batch 6 is done, and the newest state"):
        snapshots.restore(Totals(), 6)
    assert snapshots.restore(Totals(), max(kept, default=-1)) == max(kept, default=-1)
