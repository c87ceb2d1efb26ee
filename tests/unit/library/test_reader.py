"""Reading what an object-store sink published: exactly that, whatever else lies in the bucket (R8)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effectively_once.errors import SinkError
from effectively_once.ledger import chain, checksum
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Get, Request, run
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.reader import PublishedRows
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.library.ledger_driver import LedgerDriver, global_counts
from tests.unit.library.names import GLOBAL_COUNTS

LAYOUT = Layout("clicks")
EPOCHS = 12


@pytest.fixture
def store() -> MemoryStore:
    """Hold a pipeline of twelve epochs, stopped in order."""
    made = MemoryStore()
    LedgerDriver.started(made, LAYOUT).run(EPOCHS)
    return made


def rows_of(store: MemoryStore, **how: Any) -> PublishedRows:
    return PublishedRows(lambda: store, LAYOUT, GLOBAL_COUNTS, run(chain.read(LAYOUT), store), **how)


def counts_of(rows: PublishedRows) -> list[tuple[int, int, int]]:
    return [(epoch, row["window_start_ms"], row["count"]) for epoch, table in rows for row in table.to_pylist()]


def rewrite(store: MemoryStore, epoch: int, /, **changes: Any) -> None:
    """Have an epoch's manifest written with other fields."""
    key = LAYOUT.manifest(GLOBAL_COUNTS, epoch)
    store.objects[key] = checksum.seal({**checksum.open_sealed(store.objects[key])[0], **changes})


def file_of(store: MemoryStore, epoch: int) -> str:
    name: str = json.loads(store.objects[LAYOUT.manifest(GLOBAL_COUNTS, epoch)])["files"][0]["name"]
    return name


def republish(store: MemoryStore, epoch: int, table: pa.Table) -> None:
    """Have an epoch publish another table."""
    del store.objects[LAYOUT.manifest(GLOBAL_COUNTS, epoch)]
    ManifestSink(store, LAYOUT, GLOBAL_COUNTS).publish(epoch, 1, table)


def test_every_row_that_was_published_is_read_once_in_order_of_epochs(store: MemoryStore) -> None:
    rows = rows_of(store)
    assert counts_of(rows) == global_counts(EPOCHS)
    assert (rows.first, rows.last) == (0, EPOCHS - 1)
    expected = [(at, n) for _, at, n in global_counts(EPOCHS)]
    assert [tuple(row.values()) for row in rows.arrow().to_pylist()] == expected
    assert list(rows.pandas().itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("verify", [True, False])
def test_all_files_of_an_epoch_are_read(verify: bool, store: MemoryStore) -> None:
    """A shard that had rows staged one."""
    sink, tables = ManifestSink(store, LAYOUT, GLOBAL_COUNTS), dict(rows_of(store))
    epoch, table = max(tables.items())
    parts = [table, table.slice(0, 0), table.slice(0, 1)]
    del store.objects[LAYOUT.manifest(GLOBAL_COUNTS, epoch)]
    sink.publish_staged(epoch, 1, [sink.stage(epoch, part) for part in parts])
    assert dict(rows_of(store, verify=verify))[epoch] == pa.concat_tables(parts)


def test_nothing_published_is_a_table_without_rows() -> None:
    store = MemoryStore()
    LedgerDriver.started(store, LAYOUT)
    rows = rows_of(store)
    assert (rows.first, rows.last, counts_of(rows), rows.arrow().num_rows) == (0, -1, [], 0)
    assert rows_of(store, since=0).last == -1


def test_since_gives_what_came_after_and_nothing_is_read_twice_or_left_out(store: MemoryStore) -> None:
    first = rows_of(store)
    assert counts_of(rows_of(store, since=first.last + 1)) == []
    LedgerDriver.started(store, LAYOUT, "second").run(5)
    newer = rows_of(store, since=first.last + 1)
    assert counts_of(first) == global_counts(EPOCHS), "a snapshot does not change"
    assert counts_of(first) + counts_of(newer) == global_counts(EPOCHS + 5)
    assert (newer.first, newer.last) == (EPOCHS, EPOCHS + 4)


def test_no_listing_says_what_is_published(store: MemoryStore) -> None:
    """Neither a staged file without a manifest nor a manifest of an epoch that was never declared is seen."""
    sink = ManifestSink(store, LAYOUT, GLOBAL_COUNTS)
    sink.publish(EPOCHS, 9, pa.table({"window_start_ms": [1], "count": [99]}))
    store.objects[LAYOUT.staged_file(GLOBAL_COUNTS, 3, "orphan")] = store.objects[file_of(store, 4)]
    assert counts_of(rows_of(store)) == global_counts(EPOCHS)


def test_the_declared_epoch_counts_from_its_manifest_on(store: MemoryStore) -> None:
    for step in LedgerDriver.started(store, LAYOUT, "second").steps():
        rows = rows_of(store)
        assert counts_of(rows) == global_counts(rows.last + 1)
        assert rows.last == (EPOCHS if step == "published" else EPOCHS - 1)
        if step == "published":
            break


def test_what_was_purged_below_the_floor_is_left_out_unless_it_is_asked_for(store: MemoryStore) -> None:
    floor = run(chain.read(LAYOUT), store).floor
    assert floor > 3
    for epoch in range(floor - 1):
        del store.objects[LAYOUT.manifest(GLOBAL_COUNTS, epoch)]
    rows = rows_of(store)
    assert (rows.first, rows.last) == (floor - 1, EPOCHS - 1)
    assert counts_of(rows) == [row for row in global_counts(EPOCHS) if row[0] >= floor - 1]
    assert counts_of(rows_of(store, since=floor - 1)) == counts_of(rows)
    with pytest.raises(SinkError, match=f"epochs 2 to {floor - 2} of sink global_counts are no longer kept"):
        rows_of(store, since=2)


def test_a_manifest_purged_while_it_was_looked_for_is_no_damage(store: MemoryStore) -> None:
    """The reader has an old head; the floor has risen since."""
    old = run(chain.read(LAYOUT), store)
    LedgerDriver.started(store, LAYOUT, "second").run(10)
    for epoch in range(old.floor + 2):
        del store.objects[LAYOUT.manifest(GLOBAL_COUNTS, epoch)]
    rows = PublishedRows(lambda: store, LAYOUT, GLOBAL_COUNTS, old)
    assert (rows.first, rows.last) == (old.floor + 2, old.last_recorded)


def test_a_missing_manifest_is_named(store: MemoryStore) -> None:
    key = LAYOUT.manifest(GLOBAL_COUNTS, EPOCHS - 1)
    del store.objects[key]
    with pytest.raises(SinkError, match=rf"a manifest is missing .{key}.*Restore it"):
        rows_of(store)
    with pytest.raises(SinkError, match=r"a manifest is missing .*read its topic"):
        PublishedRows(lambda: store, LAYOUT, "accepted", run(chain.read(LAYOUT), store))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"files": [{}]}, "a manifest is damaged"),
        ({"files": "all"}, "a manifest is damaged"),
        ({"digest": "0" * 32}, "do not hold the rows"),
        ({"files": []}, "do not hold the rows"),
    ],
)
def test_a_damaged_manifest_is_named(store: MemoryStore, changes: dict[str, Any], said: str) -> None:
    rewrite(store, 5, **changes)
    with pytest.raises(SinkError, match=f"{said}.*{LAYOUT.manifest(GLOBAL_COUNTS, 5)}"):
        counts_of(rows_of(store))


