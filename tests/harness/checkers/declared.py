"""The plain-Python reference of a declared pipeline: what its sinks must hold.

It takes three things and believes nothing else: what the transform gave for each record (once, by itself, in no epoch),
the declaration, and ranges and watermarks of the chain. Ids, lateness, windows and epochs are computed here, with no
code of the pipeline or of the library. What a transform makes of a record is its author's word: a transform that is
wrong in the same way every time is not found out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from tests.harness.checkers import aggregated, loss
from tests.harness.checkers.aggregated import Value
from tests.harness.checkers.repairs import Shares
from tests.harness.checkers.watermark import Watermark
from tests.harness.evidence import EpochRecord, Pin

Coordinate = tuple[str, int, int]
Row = tuple[str, int, int, int]
"""Coordinate of a record, and place of a row in it."""
COORDINATE = ("topic", "partition", "offset")
LATE = "late"


@dataclass(frozen=True)
class Given:
    """A record as the transform gave it.

    Attributes:
        source: its coordinate.
        reason: why it is refused; None where it is not.
        filtered: why it is left out; None where it is not, and in runs recorded before it was noted.
        row: its columns as JSON has them, `id` and `event_time_ms` among them where the pipeline has these.
        value: the record's value as text, in base64 where it is none.
        encoding: which of the two; None in runs recorded before it was noted.
        pos: which row of its record it is; None where a record is one row.
    """

    source: Coordinate
    reason: str | None
    row: Mapping[str, Any]
    value: str
    encoding: str | None = None
    filtered: str | None = None
    pos: int | None = None

    @property
    def known_by(self) -> Coordinate | Row:
        """Where it comes from: no other row has the same."""
        return self.source if self.pos is None else (*self.source, self.pos)

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """Read a line of `observed/given.jsonl`. Raises KeyError, TypeError, ValueError."""
        topic, partition, offset = line["source"]
        place, filtered = (topic, partition, offset), line.get("filtered")
        return cls(place, line["reason"], line["row"], line["value"], line.get("encoding"), filtered, line.get("pos"))


@dataclass(frozen=True)
class Aggregated:
    """Aggregates by key and window: name of each value -> what `aggregated.Value` is made of.

    Attributes:
        length_ms: of the windows; None: as long as the pipeline's.
        slide_ms: from where one begins to where the next one does; None: they do not overlap.
    """

    by: str | tuple[str, ...]
    values: Mapping[str, tuple[Any, ...]]
    length_ms: int | None = None
    slide_ms: int | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the key."""
        return (self.by,) if isinstance(self.by, str) else self.by

    def key(self, row: Mapping[str, Any]) -> Any:
        """Return the key of a row: of one column its value, of several a tuple."""
        found = tuple(row.get(name) for name in self.keys)
        return found[0] if isinstance(self.by, str) else found

    def columns(self, key: Any) -> dict[str, Any]:
        """Return a key as columns."""
        return dict(zip(self.keys, (key,) if isinstance(self.by, str) else key, strict=True))


@dataclass(frozen=True)
class Sink:
    """A sink that is judged.

    Attributes:
        name: of it.
        kind: what it writes to; rows of a table, and of a lake table, do not tell their epoch.
        of: `rows`, `dead_letter`, or the name of aggregates.
        columns: that are compared.
        totals: whether it holds the aggregates over all keys.
    """

    name: str
    kind: Literal["kafka", "files", "table", "lake"]
    of: str
    columns: tuple[str, ...] = ()
    totals: bool = False


@dataclass(frozen=True)
class Declaration:
    """What a pipeline declares, as far as its outputs depend on it.

    Attributes:
        left_out: sink -> why it is not judged.
        filtered: reasons for which records are published nowhere.
        rows_max: how many rows a record may have; None where it is one.
    """

    pipeline: str
    attached: bool
    timed: bool
    window_ms: int
    lateness_ms: int
    sinks: tuple[Sink, ...]
    aggregates: Mapping[str, Aggregated] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    filtered: tuple[str, ...] = ()
    rows_max: int | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read `observed/declaration.json`. Raises KeyError, TypeError, ValueError."""
        sinks = tuple(Sink(**{**one, "columns": tuple(one["columns"])}) for one in document["sinks"])
        aggregates = {
            name: Aggregated(
                one["by"] if isinstance(one["by"], str) else tuple(one["by"]),
                {value: tuple(parts) for value, parts in one["values"].items()},
                one.get("length_ms"),
                one.get("slide_ms"),
            )
            for name, one in document["aggregates"].items()
        }
        filtered = tuple(document.get("filtered", ()))
        return cls(**{**document, "sinks": sinks, "aggregates": aggregates, "filtered": filtered})

    @property
    def topics(self) -> tuple[str, ...]:
        """Sinks that are topics."""
        return tuple(sink.name for sink in self.sinks if sink.kind == "kafka")

    @property
    def manifests(self) -> tuple[str, ...]:
        """The sink of files that a reader follows during the faults: of aggregates, which name no source."""
        return tuple(sink.name for sink in self.sinks if sink.kind == "files" and sink.of != "rows")[:1]


@dataclass
class Numbers:
    """What the reference finds in one epoch, under the names of the chain's counts."""

    epoch: int
    watermark_ms: int | None
    in_: int = 0
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    malformed: int = 0
    records: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    max_event_time_ms: int | None = None


