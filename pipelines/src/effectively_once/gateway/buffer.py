"""The buffer: records on disk from their put until their acknowledgement.

Its directory holds segments, `acknowledged` (the ordinal before which everything is acknowledged) and `lock`. That file
may lag behind: records are sent again then, never lost. An opening appends to files of its own only, so what a crash
tore is never built upon.
"""

from __future__ import annotations

import secrets
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from effectively_once.gateway import frames, segment
from effectively_once.gateway.errors import BufferFormatError
from effectively_once.gateway.lock import DirectoryLock
from effectively_once.gateway.record import Record
from effectively_once.gateway.segment import AppendFile, Header, Segment


@dataclass(frozen=True, slots=True)
class Repair:
    """What an opening found and passed over.

    A torn end is what a crash leaves of records whose put had not returned. Anything else is damage: records that were
    accepted may be lost. Their file is kept, as `*.damaged` once the rest of it is acknowledged.
    """

    path: Path
    what: str
    torn_end: bool

    def __str__(self) -> str:
        """As a log says it."""
        return f"{self.path}: {self.what}"


class Buffer:
    """The buffer of one directory. One thread may append while another one reads and acknowledges.

    Raises BufferLockedError when another gateway has it, BufferFormatError when it holds unacknowledged records of a
    newer version or for another topic, OSError.
    """

    def __init__(
        self, directory: Path, producer: str, topic: str, segment_bytes: int, open_file: type[AppendFile] = AppendFile
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._open_file = open_file
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = DirectoryLock(directory)
        self._header = Header(producer, secrets.token_hex(8), topic)
        self.repairs: list[Repair] = []
        try:
            self._open(topic)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, topic: str) -> None:
        self.acknowledged = self._saved = self._read_acknowledged()
        self._appended_bytes = self.acknowledged_bytes = 0
        self._segments = deque(self._load())
        self._reading = deque(self._segments)
        self._offset = 0
        self._current: tuple[Segment, AppendFile] | None = None
        self._outstanding: deque[tuple[int, int]] = deque()
        self._done: set[int] = set()
        left = [one for one in self._segments if not self._is_settled(one)]
        self.end = max([self.acknowledged, *(one.end for one in left)])
        # An ordinal is not used twice, not even that of a file that is damaged or empty.
        taken = (int(path.stem) for path in self._directory.glob(segment.NUMBER + ".*"))
        self._next = max([self.end, *(ordinal + 1 for ordinal in taken)])
        for one in left:
            if one.header.topic != topic:
                raise BufferFormatError(
                    f"the buffer holds unacknowledged records for topic {one.header.topic}, not {topic}",
                    str(self._directory),
                    f"Open it with topic {one.header.topic} until it is empty, or use another directory.",
                )
        self._discard()

    @property
    def incarnation(self) -> str:
        """Of the ids of this opening."""
        return self._header.incarnation

    @property
    def unacknowledged_bytes(self) -> int:
        """Bytes of the frames from the first that is not acknowledged on."""
        return self._appended_bytes - self.acknowledged_bytes

    @property
    def unread(self) -> bool:
        """Whether `read` has more to give, or to look at."""
        reading = self._reading
        return len(reading) > 1 or (len(reading) == 1 and self._offset < reading[0].durable)

    def append(self, bodies: Sequence[bytes]) -> None:
        """Make records durable: all of them, or none.

        Raises OSError. What was written is taken back then: only a disk that refuses that as well, and a new opening,
        could bring it to light.
        """
        if self._current is None:
            # The file's own ordinal is spent even when it cannot be made: its name may be there.
            base, self._next = self._next, self._next + 1
            self._current = segment.create(self._directory, self._header, base, self._open_file)
            self._segments.append(self._current[0])
            self._reading.append(self._current[0])
        current, file = self._current
        first, self._next = self._next, self._next + len(bodies)
        data = b"".join(frames.encode(ordinal, body, current.header.seed) for ordinal, body in enumerate(bodies, first))
        try:
            file.append(data)
            file.sync()
        except OSError:
            # After a failed fsync nobody knows what is on the disk, and a second one would say that all is well.
            with suppress(OSError):
                file.truncate(current.durable)
                file.sync()
            self._seal()
            raise
        self._appended_bytes += len(data)
        current.end = self.end = self._next
        current.durable += len(data)
        if current.durable >= self._segment_bytes:
            self._seal()

    def read(self) -> list[tuple[int, Record]]:
        """Return the next durable records with their ordinals, of one segment at most; nothing when all were read."""
        while self._reading:
            one = self._reading[0]
            # Looked at in this order: once it is sealed, its end is final.
            sealed = one.sealed
            if self._offset < one.durable:
                found, self._offset = one.frames(max(self._offset, one.start))
                found = [frame for frame in found if frame.ordinal >= self.acknowledged]
                self._outstanding.extend((frame.ordinal, frame.size) for frame in found)
                if found:
                    return [(frame.ordinal, one.record(frame)) for frame in found]
            elif sealed:
                self._reading.popleft()
                self._offset = 0
            else:
                break
        return []

    def acknowledge(self, ordinals: Iterable[int]) -> None:
        """Note records that were read as acknowledged, in any order. Segments that hold no other are deleted."""
        self._done.update(ordinals)
        while self._outstanding and self._outstanding[0][0] in self._done:
            ordinal, size = self._outstanding.popleft()
            self._done.remove(ordinal)
            self.acknowledged_bytes += size
            self.acknowledged = ordinal + 1
        self._discard()

    def save(self) -> None:
        """Record up to where everything is acknowledged. Raises OSError: the file is as it was then."""
        if self._saved == self.acknowledged:
            return
        text = str(self.acknowledged)
        temporary = self._directory / "acknowledged.new"
        temporary.write_text(f"{text} {zlib.crc32(text.encode())}\n")
        temporary.replace(self._directory / "acknowledged")
        self._saved = self.acknowledged

    def close(self) -> None:
        """Save, and let another gateway in. Nothing may be called afterwards."""
        try:
            self._seal()
            self._discard()
            with suppress(OSError):
                self.save()
        finally:
            self._lock.release()

    def _is_settled(self, one: Segment) -> bool:
        """Whether no record of it is left to be acknowledged."""
        return one.end <= self.acknowledged or one.end == one.base

    def _seal(self) -> None:
        if self._current is not None:
            one, file = self._current
            self._current = None
            one.sealed = True
            with suppress(OSError):  # nothing is in it that was not synced
                file.close()

    def _discard(self) -> None:
        while self._segments and self._segments[0].sealed and self._is_settled(self._segments[0]):
            one = self._segments.popleft()
            if self._reading and self._reading[0] is one:
                self._reading.popleft()
                self._offset = 0
            one.remove()

    def _read_acknowledged(self) -> int:
        path = self._directory / "acknowledged"
        try:
            text, crc = path.read_text(errors="replace").split()
            if zlib.crc32(text.encode()) == int(crc):
                return int(text)
        except FileNotFoundError:
            return 0
        except ValueError:
            pass
        self.repairs.append(Repair(path, "is damaged; everything in the buffer is sent again", torn_end=True))
        return 0

    def _load(self) -> Iterable[Segment]:
        paths = sorted(self._directory.glob(segment.NUMBER + segment.SUFFIX))
        headers = [segment.header(path) for path in paths]
        for path, header, following in zip(paths, headers, [*headers, None][1:], strict=True):
            if header is None:
                self._pass_over(path)
                continue
            one, found = segment.load(path, header)
            self._appended_bytes += sum(frame.size for frame in found if frame.ordinal >= self.acknowledged)
            # The next file of the same opening was begun after all of this one was durable.
            rolled = following is not None and following.incarnation == header.incarnation
            for hole in one.holes:
                torn = hole.offset + hole.size == one.durable and not rolled
                what = "torn by a crash" if torn else "damaged; accepted records may be lost"
                self.repairs.append(Repair(path, f"{hole.size} bytes at {hole.offset} are {what}", torn))
            yield one

    def _pass_over(self, path: Path) -> None:
        if path.stat().st_size == 0:
            path.unlink()
            return
        segment.put_aside(path)
        self.repairs.append(Repair(path, "its header is damaged; records in it cannot be read", torn_end=False))
