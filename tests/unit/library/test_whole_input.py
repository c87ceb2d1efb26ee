"""A shard's input is whole only if rows and closing rows of every task agree (R13)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from effectively_once.driver.worker_errors import name_error
from effectively_once.epoch import whole_input
from effectively_once.errors import InputError, PipelineError

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("closing", pa.string())])
Row = dict[str, Any]


def row(partition: int, offset: int) -> Row:
    return {"partition": partition, "offset": offset, "closing": None}


def closing(task: int, had: list[Row], tasks: int = 2, **other: Any) -> Row:
    """Make the closing row of a task that had these rows."""
    table = pa.Table.from_pylist(had, SCHEMA)
    told = {"task": task, "tasks": tasks, "rows": len(had), "digest": f"{whole_input.digest_of(table, DIGESTED):x}"}
    return {"partition": None, "offset": None, "closing": json.dumps({**told, **other})}


DIGESTED = ("partition", "offset")
FIRST, SECOND = [row(0, 1), row(0, 2)], [row(1, 1)]
WHOLE = [*FIRST, closing(0, FIRST), *SECOND, closing(1, SECOND)]


def require(rows: list[Row], **how: Any) -> list[Row]:
    batches = [pa.RecordBatch.from_pylist([one], SCHEMA) for one in rows]
    found = whole_input.require(batches, DIGESTED, "epoch 3", **how)
    return [one for batch in found for one in batch.to_pylist()]


def test_rows_come_without_their_closing_rows_in_any_order() -> None:
    expected = [{"partition": 0, "offset": 1}, {"partition": 0, "offset": 2}, {"partition": 1, "offset": 1}]
    assert require(WHOLE) == expected
    assert sorted(require(WHOLE[::-1]), key=str) == sorted(expected, key=str)


def test_a_shard_without_rows_has_closing_rows_all_the_same() -> None:
    assert require([closing(0, []), closing(1, [])]) == []
    with pytest.raises(InputError, match="no closing row came, and 0 rows"):
        require([])


def test_an_epoch_that_covers_nothing_has_no_tasks() -> None:
    assert require([], nothing=True) == []
    with pytest.raises(InputError):
        require([row(0, 1)], nothing=True)


@pytest.mark.parametrize("end", range(1, len(WHOLE)))
def test_input_that_ends_anywhere_is_refused(end: int) -> None:
    with pytest.raises(InputError, match=r"not whole.*epoch 3"):
        require(WHOLE[:end])


@pytest.mark.parametrize("missing", range(len(WHOLE)))
def test_input_that_lacks_any_row_is_refused(missing: int) -> None:
    with pytest.raises(InputError, match="not whole"):
        require(WHOLE[:missing] + WHOLE[missing + 1 :])


@pytest.mark.parametrize(
    "rows",
    [
        [*WHOLE, WHOLE[0]],
        [*WHOLE, WHOLE[2]],
        [row(0, 1), row(0, 3), *WHOLE[2:]],
        [row(0, 1), row(0, 1), *WHOLE[2:]],
        [*FIRST, closing(0, FIRST), *SECOND, closing(1, SECOND, tasks=3)],
        [*FIRST, closing(0, FIRST, rows=3), *SECOND, closing(1, SECOND)],
        [*FIRST, closing(0, FIRST, digest="0"), *SECOND, closing(1, SECOND)],
    ],
    ids=["row twice", "task twice", "other row", "one for another", "other plan", "other count", "other digest"],
)
def test_rows_that_disagree_with_the_closing_rows_are_refused(rows: list[Row]) -> None:
    with pytest.raises(InputError, match="not whole"):
        require(rows)


def test_the_digest_is_that_of_the_jvm() -> None:
    """The sum over two rows as `ClosingRows.java` has it; tests/spark compares both sides on many."""
    mask = (1 << 64) - 1

    def mixed(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    expected = sum(mixed((mixed(partition) + offset) & mask) for partition, offset in ((0, 1), (0, 2))) & mask
    assert whole_input.digest_of(pa.Table.from_pylist(FIRST, SCHEMA), DIGESTED) == expected


def test_it_is_an_error_that_passes_and_keeps_its_name_on_the_way_to_the_driver() -> None:
    with pytest.raises(InputError) as raised:
        require(WHOLE[:2])
    text = f"PythonException: ... effectively_once.errors.InputError: {raised.value}"
    found = name_error(RuntimeError(text))
    assert isinstance(found, InputError)
    assert (found.passing, PipelineError.passing) == (True, False)
