"""Results of windows that no sink takes, as one with a sum that 64 bits do not hold: they are dead letters.

They are known before anything of their epoch is published: what an epoch closes is in the state before it (R7). So the
first step tells them, with the dead letters of its shard and under their mark, and the second leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from effectively_once.epoch.message_bytes import LETTER_BYTES, REASON_CHARACTERS
from effectively_once.state import deltas, keys, ordered, sums, windows

if TYPE_CHECKING:
    from effectively_once.epoch.shard_step import ShardStep
    from effectively_once.pipeline.windows import Windowed
    from effectively_once.sinks.kafka_shard import Row


SHORT_CHARACTERS = 2_000
"""Of all values of a result together, where its dead letter would be larger than its topic takes."""


def letters(step: ShardStep) -> list[Row]:
    """Return the dead letters of the results that this epoch would close in a shard.

    `source` names the windows, the shard, and which one of the epoch it is. `value` is the result: key, window and
    values, these as text; the first characters alone where all are more than the topic takes.
    """
    return [letter for each in step.task.pipeline.windows for letter in _of(step, each)]


def _of(step: ShardStep, each: Windowed) -> list[Row]:
    pinned = step.task.declaration
    watermarks = pinned.previous_watermark_ms, pinned.watermark_ms
    if watermarks[0] == watermarks[1] or not _possible(step, each):
        return []
    final = step.state.window_state(each).final(*watermarks)
    found = windows.final_of(final, step.task.pipeline.accumulators(each))[1]
    return [letter(step, each, number, one.reason, one.exact) for number, one in enumerate(found)]


def letter(step: ShardStep, each: Windowed, number: int, reason: str, result: Mapping[str, Any]) -> Row:
    """Return the dead letter of a result, with key and window as in a delta.

    `number` is which one of the epoch and shard it is.
    """
    values = {name: _text(value) for name, value in result.items() if name not in windows.GROUP}
    kinds = [step.task.pipeline.row_schema.field(name).type for name in each.keys]
    key = [column[0].as_py() for column in keys.decode(pa.chunked_array([[result[windows.KEY]]]), kinds)]
    by = dict(zip(each.keys, map(ordered.as_json, key), strict=True))
    value = {**by, windows.START: result[windows.START], **values}
    source = f"{step.task.settings.pipeline}.{each.name}", step.shard, number
    body = orjson.dumps(line(step, source, reason, value))
    if len(body) > LETTER_BYTES:
        # The key fits, as its records were judged by it; values are of any number of records.
        most = max(1, SHORT_CHARACTERS // len(values))
        short = {name: text[:most] for name, text in values.items()}
        body = orjson.dumps(line(step, source, reason[:REASON_CHARACTERS], value | short))
    return None, body


def line(step: ShardStep, source: tuple[str, int, int], reason: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the dead letter of a result holds."""
    return {
        "reason": reason,
        "id": None,
        "value": orjson.dumps(value).decode(),
        "encoding": "utf-8",
        "epoch": step.task.declaration.epoch,
        "source": source,
        # Of no row of any record.
        **({} if step.task.pipeline.explode is None else {"pos": None}),
    }


def _text(value: Any) -> str:
    told = ordered.as_json(value)
    return str(told).lower() if isinstance(told, bool) else str(told)


def _possible(step: ShardStep, each: Windowed) -> bool:
    """Whether the state can hold such a one. Ordinary state is not read for that, as the chain tells how large it is.

    Not of a delta that an older version wrote: then it is read.
    """
    if not windows.limited(step.task.pipeline.accumulators(each)):
        return False
    named = [entry.rows for entry in step.task.deltas_of(each.name, step.shard) if entry.rows.rows]
    size = deltas.largest(named)
    # That is of a pane, and a window has several.
    panes = len(each.windows(step.task.windows).holding(0))
    return bool(named) and (size is None or size * panes >= sums.LANE)
