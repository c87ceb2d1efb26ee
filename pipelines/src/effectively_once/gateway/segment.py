"""A segment: one file of the buffer, a header and then frames; only the opening that made it appends to it."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from effectively_once.gateway import frames
from effectively_once.gateway.errors import BufferDamagedError, BufferFormatError
from effectively_once.gateway.frames import Frame, Hole
from effectively_once.gateway.record import Record

FORMAT = 1
SUFFIX = ".segment"
NUMBER = "[0-9]" * 20
"""Pattern of the names of segments: the ordinal of their first record."""
HEADER_BYTES_MAX = 1024


class AppendFile:
    """A new file: bytes at its end, made durable by `sync`. Tests put a disk in its place that is full, or dies."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def append(self, data: bytes) -> None:
        """Write all of it. Raises OSError; a part may have been written then."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def sync(self) -> None:
        """Return when everything is on the disk."""
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        """Take back what is behind `size` bytes."""
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        """Write no more."""
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Header:
    """What the records of a segment have in common."""

    producer: str
    incarnation: str
    topic: str
    format: int = FORMAT

    @property
    def seed(self) -> int:
        """Where the CRC of its frames starts."""
        return zlib.crc32(self.incarnation.encode())

    def encode(self, base: int) -> bytes:
        """Return it as the first frame of a file."""
        return frames.encode(base, json.dumps(asdict(self)).encode(), 0)


@dataclass(slots=True)
class Segment:
    """One file. `base` is its first ordinal, `end` the one after its last; `start` and `durable` bound its frames."""

    path: Path
    header: Header
    base: int
    end: int
    start: int
    durable: int
    sealed: bool
    holes: Sequence[Hole] = ()

    def frames(self, offset: int) -> tuple[list[Frame], int]:
        """Read the durable frames from an offset on, and the offset to go on at.

        Raises BufferDamagedError when they are not what was durable: a short read is no end.
        """
        until = self.durable
        with self.path.open("rb") as file:
            file.seek(offset)
            data = file.read(until - offset)
        found, holes = frames.scan(data, self.header.seed, self.base)
        placed = [Hole(offset + hole.offset, hole.size) for hole in holes]
        if len(data) < until - offset or placed != [hole for hole in self.holes if hole.offset >= offset]:
            raise BufferDamagedError(
                f"bytes {offset} to {until} held records that were accepted, and do not any more",
                str(self.path),
                "Look after the disk, then open the gateway again: what is whole is sent, and what is not is told.",
            )
        return found, until

    def record(self, frame: Frame) -> Record:
        """Read the record in a frame."""
        return Record.decode(frame.body, self.header.producer, self.header.incarnation)

    def remove(self) -> None:
        """Delete the file; one with a hole before its end is put aside for whoever looks for what was in it."""
        if any(hole.offset + hole.size < self.durable for hole in self.holes):
            put_aside(self.path)
        else:
            self.path.unlink(missing_ok=True)


def put_aside(path: Path) -> None:
    """Keep a file that cannot be read, out of the way."""
    path.rename(path.with_suffix(".damaged"))


def create(directory: Path, header: Header, base: int, open_file: type[AppendFile]) -> tuple[Segment, AppendFile]:
    """Make a segment whose header is durable. Raises OSError, and leaves nothing behind."""
    path = directory / f"{base:020d}{SUFFIX}"
    head = header.encode(base)
    file = open_file(path)
    try:
        file.append(head)
        file.sync()
        sync_directory(directory)
    except OSError:
        file.close()
        with suppress(OSError):
            path.unlink()
        raise
    return Segment(path, header, base, base, len(head), len(head), sealed=False), file


def header(path: Path) -> Header | None:
    """Read the header of a segment; None when it is not whole.

    Raises BufferFormatError when a newer version wrote it.
    """
    with path.open("rb") as file:
        head = frames.frame_at(file.read(HEADER_BYTES_MAX), 0, 0, int(path.stem))
    if head is None:
        return None
    content = json.loads(head.body)
    if content["format"] != FORMAT:
        raise BufferFormatError(
            f"the buffer has format {content['format']}, this version reads {FORMAT}",
            str(path),
            "Open it with the version that wrote it, and let that one send what is in it.",
        )
    return Header(**content)


def load(path: Path, header: Header) -> tuple[Segment, list[Frame]]:
    """Read a segment of an earlier opening."""
    base = int(path.stem)
    data = path.read_bytes()
    start = len(header.encode(base))
    found, holes = frames.scan(data[start:], header.seed, base)
    end = found[-1].ordinal + 1 if found else base
    placed = [Hole(start + hole.offset, hole.size) for hole in holes]
    return Segment(path, header, base, end, start, len(data), sealed=True, holes=placed), found


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
