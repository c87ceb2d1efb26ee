"""The object store runs, and its answers go wrong on the way: errors, late ones, lost ones, no room for writes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.harness.adapters.drivers import Struck
from tests.harness.adapters.store_link import StoreLink
from tests.harness.adapters.treatment import Asked, Choice, Treatment
from tests.harness.faults.fault import Lasting, name_process, now_ms
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.server import Restartable, family, present
from tests.harness.mixture import ERRORS, LATE, LOST, NO_ROOM

WRITES = ("PUT", "POST")
SHARE = 0.5
"""Of the requests that go wrong: every kind is hit, and some attempt of a client still gets through."""
LATE_S = (1.0, 4.0)
BEYOND_S, BEYOND_SHARE = 12.0, 0.1
"""Some answers come later than clients wait for one (10 s)."""

BUSY = Treatment("503", passed_on=False, answer=(503, "SlowDown"))
BROKEN = Treatment("500 once carried out", answer=(500, "InternalError"))
FULL = Treatment("507", passed_on=False, answer=(507, "XMinioStorageFull"))
UNASKED = Treatment("reset before", passed_on=False, cut=True)
UNHEARD = Treatment("reset once carried out", cut=True)


def choice_of(kind: str, rng: random.Random) -> Choice:
    """What goes wrong with which request. Raises KeyError when there is no such kind."""

    def errors(_: Asked) -> Treatment | None:
        return rng.choice((BUSY, BROKEN)) if rng.random() < SHARE else None

    def late(_: Asked) -> Treatment | None:
        if rng.random() >= SHARE:
            return None
        wait_s = BEYOND_S if rng.random() < BEYOND_SHARE else rng.uniform(*LATE_S)
        return Treatment("beyond the time-out" if wait_s == BEYOND_S else "late", wait_s=wait_s)

    def lost(asked: Asked) -> Treatment | None:
        # Conditional puts are what the chain stands on: most of their answers are lost, of puts that took place.
        if asked.condition:
            return UNHEARD if rng.random() < 1 - SHARE / 2 else UNASKED
        return rng.choice((UNHEARD, UNASKED)) if rng.random() < SHARE / 2 else None

    def no_room(asked: Asked) -> Treatment | None:
        return FULL if asked.verb in WRITES else None

    return {ERRORS: errors, LATE: late, LOST: lost, NO_ROOM: no_room}[kind]


class StoreAnswers(Lasting):
    """Answers of the object store go wrong for some seconds, on the link that the pipeline reaches it by.

    Args:
        kind: what goes wrong with them.
        link: between the pipeline and the store.
        store: which is not touched.
        seconds: how long; longer, until something was hit that the kind is about.
        longest_s: at most so long.
        healing: calms the link whatever happens.
        rng: draws which requests are hit.
    """

    # Between two epochs a pipeline asks its store for nothing; the next epoch's declaration is what is to be hit.
    flowing = True

    def __init__(
        self,
        kind: str,
        link: StoreLink,
        store: Restartable,
        *,
        seconds: float,
        longest_s: float,
        healing: Healing,
        rng: random.Random,
    ) -> None:
        super().__init__(healing, seconds)
        self._kind, self._link, self._store, self._longest_s = kind, link, store, longest_s
        self._choice = choice_of(kind, rng)
        self._debt = Debt("let the object store's answers pass again", link.calm)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        who = name_process(family(self._store)[0])
        self._healing.strike(self._debt, lambda: self._link.strike(self._choice))
        return [(who, now_ms())]

    def endure(self) -> None:
        self._last(self._longest_s)

    def after(self) -> list[str]:
        """The store, which was there all the time."""
        return present(self._store)

    def landed(self) -> bool:
        """Whether a request was hit: of lost answers, that to a conditional put which replaces an object (head)."""
        hits = self._link.hits
        if self._kind == LOST:
            return any(one.startswith("PUT If-Match") and one.endswith(UNHEARD.name) for one in hits)
        return bool(hits)

    def evidence(self) -> dict[str, Any]:
        return {"requests": self._link.hits}
