"""What backups pin of a lake table outlives every expiry, and the table can be set back to it (R10)."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.errors import SinkError
from effectively_once.ledger import digest
from effectively_once.operate.backup import lake_pins as of_backups
from effectively_once.operate.backup.backup import Backup
from effectively_once.operate.backup.backup_manifest import manifest_of
from effectively_once.operate.backup.lake_pins import LakePins, tag_of
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.sinks import lake_pins
from effectively_once.sinks.lake_tables import KEEP
from effectively_once.sinks.publish import Mark, Published, refuse_outside
from tests.unit.library.backups import LAYOUT, head_of, stored
from tests.unit.library.lake import Lake, rows
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import GLOBAL_COUNTS
from tests.unit.library.test_backup import collecting


@pytest.fixture
def lake() -> Lake:
    """Five epochs of a row each."""
    made = Lake()
    made.publish_epochs(range(5))
    return made


@pytest.fixture
def pins(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> LakePins:
    """Those of its pipeline."""
    monkeypatch.setattr(of_backups, "open_lake_table", lambda *_: lake.sink())
    job: Any = SimpleNamespace(pipeline=SimpleNamespace(lake_tables=("accepted",)))
    return LakePins(job, lake.store)


def tags(lake: Lake) -> set[str]:
    return {name for name in lake.table.metadata.refs if name.startswith("effectively_once_backup_")}


def head(last_recorded: int) -> Any:
    return SimpleNamespace(last_recorded=last_recorded)


def test_a_table_that_is_set_back_goes_on_from_there_and_shows_each_row_once(lake: Lake) -> None:
    assert lake_pins.pin(lake.sink(), 3, "tuesday")
    lake.publish_epochs(range(5, 8))
    # What a chain of the backup would come to otherwise: its start is refused, as its next epoch would be skipped.
    with pytest.raises(SinkError, match="progress mark 7 lies outside the chain's 3 to 4"):
        refuse_outside(lake.sink().read_mark(), 3, 4, "sink accepted")
    assert lake.publish(4, rows("new4")) is Published.BEFORE
    assert lake_pins.set_back(lake.sink(), "tuesday")
    assert lake.ids() == ["e0", "e1", "e2", "e3"]
    assert lake.sink().read_mark() == Mark(3, 1, 1, digest.of_rows_in(rows("e3")))
    assert not lake_pins.set_back(lake.sink(), "tuesday")
    assert [lake.publish(epoch, rows(f"new{epoch}")) for epoch in (4, 5)] == [Published.NOW] * 2
    assert lake.ids() == ["e0", "e1", "e2", "e3", "new4", "new5"]


def test_what_is_pinned_outlives_expiry_and_what_is_not_does_not(lake: Lake) -> None:
    lake.set_properties({KEEP: "2"})
    lake_pins.pin(lake.sink(), 1, "kept")
    lake.publish_epochs(range(5, 9))
    assert lake.summaries()[0]["effectively-once.epoch"] == "1"
    assert not lake_pins.pin(lake.sink(), 3, "too late")
    assert lake_pins.unpin(lake.sink(), "kept")
    assert not lake_pins.unpin(lake.sink(), "kept")
    lake.publish(9, rows("e9"))
    assert "1" not in [one["effectively-once.epoch"] for one in lake.summaries()]
    with pytest.raises(SinkError, match=r"no snapshot of an epoch has the tag kept .lake table clicks\.accepted"):
        lake_pins.set_back(lake.sink(), "kept")


def test_of_two_epochs_of_one_number_the_one_that_readers_see_is_pinned(lake: Lake) -> None:
    lake_pins.pin(lake.sink(), 2, "before")
    lake_pins.set_back(lake.sink(), "before")
    lake.publish(3, rows("new3"))
    lake_pins.pin(lake.sink(), 3, "after")
    lake.publish(4, rows("new4"))
    lake_pins.set_back(lake.sink(), "after")
    assert lake.ids() == ["e0", "e1", "e2", "new3"]


def test_a_driver_that_publishes_meanwhile_loses_nothing_and_is_not_undone(lake: Lake) -> None:
    """Either commit may come between reading and committing of the other one."""
    lake.catalog.before = lambda: lake.publish(5, rows("e5"))
    assert lake_pins.pin(lake.sink(), 4, "pinned")
    lake.catalog.before = lambda: lake_pins.pin(lake.sink(), 2, "other")
    assert lake.publish(6, rows("e6")) is Published.NOW
    assert lake.ids() == [f"e{epoch}" for epoch in range(7)]
    assert {"pinned", "other"} <= lake.table.metadata.refs.keys()


def test_a_way_back_that_is_taken_away_meanwhile_is_none(lake: Lake) -> None:
    lake_pins.pin(lake.sink(), 2, "kept")
    lake.catalog.before = lambda: lake_pins.unpin(lake.sink(), "kept")
    with pytest.raises(SinkError, match="no snapshot of an epoch has the tag kept"):
        lake_pins.set_back(lake.sink(), "kept")
    assert lake.ids() == [f"e{epoch}" for epoch in range(5)]


def test_a_tag_that_is_of_no_epoch_is_no_way_back(lake: Lake) -> None:
    lake.table.append(rows("foreign"))
    foreign = lake.table.current_snapshot()
    assert foreign is not None
    lake.table.manage_snapshots().create_tag(foreign.snapshot_id, "theirs").commit()
    with pytest.raises(SinkError, match="no snapshot of an epoch has the tag theirs"):
        lake_pins.set_back(lake.sink(), "theirs")


def test_a_backup_pins_the_epoch_of_its_head_and_a_restore_finds_it(lake: Lake, pins: LakePins) -> None:
    source, place = stored(4), BackupLocation(ListedStore(), "memory")
    manifest = Backup(source, LAYOUT, place, [GLOBAL_COUNTS], pin=pins.pin).take()
    assert tags(lake) == {tag_of(manifest.taken_ms)}
    pins.set_back(head_of(source), manifest_of(place).taken_ms)
    assert lake.ids() == ["e0", "e1", "e2", "e3"]
    pins.unpin(manifest.taken_ms)
    assert tags(lake) == set()


@pytest.mark.deep
def test_a_backup_that_goes_on_with_a_newer_head_pins_that_one_alone(
    lake: Lake, pins: LakePins, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, pinned = stored(8), list[int]()
    for epoch in range(5, 60):
        lake.publish(epoch, rows())
    gone = collecting(source, times=1)
    clock = iter(range(10**6, 10**9, 10**6))
    monkeypatch.setattr("effectively_once.operate.backup.backup.time", SimpleNamespace(time=lambda: next(clock)))

    def pin(head: Any, taken_ms: int) -> None:
        pinned.append(head.last_recorded)
        pins.pin(head, taken_ms)

    manifest = Backup(source, LAYOUT, BackupLocation(ListedStore(), "memory"), [GLOBAL_COUNTS], pin=pin).take()
    assert (len(gone), len(pinned) > 1, pinned == sorted(pinned)) == (1, True, True)
    assert tags(lake) == {tag_of(manifest.taken_ms)}


def test_a_pipeline_without_lake_tables_does_without_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("effectively_once.sinks.lake_pins")]:
        monkeypatch.delitem(sys.modules, name)
    job: Any = SimpleNamespace(pipeline=SimpleNamespace(lake_tables=()))
    nothing = LakePins(job, ListedStore())
    nothing.pin(head(4), 5)
    nothing.set_back(head(4), 5)
    nothing.unpin(5)
    assert "effectively_once.sinks.lake_pins" not in sys.modules


def test_before_the_first_epoch_there_is_nothing_to_pin(pins: LakePins, lake: Lake) -> None:
    pins.pin(head(-1), 5)
    pins.set_back(head(-1), 5)
    assert (tags(lake), len(lake.ids())) == (set(), 5)


def test_an_epoch_that_has_no_snapshot_any_more_is_said(lake: Lake, pins: LakePins) -> None:
    said: list[str] = []
    pins._say = said.append
    pins.pin(head(70), 5)
    assert said == ["lake table clicks.accepted has no snapshot of epoch 70: it cannot be set back to it"]
