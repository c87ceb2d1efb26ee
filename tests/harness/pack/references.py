"""What a line is told by: a record of the workload, a send, the rows that a reader saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import orjson

from tests.harness.pack.template import Facts, Value
from tests.harness.sends import crc_of_row
from tests.harness.wire import compact
from tests.harness.workload.record import Planned, line_of, partition_of

_MESSAGE = ("id", "user", "event_time_ms", "payload", "crc")
"""Members of a well-formed record's message."""
_ORDINAL = "@send"
"""Hidden: which of the sends it is, in the order of partitions and offsets. No name in a path is like it."""


class References:
    """Nothing is known of any line.

    Attributes:
        keys: paths of the numbers that say what a line refers to.
    """

    keys: tuple[str, ...] = ()

    def hidden(self, row: Any) -> Mapping[str, int]:
        """Numbers at `keys` that are not in a line, found when it is packed."""
        return {}

    def facts(self, values: Mapping[str, Value]) -> Facts:
        """What is known of a line with these numbers at `keys`."""
        return {}

    def expected(self, column: str, before: int) -> int:
        """The number expected in a column after another."""
        return before


class Plan(References):
    """Lines of `sent.jsonl`: each is a record of the workload, acknowledged.

    Args:
        records: in sending order.
        topic: they were sent to.
        partitions: of the topic.
    """

    keys = ("n",)

    def __init__(self, records: Iterable[Planned], topic: str, partitions: int) -> None:
        self._records = list(records)
        self._topic = topic
        self._partitions = [partition_of(record, partitions) for record in self._records]
        self._next = list(range(1, len(self._records) + 1))
        later: dict[int, int] = {}
        for n in range(len(self._records) - 1, -1, -1):
            self._next[n] = later.get(self._partitions[n], n)
            later[self._partitions[n]] = n

    def facts(self, values: Mapping[str, Value]) -> Facts:
        """The line of a record but for what the broker and the clock said."""
        n = values.get("n")
        if not isinstance(n, int) or not 0 <= n < len(self._records):
            return {}
        line = line_of(self._records[n], self._topic, self._partitions[n], 0, 0)
        del line["n"], line["offset"], line["sent_at"]
        return line

    def expected(self, column: str, before: int) -> int:
        """Acknowledgements come by partition, each in the order of the sends."""
        if column == "columns/numbers/n" and 0 <= before < len(self._next):
            return self._next[before]
        return before


class Sends(References):
    """Rows of a sink: each is of the send at its source coordinate; one that has none, of the send of its id.

    Args:
        lines: of `sent.jsonl`.
    """

    keys = ("source.1", "source.2", _ORDINAL)

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines: dict[tuple[int, int], bytes] = {}
        for line, row in objects(lines):
            partition, offset = row.get("partition"), row.get("offset")
            if type(partition) is int and type(offset) is int:
                self._lines[partition, offset] = line
        self._in_order = [self._lines[place] for place in sorted(self._lines)]

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        """The last send of every id."""
        ids = (orjson.loads(line).get("id") for line in self._in_order)
        return {id_: n for n, id_ in enumerate(ids) if isinstance(id_, str)}

    def hidden(self, row: Any) -> Mapping[str, int]:
        """The ordinal of a row's send, where the row does not say where it was sent."""
        if not isinstance(row, dict) or "source" in row or not isinstance(row.get("id"), str):
            return {}
        ordinal = self._ordinals.get(row["id"])
        return {} if ordinal is None else {_ORDINAL: ordinal}

    def facts(self, values: Mapping[str, Value]) -> Facts:
        """What the row of a send holds."""
        line = self._line(values)
        if line is None:
            return {}
        send: dict[str, Any] = orjson.loads(line)
        send |= {"source.0": send.get("topic"), "message.key": send.get("user")}
        del send["partition"], send["offset"]
        if "value" not in send:
            send["value"] = compact({name: send.get(name) for name in _MESSAGE}).decode()
        return send

    def _line(self, values: Mapping[str, Value]) -> bytes | None:
        ordinal, partition, offset = (values.get(path) for path in (_ORDINAL, "source.1", "source.2"))
        if isinstance(ordinal, int):
            return self._in_order[ordinal] if 0 <= ordinal < len(self._in_order) else None
        return self._lines.get((partition, offset)) if isinstance(partition, int) and isinstance(offset, int) else None


class Rows(References):
    """What a reader saw while the run went on: rows that are there at the end, as checksums.

    Args:
        lines: of the rows at the end.
    """

    keys = ("partition", "offsets")

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._crcs = {
            (row.get("partition"), row.get("offset")): crc_of_row(row)
            for _, row in objects(lines)
            if type(row.get("partition")) is int and type(row.get("offset")) is int
        }

    def facts(self, values: Mapping[str, Value]) -> Facts:
        """Checksums of the rows at these offsets."""
        partition, offsets = values.get("partition"), values.get("offsets")
        if not isinstance(partition, int) or not isinstance(offsets, list):
            return {}
        return {"crcs": [self._crcs.get((partition, offset), 0) for offset in offsets]}


def objects(lines: Iterable[bytes]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Lines that are JSON objects, with what they hold."""
    for line in lines:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            yield line, row
