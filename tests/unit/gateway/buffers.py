"""Buffers of a gateway in small segments, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from effectively_once.gateway.buffer import Buffer
from effectively_once.gateway.record import Record, RecordId
from effectively_once.gateway.segment import AppendFile

SEGMENT_BYTES = 1024


def opened(
    directory: Path, topic: str = "events", segment_bytes: int = SEGMENT_BYTES, open_file: type[AppendFile] = AppendFile
) -> Buffer:
    return Buffer(directory, "gate", topic, segment_bytes, open_file)


def body(text: str) -> bytes:
    return Record(RecordId("gate", "0" * 16, 0), 1, None, text.encode(), announced=True).encode()


def append(buffer: Buffer, *texts: str) -> None:
    buffer.append([body(text) for text in texts])


def leave(directory: Path, *batches: Sequence[str]) -> None:
    """Open a buffer, append to it, and close it in order."""
    buffer = opened(directory)
    for texts in batches:
        append(buffer, *texts)
    buffer.close()


def read_again(directory: Path) -> list[str]:
    """Open what is there, read all of it, and close it."""
    buffer = opened(directory)
    found = [*read(buffer).values()]
    buffer.close()
    return found


def read(buffer: Buffer) -> dict[int, str]:
    """Read all there is to read: text by ordinal."""
    found: dict[int, str] = {}
    while records := buffer.read():
        found.update((ordinal, record.value.decode()) for ordinal, record in records)
    return found


def files(directory: Path, suffix: str = "segment") -> list[Path]:
    return sorted(directory.glob(f"*.{suffix}"))
