"""Columns of a declaration as Arrow has them, however they are written: as Arrow's schema, StructType or DDL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from effectively_once.declared import Kind, name_declaration
from effectively_once.errors import SettingsError

TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
"""Spark's names of types, but for `decimal(precision, scale)`."""
_COLUMN = re.compile(r"\s*(`[^`]+`|[^\s`:]+)\s*:?\s*(.*?)\s*(\bnot\s+null)?\s*", re.IGNORECASE | re.DOTALL)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_BETWEEN = re.compile(r",(?![^(]*\))")
_MOST = 38


def _is_struct(given: object) -> bool:
    return hasattr(given, "fields") and hasattr(given, "simpleString")


COLUMNS = Kind(
    "a pyarrow.Schema, a StructType, or text as Spark's DDL",
    '"amount decimal(10, 2)"',
    lambda it: isinstance(it, pa.Schema | str) or _is_struct(it),
)


def become_schema(declaration: object, field: str) -> None:
    """Put an Arrow schema in the place of what an author wrote, unless it is none of the three.

    A column that is `NOT NULL`, or not nullable, is so in Arrow's schema too.

    Raises:
        SettingsError: a type that no column has, or a text that is no list of columns.

    """
    given, where = getattr(declaration, field), f"{field} of {name_declaration(declaration)}"
    object.__setattr__(declaration, field, schema_of(given, where))


def schema_of(given: Any, where: str) -> Any:
    """Return columns as an Arrow schema; what is none of the three as it is. `where` is for messages.

    Raises:
        SettingsError: see `become_schema`.

    """
    if isinstance(given, str):
        return pa.schema(list(_of_text(given, where)))
    if isinstance(given, pa.Schema) or not _is_struct(given):
        return given
    return pa.schema(
        [
            pa.field(field.name, _type(field.dataType.simpleString(), field.name, where), nullable=field.nullable)
            for field in given.fields
        ]
    )


def _of_text(text: str, where: str) -> Iterator[pa.Field]:
    for part in _BETWEEN.split(text) if text.strip() else ():
        found = _COLUMN.fullmatch(part)
        if found is None or not found[2]:
            raise SettingsError(
                f"{part.strip()!r:.80} is no name with a type", where, 'Write columns as "user string, amount bigint".'
            )
        name = found[1].strip("`")
        yield pa.field(name, _type(found[2].lower(), name, where), nullable=not found[3])


def _type(text: str, name: str, where: str) -> pa.DataType:
    if (found := _DECIMAL.fullmatch(text)) is not None:
        # As Spark has it where nobody says otherwise.
        precision, scale = int(found[1] or 10), int(found[2] or 0)
        if 1 <= precision <= _MOST and scale <= precision:
            return pa.decimal128(precision, scale)
    if text not in TYPES:
        raise SettingsError(
            f"column {name!r} is of type {text!r:.80}",
            where,
            f"Possible are {', '.join(TYPES)}, decimal(precision, scale) of at most {_MOST} digits: convert it in the "
            "transform.",
        )
    return TYPES[text]
