"""Where a shard puts the refused records that no dead letter holds, before it shows anything of their epoch."""

from __future__ import annotations

from effectively_once.epoch.messages import Keep
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.sinks import letter_records


def keeper(step: ShardStep) -> Keep:
    """Return what puts a record into an object of its epoch; a repeat names the same one, and finds it there."""

    def keep(value: bytes, sha256: str) -> str:
        step.confirm()
        return letter_records.put(step.store, step.task.layout, step.task.declaration.epoch, value, sha256)

    return keep
