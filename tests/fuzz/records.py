"""Records of a topic: ordinary ones, those with a field or two at an edge, and bytes of any kind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from tests.fuzz.literals import ANY, DAYS, EVENT_TIMES, MICROSECONDS, OF_FIELD

START_MS = 1_750_000_020_000
OFTEN_MS = (0, 1, 99, 100, 149, 150, 151, 999, 1_000, 59_999, 60_000, 180_000)
"""Of ordinary records, after the start: around the ends of windows."""
NAMES = tuple(OF_FIELD)
"""Fields of a record."""
_PROFILES = tuple(
    {"text": text, "n": n, "m": m, "level": level, "flag": n % 2 == 0, "days": days, "at_us": at_us}
    for text, n, m, level, days, at_us in (
        ("plain", 1, 2, 0.5, 20_000, START_MS * 1000),
        ('é\U0001f600 "quoted" \\ \n', 2**63 - 1, 2**31 - 1, 5e-324, DAYS[1], MICROSECONDS[1]),
        ("", -(2**63), -(2**31), -1.7976931348623157e308, DAYS[2], MICROSECONDS[2]),
        ("\u2028", 2**53 + 1, 0, -0.0, 0, 1),
        ("0", -7, -1, 1e16, -1, -1),
    )
)
_STRANGERS = ("other", "", "ID", "id ", "k" * 70_000, "\0", "\ufeffid", "i.d", "$.id", "reason")
_KEYS = (None, b"", b"ann", b"\xff\xfe", b"\0", b"k" * 3_000)
Headers = tuple[tuple[str, bytes | None], ...]
_HEADERS: tuple[Headers, ...] = (
    (),
    (("trace", b"\xff"),),
    (("trace", b"1"), ("trace", None), ("é", b"")),
    (("h" * 300, b"\0" * 300),),
)
_PAST = tuple(str(time_ms) for time_ms in (*EVENT_TIMES, -(2**63)) if time_ms < START_MS)
_TIMESTAMPS_MS = (None, START_MS, START_MS + 500, 0, 253_402_300_799_999)


@dataclass(frozen=True, slots=True)
class Record:
    """What is sent.

    Attributes:
        value: its bytes; None is a tombstone.
        key: of the message.
        headers: of the message.
        timestamp_ms: of the message, where a test may choose it.
        ordinary: no declaration of these tests may refuse it, but for its time.

    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    ordinary: bool = False


def closer(time_ms: int) -> Record:
    """Make one that closes every window before its own."""
    fields = '"user":"z","text":"z","n":0,"m":0,"level":0,"flag":true,"days":0,"at_us":0'
    return Record(f'{{"id":"closer","event_time_ms":{time_ms},{fields}}}'.encode(), ordinary=True)


CLOSER = closer(10**15 - 1)
"""Of the last time that is taken."""


def record(rng: Random, far: bool = True) -> Record:
    """Draw one; a third of them are ordinary. `far`: it may close the windows of all others."""
    kind = rng.randrange(9)
    if kind < 3:
        return Record(_line(_fields(rng)), ordinary=True)
    value = _edged(rng, far) if kind < 7 else _damaged(rng) if kind < 8 else _other(rng)
    return Record(value, rng.choice(_KEYS), rng.choice(_HEADERS), rng.choice(_TIMESTAMPS_MS))


def _line(fields: list[tuple[str, str]]) -> bytes:
    """Write fields as they are: what is no JSON stays none, and a name may be there twice."""
    text = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields) + "}"
    return text.encode()


def _fields(rng: Random) -> list[tuple[str, str]]:
    id_ = rng.choice("abcdefghijklmnop") if rng.randrange(3) == 0 else str(rng.randrange(10**9))
    own = {
        "id": id_,
        "event_time_ms": START_MS + rng.choice(OFTEN_MS),
        "user": rng.choice(("ann", "bob", "cem", "dé")),
        **rng.choice(_PROFILES),
    }
    escaped = rng.randrange(2) == 0
    return [(name, json.dumps(value, ensure_ascii=escaped)) for name, value in own.items()]


def _edged(rng: Random, far: bool) -> bytes:
    """One or two fields are replaced, left out, doubled or strangers."""
    fields = _fields(rng)
    for _ in range(rng.randrange(1, 3)):
        name = rng.choice((*NAMES, rng.choice(_STRANGERS)))
        value = rng.choice(OF_FIELD[name] if name in OF_FIELD and rng.randrange(4) else ANY)
        if name == "event_time_ms" and not far:
            value = rng.choice(_PAST)
        how = rng.randrange(8)
        if how != 0:
            fields = [field for field in fields if field[0] != name]
        if how != 1:
            fields.insert(rng.randrange(len(fields) + 1), (name, value))
    return _line(fields)


def _damaged(rng: Random) -> bytes:
    """A record is cut, wrapped, doubled, or has strange bytes in it."""
    line = _line(_fields(rng))
    at = rng.randrange(len(line) + 1)
    return rng.choice(
        (
            line[:at],
            line[at:],
            line + line,
            b"[" + line + b"]",
            line + b" x",
            b"\xef\xbb\xbf" + line,
            line[:at] + b"\xff" + line[at:],
            line[:at] + b"\0" + line[at:],
            line.decode().encode("utf-16"),
            b" \t\r\n" + line + b"\n",
            line.replace(b'"', b"'"),
            line.replace(b'"id"', b'"i\\u0064"'),
            line.replace(b'"id"', b'"i\\u0064":0,"id"'),
            line.replace(b",", b",,", 1),
            line[:-1] + b",}",
            b"/**/" + line,
            line[:at] + b"\xed\xa0\x80" + line[at:],
        )
    )


def _other(rng: Random) -> bytes | None:
    kind = rng.randrange(4)
    if kind < 2:
        return (None, b"")[kind]
    return rng.choice(ANY).encode() if kind == 2 else bytes(rng.randrange(256) for _ in range(rng.randrange(40)))


def many(seed: int, number: int, far: bool) -> list[Record]:
    """Draw records of a seed: a hundred thousand of them in seconds. For `far` see `record`."""
    rng = Random(seed)
    return [record(rng, far) for _ in range(number)]


RECORDS = st.builds(record, st.randoms(use_true_random=False), st.sampled_from([False, False, False, True]))
EPOCHS = st.lists(st.lists(RECORDS, max_size=30), min_size=1, max_size=3)
"""Records of one epoch after the other, each of which Hypothesis can make simpler."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Two epochs of so many records together: what a failure prints is short. For `far` see `record`."""

    number: int
    seed: int
    far: bool

    def epochs(self) -> list[list[Record]]:
        """Draw them."""
        return [many(self.seed + half, self.number // 2, self.far) for half in range(2)]


def seeded(number: int) -> st.SearchStrategy[Seeded]:
    """Two epochs of so many records."""
    return st.builds(Seeded, st.just(number), st.integers(0, 2**32), st.booleans())
