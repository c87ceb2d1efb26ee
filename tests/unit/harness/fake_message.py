"""A message of confluent_kafka, as far as a reader looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError


@dataclass
class FakeMessage:
    """What a broker hands out; `type_` is that of its timestamp, with `code` it is an error."""

    content: bytes | None = None
    key_: bytes | None = None
    headers_: list[tuple[str, bytes | None]] | None = None
    type_: int = TIMESTAMP_CREATE_TIME
    place: tuple[str, int, int] = ("t", 0, 0)
    code: int | None = None
    at_ms: int = 1_750_000_000_000

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.content

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.headers_

    def timestamp(self) -> tuple[int, int]:
        return self.type_, self.at_ms

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)
