"""Which driver is at work and whether a standby waits: by their signs of life, looked at twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from effectively_once.ledger import lease
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.lease import Lease
from effectively_once.ledger.objects import ObjectStore, body_of, run

PATIENCE = 1.5
"""Shares of the lease's time after which a sign that did not change is none: a standby gives its own once in it."""
AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of life. `state`: it changed between two looks; it did not; or its driver says that it has ended."""

    owner: str
    state: Literal["alive", "silent", "released"]


@dataclass(frozen=True, slots=True)
class Lives:
    """Signs of the driver at work and of a standby; None: there is none, or it is damaged."""

    lease: Sign | None
    standby: Sign | None


class Look:
    """The first look is taken at once; whatever takes long anyway may lie between both.

    Args:
        store: is only read.
        layout: names of the objects.
        now_s: seconds from any beginning.
        sleep: waits so many seconds.

    """

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._keys, self._now_s, self._sleep = store, (layout.lease, layout.standby), now_s, sleep
        self._first, self._began_s = self._read(), now_s()

    def again(self) -> Lives:
        """Look until each sign has changed, or has had its time."""
        while True:
            signs = [self._compare(*pair) for pair in zip(self._first, self._read(), strict=True)]
            ttl_s = max((one.ttl_s for one in self._first if one is not None), default=0.0)
            silent = any(one is not None and one.state == "silent" for one in signs)
            if not silent or self._now_s() - self._began_s >= PATIENCE * ttl_s:
                return Lives(*signs)
            self._sleep(AGAIN_S)

    def _read(self) -> list[Lease | None]:
        bodies = [run(body_of(key), self._store) for key in self._keys]
        return [None if body is None else lease.decode(body) for body in bodies]

    def _compare(self, first: Lease | None, now: Lease | None) -> Sign | None:
        if now is None:
            return None
        return Sign(now.owner, "released" if now.released else "alive" if now != first else "silent")
