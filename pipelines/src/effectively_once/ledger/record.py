"""What every model of the chain is: frozen, strict about its fields, and written without what it has not."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

_EMPTY: tuple[object, ...] = (None, {}, [], ())


class Record(BaseModel):
    """Frozen, and strict about unknown fields: a chain written by a newer format is refused, not half understood."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sparse(Record):
    """A record that is written without what it has not: older versions refuse fields that they do not know.

    Attributes:
        OPTIONAL: fields that are left out where they are empty; a checksum must not change with fields that are new.

    """

    OPTIONAL: ClassVar[frozenset[str]]

    @model_serializer(mode="wrap")
    def _without_what_is_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = handler(self)
        return {name: value for name, value in told.items() if name not in self.OPTIONAL or value not in _EMPTY}


class Versioned(BaseModel):
    """As much of head as every format has."""

    format: int


def reason(wrong: ValueError) -> str:
    """Say in one short sentence why content is no such record."""
    return wrong.errors()[0]["msg"] if isinstance(wrong, ValidationError) else str(wrong)[:200]
