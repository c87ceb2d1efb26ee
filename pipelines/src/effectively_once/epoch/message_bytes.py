"""How large the messages of a row are: an epoch with one that its topic does not take could never be published.

Sizes are those of `messages`, but for numbers, times and coordinates, which count as long as they can be: some hundred
bytes too many. Records are judged by Spark (`rows`), what a recorded step answers and a stateful query gives is judged
here. Where a message shows texts of a record and of an answer, each has half of it, so that neither makes the other
unfit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.pipeline.columns import COORDINATES
from effectively_once.pipeline.sinks import MESSAGE_BYTES, ToKafka, ToTable
from effectively_once.state.accumulator import Accumulator
from effectively_once.state.ordered import as_json

if TYPE_CHECKING:
    from effectively_once.pipeline.pipeline import Pipeline

BATCH_BYTES = 128
"""Kafka's own words around the only record of a batch."""
LETTER_BYTES = MESSAGE_BYTES - BATCH_BYTES
"""What a dead letter may have."""
REASON_CHARACTERS = 1_000
"""Of a reason in a dead letter that would be too large with all of it."""
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
    for to, schema in pipeline.sinks.values():
        if not isinstance(to, ToKafka):
            continue
        raw = tuple(name for name in (to.key, to.value) if name)
        from_input = set(COORDINATES.names) <= set(schema.names)
        shown = to.columns or tuple(name for name in schema.names if not (from_input and name in COORDINATES.names))
        around = 0 if to.value else 2 + _EPOCH + (_SOURCE if from_input else 0)
        texts = []
        values = _values(pipeline, to.name)
        for column in () if to.value else map(schema.field, shown):
            around += len(column.name) + len('"":,') + (_TOPIC if column.name == "topic" else _widest(column.type))
            if column.name not in values and column.type in _TEXTS and not (from_input and column.name == "topic"):
                texts.append(column.name)
        part = Message(to.name, to.message_bytes_max - BATCH_BYTES - around, tuple(texts), raw)
        # A result that is the key of its message is in it once more.
        found.append(_with_values(part, [(name, *values[name]) for name in (*shown, *raw) if name in values]))
    for each in pipeline.windows:
        texts = [name for name in each.keys if pipeline.row_schema.field(name).type in _TEXTS]
        # A table may refuse a result too. Values are shortened where they are too long (`too_large`).
        if isinstance(each.to, ToTable) or any(value.reason for value in pipeline.accumulators(each).values()):
            found.append(Message(each.name, LETTER_BYTES - _RESULT_BYTES, (*texts, *texts)))
    return found


def _values(pipeline: Pipeline, name: str) -> dict[str, tuple[str | None, Accumulator]]:
    """Return the values of the windows of a name: the column that each shows texts of, and what it keeps."""
    for each in pipeline.windows:
        if each.name == name:
            return {
                of: (next(iter(each.values[of].columns)) if value.texts else None, value)
                for of, value in pipeline.accumulators(each).items()
            }
    return {}


def _with_values(part: Message, values: Sequence[tuple[str, str | None, Accumulator]]) -> Message:
    """Add the texts of results, which are of several records: each record may take its share of the room.

    A text that is JSON itself is JSON within JSON in the message: it takes twice as much. One that is there twice is of
    the same records both times.
    """
    columns = tuple(column for _, column, _ in values if column is not None)
    once = {name: value for name, _, value in values}.values()
    shares = sum(value.texts * (2 if value.json_bytes else 1) for value in once)
    room = part.room - sum(value.json_bytes for _, _, value in values)
    return replace(part, room=room // max(1, shares), json=(*part.json, *columns))


def _widest(kind: pa.DataType) -> int:
    """Return how many bytes a value has as JSON; of a text or bytes, what is around it."""
    # Quotes, sign, point, and a zero before it.
    return kind.precision + 5 if pa.types.is_decimal(kind) else _WIDEST[kind]


def of_records(pipeline: Pipeline) -> list[Message]:
    """Return what a record makes of the messages of its row, and of results by its key."""
    texts = [column.name for column in pipeline.input if column.type in _TEXTS and column.name != "topic"]
    return [part for message in messages_of(pipeline) if (part := message.of(texts))]


def faults(pipeline: Pipeline, answer: pa.Table) -> Iterator[str]:
    """Say of which sinks the messages would be too large with what a recorded step answers, and in how many rows."""
    for message in messages_of(pipeline):
        if (part := message.of(answer.column_names)) and (number := len(larger(part, answer))):
            names = ", ".join(part.most)
            yield f"{names} take more than the {part.room} bytes of sink {part.sink!r} in {number} rows"


def larger(part: Message, rows: pa.Table) -> list[int]:
    """Return the numbers of the rows whose texts take more than a message has room for."""
    return [at for at in _suspects(part, rows) if _larger(part, rows.slice(at, 1))]


def _suspects(part: Message, answer: pa.Table) -> list[int]:
    most: Any = pa.scalar(0, pa.int64())
    for name, times in part.most.items():
        length = pc.fill_null(pc.binary_length(answer[name]), 0).cast(pa.int64())
        most = pc.add(most, pc.multiply(length, times))
    found: list[int] = pc.indices_nonzero(pc.greater(most, part.room)).to_pylist()
    return found


def _larger(part: Message, row: pa.Table) -> bool:
    (values,) = row.to_pylist()
    size = sum(len(_encode(values[name])) for name in part.raw)
    size += sum(len(orjson.dumps(values[name], default=as_json)) - len('""') for name in part.json)
    return size > part.room


def _encode(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""
