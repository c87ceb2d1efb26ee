"""One observed row against the schema of its sink: its form, its fields, and what its message has beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.harness.evidence import EvidenceError
from tests.harness.schemas import SinkSchema
from tests.harness.sends import ADDED
from tests.harness.wire import CREATE_TIME, TEXT, bytes_of, compact, json_object

Row = Mapping[str, Any]
Fits = Callable[[Any], bool]
_READ = {
    "kafka": ADDED,
    "files": frozenset({"sink", "object"}),
    "table": frozenset({"sink"}),
    "lake": frozenset({"sink"}),
}
"""Names in an observed row that are not its own."""
_HEX = re.compile(r"([0-9a-f]{2})*")


def _is_source(value: Any) -> bool:
    return type(value) is list and [*map(type, value)] == [str, int, int]


def _or_null(fits: Fits) -> Fits:
    return lambda value: value is None or fits(value)


_IS: dict[str, Fits] = {
    "text": lambda value: type(value) is str,
    "hex": lambda value: type(value) is str and _HEX.fullmatch(value) is not None,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: type(value) is bool,
    "source": _is_source,
}
_IS |= {f"{name} or null": _or_null(fits) for name, fits in _IS.items()}
"""Type of a schema -> whether a value of JSON is of it."""


def fields_of(row: Row, schema: SinkSchema) -> dict[str, Any]:
    """Return the fields that a row has of its own; of a message that is no JSON object none.

    Raises:
        EvidenceError: a message was not looked at whole, or what was written of it cannot be read.
    """
    if schema.kind == "kafka":
        _beside(row)
        if (own := unfold(row)) is not row:
            return dict(own)
    return {name: value for name, value in row.items() if name not in _READ[schema.kind]}


def unfold(row: Row) -> Row:
    """Return a message as observed, or the fields of its value alone where the whole value was kept."""
    beside = row.get("message")
    if not isinstance(beside, dict) or "value" not in beside:
        return row
    return json_object(_bytes(beside, "value")) or {}


def faults_in(row: Row, fields: Row, schema: SinkSchema, key: Any) -> Iterator[str]:
    """Tell in what a row is not what its schema says.

    Args:
        row: as observed.
        fields: its own (`fields_of`).
        schema: of its sink.
        key: content of the column that is its key, where it has one; Ellipsis where nobody knows it.

    Raises:
        EvidenceError: see `fields_of`.
    """
    if schema.kind == "kafka":
        beside = _beside(row)
        if "value" in beside:
            yield from _form(_bytes(beside, "value"))
        if key is not ... and (told := _bytes(beside, "key")) != (due := _key(key, schema)):
            yield f"key {told!r:.60}, due is {due!r:.60}" + (f" as {schema.key}" if schema.key else "")
        if "headers" in beside:
            yield f"headers {beside['headers']!r:.80}, due are none"
        if beside.get("timestamp", CREATE_TIME) != CREATE_TIME:
            yield f"timestamp of type {beside['timestamp']}, due is {CREATE_TIME}"
    yield from _fields(fields, schema)


def _form(value: bytes | None) -> Iterator[str]:
    fields = json_object(value)
    if fields is None:
        yield f"value {value!r:.80} is no JSON object"
    elif compact(fields) != value:
        # Blanks, escapes without need, or a name twice, of which readers take one or the other.
        yield f"value {value!r:.160} is not the compact JSON of its fields"


def _fields(fields: Row, schema: SinkSchema) -> Iterator[str]:
    due = schema.fields
    for name, type_ in due.items():
        if name in fields and not _IS[type_](fields[name]):
            yield f"{name} is {fields[name]!r:.60}, due is {type_}"
    if [*fields] == [*due]:
        return
    if missing := [name for name in due if name not in fields]:
        yield f"without {', '.join(missing)}"
    if more := [name for name in fields if name not in due]:
        yield f"with {', '.join(f'{name} {fields[name]!r:.40}' for name in more)}, which it should not have"
    # Columns of a table or file are known by name; a message promises their order.
    if schema.kind == "kafka" and fields.keys() == due.keys():
        yield f"fields in the order {', '.join(fields)}, due is {', '.join(due)}"


def _key(content: Any, schema: SinkSchema) -> bytes | None:
    if schema.key is None or not isinstance(content, str):
        return None
    return bytes.fromhex(content) if schema.key_type == "hex" and _IS["hex"](content) else content.encode()


def _beside(row: Row) -> Row:
    found = row.get("message")
    if not isinstance(found, dict) or "key" not in found:
        place = f"partition {row.get('partition')} offset {row.get('offset')}"
        raise EvidenceError("a message was not looked at whole", place, "run again")
    return found


def _bytes(beside: Row, name: str) -> bytes | None:
    if beside[name] is None:
        return None
    try:
        return bytes_of(beside[name], beside.get(f"{name}_encoding", TEXT))
    except ValueError as error:
        raise EvidenceError(f"{name} of a message cannot be read ({error})", dict(beside), "run again") from error
