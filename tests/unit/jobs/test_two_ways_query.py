"""The table of the snapshots' way gets the whole input of a task or none of it (R13)."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from effectively_once.epoch.whole_input import CLOSING
from effectively_once.errors import InputError
from effectively_once_jobs.two_ways import query
from effectively_once_jobs.two_ways.running import Record

RECORDS = [Record(f"r{number}", "ann", number, 10 * number) for number in range(3)]
NAMES = list(Record.__slots__)


def batches(records: list[Record], closed: int | None) -> list[pa.RecordBatch]:
    """Rows of a task before this one, each on its own; then its closing row, if it closes so many."""
    rows = [{**{name: getattr(one, name) for name in NAMES}, CLOSING: None} for one in records]
    if closed is not None:
        told = json.dumps({"task": 0, "tasks": 1, "rows": closed, "digest": "0"})
        rows.append({**dict.fromkeys(NAMES), CLOSING: told})
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("user", pa.string()),
            ("event_time_ms", pa.int64()),
            ("amount", pa.int64()),
            (CLOSING, pa.string()),
        ]
    )
    return [pa.RecordBatch.from_pylist([row], schema) for row in rows]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """What the table gets."""
    table: list[Record] = []
    monkeypatch.setattr(query, "shared_table", lambda *_: SimpleNamespace(write=table.extend))
    return table


def test_a_whole_input_is_written(written: list[Record]) -> None:
    (told,) = query._write("postgresql://h:1/d", "p", batches(RECORDS, 3))
    assert told.to_pylist() == [{"rows": 3}]
    assert written == RECORDS


@pytest.mark.parametrize(("came", "closed"), [(3, None), (2, 3), (0, 3), (0, None)])
def test_nothing_is_written_of_an_input_that_ends_early(written: list[Record], came: int, closed: int | None) -> None:
    with pytest.raises(InputError, match="not whole"):
        list(query._write("postgresql://h:1/d", "p", batches(RECORDS[:came], closed)))
    assert written == []
