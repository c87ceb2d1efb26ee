"""Lake tables where every kind of sink has its place: declared, started, made anew, abandoned, not installed."""

from __future__ import annotations

import sys
from typing import Any, cast

import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, ToFiles, ToIceberg, Windowed
from effectively_once.driver.sink_topics import same_sinks
from effectively_once.epoch.publishing import open_staged, open_stager
from effectively_once.errors import SettingsError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.head import Head
from effectively_once.operate.abandon.abandonment import Files, count_shards
from effectively_once.operate.abandon.mending import first_step
from effectively_once.pipeline.job import Job
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import Published
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.lake import LAYOUT, Lake, rows


def transform(frame: Any) -> Any:
    return frame


PIPELINE = Pipeline(
    transform,
    pa.schema([("user", pa.string())]),
    rows=(ToIceberg("accepted", columns=("id", "user")), ToFiles("archive")),
    windows=(Windowed("user", {"n": Count()}, ToIceberg("counts")),),
)
DATABASE = "postgresql://db:5432/results"


def test_a_lake_table_is_declared_as_other_sinks_are() -> None:
    assert PIPELINE.staged_sinks == ("accepted", "archive", "counts")
    assert PIPELINE.file_sinks == ("archive",)
    assert {name: shape.schema.names for name, shape in PIPELINE.lake_tables.items()} == {
        "accepted": ["id", "user"],
        "counts": ["user", "window_start_ms", "n"],
    }
    assert count_shards(PIPELINE, 4) == {"dead_letter": 4, "accepted": 1, "archive": 1, "counts": 1}
    assert first_step(PIPELINE) == ("dead_letter",)
    with pytest.raises(SettingsError, match=r"has tables \(accepted, counts\) and no database is set"):
        Job(PIPELINE, pipeline_settings())


def test_shards_stage_its_files_without_a_catalog() -> None:
    """Executors know nothing of it, nor does a trial."""
    lake = Lake()
    table = pa.table({"id": ["a"], "user": ["ann"]})
    staged = open_stager(PIPELINE, lake.store, LAYOUT, "accepted").stage(0, table)
    assert (staged.rows, staged.digest) == (1, digest.of_rows_in(table))
    manifests = ManifestSink(lake.store, LAYOUT, "accepted")
    manifests.publish_staged(0, 1, [staged])
    assert [row for _, _, row in manifests.rows(0)] == table.to_pylist()


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where there is a lake table."""
    job = Job(PIPELINE, pipeline_settings(database=DATABASE))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("iceberg", "lake_catalog", "lake_tables", "store_io"):
        monkeypatch.delitem(sys.modules, f"effectively_once.sinks.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(SettingsError, match=r"pyiceberg is not installed .sink counts.*effectively-once\[iceberg\]"):
        open_staged(job, Lake.__new__(Lake), "counts")  # type: ignore[arg-type]
    assert isinstance(open_staged(job, cast(Any, None), "archive"), ManifestSink)


def test_one_that_was_made_anew_is_refused_by_its_id() -> None:
    """Its rows are gone, and its mark with them."""
    before = Lake().sink().identity()
    head = Head(
        pipeline="clicks",
        generation=1,
        owner="o",
        settings={},
        last_recorded=4,
        tail=(record_of(declaration(4)),),
        sink_topics={"lake table clicks.accepted": before},
    )
    with pytest.raises(SinkError, match=rf"the table was deleted and created again: its id was {before} and is "):
        same_sinks(head, {"lake table clicks.accepted": Lake().sink().identity()})
    same_sinks(head, {"lake table clicks.accepted": before})


def test_an_epoch_is_abandoned_in_it_as_in_other_sinks() -> None:
    """A snapshot without rows; one that shows rows is in the way, and tells whose they are."""
    lake = Lake()
    lake.publish(0, rows("a"), 7)
    files = Files("accepted", lake.sink())
    assert (files.shows(0), files.generation(0), files.shows(1)) == (True, 7, False)
    assert files.publish_nothing(1, 8) is Published.NOW
    assert files.publish_nothing(1, 9) is Published.BEFORE
    assert (files.shows(1), files.generation(1)) == (False, None)
    lake.publish(2, rows("b"))
    with pytest.raises(SinkError, match="epoch 2 is published with digest"):
        files.publish_nothing(2, 8)
    assert lake.ids() == ["a", "b"]
