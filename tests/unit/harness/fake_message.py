"""A message of confluent_kafka, as far as a reader looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_CREATE_TIME


@dataclass(frozen=True)
class FakeMessage:
    """What a broker hands out; `type_` is that of its timestamp."""

    content: bytes | None
    key_: bytes | None = None
    headers_: list[tuple[str, bytes | None]] | None = None
    type_: int = TIMESTAMP_CREATE_TIME

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.content

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.headers_

    def timestamp(self) -> tuple[int, int]:
        return self.type_, 1_750_000_000_000
