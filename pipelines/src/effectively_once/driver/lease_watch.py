"""What a standby sees of the driver at work: that it has ended, or that it shows no sign of life."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from enum import StrEnum

import structlog

from effectively_once.errors import UnreachableError
from effectively_once.ledger import chain, lease
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, ObjectStore, run

FOLLOW_S = 10.0
"""How old what is known of head may be, as long as the lease is its owner's."""
CLOSE = 0.5
"""Between two looks no more than this share of the lease's time counts: a standby that stood still has seen nothing."""

log = structlog.get_logger()


class Why(StrEnum):
    """Why a standby may take over: nobody was there, its owner ended, fell silent, or never had a lease."""

    FIRST = "first"
    RELEASED = "released"
    SILENT = "silent"
    UNLEASED = "unleased"


class LeaseWatch:
    """One per standby. A look is one small get; head is read every 10 s, and whenever the lease is not its owner's.

    Only its own monotonic clock counts, and only that the lease's ETag stayed: no time that another machine wrote.

    Args:
        layout: names of the objects.
        store: should give up within the lease's time.
        ttl_s: of an owner that has no lease.
        now_s: seconds from any beginning.

    Attributes:
        owner: of head, as it was last read; None: there was no head.

    """

    def __init__(
        self, layout: Layout, store: ObjectStore, ttl_s: float, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._layout, self._store, self._own_ttl_s, self._now_s = layout, store, ttl_s, now_s
        self._ttl_s = ttl_s
        self.owner: str | None = None
        self._followed_s = -math.inf
        self._sign: tuple[str | None, str | None] | None = None
        self._last_s = self._silent_s = 0.0

    @property
    def every_s(self) -> float:
        """Pause between two looks."""
        return self._ttl_s / lease.RENEWALS

    def look(self) -> Why | None:
        """Look once; return why the chain may be taken over from `owner`, None where it may not.

        Raises:
            PipelineError: head cannot be read, other than for a store that does not answer.

        """
        try:
            return self._look()
        except UnreachableError as error:
            # Whoever is at work cannot renew it either.
            log.warning("the object store does not answer: nobody's silence counts", error=str(error))
            self._sign = None
            return None

    def forget(self) -> None:
        """Look at head again before anything else: somebody else took it over."""
        self._followed_s = -math.inf

    def _look(self) -> Why | None:
        asked_s = self._now_s()
        found = self._store.answer(Get(self._layout.lease))
        held = lease.decode(found.body) if isinstance(found, Found) else None
        if held is None or held.owner != self.owner or asked_s - self._followed_s >= FOLLOW_S:
            head = run(chain.there(self._layout), self._store)
            self.owner, self._followed_s = None if head is None else head.owner, asked_s
        if self.owner is None:
            return Why.FIRST
        # Another driver's lease is no sign of life of the one that owns head, however often it changes.
        if held is not None and held.owner != self.owner:
            held = None
        if held is not None and held.released:
            return Why.RELEASED
        self._ttl_s = self._own_ttl_s if held is None else held.ttl_s
        sign = (self.owner, found.etag if held is not None and isinstance(found, Found) else None)
        if sign != self._sign:
            self._sign, self._silent_s, self._last_s = sign, 0.0, self._now_s()
            return None
        self._silent_s += min(asked_s - self._last_s, CLOSE * self._ttl_s)
        self._last_s = asked_s
        if self._silent_s < self._ttl_s:
            return None
        return Why.UNLEASED if held is None else Why.SILENT
