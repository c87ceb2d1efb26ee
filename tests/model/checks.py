"""What must hold in a world, whatever the drivers did: the claims of the exploration."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from effectively_once.ledger.head import Head
from tests.model import at
from tests.model.at import LAYOUT
from tests.model.outputs import FILES
from tests.model.outside import Row
from tests.model.rules import Pipeline
from tests.model.world import World

MISSING = "missing="
"""Stands for the rows of a file that is not there."""


def head_of(world: World) -> Head | None:
    """Head as it is in a world."""
    body = world.body(LAYOUT.head)
    return None if body is None else at.head_of(body)


def owner(world: World) -> str | None:
    """Name of the driver that head belongs to."""
    head = head_of(world)
    return head.owner if head else None


def started(world: World) -> World:
    """Return the world as the next start leaves it: where a mark seems to lag, it ends what hangs (`preflight.py`)."""
    return replace(world, shards=tuple(shard and shard.ended for shard in world.shards))


def visible(world: World) -> tuple[Row, ...]:
    """Return the rows that readers see: committed ones, and those of files that manifests name."""
    rows = [row for shard in world.shards if shard is not None for row in shard.rows]
    for key, body in world.objects:
        if "/manifests/" in key:
            rows += _of_manifest(world, body)
    return tuple(rows)


def wrong(world: World, rows: tuple[Row, ...]) -> str | None:
    """Name what a reader would find wrong in what is visible."""
    if any(row == MISSING for _, row in rows):
        return "a manifest names a file that is not there"
    ids = Counter(row.split("=")[0] for _, row in rows)
    doubled = sorted(identity for identity, number in ids.items() if number > 1)
    if doubled:
        return f"doubled: {doubled}"
    for epoch in {epoch for epoch, _ in rows}:
        values = {row.split("=")[1] for number, row in rows if number == epoch}
        if len(values) > 1:
            return f"epoch {epoch} shows the values of two attempts: {sorted(values)}"
    return None


def changed(before: tuple[Row, ...], after: tuple[Row, ...]) -> str | None:
    """Name a row that was visible before, and is not any more."""
    gone = () if before == after[: len(before)] else sorted((Counter(before) - Counter(after)).elements())
    return f"not visible any more: {gone}" if gone else None


def incomplete(world: World, expected: tuple[str, ...]) -> str | None:
    """Name the difference between what a recovered pipeline published and its input."""
    rows = sorted(row.split("=")[0] for _, row in visible(started(world)))
    return None if rows == sorted(expected) else f"after recovery the sinks hold {rows}"


def closed(world: World, pipeline: Pipeline) -> list[str]:
    """Return the ids in long windows that the last epoch has closed, all of which were in time."""
    head, span = head_of(world), pipeline.long + pipeline.lateness
    watermark = head.tail[-1].watermark_ms if head is not None else None
    return [
        one for one, time in pipeline.input if watermark is not None and time - time % pipeline.long + span <= watermark
    ]


def mark_outside(world: World, *, of_epoch: bool = False) -> str | None:
    """Name a mark that lies outside of last recorded and declared epoch: the next start would be refused (R10).

    `of_epoch`: of the shards that this epoch has, where pipelines change their number.
    """
    head = head_of(world)
    if of_epoch and head is not None and head.shards is not None:
        world = replace(world, shards=world.shards[: head.shards])
    low = -1 if head is None else head.last_recorded
    high = low if head is None or head.declared is None else head.declared.epoch
    for where, found in _marks(started(world)):
        if not low <= found <= high:
            return f"the mark of {where} is {found}, the chain is at {low} to {high}"
    return None


def _marks(world: World) -> Iterator[tuple[str, int]]:
    for number, shard in enumerate(world.shards):
        if shard is not None:
            yield f"shard {number}", shard.mark.epoch if shard.mark else -1
    if None in world.shards:
        manifests = (_manifest(body)[0] for key, body in world.objects if "/manifests/" in key)
        yield f"sink {FILES}", max(manifests, default=-1)


def _of_manifest(world: World, body: bytes) -> Iterator[Row]:
    epoch, files = _manifest(body)
    for name in files:
        found = world.body(name)
        for row in (MISSING,) if found is None else _of_file(found):
            yield epoch, row


@lru_cache(maxsize=10_000)
def _manifest(body: bytes) -> tuple[int, tuple[str, ...]]:
    manifest = json.loads(body)
    return manifest["epoch"], tuple(file["name"] for file in manifest["files"])


@lru_cache(maxsize=10_000)
def _of_file(body: bytes) -> tuple[str, ...]:
    return tuple(pq.read_table(pa.BufferReader(body))["row"].to_pylist())
