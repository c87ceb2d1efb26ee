"""An inspection as lines of text for an operator."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby

from effectively_once.ledger import due_epoch
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges
from effectively_once.operate.inspect.inspection import Inspection, MarkFacts
from effectively_once.operate.inspect.lives import Lives


def lines(found: Inspection) -> Iterator[str]:
    """Yield one line a fact, and the findings last."""
    yield f"pipeline    {found.pipeline} at {found.where}"
    if found.head is not None:
        yield from _head(found.head, found.head_bytes)
        yield from _repair(found.head, found.marks)
        if found.lives is not None:
            yield from _lives(found.head, found.lives)
    for epoch, loss in found.lost.items():
        when = datetime.fromtimestamp(loss.at_ms / 1000, UTC).isoformat(timespec="seconds")
        yield f"lost        {loss.count:,} offsets, given up by epoch {epoch} at {when}: {_ranges(loss.offsets)}"
    for sink, marks in groupby(found.marks, key=lambda mark: mark.sink):
        yield f"marks       {sink}: {', '.join(map(_mark, marks))}"
    for kind, facts in found.deltas.items():
        yield (
            f"deltas      {kind}: {facts.deltas:,} live, {facts.rows:,} rows; {facts.inline:,} inline, "
            f"{facts.deltas - facts.inline:,} objects of {facts.bytes:,} bytes"
        )
    if found.checkpoint is not None:
        without = "nothing goes on without it" if found.checkpoint.holds_state else "a new lineage would begin"
        fits = "it fits the chain" if found.checkpoint.fits else f"it does not fit the chain: {without}"
        yield (
            f"checkpoint  lineage {found.checkpoint.lineage}: {found.checkpoint.objects:,} objects of "
            f"{found.checkpoint.bytes:,} bytes; {fits}"
        )
    if found.start is not None:
        yield f"start       {found.start.verdict}"
    for finding in found.findings:
        yield f"{'refusal' if finding.part == 'start' else 'damage':<12}{finding.part}: {finding.error}"


def _head(head: Head, size: int) -> Iterator[str]:
    yield (f"head        sequence {head.sequence}, generation {head.generation}, owner {head.owner}, {size:,} bytes")
    yield f"recorded    {_epoch(head.tail[-1]) if head.tail else 'no epoch'}"
    yield f"declared    {_epoch(head.declared) if head.declared else 'no epoch'}"
    yield f"floor       {head.floor}"
    spans = head.segments
    yield f"segments    {len(spans)}" + (f", epochs {spans[0][0]} to {spans[-1][1]}" if spans else "")


def _lives(head: Head, lives: Lives) -> Iterator[str]:
    """Who is at work, and who waits: only the owner of head is at work, whatever a lease says."""
    owner, sign = f"driver {head.owner} of generation {head.generation}", lives.lease
    if sign is None or sign.owner != head.owner:
        yield f"at work     {owner}, which has no lease: a standby takes over when its time is up"
    else:
        yield (
            "at work     "
            + {
                "alive": owner,
                "silent": f"nobody: {owner} does not renew its lease",
                "released": f"nobody: {owner} has ended",
            }[sign.state]
        )
    waits = lives.standby is not None and lives.standby.state == "alive" and lives.standby.owner != head.owner
    yield f"standby     {f'driver {lives.standby.owner} waits' if waits and lives.standby else 'nobody waits'}"


def _repair(head: Head, marks: list[MarkFacts]) -> Iterator[str]:
    """What is to be repaired, or could be: an epoch that is visible somewhere, and that no repeat may finish."""
    declared, due = head.declared, due_epoch.repair(head)
    if due is not None and due.after:
        yield f"division    epoch {due.repairs} was more than a shard takes; epoch {due.epoch} is to take the rest"
    elif declared is not None and declared.is_rest:
        yield f"division    epoch {declared.epoch} takes the rest of a divided one, from epoch {declared.repairs} on"
    elif due is not None:
        yield f"repair      epoch {due.repairs} was finished as it was shown; epoch {due.epoch} is to take what it left"
    elif declared is not None and declared.repairs is not None:
        yield f"repair      epoch {declared.epoch} takes what epoch {declared.repairs} left of its input"
    elif declared is not None and declared.shown:
        shards = ", ".join(declared.shown)
        yield f"repair      epoch {declared.epoch} is to be finished as shards {shards} show it; then the rest"
    elif declared is not None:
        shown = [it.sink if it.shard is None else f"{it.sink} {it.shard}" for it in marks if it.epoch == declared.epoch]
        if shown:
            sinks = ", ".join(shown)
            yield f"visible     epoch {declared.epoch} in {sinks}; if repeats are refused: effectively-once repair"


def _epoch(epoch: Declaration) -> str:
    watermark = "none" if epoch.watermark_ms is None else f"{epoch.watermark_ms} ms"
    return (
        f"epoch {epoch.epoch} (lineage {epoch.lineage} batch {epoch.batch_id}), watermark {watermark}, "
        f"{_ranges(epoch.ranges)}"
    )


def _ranges(ranges: Ranges) -> str:
    return "; ".join(
        f"{topic} " + " ".join(f"{partition}:{start}-{end}" for partition, (start, end) in partitions.items())
        for topic, partitions in ranges.items()
    )


def _mark(mark: MarkFacts) -> str:
    epoch = "none" if mark.epoch is None else f"epoch {mark.epoch}"
    return epoch if mark.shard is None else f"shard {mark.shard} {epoch}"
