"""The Iceberg sink: one snapshot an epoch, committed to the table as it was read, shows its rows once (R8, R10)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.table import TableProperties
from sqlalchemy.exc import OperationalError

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger import digest
from effectively_once.sinks import lake_tables
from effectively_once.sinks.lake_catalog import LakeAddress
from effectively_once.sinks.publish import Mark, Published
from tests.unit.ledger.memory_store import Fate
from tests.unit.library.lake import Lake, rows


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


def test_an_epoch_is_committed_in_its_turn_and_not_where_there_is_none() -> None:
    """All else is done before: what a sink before it shows is waited for with the commit alone.

    A driver that ended before it leaves files that nobody reads.
    """
    lake = Lake()
    sink = lake.sink()
    with pytest.raises(LookupError, match="no turn"):
        sink.publish_staged(0, 1, [sink.stage(0, rows("a"))], turn=raise_(LookupError("no turn")))  # type: ignore[arg-type]
    assert lake.ids() == []
    asked: list[list[str]] = []
    sink.publish_staged(0, 1, [sink.stage(0, rows("a"))], turn=lambda: asked.append(lake.ids()))
    assert (asked, lake.ids()) == ([[]], ["a"])


def test_a_repeat_shows_nothing_again_and_other_rows_are_refused() -> None:
    lake = Lake()
    assert [lake.publish(0, rows("a", "b"), generation) for generation in (1, 2)] == [Published.NOW, Published.BEFORE]
    with pytest.raises(SinkError, match=r"epoch 0 is published with digest .*its repeat has .*deterministic"):
        lake.publish(0, rows("a", "c"), 3)
    assert lake.ids() == ["a", "b"]
    assert len(lake.table.snapshots()) == 1


@pytest.mark.parametrize("retries", ["0", "4"], ids=["none", "as PyIceberg would"])
def test_another_driver_that_commits_the_epoch_in_between_is_found(retries: str) -> None:
    """Whatever the table says of repeats of a commit: on top of the other's it would double the epoch."""
    lake = Lake()
    lake.set_properties({TableProperties.COMMIT_NUM_RETRIES: retries})
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
    lake.publish_epochs(range(3))
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
    lake.publish_epochs(range(3))
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
