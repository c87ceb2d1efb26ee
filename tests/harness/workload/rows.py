"""Rows of a user's file, one at a time: CSV, JSON lines, Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tests.harness.workload.errors import InputError
from tests.harness.workload.times import Milliseconds

BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns that hold the key (the user) and the event time."""

    key: str
    time: str


@dataclass(slots=True)
class Row:
    """A row as it was read.

    `key` and `time` are the values of the two columns (None when absent), `payload` is the row as JSON: a line of JSON
    as it came, so that no number is rounded and no name that is there twice is lost; other rows in compact form.
    A broken row (wrong number of columns, no JSON object) has `broken`, its bytes, and nothing else.
    """

    key: object = None
    time: object = None
    payload: str = ""
    broken: bytes | None = None


def read_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Stream the rows of a `.csv`, `.jsonl` or `.parquet` file; blank lines are none.

    Raises InputError before the first row where the file or its columns cannot be used, and at the place where a CSV
    is not UTF-8 or a Parquet file is damaged.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; give one of {', '.join(READERS)}")
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such file; check the path given as INPUT")
        if not path.is_file():
            raise InputError(f"{path}: this is not a file; give one {path.suffix.lower()} file as INPUT")
        if not path.stat().st_size:
            raise InputError(f"{path}: the file is empty; give one with at least one row")
        yield from reader(path, columns)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; check its permissions") from error


def require(path: Path, columns: Columns, found: list[str]) -> None:
    """Raise InputError, naming the columns there are, unless both columns are among `found`, once each."""
    for role, name in (("KEY", columns.key), ("TIME", columns.time)):
        if found.count(name) == 1:
            continue
        what = "appears more than once" if name in found else "is not there"
        separator = "" if len(found) != 1 else "; is the separator a comma?"
        raise InputError(f"{path}: column {name!r} ({role}) {what}; columns are: {', '.join(found)}{separator}")


class _Remembered:
    """Lines of a text, keeping those since the last `take`, because the CSV reader does not give the raw row."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._taken.append(line)
        return line

    def take(self) -> list[str]:
        taken, self._taken = self._taken, []
        return taken


def _read_csv(path: Path, columns: Columns) -> Iterator[Row]:
    _refuse_wide_text(path)
    with path.open(encoding="utf-8-sig", newline="") as text:
        lines = _Remembered(iter(text))
        reader = csv.reader(lines)
        try:
            header = _header(path, reader)
            require(path, columns, header)
            key, time, names = header.index(columns.key), header.index(columns.time), _distinct(header)
            while True:
                lines.take()
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error:  # a field beyond the reader's limit: most often a quote never closed
                    yield Row(broken=_raw(lines))
                    continue
                if len(cells) == len(names):
                    row = dict(zip(names, cells, strict=True))
                    yield Row(cells[key], cells[time], orjson.dumps(row).decode())
                elif cells:
                    yield Row(broken=_raw(lines))
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: line {_first_undecodable(path)} is not UTF-8 text ({error.reason}); "
                "convert it, for example with iconv -f latin1 -t utf-8"
            ) from error


def _first_undecodable(path: Path) -> int:
    """Find the first line that is not UTF-8: text is decoded in blocks, so the error itself does not know."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    try:
        return next((names for names in reader if names), [])
    except csv.Error as error:
        raise InputError(f"{path}: the first line names no columns ({error}); give a CSV with a header") from error


def _raw(lines: _Remembered) -> bytes:
    return "".join(lines.take()).rstrip("\r\n").encode()


def _distinct(header: list[str]) -> list[str]:
    """Give repeated column names a number, so that no cell is lost from the payload."""
    names: list[str] = []
    for name in header:
        count = 2
        distinct = name
        while distinct in names:
            distinct = f"{name}#{count}"
            count += 1
        names.append(distinct)
    return names


def _read_json_lines(path: Path, columns: Columns) -> Iterator[Row]:
    _refuse_wide_text(path)
    found: dict[str, None] = {}
    missing = {columns.key, columns.time}
    rows = objects = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            content = (line.removeprefix(b"\xef\xbb\xbf") if not number else line).strip()
            if not content:
                continue
            rows += 1
            try:
                row = orjson.loads(content)
            except orjson.JSONDecodeError:
                row = None
            if not isinstance(row, dict):
                yield Row(broken=content)
                continue
            objects += 1
            if missing:
                missing.difference_update(row)
                found.update(dict.fromkeys(row))
            yield Row(row.get(columns.key), row.get(columns.time), content.decode())
    # A JSON object may lack a column; only one that no row has is a wrong name.
    if rows and not objects:
        raise InputError(f"{path}: none of its {rows} lines is a JSON object; write one object a line, in UTF-8")
    if missing and rows:
        require(path, columns, list(found))


def _refuse_wide_text(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start:
        raise InputError(f"{path}: this is not UTF-8 text (UTF-16, or binary); save it as UTF-8")


def _read_parquet(path: Path, columns: Columns) -> Iterator[Row]:
    try:
        with pq.ParquetFile(path) as file:
            found = list(file.schema_arrow.names)
            require(path, columns, found)
            key, time, names = found.index(columns.key), found.index(columns.time), _distinct(found)
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                keys, times = batch.column(key).to_pylist(), _times(batch.column(time))
                cells = [_cells(batch.column(i)) for i in range(batch.num_columns)]
                for key_value, time_value, *row in zip(keys, times, *cells, strict=True):
                    payload = orjson.dumps(
                        dict(zip(names, row, strict=True)), default=_plain, option=orjson.OPT_NON_STR_KEYS
                    )
                    yield Row(key_value, time_value, payload.decode())
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's word, not Arrow's
        first_line = str(error).partition("\n")[0]
        raise InputError(f"{path}: not a readable Parquet file: {first_line}; write it again") from error


def _times(column: Any) -> list[object]:
    """Values of the time column; `Milliseconds` where the column has a time type of its own."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        exact = column.cast(pa.timestamp("ms", zone), safe=False).cast(pa.int64())
        return [None if value is None else Milliseconds(value) for value in exact.to_pylist()]
    values: list[object] = column.to_pylist()
    return values


def _cells(column: Any) -> list[object]:
    # Python's own dates have no nanoseconds and end with the year 9999; text has neither limit.
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type) or pa.types.is_time(column.type):
        column = column.cast(pa.string())
    values: list[object] = column.to_pylist()
    return values


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


READERS: dict[str, Callable[[Path, Columns], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}
"""How each kind of file is read, by extension."""
