"""The Iceberg sink: one snapshot an epoch, committed to the table as it was read, shows its rows once (R8, R10)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table import TableProperties
from sqlalchemy.exc import OperationalError

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks import lake_tables
from effectively_once.sinks.lake_catalog import LakeAddress
from effectively_once.sinks.lake_files import LakeShape
from effectively_once.sinks.publish import Mark, Published
from tests.unit.ledger.memory_store import Fate
from tests.unit.library.lake import SHAPE, Lake, rows


def raise_(error: Exception) -> Callable[[], object]:
    def do() -> object:
        raise error

    return do


def lost() -> Exception:
    """What SQLAlchemy says of a connection that ended."""
    return OperationalError("UPDATE", {}, sqlite3.OperationalError("the connection is gone"))


def append_by_somebody(lake: Lake) -> None:
    """As an engine adds or compacts while drivers run."""
    lake.table.append(rows("foreign"))


def test_each_epoch_is_one_snapshot_that_tells_what_it_shows() -> None:
    """Also of no rows: the mark has to be that of the epoch before."""
    lake = Lake()
    sink = lake.sink()
    staged = [sink.stage(0, rows("a", "b")), sink.stage(0, rows("c"))]
    content, published = sink.publish_staged(0, 7, staged)
    assert (content.rows, published) == (3, Published.NOW)
    assert content.digest == digest.of_rows_in(pa.concat_tables([rows("a", "b"), rows("c")]))
    assert lake.publish(1, rows()) is Published.NOW
    assert lake.publish(2, rows("d")) is Published.NOW
    assert lake.ids() == ["a", "b", "c", "d"]
    summaries, prefix = lake.summaries(), lake_tables.PREFIX
    marks = [{k.partition(".")[2]: v for k, v in told.items() if k.startswith(prefix)} for told in summaries]
    assert [mark["epoch"] for mark in marks] == ["0", "1", "2"]
    assert marks[0] == {"pipeline": "clicks", "epoch": "0", "generation": "7", "rows": "3", "digest": content.digest}
    assert summaries[0]["added-records"] == "3"
    assert lake.sink().read_mark() == Mark(2, 1, 1, digest.of_rows_in(rows("d")))


def test_a_repeat_shows_nothing_again_and_other_rows_are_refused() -> None:
    lake = Lake()
    assert [lake.publish(0, rows("a", "b"), generation) for generation in (1, 2)] == [Published.NOW, Published.BEFORE]
    with pytest.raises(SinkError, match=r"epoch 0 is published with digest .*its repeat has .*deterministic"):
        lake.publish(0, rows("a", "c"), 3)
    assert lake.ids() == ["a", "b"]
    assert len(lake.table.snapshots()) == 1


def test_staged_files_are_not_seen_before_their_epoch_is_committed() -> None:
    """A driver that ended in between leaves files that nobody reads."""
    lake = Lake()
    lake.publish(0, rows("a"))
    lake.sink().stage(1, rows("b"))
    assert lake.ids() == ["a"]
    assert lake.publish(1, rows("b")) is Published.NOW
    assert lake.ids() == ["a", "b"]


@pytest.mark.parametrize("retries", ["0", "4"], ids=["none", "as PyIceberg would"])
def test_another_driver_that_commits_the_epoch_in_between_is_found(retries: str) -> None:
    """Whatever the table says of repeats of a commit: on top of the other's it would double the epoch."""
    lake = Lake()
    with lake.table.transaction() as change:
        change.set_properties({TableProperties.COMMIT_NUM_RETRIES: retries})
    lake.publish(0, rows("a"))
    lake.catalog.before = lambda: lake.publish(1, rows("b"), 2)
    assert lake.publish(1, rows("b")) is Published.BEFORE
    assert lake.ids() == ["a", "b"]


def test_another_driver_that_commits_other_rows_in_between_is_refused() -> None:
    lake = Lake()
    lake.publish(0, rows("a"))
    lake.catalog.before = lambda: lake.publish(1, rows("other"), 2)
    with pytest.raises(SinkError, match="epoch 1 is published with digest"):
        lake.publish(1, rows("b"))
    assert lake.ids() == ["a", "other"]


@pytest.mark.parametrize("when", ["between epochs", "in between"])
def test_what_others_commit_to_the_table_stays_and_hides_no_mark(when: str) -> None:
    """A compaction, say: ours is read anew and tried again."""
    lake = Lake()
    lake.publish(0, rows("a"))
    if when == "in between":
        lake.catalog.before = lambda: append_by_somebody(lake)
    else:
        append_by_somebody(lake)
    assert lake.publish(1, rows("b")) is Published.NOW
    assert lake.publish(1, rows("b")) is Published.BEFORE
    assert lake.ids() == ["a", "b", "foreign"]


