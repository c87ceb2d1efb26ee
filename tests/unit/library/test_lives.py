"""Who is at work and whether a standby waits, as `inspect` tells it from two looks."""

from __future__ import annotations

import pytest

from effectively_once.ledger import chain, lease
from effectively_once.ledger.lease import Lease
from effectively_once.ledger.objects import run
from effectively_once.operate.inspect.inspection import Inspection
from effectively_once.operate.inspect.inspection_text import lines
from effectively_once.operate.inspect.lives import PATIENCE, Lives, Look, Sign
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT

TTL_S = 5.0


class Seen:
    """A pipeline of which driver `a` owns head, and what somebody sees who looks twice."""

    def __init__(self) -> None:
        self.store, self.now_s, self.renewing = MemoryStore(), 0.0, dict[str, str]()
        self.held = run(chain.take_over(LAYOUT, "a", {}), self.store)
        self._renewal = 0

    def put(self, key: str, owner: str, *, released: bool = False) -> None:
        self._renewal += 1
        sign = Lease(owner=owner, generation=1, renewal=self._renewal, ttl_s=TTL_S, released=released)
        self.store.objects[key] = lease.encode(sign)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for key, owner in self.renewing.items():
            self.put(key, owner)

    def look(self) -> Lives:
        return Look(self.store, LAYOUT, lambda: self.now_s, self.sleep).again()

    def text(self) -> list[str]:
        found = Inspection("counts", "here", self.held.head, lives=self.look())
        return [line for line in lines(found) if line.startswith(("at work", "standby"))]


@pytest.fixture
def observer() -> Seen:
    return Seen()


def test_signs_that_change_between_two_looks_are_of_who_lives(observer: Seen) -> None:
    observer.put(LAYOUT.lease, "a")
    observer.put(LAYOUT.standby, "b")
    observer.renewing = {LAYOUT.lease: "a", LAYOUT.standby: "b"}
    assert observer.look() == Lives(Sign("a", "alive"), Sign("b", "alive"))
    assert observer.text() == ["at work     driver a of generation 1", "standby     driver b waits"]


def test_one_that_stays_is_waited_for_and_then_none(observer: Seen) -> None:
    observer.put(LAYOUT.lease, "a")
    observer.put(LAYOUT.standby, "b")
    assert observer.text() == [
        "at work     nobody: driver a of generation 1 does not renew its lease",
        "standby     nobody waits",
    ]
    assert observer.now_s == PATIENCE * TTL_S


def test_who_has_ended_is_not_waited_for(observer: Seen) -> None:
    observer.put(LAYOUT.lease, "a", released=True)
    observer.put(LAYOUT.standby, "b", released=True)
    assert observer.text() == ["at work     nobody: driver a of generation 1 has ended", "standby     nobody waits"]
    assert observer.now_s == 0


def test_a_lease_of_another_than_the_owner_of_head_is_nobodys(observer: Seen) -> None:
    for renewing in ({}, {LAYOUT.lease: "before"}):
        observer.renewing = renewing
        assert observer.text()[0].startswith("at work     driver a of generation 1, which has no lease: ")
        observer.put(LAYOUT.lease, "before")


def test_a_driver_that_took_over_a_moment_ago_waits_no_more(observer: Seen) -> None:
    observer.renewing = {LAYOUT.standby: "a"}
    observer.put(LAYOUT.standby, "a")
    assert observer.text()[1] == "standby     nobody waits"


def test_a_pipeline_without_standbys_says_nothing_of_them(observer: Seen) -> None:
    assert not [line for line in lines(Inspection("counts", "here", observer.held.head)) if "standby" in line]
