"""When a standby takes a driver for gone: by its own clock and the lease's ETag, and by nothing that anybody wrote."""

from __future__ import annotations

import time

import pytest

from effectively_once.driver.lease_keeper import LeaseKeeper
from effectively_once.driver.lease_watch import CLOSE, FOLLOW_S, LeaseWatch, Why
from effectively_once.errors import ChainError, UnreachableError
from effectively_once.ledger import chain, lease
from effectively_once.ledger.objects import Answer, Get, Request, run
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT

TTL_S = 5.0
LOOK_S = TTL_S / lease.RENEWALS


class Away(MemoryStore):
    """A store that is away now and then."""

    away = False

    def answer(self, request: Request) -> Answer:
        if self.away:
            raise UnreachableError("it does not answer", "the store", "Wait.")
        return super().answer(request)


class World:
    """A pipeline whose driver is `a`, and one that watches it."""

    def __init__(self) -> None:
        self.now_s, self.store = 1000.0, Away()
        run(chain.take_over(LAYOUT, "a", {}), self.store)
        self.watch = LeaseWatch(LAYOUT, self.store, TTL_S, lambda: self.now_s)
        self.keeper = self.keeper_of("a", 1)

    def keeper_of(self, owner: str, generation: int) -> LeaseKeeper:
        return LeaseKeeper(LAYOUT, self.store, owner, generation, TTL_S)

    def look(self, seconds: float, *, every_s: float = LOOK_S, renewed_by: LeaseKeeper | None = None) -> list[Why]:
        """Look for so long; return what was seen but for None."""
        seen = []
        for _ in range(round(seconds / every_s)):
            self.now_s += every_s
            if renewed_by is not None:
                renewed_by.renew()
            if (why := self.watch.look()) is not None:
                seen.append(why)
        return seen


@pytest.fixture
def world() -> World:
    made = World()
    made.keeper.renew()
    assert made.watch.look() is None
    return made


def test_a_pipeline_that_nobody_ever_ran_is_free() -> None:
    assert LeaseWatch(LAYOUT, MemoryStore(), TTL_S).look() is Why.FIRST


def test_a_lease_that_is_renewed_holds_for_ever(world: World) -> None:
    assert world.look(3600.0, renewed_by=world.keeper) == []


def test_a_lease_that_is_not_renewed_has_run_out_after_its_time_and_not_before(world: World) -> None:
    assert world.look(TTL_S - LOOK_S) == []
    assert world.look(LOOK_S) == [Why.SILENT]


def test_a_lease_that_is_released_holds_nobody(world: World) -> None:
    world.keeper.release()
    assert world.watch.look() is Why.RELEASED


def test_an_owner_without_a_lease_is_waited_for_as_long(world: World) -> None:
    """One that has just taken over, of an older version, or from before `standby` was set: no driver fell silent."""
    del world.store.objects[LAYOUT.lease]
    assert world.look(TTL_S) == []
    assert world.look(LOOK_S) == [Why.UNLEASED]


def test_the_time_is_that_of_who_holds_it(world: World) -> None:
    slow = LeaseKeeper(LAYOUT, world.store, "a", 1, 4 * TTL_S)
    slow.renew()
    world.watch.look()
    assert world.watch.every_s == 4 * LOOK_S
    assert world.look(4 * TTL_S - LOOK_S) == []
    assert world.look(LOOK_S) == [Why.SILENT]


def test_time_of_day_counts_nowhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither clock is compared: here the one of the driver at work is years behind, and then far ahead."""
    for of_day in (0.0, time.time() + 10**8):
        monkeypatch.setattr(time, "time", lambda of_day=of_day: of_day)
        monkeypatch.setattr(time, "time_ns", lambda of_day=of_day: int(of_day * 1e9))
        assert world.look(3 * TTL_S, renewed_by=world.keeper) == []
    assert world.look(TTL_S - LOOK_S) == []
    assert world.look(LOOK_S) == [Why.SILENT]


def test_a_standby_that_stood_still_has_seen_no_silence(world: World) -> None:
    """A machine that sleeps stops both, and the standby may be the first to wake."""
    assert world.look(3600.0, every_s=3600.0) == []
    assert world.look(TTL_S - CLOSE * TTL_S - LOOK_S / 2) == []
    assert world.look(LOOK_S) == [Why.SILENT]
    assert CLOSE * TTL_S >= 2 * LOOK_S, "whoever wakes has time to renew"


def test_a_standby_on_a_busy_machine_sees_a_silence_too(world: World) -> None:
    """Its looks come late, each of them, and it must not begin anew with each."""
    assert world.look(4 * TTL_S, every_s=0.8 * TTL_S)[:1] == [Why.SILENT]


def test_while_the_store_is_away_nobodys_silence_counts(world: World) -> None:
    """Its driver cannot renew either."""
    world.look(TTL_S - LOOK_S)
    world.store.away = True
    assert world.look(LOOK_S) == []
    world.store.away = False
    assert world.look(LOOK_S) == []
    assert world.look(TTL_S - LOOK_S) == []
    assert world.look(LOOK_S) == [Why.SILENT]


def test_an_older_drivers_lease_does_not_hold_the_newer_ones_standby_back(world: World) -> None:
    """`b` took over and died before it wrote a lease, and `a`, of which nobody has heard that it ended, renews on."""
    run(chain.take_over(LAYOUT, "b", {}), world.store)
    seen = world.look(FOLLOW_S + TTL_S + LOOK_S, renewed_by=world.keeper)
    assert seen[:1] == [Why.UNLEASED]
    assert world.watch.owner == "b"


def test_an_older_drivers_release_frees_nothing(world: World) -> None:
    run(chain.take_over(LAYOUT, "b", {}), world.store)
    world.keeper.release()
    world.watch.forget()
    assert world.watch.look() is None
    assert world.watch.owner == "b"


def test_a_newer_drivers_lease_is_believed_at_once(world: World) -> None:
    """Head is read again whenever the lease is not its owner's."""
    run(chain.take_over(LAYOUT, "b", {}), world.store)
    newer = world.keeper_of("b", 2)
    newer.renew()
    assert world.look(LOOK_S) == []
    assert world.watch.owner == "b"
    assert world.look(10 * TTL_S, renewed_by=newer) == []


def test_a_damaged_lease_is_no_sign_of_life_and_no_end(world: World) -> None:
    world.store.objects[LAYOUT.lease] = b"{"
    assert world.look(TTL_S) == []
    assert world.look(LOOK_S) == [Why.UNLEASED]


def test_a_head_that_cannot_be_read_ends_the_wait_by_name(world: World) -> None:
    world.store.objects[LAYOUT.head] = b"{"
    world.watch.forget()
    with pytest.raises(ChainError):
        world.watch.look()


def test_a_wait_costs_a_get_for_each_look_and_one_of_head_in_ten_seconds(world: World) -> None:
    world.store.requests.clear()
    world.look(100.0, renewed_by=None)
    asked = [request.key for request in world.store.requests if isinstance(request, Get)]
    assert len(asked) == len(world.store.requests)
    assert asked.count(LAYOUT.lease) == 100
    assert asked.count(LAYOUT.head) == 100.0 / FOLLOW_S
