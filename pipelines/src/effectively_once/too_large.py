"""Results of windows with a sum that 64 bits do not hold: no sink can take them, so they are dead letters.

They are known before anything of their epoch is published: what an epoch closes is in the state before it (R7). So the
first step tells them, with the dead letters of its shard and under their mark, and the second leaves them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from effectively_once import deltas, state, sums
from effectively_once.columns import SUM_TOO_LARGE

if TYPE_CHECKING:
    from effectively_once.shard_step import ShardStep
    from effectively_once.sinks.kafka import Row
    from effectively_once.windowed import Windowed


def letters(step: ShardStep) -> list[Row]:
    """Return the dead letters of the results that this epoch would close in a shard.

    `source` names the windows, the shard, and which one of the epoch it is. `value` is the result: key, window and
    values, whole numbers as text.
    """
    return [letter for each in step.task.pipeline.windows for letter in _of(step, each)]


def _of(step: ShardStep, each: Windowed) -> list[Row]:
    pinned = step.task.declaration
    watermarks = pinned.previous_watermark_ms, pinned.watermark_ms
    if watermarks[0] == watermarks[1] or not _possible(step, each):
        return []
    final = step.window_state(each).final(*watermarks)
    source = f"{step.task.settings.pipeline}.{each.name}"
    found: list[Row] = []
    for number, result in enumerate(state.final_of(final, each.values)[1]):
        key, start = result.pop(state.KEY), result.pop(state.START)
        value = {each.by: key, state.START: start, **{name: str(number_) for name, number_ in result.items()}}
        line = {"reason": SUM_TOO_LARGE, "id": None, "value": orjson.dumps(value).decode(), "encoding": "utf-8",
                "epoch": pinned.epoch, "source": (source, step.shard, number)}  # fmt: skip
        found.append((None, orjson.dumps(line)))
    return found


def _possible(step: ShardStep, each: Windowed) -> bool:
    """Whether the state can hold such a sum. Ordinary state is not read for that, as the chain tells how large it is.

    Not of a delta that an older version wrote: then it is read.
    """
    if not state.summed(each.values):
        return False
    named = [entry.rows for entry in step.task.deltas_of(each.name, step.shard) if entry.rows.rows]
    size = deltas.largest(named)
    return bool(named) and (size is None or size >= sums.LANE)
