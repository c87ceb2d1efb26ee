"""Records of one to nine million bytes and a little more: around what a dead letter of them may have."""

from __future__ import annotations

import json
from random import Random

from effectively_once.epoch.message_bytes import LETTER_BYTES
from effectively_once.pipeline.sinks import RECORD_BYTES
from tests.fuzz.records import START_MS, Record

NUMBER = 8
"""Of a declaration's records."""
BYTES = (1_000_000, RECORD_BYTES, 3_000_000, 6_000_000, 9_000_000)
LETTER_OF_BYTES = LETTER_BYTES // 4 * 3
"""So many bytes are as long as a dead letter may be when they are written as base64."""


def large(seed: int, number: int = NUMBER) -> list[Record]:
    """Draw records, of each kind one before another comes twice."""
    rng = Random(f"large {seed}")
    kinds = (_undecodable, _long, _escaped, _cut)
    return [kinds[one % len(kinds)](rng, one) for one in range(number)]


def _size(rng: Random) -> int:
    return rng.choice((*BYTES, rng.randrange(1_000_000, 9_000_000)))


def _undecodable(rng: Random, _: int) -> Record:
    """Bytes that no text is: as base64 they have a third more, and some come just to the end of a letter."""
    size = rng.choice((_size(rng), LETTER_OF_BYTES - rng.randrange(600)))
    return Record(b"\xff\xfe" * (size // 2), rng.choice((None, b"\xff", b"k" * 3_000)))


def _long(rng: Random, number: int) -> Record:
    """A text that is well-formed."""
    return Record(_line(number, "x" * _size(rng)))


def _escaped(rng: Random, number: int) -> Record:
    """Control characters: each is six bytes in JSON, written so or by what is published."""
    return Record(_line(number, "\x01" * (_size(rng) // 6)))


def _cut(rng: Random, number: int) -> Record:
    """No JSON, as its end is missing; with bytes in it that no text has."""
    line = _line(number, "é" * (_size(rng) // 2))
    return Record(line[:-9] + rng.choice((b"", b"\xff")))


def _line(number: int, text: str) -> bytes:
    fields = {
        "id": f"large {number}",
        "event_time_ms": START_MS + number,
        "user": "ann",
        "text": text,
        "n": number,
        "m": number,
        "level": 0.5,
        "flag": True,
        "days": 20_000,
        "at_us": START_MS * 1_000,
    }
    return json.dumps(fields, ensure_ascii=False).encode()