def test_who_is_overtaken_each_time_gives_up_by_name() -> None:
    lake = Lake()
    lake.publish(0, rows("a"))

    def overtake() -> None:
        append_by_somebody(lake)
        lake.catalog.before = overtake

    lake.catalog.before = overtake
    with pytest.raises(SinkError, match=r"5 commits of epoch 1 had an unknown outcome .lake table clicks\.accepted"):
        lake.publish(1, rows("b"))
    lake.catalog.before = lambda: None
    assert lake.ids() == ["a", *["foreign"] * 5]


@pytest.mark.parametrize("took_place", [True, False])
def test_a_lost_answer_is_settled_by_what_is_there(took_place: bool) -> None:
    lake = Lake()
    lake.publish(0, rows("a"))
    setattr(lake.catalog, "after" if took_place else "before", raise_(lost()))
    assert lake.publish(1, rows("b")) is (Published.BEFORE if took_place else Published.NOW)
    assert lake.ids() == ["a", "b"]


def test_a_file_whose_put_has_no_answer_is_there_once() -> None:
    lake = Lake()
    lake.store.fated(Fate.LOST_APPLIED, Fate.LOST_DROPPED, Fate.LOST_DELAYED, Fate.LOST_APPLIED)
    assert lake.publish(0, rows("a")) is Published.NOW
    assert lake.ids() == ["a"]


def test_a_store_that_does_not_answer_is_named_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake()
    lake.publish(0, rows("a"))
    gone = UnreachableError("the object store does not answer", "s3", "Check that it runs.")
    with monkeypatch.context() as patched, pytest.raises(UnreachableError):
        sink = lake.sink()
        staged = [sink.stage(1, rows("b"))]
        patched.setattr(lake.store, "answer", lambda _: raise_(gone)())
        sink.publish_staged(1, 1, staged)
    assert lake.ids() == ["a"]
    assert lake.publish(1, rows("b")) is Published.NOW


def test_an_epoch_after_a_gap_is_refused() -> None:
    lake = Lake()
    for epoch in (1, 3):
        with pytest.raises(SinkError, match=r"progress mark -1 lies outside the chain's"):
            lake.publish(epoch, rows("a"))
    lake.publish(0, rows("a"))
    with pytest.raises(SinkError, match="progress mark 0 lies outside the chain's 1 to 2"):
        lake.publish(2, rows("b"))
    assert lake.ids() == ["a"]


@pytest.mark.parametrize("since", ["nothing", "rows of others"])
def test_a_table_that_was_set_back_is_refused(since: str) -> None:
    """Its tag still tells of the epoch whose rows are gone. What others add afterwards hides nothing."""
    lake = Lake()
    for epoch in range(3):
        lake.publish(epoch, rows(f"e{epoch}"))
    lake.table.manage_snapshots().rollback_to_snapshot(lake.table.snapshots()[0].snapshot_id).commit()
    if since != "nothing":
        append_by_somebody(lake)
    with pytest.raises(SinkError, match="the table was set back to before epoch 2, which it had shown"):
        lake.publish(3, rows("e3"))
    with pytest.raises(SinkError, match="the table was set back"):
        lake.sink().read_mark()
    assert "e3" not in lake.ids()


def test_a_table_that_is_set_back_while_its_epoch_is_committed_is_refused() -> None:
    """Its rows would be the only ones after a hole."""
    lake = Lake()
    for epoch in range(3):
        lake.publish(epoch, rows(f"e{epoch}"))
    first = lake.table.snapshots()[0].snapshot_id
    lake.catalog.before = lambda: lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(SinkError, match="the table was set back to before epoch 2"):
        lake.publish(3, rows("e3"))
    assert lake.ids() == ["e0"]


def test_a_mark_is_found_when_snapshots_have_expired() -> None:
    """Those of others too that stood between ours and the current one."""
    lake = Lake()
    lake.publish(0, rows("a"))
    ours = lake.table.snapshots()[0].snapshot_id
    for _ in range(3):
        append_by_somebody(lake)
    gone = [one.snapshot_id for one in lake.table.snapshots() if one.snapshot_id != ours][:-1]
    lake.table.maintenance.expire_snapshots().by_ids(gone).commit()
    assert len(lake.table.snapshots()) == 2
    assert lake.publish(0, rows("a")) is Published.BEFORE
    assert lake.publish(1, rows("b")) is Published.NOW
    append_by_somebody(lake)
    with pytest.raises(ValueError, match="protected"):
        lake.table.maintenance.expire_snapshots().by_ids([lake.table.refs()[lake_tables.TAG].snapshot_id]).commit()


