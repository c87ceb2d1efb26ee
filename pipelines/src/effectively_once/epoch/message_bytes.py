"""How large the messages of a row are: an epoch with one that its topic does not take could never be published.

Sizes are those of `messages`, but for numbers, times and coordinates, which count as long as they can be: some hundred
bytes too many. Records are judged by Spark (`rows`), what a recorded step answers is judged here. Where a message shows
texts of both, each has half of it, so that neither makes the other unfit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.pipeline.columns import COORDINATES
from effectively_once.pipeline.sinks import MESSAGE_BYTES, ToKafka
from effectively_once.state.aggregates import Sum

if TYPE_CHECKING:
    from effectively_once.pipeline.pipeline import Pipeline

BATCH_BYTES = 128
"""Kafka's own words around the only record of a batch."""
LETTER_BYTES = MESSAGE_BYTES - BATCH_BYTES
"""What a dead letter may have."""
_RESULT_BYTES = 64 << 10
"""Of the dead letter of a result, beside its key: its values, and where it is from."""
SHORT, LONG = '"\\\b\t\n\f\r', "".join(chr(code) for code in range(32) if chr(code) not in "\b\t\n\f\r")
"""Characters that take two bytes as JSON, and those that take six."""
_TEXTS = (pa.string(), pa.binary())
_NULL = 4
_WIDEST = {
    pa.string(): _NULL,
    pa.binary(): _NULL,
    pa.int64(): 20,
    pa.int32(): 11,
    pa.float64(): 24,
    pa.bool_(): 5,
    pa.date32(): 12,
    pa.timestamp("us", "UTC"): 34,
}
"""Of a value as JSON; of a text what is around it."""
_TOPIC, _EPOCH = 251, len('"epoch":,') + 20
_SOURCE = len('"source":[,,],') + _TOPIC + 11 + 20


@dataclass(frozen=True, slots=True)
class Message:
    """What the messages of a Kafka sink are made of.

    Attributes:
        sink: its name, or that of windows whose results may be dead letters.
        room: how many bytes its texts may take.
        json: columns of text and bytes in its JSON; one that is there twice is written as JSON within JSON.
        raw: those that go as they are: its key, and its value where that is no JSON.

    """

    sink: str
    room: int
    json: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why a record is refused whose message is larger."""
        return f"large_{self.sink}"

    def of(self, names: Collection[str]) -> Message | None:
        """Return the part of the message that some columns make; None where they make none."""
        json, raw = (tuple(name for name in some if name in names) for some in (self.json, self.raw))
        if not json and not raw:
            return None
        alone = (json, raw) == (self.json, self.raw)
        return Message(self.sink, self.room if alone else self.room // 2, json, raw)

    @property
    def most(self) -> Counter[str]:
        """How many bytes a byte of each column makes at most."""
        found = Counter(self.raw)
        for name in self.json:
            found[name] += 6
        return found


def messages_of(pipeline: Pipeline) -> list[Message]:
    """Return what the messages of each Kafka sink are made of, in the order in which they are judged."""
    found = []
    for to, schema in pipeline.destinations.values():
        if not isinstance(to, ToKafka):
            continue
        raw = tuple(name for name in (to.key, to.value) if name)
        from_input = set(COORDINATES.names) <= set(schema.names)
        shown = to.columns or tuple(name for name in schema.names if not (from_input and name in COORDINATES.names))
        around = 0 if to.value else 2 + _EPOCH + (_SOURCE if from_input else 0)
        texts = []
        for column in () if to.value else map(schema.field, shown):
            around += len(column.name) + len('"":,') + (_TOPIC if column.name == "topic" else _WIDEST[column.type])
            if column.type in _TEXTS and not (from_input and column.name == "topic"):
                texts.append(column.name)
        found.append(Message(to.name, to.message_bytes_max - BATCH_BYTES - around, tuple(texts), raw))
    found += [
        Message(each.name, LETTER_BYTES - _RESULT_BYTES, (each.by, each.by))
        for each in pipeline.windows
        if any(isinstance(value, Sum) for value in each.values.values())
    ]
    return found


def of_records(pipeline: Pipeline) -> list[Message]:
    """Return what a record makes of the messages of its row, and of results by its key."""
    texts = [column.name for column in pipeline.input if column.type in _TEXTS and column.name != "topic"]
    return [part for message in messages_of(pipeline) if (part := message.of(texts))]


def faults(pipeline: Pipeline, answer: pa.Table) -> Iterator[str]:
    """Say of which sinks the messages would be too large with what a recorded step answers, and in how many rows."""
    for message in messages_of(pipeline):
        if part := message.of(answer.column_names):
            number = sum(_larger(part, answer.slice(at, 1)) for at in _suspects(part, answer))
            if number:
                names = ", ".join(part.most)
                yield f"{names} take more than the {part.room} bytes of sink {part.sink!r} in {number} rows"


def _suspects(part: Message, answer: pa.Table) -> list[int]:
    most: Any = pa.scalar(0, pa.int64())
    for name, times in part.most.items():
        length = pc.fill_null(pc.binary_length(answer[name]), 0).cast(pa.int64())
        most = pc.add(most, pc.multiply(length, times))
    found: list[int] = pc.indices_nonzero(pc.greater(most, part.room)).to_pylist()
    return found


def _larger(part: Message, row: pa.Table) -> bool:
    (values,) = row.to_pylist()
    size = sum(len(_encoded(values[name])) for name in part.raw)
    size += sum(len(orjson.dumps(values[name], default=bytes.hex)) - len('""') for name in part.json)
    return size > part.room


def _encoded(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""
