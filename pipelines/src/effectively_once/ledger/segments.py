"""Segments of the chain: epoch records that left head, in objects that are written once."""

from __future__ import annotations

import json

from effectively_once.errors import ChainError
from effectively_once.ledger import checksum
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, Step, create_once
from effectively_once.ledger.record import reason

TAIL_LIMIT = 64
"""Epoch records in head before the older half moves to a segment: head stays below some 100 KB, a segment is rare."""


def flush(layout: Layout, head: Head) -> Step[Head]:
    """Move the older half of a long tail to a create-once segment; a repeat writes the same content.

    An epoch stays whose rest others take: a batch of Spark is compared with its ranges, the watermark goes by its rows.
    """
    begun = max((at for at, record in enumerate(head.tail) if record.repairs is None and not record.reads), default=0)
    half = min(TAIL_LIMIT // 2, begun)
    if len(head.tail) <= TAIL_LIMIT or not half:
        return head
    moved, kept = head.tail[:half], head.tail[half:]
    span = (moved[0].epoch, moved[-1].epoch)
    lines = b"\n".join(record.model_dump_json(by_alias=True).encode() for record in moved)
    yield from create_once(layout.segment(*span), lines)
    return head.model_copy(update={"segments": (*head.segments, span), "tail": kept})


def history(layout: Layout, head: Head, since: int = 0) -> Step[list[EpochRecord]]:
    """Epoch records, oldest first: all from epoch `since` on, and what shares a segment with it.

    Raises:
        ChainError: a segment is missing or damaged.

    """
    read_: list[tuple[EpochRecord, str, str]] = []
    for span in head.segments:
        if span[1] < since:
            continue
        key = layout.segment(*span)
        found = yield Get(key)
        if not isinstance(found, Found):
            raise ChainError("a segment of the chain is missing", key, "Restore it from a backup.")
        read_ += [(record, told, key) for record, told in _of_segment(found.body, span, key)]
    records = [*(record for record, _, _ in read_), *head.tail]
    # From the newest on: each record that is known to be right says what the one before it has to be.
    for (record, told, key), after in reversed(list(zip(read_, records[1:], strict=False))):
        # Who wants some epochs alone asks for the segments that hold them: what follows those is then not there.
        if after.epoch == record.epoch + 1 and after.before not in (None, told):
            raise _damage_error(f"epoch {record.epoch} is not what epoch {after.epoch} follows", key)
    return records


def _of_segment(body: bytes, span: tuple[int, int], key: str) -> list[tuple[EpochRecord, str]]:
    """Records of a segment, each with its checksum."""
    try:
        lines = body.split(b"\n")
        records = [(EpochRecord.model_validate_json(line), checksum.of(json.loads(line))) for line in lines]
        if [record.epoch for record, _ in records] == list(range(span[0], span[1] + 1)):
            return records
        why = f"it does not hold epochs {span[0]} to {span[1]}"
    except ValueError as wrong:
        why = reason(wrong)
    raise _damage_error(why, key)


def _damage_error(why: str, key: str) -> ChainError:
    return ChainError(f"a segment of the chain is damaged: {why}", key, "Restore it from a backup.")
