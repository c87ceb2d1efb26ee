"""State of the model's pipeline: the ids accepted so far, as deltas and spans of the chain, by the product's code."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import pyarrow as pa

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger import chain
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.objects import Delete, ObjectStore, delete_all
from effectively_once.state import catalog, merge
from effectively_once.state.deltas import Named, ShardDeltas
from effectively_once.state.lateness import Windows
from effectively_once.state.live import LiveDeltas
from tests.model.asked import asking
from tests.model.at import LAYOUT, At, head_of
from tests.model.changed import once
from tests.model.rules import Pipeline, Rules
from tests.model.world import Step

COUNTS = "counts"
"""Kind of the deltas of the second step."""


def live(pipeline: Pipeline, rules: Rules, at: At) -> LiveDeltas:
    """What the driver holds of the chain after all it has done since it took head over."""
    began, head = head_of(at.began), at.held.head
    lengths = [pipeline.length, *([pipeline.long] if pipeline.long and rules.r9_floor_of_every_length else [])]
    windows = [Windows(length, pipeline.lateness) for length in lengths]
    kept = LiveDeltas(LAYOUT, windows, began.tail, began.floor)
    records = {record.epoch: record for record in chain.record_epoch(head, at.record).tail}
    declared = head.declared.epoch if head.declared else head.last_recorded
    for epoch in range(began.last_recorded + 1, declared + 1):
        if began.declared is None or epoch > began.declared.epoch:
            # What it names was deleted before.
            kept.take_out(head.floor)
        if epoch in records:
            kept.add(records[epoch])
    return kept


def collected(pipeline: Pipeline, rules: Rules, at: At, floor: int) -> Generator[Step, Any, None]:
    """Delete what a driver deletes when it has declared an epoch; `at` is what it knew before."""
    yield from delete_all(live(pipeline, rules, at).take_out(floor))


def decided(
    pipeline: Pipeline, rules: Rules, at: At, records: Iterable[tuple[str, int]]
) -> Generator[Step, Any, tuple[tuple[str, ...], Delta]]:
    """Return the ids of these records that are in time and new, and the delta that says so."""
    pinned, windows = at.declaration, Windows(pipeline.length, pipeline.lateness)
    timely = {one: time for one, time in records if not windows.closed(windows.start(time), pinned.watermark_ms)}

    named = _named(pipeline, rules, at)

    def decide(store: ObjectStore) -> tuple[tuple[str, ...], Delta]:
        log = _log(store, anew=pinned.decides)
        known = {one for entry in named if entry.rows.rows for one in _read(log, entry, rules)}
        new = tuple(sorted(timely.keys() - known))
        return new, _write(rules, log, pinned.epoch, {one: timely[one] for one in new})

    return (yield from once(asking(decide), rules.r5_delta_once))


def count(rules: Rules, at: At, partials: tuple[str, ...]) -> Generator[Step, Any, Delta]:
    """Write the delta of the second step: the partials themselves, from which any sum could be made."""
    epoch, rows = at.declaration.epoch, dict.fromkeys(partials, 0)
    decide = asking(lambda store: _write(rules, _log(store, COUNTS), epoch, rows))
    return (yield from once(decide, rules.r5_delta_once))


def closing(pipeline: Pipeline, rules: Rules, at: At) -> Generator[Step, Any, tuple[str, ...]]:
    """Return what this epoch publishes of its windows: what the epochs before counted in those that it closes."""
    pinned, windows, times = at.declaration, Windows(pipeline.long, pipeline.lateness), dict(pipeline.input)
    named = _named(pipeline, rules, at, COUNTS)

    def read(store: ObjectStore) -> tuple[str, ...]:
        kept = [one for entry in named if entry.rows.rows for one in _read(_log(store, COUNTS), entry, rules)]
        watermarks = pinned.previous_watermark_ms, pinned.watermark_ms
        return tuple(sorted(one for one in kept if windows.newly_closed(windows.start(times[one]), *watermarks)))

    return (yield from asking(read))


def merged(pipeline: Pipeline, rules: Rules, at: At) -> Generator[Step, Any, dict[str, dict[str, Span]]]:
    """Merge the oldest group of deltas, for the record of the epoch that runs."""
    if not pipeline.fan:
        return {}
    named = _named(pipeline, rules, at)
    try:
        span = yield from asking(lambda store: merge.merge_oldest(_log(store), named, pipeline.fan, 1))
    except ChainError:
        if rules.r9_missing_refused:
            raise
        return {}
    if span is None:
        return {}
    if not rules.r9_parts_until_recorded:
        for part in merge.choose(named, pipeline.fan) or ():
            key = part.key(LAYOUT, catalog.KIND, 0)
            if key is not None:
                yield Delete(key)
    return {catalog.KIND: {"0": span}}


def _named(pipeline: Pipeline, rules: Rules, at: At, kind: str = catalog.KIND) -> list[Named]:
    return live(pipeline, rules, at).list_named().get(kind, {}).get(0, [])


def _read(log: ShardDeltas, entry: Named, rules: Rules) -> list[str]:
    try:
        read = log.read if rules.r4_digests_compared else log.read_unchecked
        ids: list[str] = read(entry)["id"].to_pylist()
    except ChainError:
        if rules.r9_missing_refused:
            raise
        return []
    return ids


def _write(rules: Rules, log: ShardDeltas, epoch: int, rows: dict[str, int]) -> Delta:
    """Write a delta: ids with their times."""
    try:
        return log.write(epoch, pa.table({"id": list(rows), "event_time_ms": list(rows.values())}, catalog.SCHEMA))
    except SinkError:
        if rules.r4_digests_compared:
            raise
        return Delta(rows=len(rows))


def _log(store: ObjectStore, kind: str = catalog.KIND, anew: int | None = None) -> ShardDeltas:
    return ShardDeltas(store, LAYOUT, kind, 0, catalog.canonical, anew=anew)
