"""Merging: one object that stands for the deltas of 64 epochs, so that a start reads few objects (R5, R9).

What is merged, and with what, is decided by the chain alone, so that every attempt of every driver comes to the same:

- A group is 64 entries of one kind, shard and length: deltas of single epochs, or spans of 64 of them. It begins at an
  epoch that its own length divides, so that two groups never overlap, and has an entry for each epoch, be it empty or
  inline. A group of which the floor has taken a part is therefore none: what is left of it goes soon.
- A group of more than ROWS rows stays as it is: what reading it costs are its rows, not its requests.
- So does a group that an older version began and this one went on with: digests of two forms have no sum.
- Deltas of another number of shards stay as they are, as every shard reads them (`EpochTask.deltas_of`).
- Each step merges at most one group, the oldest one. A span of 64 times 64 epochs is not merged further.

The span holds the rows of its deltas, all of them and in order: also those whose windows have closed meanwhile, for its
content must not depend on when it is made. Whoever folds it lets them expire, as with deltas above the floor.

It takes effect with the record of the epoch in which it was made. Until then nobody reads it, and its deltas stay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.delta import Span
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.state.deltas import DAMAGE, READERS, Named, ShardDeltas, largest

FAN = 64
"""Entries of a group: a start reads at most 64 deltas, 64 spans of 64 epochs, and the spans of 4096."""
ROWS = 1 << 19
"""Rows of a span: merging them takes 0.3 to 0.5 s, for which the epoch waits."""

Where = tuple[str, int]
"""Kind and shard."""


def choose(named: Sequence[Named], fan: int = FAN) -> Sequence[Named] | None:
    """Return the group to merge next out of all entries of a kind and shard, in order; None when there is none."""
    for at, entry in enumerate(named):
        length = _length(entry)
        if length > fan or entry.first % (length * fan):
            continue
        group = named[at : at + fan]
        firsts = range(entry.first, entry.first + length * fan, length)
        if (
            [part.first for part in group] == [*firsts]
            and all(_length(part) == length for part in group)
            and sum(part.rows.rows for part in group) <= ROWS
            and len({digest.is_former(part.rows.digest) for part in group if part.rows.rows}) <= 1
        ):
            return group
    return None


def merge_oldest(log: ShardDeltas, named: Sequence[Named], fan: int = FAN, readers: int = READERS) -> Span | None:
    """Merge the oldest group of a kind and shard, and return the span for the record of the epoch that runs.

    Args:
        log: the deltas of the kind and shard.
        named: its entries as the chain names them, in order, the empty ones among them.
        fan: entries of a group.
        readers: how many objects are read at a time, by as many threads; 1 takes none.

    Returns:
        None when there is no group. The span of a group without rows has no object.

    Raises:
        ChainError: a delta of the group is missing or damaged. In a driver that was replaced it may have been deleted.
        SinkError: there is a span of other rows.

    """
    group = choose(named, fan)
    if group is None:
        return None
    span = Span(
        first=group[0].first,
        last=group[-1].epoch,
        rows=sum(part.rows.rows for part in group),
        digest=digest.add(part.rows.digest for part in group),
        largest=largest(part.rows for part in group),
    )
    if not span.rows:
        return span
    key = log.layout.span(log.kind, span.first, span.last, log.shard)
    table = _together(log, [part for part in group if part.rows.rows], span, key, readers)
    size, held = log.create(key, table, span.digest)
    if held != span.digest:
        raise SinkError(
            f"epochs {span.first} to {span.last} of {log.kind!r}, shard {log.shard}, were merged to other rows before",
            key,
            "The object is not of this chain. Keep it aside under another name, and start again.",
        )
    return span.model_copy(update={"bytes": size})


def take_in(named: dict[Where, list[Named]], record: EpochRecord) -> list[tuple[Where, Named]]:
    """Add the deltas of a recorded epoch to what the chain names, and put its spans in the place of their parts.

    Args:
        named: entries by kind and shard, in order; changed in place.
        record: the next epoch's.

    Returns:
        The parts, which nobody reads from now on.

    Raises:
        ChainError: a span and another entry share some epochs only.

    """
    for kind, by_shard in record.deltas.items():
        for shard, rows in by_shard.items():
            entry = Named(record.epoch, rows, record.decides, record.shards)
            named.setdefault((kind, int(shard)), []).append(entry)
    parts: list[tuple[Where, Named]] = []
    for kind, spans in record.merged.items():
        for shard, span in spans.items():
            where = kind, int(shard)
            merged = Named(span.last, span, shards=record.shards)
            parts += [(where, part) for part in _replace(named.setdefault(where, []), merged, f"{kind}, shard {shard}")]
    return parts


def _length(entry: Named) -> int:
    return entry.epoch - entry.first + 1


def _together(log: ShardDeltas, parts: Sequence[Named], span: Span, key: str, readers: int) -> pa.Table:
    """All rows of some entries, checked at once against the digest of the span."""
    if readers == 1:
        tables = [log.read_unchecked(part) for part in parts]
    else:
        with ThreadPoolExecutor(readers, "merge") as pool:
            tables = list(pool.map(log.read_unchecked, parts))
    try:
        table = pa.concat_tables(tables)
        found = table.num_rows, log.digest_rows(table, span.digest)
        how = "their rows are not those the chain names"
    except DAMAGE as error:
        found, how = (-1, ""), f"their columns differ or cannot be read: {str(error)[:200]}"
    if found != (span.rows, span.digest):
        for part in parts:
            log.read(part)  # raises for the one it is
        raise ChainError(
            f"deltas cannot be merged, {how}", key, "Restore the chain from the bucket's versions or a backup."
        )
    return table


def _replace(entries: list[Named], span: Named, where: str) -> list[Named]:
    """Put a span in the place of the entries within it; return those."""
    begin = bisect_left(entries, span.first, key=lambda entry: entry.first)
    end = bisect_right(entries, span.epoch, key=lambda entry: entry.epoch)
    before, after = entries[:begin], entries[end:]
    # Folding both would count the epochs that they share twice.
    if (before and before[-1].epoch >= span.first) or (after and after[0].first <= span.epoch):
        raise ChainError(
            f"merged deltas of epochs {span.first} to {span.epoch} overlap others",
            where,
            "This is a defect of the driver: keep its log, and restore the chain from a backup.",
        )
    parts = entries[begin:end]
    entries[begin:end] = [span]
    return parts
