"""Values of JSON as text, at the edges of every type, and some that are no JSON at all."""

from __future__ import annotations

import json

TEXTS = (
    "",
    "ann",
    "é",
    "\U0001f600",
    "a\0b",
    "\0",
    "\x01\x1f\x7f",
    '"\\\n\t',
    "\u2028\ufeff",
    "null",
    "x" * 2_640,
    "é" * 1_320,
    "x" * 2_680,
    "x" * 2_681,
    "\x01" * 11_000,
    "x" * 66_000,
)
"""Beside the ordinary: around what a table's key takes, and what a message of 65,536 bytes does."""
_ESCAPED = (r"\u0000", r"\ud83d\ude00", r"\ud800", r"\udc00x", r"\\ud800", r"\u00e9", r"\/", r"\x", r"\u12")
WHOLE = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 10**38, 10**399)
FLOATS = (
    "-0",
    "-0.0",
    "0.1",
    "1.0",
    "1E+2",
    "5e-324",
    "2.2250738585072014e-308",
    "1.7976931348623157e308",
    "1e999",
    "-1e999",
    "1e-999",
    "123456789012345678901234567890.5",
    "0." + "3" * 60,
)
NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "0x10", "1e", "-", "9" * 5_000)
YEAR_1_MS, YEAR_2262_MS, YEAR_9999_MS = -62_135_596_800_000, 9_223_372_036_854, 253_402_300_799_999
EVENT_TIMES = (
    YEAR_1_MS - 1,
    YEAR_1_MS,
    -1,
    0,
    YEAR_2262_MS,
    YEAR_2262_MS + 1,
    YEAR_9999_MS,
    YEAR_9999_MS + 1,
    10**15 - 1,
    10**15,
    1 - 10**15,
    -(10**15),
)
"""Milliseconds since 1970; the last ones are around the most that the library takes."""
MICROSECONDS = (YEAR_1_MS * 1000 - 1, YEAR_1_MS * 1000, YEAR_9999_MS * 1000 + 999, YEAR_9999_MS * 1000 + 1000)
DAYS = (-719_163, -719_162, 2_932_896, 2_932_897)
"""The first and last ones of the years 1 to 9999, and their neighbours."""
NESTED = ("[]", "{}", "[1,[2,{}]]", '{"k":1}', '{"k":1,"k":2}', '{"k":{"k":[]}}', '{"":0}', '{"\\ud800":0}')


def _deep(depth: int) -> tuple[str, ...]:
    return "[" * depth + "]" * depth, '{"k":' * depth + "0" + "}" * depth


DEEP = (*_deep(40), *_deep(5_000), "[" * 5_000)
"""Far from the limit of any parser, or far beyond it."""

_WRITTEN = tuple(json.dumps(text, ensure_ascii=escaped) for text in TEXTS for escaped in (True, False))
_NUMBERS = (*map(str, WHOLE), *FLOATS)
_OF_TEXT = (*_WRITTEN, *(f'"{text}"' for text in _ESCAPED))
OF_FIELD: dict[str, tuple[str, ...]] = {
    "id": _OF_TEXT,
    "event_time_ms": tuple(map(str, EVENT_TIMES)),
    "user": _OF_TEXT,
    "text": _OF_TEXT,
    "n": _NUMBERS,
    "m": _NUMBERS,
    "level": _NUMBERS,
    "flag": ("true", "false", "null"),
    "days": tuple(map(str, DAYS)),
    "at_us": tuple(map(str, MICROSECONDS)),
}
"""What stands for a field at the edges of its own type."""
ANY = (
    '"ann"',
    '"5"',
    '"true"',
    '"\\u0000"',
    "0",
    "-7",
    "0.5",
    "true",
    "false",
    "null",
    "[]",
    "{}",
    "True",
    "None",
    "",
    "'ann'",
    '"cut',
    '"two\nlines"',
    *_NUMBERS,
    *NO_NUMBERS,
    *NESTED,
    *DEEP,
)
"""What may stand where any value of JSON stands."""
