"""A file with every record that is known to have broken a reader, among ordinary ones: for `make demo INPUT=`.

`python3 -m tests.harness.workload.poison poison.jsonl` writes it with any Python, the same bytes each time. Its key is
`id`, its time is `at`. What becomes of each line stands in tests/unit/workload/test_poison.py.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

KEY, TIME = "id", "at"
GOOD = 6_000
"""Ordinary records: enough epochs for kills to hit."""
EVERY = 20
"""Of the ordinary records in the middle so many stand between two poisons, which all have the time of the middle."""
FIRST = datetime(2025, 6, 15, 12, tzinfo=UTC)
STEP = timedelta(milliseconds=400)
USERS = 40
MEGABYTE = 1_000_000
_AT = b'"at":"2025-06-15T12:20:00Z"'
_NESTED = 500
_TOO_DEEP = 2_000


class Poison(NamedTuple):
    """A line of the file, without its end."""

    name: str
    line: bytes


def _of(id_: bytes) -> bytes:
    """Line with an id, as JSON writes it."""
    return b'{"id":' + id_ + b"," + _AT + b"}"


def _number(number: bytes) -> bytes:
    """Line with a number in a column that nobody looks at."""
    return b'{"id":"numbers",' + _AT + b',"n":' + number + b"}"


def _at(time: bytes) -> bytes:
    """Line with a time, as JSON writes it."""
    return b'{"id":"times","at":' + time + b"}"


def _arrays(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _undecodable() -> bytes:
    """A megabyte of bytes that are no text, in one line."""
    content = random.Random("undecodable").randbytes(MEGABYTE - 2).translate(bytes.maketrans(b"\n", b"\xff"))
    return b"\xff" + content + b"\xff"


AS_BYTES = (
    Poison("a megabyte of undecodable bytes", _undecodable()),
    Poison("a value that is not UTF-8", b"\xff\xfe\x80 no text"),
    Poison("an id that is not UTF-8", _of(b'"caf\xe9"')),
    Poison("a surrogate in UTF-8", _of(b'"\xed\xa0\x80"')),
    Poison("a lone surrogate, escaped", _of(rb'"\ud800"')),
    Poison("a NUL as it is", _of(b'"a\x00b"')),
    Poison("a NUL, escaped", _of(rb'"a\u0000b"')),
    Poison("control characters, escaped", _of(rb'"\u0001\u001f\u007f\u000b\t\n"')),
    Poison("a backslash, then ud800", _of(rb'"\\ud800"')),
    Poison("quotes and braces in an id", _of(rb'"}\"{\\],\u2028"')),
)
AS_JSON = (
    Poison("NaN", _number(b"NaN")),
    Poison("Infinity", _number(b"Infinity")),
    Poison("minus Infinity", _number(b"-Infinity")),
    Poison("1e999", _number(b"1e999")),
    Poison("a number of 40 digits", _number(b"1" + b"0" * 39)),
    Poison("2 to the power of 63", _number(b"9223372036854775808")),
    Poison("single quotes", b"{'id':'quoted','at':1749990000}"),
    Poison("no object, an array", b'["id","at"]'),
    Poison("no object, a text", b'"id"'),
    Poison("no object, null", b"null"),
    Poison("cut off", b'{"id":"cut","at":17499'),
    Poison("two objects", _of(b'"one"') + _of(b'"two"')),
    Poison("something behind it", _of(b'"one"') + b"]"),
    Poison("a comma too many", b'{"id":"comma","at":1749990000,}'),
    Poison("500 arrays in one another", _number(_arrays(_NESTED))),
    Poison("2,000 arrays in one another", _number(_arrays(_TOO_DEEP))),
    Poison("brackets never closed", b"[" * 100_000),
    Poison("an empty line", b""),
    Poison("a blank line", b" \t "),
)
AS_IDS = (
    Poison("no id", b"{" + _AT + b"}"),
    Poison("an empty object", b"{}"),
    Poison("id null", _of(b"null")),
    Poison("id empty", _of(b'""')),
    Poison("id blank", _of(rb'" \u00a0"')),
    Poison("id 1", _of(b"1")),
    Poison("id '1'", _of(b'"1"')),
    Poison("id true", _of(b"true")),
    Poison("id 'true'", _of(b'"true"')),
    Poison("id of 30 digits", _of(b"123456789012345678901234567890")),
    Poison("id is an object", _of(b'{"a":[1,null]}')),
    Poison("id nested 500 deep", _of(_arrays(_NESTED))),
    Poison("id twice", b'{"id":"first","id":"last",' + _AT + b"}"),
    Poison("id of 2,705 bytes", _of(b'"' + b"k" * 2_705 + b'"')),
    Poison("id of a megabyte", _of(b'"' + b"k" * MEGABYTE + b'"')),
    Poison("id of a megabyte of escaped NUL", _of(b'"' + rb"\u0000" * (MEGABYTE // 6) + b'"')),
    Poison("a megabyte of quotes", b'{"id":"quotes",' + _AT + b',"text":"' + rb"\"" * (MEGABYTE // 2) + b'"}'),
    Poison("a megabyte of backslashes", b'{"id":"slashes",' + _AT + b',"text":"' + rb"\\" * (MEGABYTE // 2) + b'"}'),
)
AS_TIMES = (
    Poison("no time", b'{"id":"times"}'),
    Poison("time null", _at(b"null")),
    Poison("time in words", _at(b'"soon"')),
    Poison("time is a truth value", _at(b"true")),
    Poison("time nested 500 deep", _at(_arrays(_NESTED))),
    Poison("time negative", _at(b"-1")),
    Poison("time negative, a fraction", _at(b"-1749990000.5")),
    Poison("time negative, as text", _at(b'"-1749990000"')),
    Poison("time before 1970", _at(b'"1969-12-31T23:59:59.999Z"')),
    Poison("time of the year 10000", _at(b'"10000-01-01T00:00:00Z"')),
    Poison("time beyond 64 bits", _at(b"1" + b"0" * 39)),
    Poison("time of 20 digits, as text", _at(b'"17499900000000000000"')),
    Poison("time of a thousand digits, as text", _at(b'"' + b"1" * 1_000 + b'"')),
    Poison("time in other digits", _at('"１７４９９９００００"'.encode())),
    Poison("time 1e300", _at(b"1e300")),
    Poison("time 'Infinity'", _at(b'"Infinity"')),
    Poison("time 'NaN'", _at(b'"NaN"')),
    Poison("a leap second", _at(b'"2016-12-31T23:59:60Z"')),
    Poison("time twice", b'{"id":"times","at":"soon",' + _AT + b"}"),
    Poison("time in seconds, a fraction", _at(b"1749990000.25")),
    Poison("time in seconds, as text", _at(b'"1749990000.25"')),
    Poison("time with an exponent", _at(b"1.74999e9")),
    Poison("time in nanoseconds", _at(b"1749990000250000000")),
    Poison("time in another zone", _at(b'"2025-06-15T14:20:00+02:00"')),
)
OLDEST = (Poison("the first millisecond of 1970", _at(b"0")),)
NEWEST = (
    Poison("the year 2262", _at(b'"2262-04-11T23:47:16.854Z"')),
    Poison("the last millisecond of 9999", _at(b'"9999-12-31T23:59:59.999Z"')),
)
"""Beside ordinary times these would make the allowed lateness centuries, and close no window: they are the last."""
POISONS = (*OLDEST, *AS_BYTES, *AS_JSON, *AS_IDS, *AS_TIMES, *NEWEST)


def lines(good: int = GOOD) -> Iterator[bytes]:
    """Yield the lines of the file: poisons of ordinary times stand one by one among `good` ordinary records.

    It begins with ordinary text: a file with a NUL in its first 4 KiB is taken for no text at all, and refused.
    """
    yield from (one.line for one in OLDEST)
    among = [*AS_BYTES, *AS_JSON, *AS_IDS, *AS_TIMES]
    first = max((good - EVERY * len(among)) // 2, 0)
    for number in range(good):
        yield _good(number)
        if number >= first and (number - first) % EVERY == 0 and among:
            yield among.pop(0).line
    yield from (one.line for one in (*among, *NEWEST))


def write(path: Path, made: Iterable[bytes]) -> None:
    """Write the lines of a file."""
    path.write_bytes(b"".join(line + b"\n" for line in made))


def _good(number: int) -> bytes:
    time = (FIRST + STEP * number).isoformat()
    return json.dumps({KEY: f"user-{number % USERS}", TIME: time, "text": f"ordinary {number}"}).encode()


def main(arguments: Sequence[str] | None = None, make: Callable[[], Iterable[bytes]] = lines) -> int:
    """Write the file that is named; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1 or Path(given[0]).suffix != ".jsonl":
        sys.stderr.write("name one file to write, ending in .jsonl\n")
        return 1
    write(Path(given[0]), make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
