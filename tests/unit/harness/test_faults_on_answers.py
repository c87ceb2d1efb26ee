"""Answers of the object store that go wrong: on a real link, before a store that is there all the time."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
import urllib3

from effectively_once.store import object_store
from infra.embedded.process import identity
from tests.harness.adapters.store_link import StoreLink
from tests.harness.adapters.treatment import Asked
from tests.harness.faults.store_answers import BEYOND_S, UNHEARD, StoreAnswers, choice_of
from tests.harness.mixture import ERRORS, LATE, LOST, NO_ROOM
from tests.unit.harness.struck import World, lend

KINDS = (ERRORS, LATE, LOST, NO_ROOM)
GET, PUT, HEAD_PUT = Asked("GET", "/b/k"), Asked("PUT", "/b/k"), Asked("PUT", "/b/p/head.json", "If-Match")
CREATE = Asked("PUT", "/b/d", "If-None-Match")


def drawn(kind: str, asked: Asked, times: int = 400, seed: int = 1) -> Counter[str]:
    choice = choice_of(kind, random.Random(seed))
    return Counter(found.name if (found := choice(asked)) else "passes" for _ in range(times))


class Answers(World):
    """A store that sleeps, and a link to nobody."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = self.server()
        self.link = StoreLink("127.0.0.1", 1)
        self.link.start()
        self.http = urllib3.PoolManager(retries=False, timeout=10.0)

    def fault(self, kind: str, seconds: float = 0.1, longest_s: float = 0.4, seed: int = 1) -> StoreAnswers:
        return StoreAnswers(
            kind,
            self.link,
            self.store,
            seconds=seconds,
            longest_s=longest_s,
            healing=self.healing,
            rng=random.Random(seed),
        )

    def put(self, **headers: str) -> int | None:
        try:
            return self.http.request("PUT", f"{self.link.endpoint}/b/k", body=b"x", headers=headers).status
        except urllib3.exceptions.HTTPError:
            return None

    def close(self) -> None:
        super().close()
        self.http.clear()
        self.link.stop()


world = lend(Answers)


def test_every_kind_hits_what_it_is_about() -> None:
    assert set(drawn(ERRORS, PUT)) == {"503", "500 once carried out", "passes"}
    assert set(drawn(LATE, GET)) == {"late", "beyond the time-out", "passes"}
    assert set(drawn(LOST, GET)) == {"reset before", "reset once carried out", "passes"}
    assert set(drawn(LOST, HEAD_PUT)) == set(drawn(LOST, CREATE)) == {"reset before", "reset once carried out"}
    assert drawn(LOST, HEAD_PUT)["reset once carried out"] > 200
    assert set(drawn(NO_ROOM, PUT)) == set(drawn(NO_ROOM, HEAD_PUT)) == {"507"}
    assert set(drawn(NO_ROOM, GET)) == {"passes"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_draws_the_same(kind: str) -> None:
    first, again, other = (
        [choice(PUT) for choice in [choice_of(kind, random.Random(seed))] for _ in range(50)] for seed in (1, 1, 2)
    )
    assert first == again
    assert (first != other) is (kind != NO_ROOM), "without room no write passes, whatever the seed"


def test_some_answers_come_later_than_clients_wait() -> None:
    assert object_store.ANSWER_S < BEYOND_S


def test_a_fault_goes_wrong_until_it_is_healed_and_tells_what_it_hit(world: Answers) -> None:
    fault = world.fault(NO_ROOM)
    ((who, _),) = fault.strike({})
    assert who == identity(world.store.pid)
    assert world.healing.owed == ["let the object store's answers pass again"]
    assert not fault.landed()
    assert world.put() == 507
    fault.endure()
    assert world.put() == 507
    fault.heal()
    fault.heal()
    assert world.put() is None, "nobody listens behind the link, and it says nothing in his name"
    assert fault.landed()
    assert fault.evidence() == {"requests": {"PUT: 507": 2}}
    assert fault.after() == [who], "the store itself is as it was"
    assert world.healing.owed == []


def test_lost_answers_have_landed_with_that_of_a_put_that_replaces_an_object(world: Answers) -> None:
    fault = world.fault(LOST)
    fault.strike({})
    for _ in range(20):
        world.put(**{"If-None-Match": "*"})
    assert not fault.landed()
    world.link.treatment(HEAD_PUT)
    while not any(hit.startswith("PUT If-Match") and hit.endswith(UNHEARD.name) for hit in world.link.hits):
        world.link.treatment(HEAD_PUT)
    assert fault.landed()


def test_a_fault_lasts_longer_until_it_has_landed_and_no_longer_than_its_bound(world: Answers) -> None:
    fault = world.fault(NO_ROOM, seconds=0.1, longest_s=1.0)
    fault.strike({})
    began = time.monotonic()
    fault.endure()
    assert time.monotonic() - began >= 1.0
    assert not fault.landed()
    world.put()
    began = time.monotonic()
    fault.endure()
    assert time.monotonic() - began < 1.0