@dataclass(frozen=True)
class Due:
    """A row that a sink must hold: its columns, and the epoch that publishes it."""

    row: Mapping[str, Any]
    epoch: int


@dataclass
class Replayed:
    """What the outputs must be.

    Attributes:
        due: sink -> identity -> row. A row of the input is known by its coordinate, an aggregate by key and window.
        numbers: of each epoch, in the chain's order.
        unread: records that no epoch read, and `reread` those that several did.
        open_windows: windows with accepted records that no epoch closed: what they will come to is not judged.
    """

    due: dict[str, dict[Any, Due]]
    numbers: list[Numbers] = field(default_factory=list)
    unread: list[Coordinate] = field(default_factory=list)
    reread: list[Coordinate] = field(default_factory=list)
    open_windows: int = 0


def replay(
    declaration: Declaration, given: Sequence[Given], epochs: Iterable[EpochRecord], shown: Iterable[Pin] = ()
) -> Replayed:
    """Replay the records in epoch order, within an epoch by coordinate: of two copies the first is accepted.

    `shown` are rows of epochs that were finished as they are shown.
    """
    return _Replay(declaration, given, shown).run(epochs)


class _Replay:
    def __init__(self, declaration: Declaration, given: Sequence[Given], shown: Iterable[Pin]) -> None:
        self._declared = declaration
        self._shares = Shares[Given](
            shown, lambda one: (one.row.get("id") if declaration.attached else None, one.source)
        )
        self._by_place: dict[Coordinate, list[Given]] = {}
        for one in sorted(given, key=lambda one: one.known_by):
            self._by_place.setdefault(one.source, []).append(one)
        self._found = Replayed({sink.name: {} for sink in declaration.sinks})
        self._read: dict[Coordinate | Row, int] = {}
        self._ids: set[Any] = set()
        self._windows: dict[str, dict[int, dict[Any, list[Given]]]] = {name: {} for name in declaration.aggregates}
        self._watermark = Watermark()
        self._lost: list[tuple[loss.Partition, loss.Span]] = []

    def run(self, epochs: Iterable[EpochRecord]) -> Replayed:
        found = self._found
        for record in epochs:
            self._lost += loss.spans_of(record).items()
            numbers = Numbers(record.epoch, self._watermark.due(record) if self._declared.timed else None)
            self._close(record)
            for one in self._shares.of(record, self._of(record)):
                self._read[one.known_by] = self._read.get(one.known_by, 0) + 1
                self._take(one, record, numbers)
            self._watermark.end(record)
            found.numbers.append(numbers)
        found.unread = [
            place
            for place, rows in self._by_place.items()
            if any(one.known_by not in self._read for one in rows) and not loss.holds(self._lost, place)
        ]
        found.reread = list(dict.fromkeys(place[:3] for place, times in self._read.items() if times > 1))
        lengths = {name: self._length(each) for name, each in self._declared.aggregates.items()}
        found.open_windows = len({(lengths[of], start) for of, windows in self._windows.items() for start in windows})
        return found

    def _of(self, record: EpochRecord) -> Iterator[Given]:
        for topic in sorted(record.ranges):
            for partition, (start, end) in sorted(record.ranges[topic].items()):
                for offset in range(start, end):
                    # An offset without a record is a marker of a transaction, or what was never acknowledged.
                    yield from self._by_place.get((topic, partition, offset), ())

    def _take(self, one: Given, record: EpochRecord, numbers: Numbers) -> None:
        numbers.in_ += 1
        # Of each record one row is the first.
        numbers.records += not one.pos
        declared, row = self._declared, one.row
        time: int | None = row.get("event_time_ms") if declared.timed else None
        if one.reason is None and one.filtered in declared.filtered:
            # It takes no id, moves no time and is due in no sink: all that is left of it is this number.
            numbers.filtered[one.filtered] = numbers.filtered.get(one.filtered, 0) + 1
            return
        if one.reason is not None:
            numbers.malformed += 1
            self._refuse(one, one.reason, record)
            return
        late = time is not None and self._closed(time - time % declared.window_ms, declared.window_ms, record)
        copy = not late and declared.attached and row["id"] in self._ids
        if time is not None:
            self._watermark.show(record, one.source[:2], time, accepted=not late and not copy)
        if late:
            numbers.late += 1
            self._refuse(one, LATE, record)
        elif copy:
            numbers.duplicate += 1
        else:
            numbers.accepted += 1
            self._ids.add(row["id"] if declared.attached else one.source)
            if time is not None:
                newest = numbers.max_event_time_ms
                numbers.max_event_time_ms = time if newest is None else max(newest, time)
            for sink in declared.sinks:
                if sink.of == "rows":
                    kept = {name: row[name] for name in sink.columns}
                    self._found.due[sink.name][one.known_by] = Due(kept, record.epoch)
            for name, each in declared.aggregates.items():
                assert time is not None, "windows need times"
                length = self._length(each)
                slide = length if each.slide_ms is None else each.slide_ms
                start = time - time % slide
                while start + length > time:
                    self._windows[name].setdefault(start, {}).setdefault(each.key(row), []).append(one)
                    start -= slide

    def _refuse(self, one: Given, reason: str, record: EpochRecord) -> None:
        for sink in self._declared.sinks:
            if sink.of == "dead_letter":
                row = {"reason": reason, "id": one.row.get("id"), "value": one.value}
                row |= {"encoding": one.encoding} if one.encoding is not None else {}
                self._found.due[sink.name][one.known_by] = Due(row, record.epoch)

    def _length(self, each: Aggregated) -> int:
        return self._declared.window_ms if each.length_ms is None else each.length_ms

    def _closed(self, start: int, length: int, record: EpochRecord) -> bool:
        end = start + length + self._declared.lateness_ms
        return record.watermark_ms is not None and end <= record.watermark_ms

    def _close(self, record: EpochRecord) -> None:
        """Emit the windows that the epoch's watermark closes; what is emitted is final."""
        for name, windows in self._windows.items():
            each = self._declared.aggregates[name]
            length = self._length(each)
            for start in sorted(start for start in windows if self._closed(start, length, record)):
                by_key = windows.pop(start)
                results = {key: _results(each, some) for key, some in by_key.items()}
                for sink in (one for one in self._declared.sinks if one.of == name):
                    if sink.totals:
                        whole = _results(each, [one for some in by_key.values() for one in some])
                        self._show(sink, ("", start), whole, record)
                        continue
                    for key, values in results.items():
                        if None not in values.values():
                            self._show(sink, (key, start), each.columns(key) | values, record)
                for key, values in results.items():
                    self._lament(name, key, start, values, record)

    def _show(self, sink: Sink, known_by: tuple[Any, int], values: Mapping[str, Any], record: EpochRecord) -> None:
        whole = {**values, "window_start_ms": known_by[1]}
        due = Due({column: whole[column] for column in sink.columns}, record.epoch)
        self._found.due[sink.name][known_by] = due

    def _lament(self, name: str, key: Any, start: int, values: Mapping[str, Any], record: EpochRecord) -> None:
        """A result of which one value cannot be is a dead letter."""
        each = self._declared.aggregates[name]
        reasons = [Value(*each.values[value]).reason for value, found in values.items() if found is None]
        for sink in (one for one in self._declared.sinks if one.of == "dead_letter" and reasons):
            due = Due({"reason": reasons[0], "id": None}, record.epoch)
            self._found.due[sink.name][_RESULT, name, key, start] = due


