"""Renews the lease of the driver at work, whatever its epochs are at, until it ends or another one owns head."""

from __future__ import annotations

import threading

import structlog

from effectively_once.errors import PipelineError
from effectively_once.ledger import lease
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.lease import Lease
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.object_store import S3ObjectStore

SHORTEST_ANSWER_S = 1.0
"""Less is no time to wait for an answer: credentials may have to be asked for first."""

log = structlog.get_logger()


def lease_store(settings: PipelineSettings) -> S3ObjectStore:
    """Return a store that gives up within the lease's time: a later answer says nothing of now."""
    answer_s = max(SHORTEST_ANSWER_S, settings.lease_s / lease.RENEWALS)
    return S3ObjectStore(settings.bucket, settings.lease_s, answer_s=answer_s)


class LeaseKeeper:
    """One per driver, since it took the chain over: one put for each renewal, and nothing else.

    Args:
        layout: names of the objects.
        store: is asked by the keeper alone; it should give up within the lease's time.
        owner: as in head.
        generation: as in head.
        ttl_s: without a renewal for so long a standby takes over.

    """

    def __init__(self, layout: Layout, store: ObjectStore, owner: str, generation: int, ttl_s: float) -> None:
        self._layout, self._store = layout, store
        self._lease = Lease(owner=owner, generation=generation, ttl_s=ttl_s)
        self._etag: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    def start(self) -> None:
        """Write it now and again, in a thread of its own: to recover an epoch may take longer than its time."""
        self._thread.start()

    def renew(self) -> None:
        """Write it once. Raises what the store raises: whether the pipeline can go on without shows at its epochs."""
        self._write()

    def release(self) -> None:
        """Say that this driver has ended, so that a standby need not wait; at once where it cannot be said."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(self._lease.ttl_s)
            # Else the last renewal might come after it.
            if self._thread.is_alive():
                return
        try:
            self._write(released=True)
        except PipelineError as error:
            log.warning("the lease cannot be released, a standby waits until it has run out", error=str(error))

    def _write(self, *, released: bool = False) -> None:
        new = self._lease.renew(released=released)
        etag = run(lease.write(self._layout, new, self._etag), self._store)
        if etag is None:
            # What fences this driver is the chain; it learns that by itself.
            self._over.set()
            return
        self._lease, self._etag = new, etag

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self.renew()
            except PipelineError as error:
                log.warning("the lease cannot be renewed, a standby may take over", error=str(error))
            self._over.wait(self._lease.ttl_s / lease.RENEWALS)
