"""Declarations and records of a made-up pipeline, one topic with two partitions, ten records each an epoch."""

from __future__ import annotations

from effectively_once.ledger import chain, due_epoch
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.ledger.offsets import Ranges
from effectively_once.ledger.rows import Rows

LAYOUT = Layout("counts")
SETTINGS = {"topic": "events", "shards": 2, "window_ms": 60_000, "lateness_ms": 120_000}
WHEEL = "a" * 64


def ranges(epoch: int, size: int = 10) -> Ranges:
    """Return offsets of an epoch: partition 1 runs ahead of partition 0, so that neither can stand for the other."""
    start, end = epoch * size, (epoch + 1) * size
    return {"events": {"0": (start, end), "1": (2 * start, 2 * end)}}


def declaration(epoch: int, pinned: Ranges | None = None, wheel: str = WHEEL) -> Declaration:
    """Pin an epoch about to be published."""
    return Declaration(
        epoch=epoch,
        lineage="000001-abcd",
        batch_id=epoch,
        ranges=ranges(epoch) if pinned is None else pinned,
        topic_ids={"events": "id-of-events"},
        watermark_ms=None if epoch == 0 else 1000 * epoch - 1000,
        previous_watermark_ms=None if epoch < 2 else 1000 * epoch - 2000,
        shards=2,
        wheel_digest=wheel,
        settings_digest="b" * 32,
    )


def record_of(declared: Declaration, generation: int = 1) -> EpochRecord:
    """Tell what became of an epoch, once it was published."""
    rows = Rows(rows=30, digest=f"{declared.epoch:032x}")
    return EpochRecord(
        **declared.model_dump(),
        generation=generation,
        counts=Counts.model_validate({"in": 30, "accepted": 30}),
        max_event_time_ms=1000 * declared.epoch,
        sinks={"accepted": {"0": rows}},
        deltas={"ids": {"0": Delta(**rows.model_dump())}},
    )


def taken(store: ObjectStore, owner: str = "first") -> Held:
    """Let a driver take over; return head."""
    return run(chain.take_over(LAYOUT, owner, SETTINGS), store)


def advanced(store: ObjectStore, held: Held, epochs: int, floor: int = 0) -> Held:
    """Declare, publish and record that many further epochs; return head."""
    published: EpochRecord | None = None
    first = held.head.last_recorded + 1
    for epoch in range(first, first + epochs):
        held = run(chain.declare(LAYOUT, held, declaration(epoch), published, floor), store)
        published = record_of(declaration(epoch), held.head.generation)
    return held if published is None else run(chain.record(LAYOUT, held, published), store)


def finished_over_nothing(store: ObjectStore, held: Held) -> Held:
    """Record what is declared as an epoch that had no row; return head."""
    nothing = EpochRecord(
        **declared_in(held).model_dump(), generation=1, counts=Counts(), max_event_time_ms=None, sinks={}, deltas={}
    )
    return run(chain.record(LAYOUT, held, nothing), store)


def flipped(body: bytes, bit: int) -> bytes:
    """Return content with one bit flipped, as a store's disk may return it."""
    changed = bytearray(body)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def declared_in(held: Held) -> Declaration:
    """Return the epoch that a head declares."""
    assert held.head.declared is not None
    return held.head.declared


def due_of(head: Head) -> Declaration:
    """Return the epoch that has to come next: one that repairs another, or takes its rest."""
    due = due_epoch.repair(head)
    assert due is not None
    return due
