"""How the model's driver records and publishes, by the product's own steps; and how rules are left out of them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pyarrow as pa

from effectively_once.epoch import recorded
from effectively_once.errors import SinkError
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import (
    Commit,
    Committed,
    EndHanging,
    FencedError,
    Mark,
    Open,
    Published,
    ReadMark,
    publish,
)
from effectively_once.sinks.staged import StagedFile
from tests.model.asked import asking
from tests.model.at import LAYOUT, At, Kept
from tests.model.changed import once
from tests.model.rules import Rules
from tests.model.shards import ToShard
from tests.model.world import Step

STEP = "draw"
VALUE = pa.schema([("value", pa.string())])
FILES = "files"


def record(rules: Rules, at: At, ours: str) -> Generator[Step, Any, str]:
    """Return the value of the epoch: `ours` unless another attempt has recorded its own."""
    if not rules.r4_output_recorded:
        return ours
    step = RecordedStep(STEP, lambda rows: pa.table({"value": [ours] * rows.num_rows}, VALUE), VALUE)
    rows = pa.table({"id": pa.array(at.new, pa.string())})
    try:
        given, _ = yield from once(
            asking(
                lambda store: recorded.add_recorded(
                    step, store, LAYOUT, epoch=at.declaration.epoch, shard=0, rows=rows, anew=at.declaration.decides
                )
            ),
            rules.r4_output_once,
        )
    except SinkError:
        if rules.r4_digests_compared:
            raise
        return ours
    value: str = given["value"][0].as_py()
    return value


def to_shard(rules: Rules, at: At, rows: tuple[str, ...], forgets: bool) -> Generator[Step, Any, Kept | None]:
    """Publish to a shard of a transactional sink, and return what is kept of it."""
    kept = at.kept[at.shard]
    producer, before = kept if kept is not None else (0, None)
    ours = Mark(at.declaration.epoch, at.held.head.generation, len(rows), ",".join(rows))
    if not rules.r4_digests_compared:
        ours = Mark(ours.epoch, ours.generation, 0, "")
    if not rules.r8_kept_for_next_only and before is not None:
        before = Mark(ours.epoch - 1, ours.generation, 0, "")
    if not rules.r8_mark_decides:
        opened = yield ToShard(at.shard, 0, Open(ours.generation))
        if (yield ToShard(at.shard, opened, Commit(ours), rows)) is Committed.FENCED:
            raise FencedError
        return None
    step = publish(ours, before, f"shard {at.shard}")
    unknown, mark, opened = False, before, False
    try:
        request = next(step)
        while True:
            if isinstance(request, ReadMark) and unknown and not rules.r8_mark_after_unknown:
                request = step.send(mark)
                continue
            asks = rules.r8_hanging_before_mark if opened else rules.r8_hanging_before_kept
            if isinstance(request, EndHanging) and not (forgets and asks):
                request = step.send(False)
                continue
            reply = yield ToShard(at.shard, producer, request, rows if isinstance(request, Commit) else ())
            unknown |= reply is Committed.UNKNOWN
            if isinstance(request, ReadMark):
                mark = reply
            if isinstance(request, Open):
                producer, reply, opened = reply, None, True
            request = step.send(reply)
    except StopIteration as end:
        return (producer, ours) if end.value is Published.NOW else None


def staged(rules: Rules, at: At, rows: tuple[str, ...], attempt: str) -> Generator[Step, Any, StagedFile]:
    """Write the file of one shard of a sink on the object store."""
    unique = f"{at.shard}-{attempt}" if rules.r8_files_of_their_own else str(at.shard)
    table = pa.table({"row": pa.array(rows, pa.string())})
    step = asking(lambda store: ManifestSink(store, LAYOUT, FILES, lambda: unique).stage(at.declaration.epoch, table))
    return (yield from once(step, rules.r8_files_of_their_own))


def shown(rules: Rules, at: At, unique: str) -> Generator[Step, Any, None]:
    """Make the staged files of an epoch visible."""
    files = [StagedFile.model_validate_json(file) for _, file in at.staged]
    head, epoch = at.held.head, at.declaration.epoch
    step = asking(
        lambda store: ManifestSink(store, LAYOUT, FILES, lambda: unique).publish_staged(epoch, head.generation, files)
    )
    yield from once(step, rules.r8_manifest_once)
