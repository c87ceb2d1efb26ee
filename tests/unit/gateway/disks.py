"""Disks that fail, in place of a segment's file."""

from __future__ import annotations

import errno
import os
import threading
from typing import ClassVar

from effectively_once.gateway.segment import AppendFile


class FullDisk(AppendFile):
    """A disk with `room` bytes for all files together; of what does not fit it takes the beginning, as a disk does."""

    room: ClassVar[int] = 0

    def append(self, data: bytes) -> None:
        fits = data[: FullDisk.room]
        super().append(fits)
        FullDisk.room -= len(fits)
        if len(fits) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class LyingDisk(AppendFile):
    """A disk whose writes succeed and whose next `failures` syncs do not."""

    failures: ClassVar[int] = 0

    def sync(self) -> None:
        if LyingDisk.failures:
            LyingDisk.failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync()


class HeldDisk(AppendFile):
    """A disk whose syncs take until it is `spinning`."""

    spinning: ClassVar[threading.Event] = threading.Event()

    def sync(self) -> None:
        HeldDisk.spinning.wait(30)
        super().sync()


class StubbornDisk(LyingDisk):
    """A disk that does not take back either."""

    def truncate(self, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class Crash(BaseException):
    """The process dies here."""


class CrashingDisk(AppendFile):
    """A disk in whose writing the process dies, after `before` more bytes of all files together."""

    before: ClassVar[int] = 1 << 60

    def append(self, data: bytes) -> None:
        super().append(data[: CrashingDisk.before])
        CrashingDisk.before -= len(data)
        if CrashingDisk.before < 0:
            raise Crash
