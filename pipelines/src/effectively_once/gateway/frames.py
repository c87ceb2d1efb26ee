"""Frames: how records stand one after the other in a segment, so that a torn or damaged one is found.

A frame is magic, ordinal, length of its body, CRC-32 of all that, body. The CRC starts from a seed of the segment: a
frame that is somebody's payload is none of ours.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

MAGIC = b"\xe0GWf"
_HEAD = struct.Struct("<4sQI")
_CRC = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: place of its record in the buffer, body, and bytes it takes in the file."""

    ordinal: int
    body: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes of a segment that are no frame."""

    offset: int
    size: int


def encode(ordinal: int, body: bytes, seed: int) -> bytes:
    """Return a frame."""
    head = _HEAD.pack(MAGIC, ordinal, len(body))
    return b"".join((head, _CRC.pack(_crc(head, body, seed)), body))


def scan(data: bytes, seed: int, least: int) -> tuple[list[Frame], list[Hole]]:
    """Find the frames, with growing ordinals from `least` on, and what is between and behind them."""
    frames: list[Frame] = []
    holes: list[Hole] = []
    at = 0
    while at < len(data):
        frame = frame_at(data, at, seed, least)
        if frame is None:
            start = at
            at, frame = _next_frame(data, at + 1, seed, least)
            holes.append(Hole(start, at - start))
        if frame is not None:
            frames.append(frame)
            at, least = at + frame.size, frame.ordinal + 1
    return frames, holes


def frame_at(data: bytes, at: int, seed: int, least: int) -> Frame | None:
    """Read the frame at an offset, None when there is no whole and intact one with an ordinal from `least` on."""
    start = at + HEAD_BYTES
    if len(data) < start or not data.startswith(MAGIC, at):
        return None
    _, ordinal, length = _HEAD.unpack_from(data, at)
    (crc,) = _CRC.unpack_from(data, at + _HEAD.size)
    body = data[start : start + length]
    whole = len(body) == length and crc == _crc(data[at : at + _HEAD.size], body, seed)
    return Frame(ordinal, body, HEAD_BYTES + length) if whole and ordinal >= least else None


def _next_frame(data: bytes, at: int, seed: int, least: int) -> tuple[int, Frame | None]:
    while (at := data.find(MAGIC, at)) >= 0:
        frame = frame_at(data, at, seed, least)
        if frame is not None:
            return at, frame
        at += 1
    return len(data), None


def _crc(head: bytes, body: bytes, seed: int) -> int:
    return zlib.crc32(body, zlib.crc32(head, seed))
