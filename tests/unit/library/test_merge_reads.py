"""How the parts of a span are read, what the span tells of them, and what is said where they do not fit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Sum
from effectively_once.errors import ChainError
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.layout import Layout
from effectively_once.state import catalog, merge, windows
from effectively_once.state.accumulators import accumulators
from effectively_once.state.deltas import Named, ShardDeltas
from effectively_once.state.merge import merge_oldest, take_in
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.listed_store import ListedStore

LAYOUT = Layout("counts")


def written(store: ListedStore) -> tuple[ShardDeltas, list[Named]]:
    log = ShardDeltas(store, LAYOUT, catalog.KIND, 1, catalog.canonical)
    tables = [pa.table({"id": [f"id-{n}"], "event_time_ms": [n]}, schema=catalog.SCHEMA) for n in range(4)]
    return log, [Named(epoch, log.write(epoch, table)) for epoch, table in enumerate(tables)]


@pytest.mark.parametrize(("readers", "pools"), [(1, []), (2, [(2, "merge")]), (3, [(3, "merge")])])
def test_as_many_threads_read_as_there_are_readers_and_none_for_one(
    readers: int, pools: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects wait in memory for the others. Threads are named, so that a dump of them tells what waits."""
    made: list[tuple[Any, ...]] = []

    def noting(*asked: Any) -> Any:
        made.append(asked)
        return ThreadPoolExecutor(*asked)

    monkeypatch.setattr(merge, "ThreadPoolExecutor", noting)
    log, named = written(ListedStore())
    span = merge_oldest(log, named, fan=4, readers=readers)
    assert span is not None
    assert log.read(Named(3, span))["id"].to_pylist() == [f"id-{n}" for n in range(4)]
    assert made == pools


def test_a_span_tells_what_no_sum_of_its_parts_exceeds() -> None:
    log = ShardDeltas(ListedStore(), LAYOUT, "totals", 1, windows.canonical)
    values = accumulators({"total": Sum("total")}, pa.schema([("total", pa.int64())]))
    rows = pa.table({"key": ["ann"], "window_start_ms": [0], "total": [7]}, schema=windows.schema(values))
    named = [
        Named(epoch, log.write(epoch, rows).model_copy(update={"largest": size})) for epoch, size in enumerate((7, 5))
    ]
    span = merge_oldest(log, named, fan=2, readers=1)
    assert span is not None
    assert span.largest == 12


def test_a_span_of_which_no_part_is_read_is_named_itself() -> None:
    """Its parts end before the epochs that are asked for."""
    named: dict[merge.Where, list[Named]] = {}
    span = Span(first=0, last=3, rows=1)
    record = record_of(declaration(4)).model_copy(update={"deltas": {}, "merged": {"ids": {"1": span}}})
    assert take_in(named, record) == []
    assert named == {("ids", 1): [Named(3, span, shards=record.shards)]}


def test_why_parts_do_not_fit_is_said_up_to_200_characters() -> None:
    """Arrow tells both schemas, which may be as long as names of columns are."""
    log, named = written(ListedStore())
    rows = named[2].rows
    assert isinstance(rows, Delta)
    other = pa.table({"c" * 300: ["d"]})
    named[2] = Named(2, rows.model_copy(update={"inline": f'{{"{"c" * 300}":["d"]}}'}))
    with pytest.raises(pa.ArrowInvalid) as arrows:
        pa.concat_tables([log.read_unchecked(named[0]), log.read_unchecked(named[1]), other])
    reason = str(arrows.value).replace("\n", " ")
    assert len(reason) > 200
    with pytest.raises(ChainError) as error:
        merge_oldest(log, named, fan=4, readers=1)
    said = f"deltas cannot be merged, their columns differ or cannot be read: {reason[:200]} ("
    assert " ".join(str(error.value).split()).startswith(" ".join(said.split()))
