"""Declarations for a real stack, each drawn from its name alone: whichever process imports the name has the same.

No Hypothesis here: drivers and workers import this.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa

from effectively_once import (
    Average,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    OwnAggregate,
    Pipeline,
    Stateful,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.pipeline.sinks import MESSAGE_BYTES, AnySink
from effectively_once.state.aggregates import Aggregate
from tests.fuzz.rows import COLUMNS

NUMBER = 5
"""Declarations of a seed. The last one has state of Spark's own in the place of windows; every other drops copies."""
STATEFUL = NUMBER - 1
LENGTHS_MS, LATENESS_MS = (100, 1_000, 60_000), (150, 120_000, 1_000_000_000)
KEYS: tuple[str | tuple[str, ...], ...] = ("user", "text", ("user", "m"))
COUNTED = pa.schema(
    [("user", pa.string()), ("window_start_ms", pa.int64()), ("count", pa.int64()), ("most", pa.int32())]
)
"""What Spark's own state comes to."""


def _farthest(kept: int, number: int) -> int:
    return max(kept, number % 1_000)


def _unlucky(kept: int) -> int | None:
    """Have no result now and then."""
    return None if kept % 10 == 7 else kept


AGGREGATES: dict[str, Aggregate] = {
    "sum_n": Sum("n"),
    "sum_cents": Sum("cents"),
    "sum_level": Sum("level"),
    "average_m": Average("m"),
    "average_cents": Average("cents"),
    "min_text": Min("text"),
    "max_at": Max("at"),
    "first_day": First("day"),
    "last_level": Last("level"),
    "users": CountDistinct("user", 3),
    "some_m": Collect("m", 3),
    "own": OwnAggregate(("offset",), int, _farthest, max, _unlucky, pa.int64()),
}
"""One of each kind at least, of columns of several types."""


def name_of(seed: int, number: int) -> str:
    """Name a declaration of a seed."""
    return f"drawn_{seed}_{number}"


def drawn(name: str, transform: Callable[[Any], Any], counted: Callable[[Any], Any]) -> Pipeline:
    """Draw the declaration of a name.

    Args:
        name: of `name_of`.
        transform: gives COLUMNS, and what ids need.
        counted: of rows, COUNTED by user and windows of an hour.

    Raises:
        ValueError: it is none.

    """
    head, seed, number = name.split("_")
    if head != "drawn" or not (seed.isdecimal() and number.isdecimal()):
        raise ValueError(f"{name} is no declaration that is drawn")
    rng = Random(name)
    attached = int(number) % 2 == 0
    lasting = int(number) == STATEFUL
    return Pipeline(
        transform,
        COLUMNS,
        ids="attached" if attached else "coordinates",
        rows=_rows(rng, attached),
        windows=() if lasting else _windows(rng),
        stateful=Stateful(counted, COUNTED, "user", ToKafka("counted", key="user")) if lasting else None,
        window_ms=rng.choice(LENGTHS_MS),
        lateness_ms=rng.choice(LATENESS_MS),
    )


def _rows(rng: Random, attached: bool) -> tuple[AnySink, ...]:
    """Some sinks of rows: a topic or files with all of them are among them."""
    most = rng.choice((65_536, MESSAGE_BYTES))
    told = ToKafka("told", key=rng.choice((None, "user", "text")), message_bytes_max=most)
    whole: tuple[AnySink, ...] = rng.choice(((told,), (ToFiles("archive"),), (told, ToFiles("archive"))))
    kept = ToTable("kept", key=rng.choice(((), ("id", "user"))) if attached else ())
    others: tuple[AnySink, ...] = (kept, ToKafka("raw", key="user", value="raw"))
    return (*whole, *(one for one in others if rng.randrange(3)))


def _windows(rng: Random) -> tuple[Windowed, ...]:
    """The same aggregates for one to three sinks."""
    by = rng.choice(KEYS)
    keys = (by,) if isinstance(by, str) else by
    values: dict[str, Aggregate] = {"count": Count()}
    values |= {name: AGGREGATES[name] for name in rng.sample([*AGGREGATES], 5)}
    sinks: list[AnySink] = [
        ToKafka(
            "told_sums", key=by if isinstance(by, str) else None, message_bytes_max=rng.choice((65_536, MESSAGE_BYTES))
        ),
        ToTable("kept_sums", key=rng.choice(((), (*keys, "window_start_ms")))),
        ToFiles("archive_sums"),
    ]
    return tuple(Windowed(by, values, to) for to in rng.sample(sinks, rng.randrange(1, 4)))