def test_a_table_without_its_mark_is_refused() -> None:
    """The tag was dropped, or set to a snapshot of somebody else's."""
    lake = Lake()
    lake.publish(0, rows("a"))
    append_by_somebody(lake)
    foreign = lake.table.current_snapshot()
    assert foreign is not None
    lake.table.manage_snapshots().create_tag(foreign.snapshot_id, lake_tables.TAG).commit()
    with pytest.raises(SinkError, match="the tag effectively_once names no snapshot of an epoch"):
        lake.publish(1, rows("b"))
    lake.table.manage_snapshots().remove_tag(lake_tables.TAG).commit()
    with pytest.raises(SinkError, match="progress mark -1 lies outside"):
        lake.publish(1, rows("b"))
    assert "b" not in lake.ids()


def test_a_table_of_another_pipeline_is_refused() -> None:
    lake = Lake()
    lake.publish(0, rows("a"))
    lake.catalog.create_namespace("orders")
    lake.catalog.rename_table(lake.address.identifier, ("orders", "accepted"))
    other = LakeAddress(lake.address.database, lake.address.bucket, "orders", "accepted")
    with pytest.raises(SinkError, match="its rows are of pipeline clicks"):
        lake_tables.mark_of(lake.catalog.load_table(other.identifier).metadata, other)


def test_a_sink_that_is_new_to_its_chain_begins_with_the_last_epoch() -> None:
    lake = Lake()
    for _ in range(2):
        lake.sink().publish_staged(41, 3, [], begins=True)
    assert lake.sink().read_mark() == Mark(41, 3, 0, digest.EMPTY)
    assert lake.sink().mark_at(41) is not None
    assert lake.sink().mark_at(40) is None
    assert lake.publish(42, rows("a")) is Published.NOW


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


WIDER = pa.schema([*SHAPE.schema, ("country", pa.string())])


def test_other_columns_than_declared_are_refused() -> None:
    lake = Lake()
    for table in (rows("a").select(["n", "id"]), rows("a").drop_columns(["n"])):
        with pytest.raises(SinkError, match="the sink was declared with"):
            lake.sink().stage(0, table)


def test_old_metadata_is_deleted() -> None:
    """Every epoch writes some, with all snapshots in it."""
    lake = Lake()
    with lake.table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "3"})
    for epoch in range(10):
        lake.publish(epoch, rows(f"e{epoch}"))
    names = [name for name in lake.store.objects if name.endswith(".metadata.json")]
    assert len(names) == 4
    assert lake.ids() == [f"e{epoch}" for epoch in range(10)]


def test_of_old_epochs_the_snapshots_expire() -> None:
    """All of them are in every version of the table's metadata. One that somebody named stays, and so do the rows."""
    lake = Lake()
    with lake.table.transaction() as change:
        change.set_properties({lake_tables.KEEP: "3"})
    lake.publish(0, rows("e0"))
    lake.table.manage_snapshots().create_tag(lake.table.snapshots()[0].snapshot_id, "named").commit()
    for epoch in range(1, 10):
        lake.publish(epoch, rows(f"e{epoch}"))
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
        with lake.table.transaction() as change:
            change.set_properties({lake_tables.KEEP: told})
    for epoch in range(8):
        lake.publish(epoch, rows(f"e{epoch}"))
    assert len(lake.table.snapshots()) == 8


def test_a_snapshot_that_is_named_while_an_epoch_is_committed_stays() -> None:
    """It would have expired with that commit."""
    lake = Lake()
    with lake.table.transaction() as change:
        change.set_properties({lake_tables.KEEP: "1"})
    for epoch in range(2):
        lake.publish(epoch, rows(f"e{epoch}"))
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
    with lake.table.transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "4"})
    for epoch in range(10):
        lake.publish(epoch, rows(f"e{epoch}"))
    newest = lake.table.current_snapshot()
    assert newest is not None
    assert len(newest.manifests(lake.table.io)) <= 4
    assert lake.ids() == [f"e{epoch}" for epoch in range(10)]


def test_every_type_of_column_is_read_as_it_was_given() -> None:
    """By PyIceberg, with bounds of each in the file's statistics."""
    from datetime import UTC, date, datetime  # noqa: PLC0415
    from decimal import Decimal  # noqa: PLC0415

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
