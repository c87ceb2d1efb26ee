"""The lake table of the Iceberg sink: its shape and its columns, and how much of its history it keeps."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import pyarrow_to_schema

from effectively_once.errors import SinkError
from effectively_once.ledger import digest
from effectively_once.sinks import lake_tables
from effectively_once.sinks.lake_files import LakeShape
from effectively_once.sinks.publish import Mark, Published
from tests.unit.library.lake import SHAPE, Lake, rows

WIDER = pa.schema([*SHAPE.schema, ("country", pa.string())])


def test_a_table_that_is_gone_is_named() -> None:
    lake = Lake()
    lake.catalog.drop_table(lake.address.identifier)
    with pytest.raises(SinkError, match=r"the lake table does not exist .lake table clicks.accepted.*create"):
        lake.publish(0, rows("a"))


def _change(lake: Lake, **columns: Any) -> None:
    lake.catalog.drop_table(lake.address.identifier)
    schema = pyarrow_to_schema(LakeShape(pa.schema(list(columns.items()))).columns)
    lake.catalog.create_table(
        lake.address.identifier, schema, lake.address.location, properties={**lake_tables.PROPERTIES}
    )


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"id": pa.string()}, "the table lacks n long .*Add them at its end"),
        ({"id": pa.string(), "n": pa.int32()}, "n is int and must be long"),
        ({"n": pa.int64(), "id": pa.string()}, "id has field id 2 and must have 1, its place in the job"),
    ],
)
def test_a_table_of_another_shape_is_named(columns: dict[str, pa.DataType], says: str) -> None:
    """Before anything is published, and when it is made."""
    lake = Lake()
    _change(lake, **columns)
    for ask in (lambda: lake.publish(0, rows("a")), lambda: lake_tables.make(lake.catalog, lake.address, SHAPE)):
        with pytest.raises(SinkError, match=says):
            ask()
    assert lake.table.snapshots() == []


def test_a_table_that_is_partitioned_or_moved_is_named() -> None:
    """Files of a shard have rows of all keys, and lie where the layout has them."""
    lake = Lake()
    with lake.table.update_spec() as spec:
        spec.add_identity("id")
    with pytest.raises(SinkError, match="it is partitioned by id"):
        lake.publish(0, rows("a"))


def test_a_column_that_somebody_added_is_null_in_our_rows() -> None:
    """The old version of a job runs on while a column is added for the next one."""
    lake = Lake()
    lake.publish(0, rows("a"))
    with lake.table.update_schema() as schema:
        schema.add_column("country", pyarrow_to_schema(LakeShape(WIDER).columns).fields[2].field_type)
    assert lake.publish(1, rows("b")) is Published.NOW
    wider = Lake.sink(lake, LakeShape(WIDER))
    table = rows("c").append_column("country", pa.array(["NL"]))
    assert wider.publish_staged(2, 2, [wider.stage(2, table)])[1] is Published.NOW
    shown = lake.table.scan().to_arrow().sort_by("id")
    assert shown["country"].to_pylist() == [None, None, "NL"]


def test_other_columns_than_declared_are_refused() -> None:
    lake = Lake()
    for table in (rows("a").select(["n", "id"]), rows("a").drop_columns(["n"])):
        with pytest.raises(SinkError, match="the sink was declared with"):
            lake.sink().stage(0, table)


def test_every_type_of_column_is_read_as_it_was_given() -> None:
    """By PyIceberg, with bounds of each in the file's statistics."""
    table = pa.table(
        {
            "text": ["a", None],
            "whole": pa.array([1 << 62, None], pa.int64()),
            "small": pa.array([-7, None], pa.int32()),
            "double": [0.1, None],
            "truth": [True, None],
            "bytes": [b"\x00\xff", None],
            "day": [date(1999, 12, 31), None],
            "time": pa.array([datetime(2024, 2, 29, 1, 2, 3, 4, UTC), None], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal("12345.67"), None], pa.decimal128(9, 2)),
            "sum": pa.array([Decimal("-0.01"), None], pa.decimal128(18, 2)),
            "large": pa.array([Decimal(10) ** 29, None], pa.decimal128(38, 2)),
        }
    )
    lake = Lake(shape=LakeShape(table.schema))
    assert lake.publish(0, table) is Published.NOW
    found = lake.table.scan().to_arrow()
    assert {name: found[name].to_pylist() for name in found.column_names} == table.to_pydict()
    (file,) = lake.table.inspect.files().to_pylist()
    assert (file["record_count"], len(file["lower_bounds"])) == (2, table.num_columns)
    assert lake.table.scan(row_filter="whole = 5").to_arrow().num_rows == 0


def test_old_metadata_is_deleted() -> None:
    """Every epoch writes some, with all snapshots in it."""
    lake = Lake()
    lake.set_properties({"write.metadata.previous-versions-max": "3"})
    lake.publish_epochs(range(10))
    names = [name for name in lake.store.objects if name.endswith(".metadata.json")]
    assert len(names) == 4
    assert lake.ids() == [f"e{epoch}" for epoch in range(10)]


def test_of_old_epochs_the_snapshots_expire() -> None:
    """All of them are in every version of the table's metadata. One that somebody named stays, and so do the rows."""
    lake = Lake()
    lake.set_properties({lake_tables.KEEP: "3"})
    lake.publish(0, rows("e0"))
    lake.table.manage_snapshots().create_tag(lake.table.snapshots()[0].snapshot_id, "named").commit()
    lake.publish_epochs(range(1, 10))
    epochs = [told[f"{lake_tables.PREFIX}epoch"] for told in lake.summaries()]
    assert epochs == ["0", "7", "8", "9"]
    assert len([name for name in lake.store.objects if "/snap-" in name]) == 4
    assert lake.ids() == [f"e{epoch}" for epoch in range(10)]
    assert lake.sink().read_mark() == Mark(9, 1, 1, digest.of_rows_in(rows("e9")))


@pytest.mark.parametrize("told", [None, "10", "many"])
def test_no_snapshot_expires_before_there_are_too_many(told: str | None) -> None:
    """Nor where the property is no number."""
    lake = Lake()
    if told is not None:
        lake.set_properties({lake_tables.KEEP: told})
    lake.publish_epochs(range(8))
    assert len(lake.table.snapshots()) == 8


def test_a_snapshot_that_is_named_while_an_epoch_is_committed_stays() -> None:
    """It would have expired with that commit."""
    lake = Lake()
    lake.set_properties({lake_tables.KEEP: "1"})
    lake.publish_epochs(range(2))
    first = lake.table.snapshots()[0].snapshot_id
    lake.catalog.before = lambda: lake.table.manage_snapshots().create_tag(first, "named").commit()
    assert lake.publish(2, rows("e2")) is Published.NOW
    assert lake.table.refs()["named"].snapshot_id == first
    assert lake.table.snapshot_by_id(first) is not None
    lake.publish(3, rows("e3"))
    assert len(lake.table.snapshots()) == 3


def test_manifests_are_merged() -> None:
    """Otherwise a reader would open one an epoch."""
    lake = Lake()
    lake.set_properties({"commit.manifest.min-count-to-merge": "4"})
    lake.publish_epochs(range(10))
    newest = lake.table.current_snapshot()
    assert newest is not None
    assert len(newest.manifests(lake.table.io)) <= 4
    assert lake.ids() == [f"e{epoch}" for epoch in range(10)]