_RESULT = "result"
"""How the identity of a dead letter begins that is the result of windows."""


def _results(each: Aggregated, some: Sequence[Given]) -> dict[str, Any]:
    """Return the values of a group."""

    def place(one: Given) -> tuple[Any, ...]:
        return one.row["event_time_ms"], one.source[0].encode(), *one.source[1:]

    rows = [{**dict(zip(COORDINATE, one.source, strict=True)), **one.row} for one in sorted(some, key=place)]
    return {name: aggregated.result(Value(*parts), rows) for name, parts in each.values.items()}


def identity(declaration: Declaration, sink: Sink, row: Mapping[str, Any]) -> Any:
    """What an observed row is known by; None when it carries none."""
    if sink.of == "dead_letter" and row.get("reason") in aggregated.IMPOSSIBLE:
        return _identity_of_result(declaration, row)
    if sink.of in ("rows", "dead_letter"):
        # Messages name their source; all else has it in columns.
        source = row.get("source") if sink.kind == "kafka" else [row.get(name) for name in COORDINATE]
        if not isinstance(source, list) or len(source) != 3:
            return None
        return tuple(source) if declaration.rows_max is None else (*source, row.get("pos"))
    key, start = "" if sink.totals else declaration.aggregates[sink.of].key(row), row.get("window_start_ms")
    return (key, start) if type(start) is int and all(_is_part(part) for part in _parts(key)) else None


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _is_part(part: Any) -> bool:
    """Whether JSON of a key's column is a text, a whole number or a truth value."""
    return isinstance(part, str | int)


def is_left_out(declaration: Declaration, row: Mapping[str, Any]) -> bool:
    """Whether a dead letter is the result of windows that are not judged."""
    source = row.get("source")
    of = source[0] if isinstance(source, list) and source else None
    names = {f"{declaration.pipeline}.{name}" for name in declaration.left_out}
    return row.get("reason") in aggregated.IMPOSSIBLE and of in names


def _identity_of_result(declaration: Declaration, row: Mapping[str, Any]) -> Any:
    """What the dead letter of a result is known by: its windows, key and window, which its value tells."""
    try:
        of, value = row["source"][0].removeprefix(f"{declaration.pipeline}."), json.loads(row["value"])
        key = declaration.aggregates[of].key(value)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None
    return (_RESULT, of, key, value.get("window_start_ms")) if all(map(_is_part, _parts(key))) else None