def test_a_missing_or_damaged_file_is_named(store: MemoryStore) -> None:
    name = file_of(store, 6)
    whole = store.objects.pop(name)
    with pytest.raises(SinkError, match=f"a file that a manifest names is missing .{name}"):
        counts_of(rows_of(store))
    for damaged in (b"", whole[:-20], whole[:4] + bytes(len(whole) - 8) + whole[-4:]):
        store.objects[name] = damaged
        with pytest.raises(SinkError, match=f"a file of a sink is damaged.*{name}"):
            counts_of(rows_of(store))
    store.objects[name] = store.objects[file_of(store, 7)]
    with pytest.raises(SinkError, match="do not hold the rows that its manifest was written for"):
        rows_of(store).arrow()
    assert rows_of(store, verify=False).arrow().num_rows == len(global_counts(EPOCHS))


def test_a_file_with_another_number_of_rows_is_named_even_without_the_digest(store: MemoryStore) -> None:
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"window_start_ms": [1, 2], "count": [1, 2]}), buffer)
    store.objects[file_of(store, 6)] = buffer.getvalue().to_pybytes()
    with pytest.raises(SinkError, match="has 2 rows, its manifest says 1"):
        counts_of(rows_of(store, verify=False))


def test_a_column_that_came_later_is_null_before(store: MemoryStore) -> None:
    republish(store, EPOCHS - 1, pa.table({"window_start_ms": [7], "count": [7], "share": [0.5]}))
    table = rows_of(store).arrow()
    assert table.column_names == ["window_start_ms", "count", "share"]
    assert table["share"].to_pylist() == [None] * (table.num_rows - 1) + [0.5]


def test_a_column_of_another_type_is_refused_by_name(store: MemoryStore) -> None:
    republish(store, EPOCHS - 1, pa.table({"window_start_ms": [7], "count": ["seven"]}))
    with pytest.raises(SinkError, match=r"columns of epochs differ: .*count.*since"):
        rows_of(store).arrow()
    assert rows_of(store, since=EPOCHS - 1).arrow().to_pylist() == [{"window_start_ms": 7, "count": "seven"}]


def test_files_are_read_when_they_are_asked_for(store: MemoryStore) -> None:
    """An epoch at a time: a consumer that stops early has not fetched the rest."""
    asked: list[str] = []

    class Watched(MemoryStore):
        def answer(self, request: Request) -> Answer:
            if isinstance(request, Get) and "/data/" in request.key:
                asked.append(request.key)
            return store.answer(request)

    next(iter(PublishedRows(Watched, LAYOUT, GLOBAL_COUNTS, run(chain.read(LAYOUT), store))))
    assert len(asked) == 1


def test_a_reader_that_saw_an_epoch_before_it_was_recorded_does_not_see_it_again() -> None:
    store = MemoryStore()
    driver = LedgerDriver.started(store, LAYOUT)
    for step in driver.steps():
        declared = driver.held.head.declared
        if step == "published" and declared is not None and declared.epoch == 4:
            break
    first = rows_of(store)
    assert (first.last, run(chain.read(LAYOUT), store).last_recorded) == (4, 3)
    for _ in range(2):
        again = rows_of(store, since=first.last + 1)
        assert (again.last, list(again)) == (4, [])
