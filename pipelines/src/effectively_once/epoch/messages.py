"""Rows as the messages of a Kafka sink."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

import orjson
import pyarrow as pa

from effectively_once.epoch.message_bytes import LETTER_BYTES, REASON_CHARACTERS
from effectively_once.pipeline.columns import COORDINATES, POSITION
from effectively_once.pipeline.sinks import ToKafka
from effectively_once.sinks.dead_letters import as_text
from effectively_once.sinks.kafka_shard import Row
from effectively_once.state.ordered import as_json

_SOURCE = tuple(COORDINATES.names)
PORTION = 2_000
Keep = Callable[[bytes, str], str]
"""Puts a record of this SHA-256 into an object; returns its name."""
_AROUND_BYTES = 16 << 10
"""Of such a dead letter, beside its value."""


def messages(to: ToKafka, rows: pa.Table, epoch: int) -> list[Row]:
    """Key and value of each row's message."""
    keys = map(_bytes, rows[to.key].to_pylist()) if to.key else [None] * rows.num_rows
    if to.value:
        return list(zip(keys, (_bytes(value) or b"" for value in rows[to.value].to_pylist()), strict=True))
    from_input = set(_SOURCE) <= set(rows.column_names)
    names = to.columns or tuple(name for name in rows.column_names if not (from_input and name in _SOURCE))
    return list(zip(keys, _lines(rows, names, epoch, _SOURCE if from_input else ()), strict=True))


def dead_letters(
    dead: pa.Table, epoch: int, keep: Keep | None = None, coordinates: Sequence[str] = _SOURCE
) -> list[Row]:
    """Records as they came, as text where they are text, with the reason they were refused for.

    One that is larger than its topic takes is base64, which no character makes larger; else it is told by its size and
    SHA-256 (`cut`), and by the object that `keep` puts it into. Without `keep` only its source holds it. Of a record of
    several rows each that is refused has its place, `pos`, where that is one of `coordinates`.
    """
    places = tuple(name for name in POSITION.names if name in coordinates)
    # Nothing may stop here: what is wrong with a record is why it comes.
    ids = dead["id"].cast(pa.binary()).to_pylist() if "id" in dead.column_names else [None] * dead.num_rows
    found: list[Row] = []
    for (topic, partition, offset, reason, value, *place), id_ in zip(
        columns(dead, *_SOURCE, "reason", "value", *places), ids, strict=True
    ):
        content, encoding = as_text(value)
        line = {
            "reason": reason,
            "id": _readable(id_),
            "value": content,
            "encoding": encoding,
            "epoch": epoch,
            "source": (topic, partition, offset),
            **dict(zip(places, place, strict=True)),
        }
        body = _alone(orjson.dumps(line))
        if len(body) > LETTER_BYTES:
            body = _shorter(line, value, keep)
        found.append((None, body))
    return found


def _shorter(line: dict[str, Any], value: bytes | None, keep: Keep | None) -> bytes:
    """Return a dead letter that fits. Its id may be as large as the record is."""
    line |= {"id": None, "reason": line["reason"][:REASON_CHARACTERS]}
    if value is not None and len(value) * 4 // 3 < LETTER_BYTES - _AROUND_BYTES:
        return orjson.dumps({**line, "value": base64.b64encode(value).decode(), "encoding": "base64"})
    cut = None
    if value is not None:
        sha256 = hashlib.sha256(value).hexdigest()
        cut = {"bytes": len(value), "sha256": sha256} | ({} if keep is None else {"key": keep(value, sha256)})
    return orjson.dumps({**line, "value": None, "encoding": "utf-8", "cut": cut})


def _readable(id_: bytes | None) -> str | None:
    try:
        return None if id_ is None else id_.decode()
    except UnicodeDecodeError:
        return None


def columns(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Rows of some columns as tuples: a third of the time of a dictionary a row."""
    for values in _portions(table, names):
        yield from zip(*values, strict=True)


def _portions(table: pa.Table, names: tuple[str, ...]) -> Iterator[list[list[Any]]]:
    """Give columns as Python's objects, some rows at a time: a shard's text would be there once more."""
    for batch in table.select(names).to_batches(PORTION):
        yield [column.to_pylist() for column in batch.columns]


def _lines(rows: pa.Table, names: tuple[str, ...], epoch: int, source: tuple[str, ...]) -> Iterator[bytes]:
    """Write each row as JSON, with its epoch and, of columns that say it, where it came from."""
    fields = (*names, "epoch", "source") if source else (*names, "epoch")
    for values in _portions(rows, (*names, *source)):
        places = [zip(*values[len(names) :], strict=True)] if source else []
        for row in zip(*values[: len(names)], repeat(epoch), *places, strict=False):
            yield _alone(orjson.dumps(dict(zip(fields, row, strict=True)), default=as_json))


def _alone(written: bytes) -> bytes:
    """Copy what orjson has written: its own (3.13) keeps 4 KiB, and a shard holds all messages of its epoch at once."""
    return memoryview(written).tobytes()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
