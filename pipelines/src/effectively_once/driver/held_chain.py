"""The chain as one driver holds it: from its take-over until another driver's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from effectively_once.errors import StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.lost_head import refuse_lost_head
from effectively_once.ledger.objects import run
from effectively_once.state.live import LiveDeltas
from effectively_once.store.object_store import S3ObjectStore


class HeldChain:
    """What a driver knows of the chain without reading it again.

    Attributes:
        owner: random, one per driver process.
        held: head as this driver last wrote it; there since the take-over.
        live: what state is read from; there since the take-over.
        published: the declared epoch where it is published and not recorded yet.

    """

    held: Held
    live: LiveDeltas

    def __init__(self, layout: Layout, store: S3ObjectStore) -> None:
        self.layout, self.store, self.owner = layout, store, uuid.uuid4().hex
        self.published: EpochRecord | None = None

    def take_over(self, settings: dict[str, Any], accept: Callable[[Head], None], sink_topics: dict[str, str]) -> None:
        """Fence every other driver (R1); `accept` raises to refuse the head that is there.

        Raises:
            StoreError: none is there, beside what a chain left.

        """
        begin = partial(refuse_lost_head, self.layout, self.store)
        step = chain.take_over(self.layout, self.owner, settings, accept, sink_topics, begin=begin)
        self.held = run(step, self.store)

    @property
    def head(self) -> Head:
        """Head as this driver last wrote it."""
        return self.held.head

    @property
    def published_head(self) -> Head:
        """Head with what is published: that is as good as recorded, as declaring the next epoch records it."""
        return chain.record_epoch(self.head, self.published)

    def declare(self, declaration: Declaration) -> None:
        """Declare an epoch; with it the one that is published is recorded. Raises what `chain.declare` does."""
        floor = self.live.floor(declaration)
        self.held = run(chain.declare(self.layout, self.held, declaration, self.published, floor), self.store)
        self.published = None

    def record(self) -> None:
        """Record what is published without declaring another epoch."""
        assert self.published is not None  # noqa: S101 - the caller published it
        self.held = run(chain.record(self.layout, self.held, self.published), self.store)
        self.published = None

    def still_ours(self) -> None:
        """After a failed epoch: a driver that was replaced stops with its name for it instead of trying again."""
        now = run(chain.read(self.layout), self.store)
        if now.owner != self.owner:
            raise StaleDriverError(
                f"driver {self.owner} was replaced by {now.owner} of generation {now.generation}",
                self.layout.head,
                "Nothing to do when a newer driver runs; otherwise start the pipeline again.",
            )
