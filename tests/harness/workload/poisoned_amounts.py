"""A file with every record known to break the pipeline of `make new-pipeline`, among ordinary ones: `make chaos AT=`.

`python3 -m tests.harness.workload.poisoned_amounts amounts.jsonl` writes it with any Python, the same bytes each time.
Its key is `key`, its time is `event_time_ms`. What becomes of each line stands in tests/spark/test_poisoned_amounts.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

from tests.harness.workload import poison
from tests.harness.workload.poison import Poison

KEY, TIME = "key", "event_time_ms"
GOOD, STEP_MS, EVERY = 6_000, 400, 20
FIRST_MS = 1_750_000_020_000
MOST, LEAST = 2**63 - 1, -(2**63)
_IN_TIME = b'"event_time_ms":%d'


def _line(id_: str = '"p"', time: str = "%d", key: str = '"poison"', amount: str = "1") -> bytes:
    """Line with JSON of each field. `%d` in its time is where in the file it comes to stand."""
    return f'{{"id":{id_},"event_time_ms":{time},"key":{key},"amount":{amount}}}'.encode("utf-8", "surrogateescape")


def _amount(name: str, amount: str) -> Poison:
    return Poison(name, _line(f'"{name}"', amount=amount))


def _sum(key: str, *amounts: int) -> tuple[Poison, ...]:
    """Records of one key that stand behind one another, and share a window."""
    names = (f"{key}, {number}" for number in range(len(amounts)))
    return tuple(
        Poison(name, _line(f'"{name}"', key=f'"{key}"', amount=str(one)))
        for name, one in zip(names, amounts, strict=True)
    )


AS_BYTES = (
    poison.AS_BYTES[0],
    Poison("an id that is not UTF-8", _line('"caf\udce9"')),
    Poison("a key with a NUL, escaped", _line('"a key with a NUL, escaped"', key=r'"a\u0000b"')),
    Poison("a key that is a lone surrogate", _line('"a key that is a lone surrogate"', key=r'"\ud800"')),
    Poison("single quotes", b"{'id':'quoted','event_time_ms':1,'key':'a','amount':1}"),
    Poison("an empty object", b"{}"),
    Poison("something behind it", _line('"behind"') + b"]"),
    Poison("cut off", b'{"id":"cut","event_time_ms":17'),
)
AS_IDS = (
    Poison("id empty", _line('""')),
    Poison("id null", _line("null")),
    Poison("id 1", _line("1")),
    Poison("id '1'", _line('"1"')),
    Poison("id true", _line("true")),
    Poison("id 'true'", _line('"true"')),
    Poison("id twice", b'{"id":"last","id":"first","event_time_ms":%d,"key":"a","amount":1}'),
)
AS_AMOUNTS = (
    _amount("amount NaN", "NaN"),
    _amount("amount Infinity", "-Infinity"),
    _amount("amount 1e999", "1e999"),
    _amount("amount beyond 64 bits", str(MOST + 1)),
    _amount("amount of 40 digits", "1" + "0" * 39),
    _amount("amount 1.5", "1.5"),
    _amount("amount as text", '"1"'),
    _amount("amount true", "true"),
    _amount("amount null", "null"),
)
AS_TIMES = (
    Poison("the year 2262", _line('"the year 2262"', "9223372036854")),
    Poison("time beyond 64 bits", _line('"time beyond 64 bits"', "1" + "0" * 39)),
    Poison("time beyond Spark", _line('"time beyond Spark"', str(MOST))),
    Poison("time as text", _line('"time as text"', '"soon"')),
    Poison("time null", _line('"time null"', "null")),
    Poison("the first millisecond of 1970", _line('"the first millisecond of 1970"', "0")),
)
AS_KEYS = (
    Poison("key null", _line('"key null"', key="null")),
    Poison("key 1", _line('"key 1"', key="1")),
    Poison("key of a megabyte", _line('"key of a megabyte"', key='"' + "k" * poison.MEGABYTE + '"')),
)
BEYOND = {"beyond": (MOST, 1), "below": (LEAST, -1)}
"""Sums that 64 bits do not hold: the result of the window is a dead letter, its records are accepted."""
WITHIN = {"within": (MOST, 5, -10)}
"""One that they hold, though not on the way there."""
AS_SUMS = tuple(one for key, amounts in (BEYOND | WITHIN).items() for one in _sum(key, *amounts))
POISONS = (*AS_BYTES, *AS_IDS, *AS_AMOUNTS, *AS_TIMES, *AS_KEYS, *AS_SUMS)


def lines(good: int = GOOD) -> Iterator[bytes]:
    """Yield the lines of the file: a poison after each 20th ordinary record in the middle, sums behind one another."""
    among = [*POISONS]
    first = max((good - EVERY * len(among)) // 2, 0)
    for number in range(good):
        time = FIRST_MS + STEP_MS * number
        yield json.dumps({"id": f"row-{number}", TIME: time, KEY: f"key-{number % 40}", "amount": number}).encode()
        if number < first or (number - first) % EVERY or not among:
            continue
        for one in among[: len(AS_SUMS) if among[0] in AS_SUMS else 1]:
            among.remove(one)
            yield one.line.replace(_IN_TIME, _IN_TIME % time)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file that is named; returns the exit code."""
    return poison.main(arguments, lines)


if __name__ == "__main__":
    sys.exit(main())
