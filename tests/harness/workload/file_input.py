"""A user's own events as a workload: every row of the file is one record, and the file is the ground truth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.harness.workload.errors import InputError
from tests.harness.workload.record import Planned, well_formed
from tests.harness.workload.rows import Columns, Row, read_rows
from tests.harness.workload.shape import Numbers
from tests.harness.workload.times import parse_time

MAX_ROW_BYTES = 1 << 20
"""Longest row. With all quotes escaped and the key sent twice its record has some 4 MiB, its dead letter 6 MiB.

The topics of a run take 12 MiB (`effectively_once.pipeline.sinks.MESSAGE_BYTES`).
"""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a first pass found: rows, and how many are broken, have no key, or (with a key) no usable time.

    Times are ms since 1970 (UTC) of usable rows, None when there is none. `disorder_ms` is the largest distance of a
    row behind the latest time before it in the file: an allowed lateness above it makes no row late.
    """

    rows: int
    broken: int
    missing_keys: int
    bad_times: int
    first_ms: int | None
    last_ms: int | None
    disorder_ms: int

    @property
    def usable(self) -> int:
        """Rows the pipeline counts."""
        return self.rows - self.broken - self.missing_keys - self.bad_times

    @property
    def numbers(self) -> Numbers:
        """The planned numbers; equal rows are different records, and the reference decides what is late."""
        return Numbers(sent=self.rows, duplicates_sent=0, late_sent=0, malformed_sent=self.rows - self.usable)


@dataclass(frozen=True, slots=True)
class FileInput:
    """A file and the names of its key and time columns; iterate it as often as wanted, always the same records."""

    path: Path
    key: str
    time: str

    def __post_init__(self) -> None:
        """Refuse missing settings; the file itself is looked at when it is read."""
        for name, value in (("KEY", self.key), ("TIME", self.time)):
            if not value:
                raise InputError(f"{self.path}: {name} is not given; name a column of the file, {name}=<column>")

    def __iter__(self) -> Iterator[Planned]:
        """Yield the rows in file order as records `row-1`, `row-2`, ...; raises InputError like `survey`."""
        for n, row in enumerate(self._rows()):
            yield _plan(n, row)

    def survey(self) -> Survey:
        """Read the whole file once, keeping no rows; raises InputError when it cannot be used."""
        rows = broken = missing_keys = bad_times = disorder = 0
        first: int | None = None
        last = 0
        for row in self._rows():
            rows += 1
            if row.broken is not None:
                broken += 1
            elif _user(row.key) is None:
                missing_keys += 1
            elif (at := parse_time(row.time)) is None:
                bad_times += 1
            else:
                first = at if first is None else min(first, at)
                last = max(last, at)
                disorder = max(disorder, last - at)
        if not rows:
            raise InputError(f"{self.path}: the file has no rows; give one with at least one")
        return Survey(rows, broken, missing_keys, bad_times, first, None if first is None else last, disorder)

    def _rows(self) -> Iterator[Row]:
        for number, row in enumerate(read_rows(self.path, Columns(self.key, self.time)), 1):
            content = row.payload if row.broken is None else row.broken
            # A character takes up to 4 bytes: only rows that might be too long are encoded to be measured.
            if len(content) * 4 > MAX_ROW_BYTES:
                size = len(content.encode() if isinstance(content, str) else content)
                if size > MAX_ROW_BYTES:
                    raise InputError(
                        f"{self.path}: row {number} has {size} bytes, a record can hold {MAX_ROW_BYTES}; "
                        "shorten it (or close the quote that swallowed the rows after it)"
                    )
            yield row


def survey(path: Path, key: str, time: str) -> Survey:
    """First pass over a file; raises InputError with what, where and what to do."""
    return FileInput(path, key, time).survey()


def records(path: Path, key: str, time: str) -> Iterator[Planned]:
    """Generate the rows of a file as records in file order; raises InputError like `survey`."""
    return iter(FileInput(path, key, time))


def _plan(n: int, row: Row) -> Planned:
    id_ = f"row-{n + 1}"
    if row.broken is not None:
        # The prefix names the row in the dead letter, and no lenient parser takes what follows it for JSON.
        value = f"{id_}: ".encode() + row.broken
        return Planned(n, None, None, None, None, None, "malformed", "not_json", None, value)
    user, at = _user(row.key), parse_time(row.time)
    if user is not None and at is not None:
        return well_formed(n, id_, user, at, row.payload)
    fields: dict[str, object] = {"id": id_, "event_time_ms": _as_sent(row.time) if at is None else at}
    fields["payload"] = row.payload
    if user is None:
        value = orjson.dumps(fields)
        return Planned(n, id_, None, at, row.payload, None, "malformed", "missing_user", None, value)
    value = orjson.dumps({"id": id_, "user": user, **fields})
    return Planned(n, id_, user, None, row.payload, None, "malformed", "bad_time", user.encode(), value)


def _user(key: object) -> str | None:
    """Text of a key; None when it is missing, blank, no finite number, or nested too deeply to be written."""
    if isinstance(key, str):
        return key if key and not key.isspace() else None
    if key is None or (isinstance(key, float) and not math.isfinite(key)):
        return None
    if isinstance(key, bool | int | float | list | dict):
        try:
            return orjson.dumps(key).decode()
        except orjson.JSONEncodeError:
            return None
    return key.hex() if isinstance(key, bytes) else str(key)


def _as_sent(raw: object) -> object:
    """Form of an unusable time on the wire: never a whole number of 0 or more, which would be a time.

    What is nested, perhaps too deeply to be written, is null there; the payload has it.
    """
    if isinstance(raw, list | dict):
        return None
    if raw is None or (isinstance(raw, int) and not isinstance(raw, bool) and -(2**63) <= raw < 0):
        return raw
    text = str(raw)
    return f"out of range: {text}" if text.strip().isdigit() else text
